"""Both HTTP interfaces as tables of operations, and the OpenAPI 3.1 documents that are generated from them.

An operation names the types that validate its requests and write its answers: what an interface says about itself, in
`openapi.json`, in `/docs` and on the reference pages, cannot fall behind what it does.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from gatepost.api import errors, examples
from gatepost.api.errors import Error, ErrorCode
from gatepost.api.examples import EMAIL, MESSAGES, to_json

REF = "#/components/schemas/{name}"
Schema = dict[str, Any]

# What any path can answer, and what any path that needs a credential can answer.
PATH_ERRORS = (errors.NOT_FOUND, errors.METHOD_NOT_ALLOWED)
OUR_ERRORS = (errors.INTERNAL_ERROR, errors.STORAGE_UNAVAILABLE)
CALL_ERRORS = (errors.MALFORMED_REQUEST, errors.UNAUTHORIZED, *PATH_ERRORS, *OUR_ERRORS)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `body` is the `requestBody` object as it stands, `example` a value of the type that a
    success has. `tag` groups operations; generated clients make a module or class of each group."""

    method: Literal["get", "post"] = "post"
    path: str
    id: str
    tag: str
    summary: str
    description: str
    example: Any
    errors: tuple[ErrorCode, ...]
    body: Mapping[str, Any] | None = None
    media_type: str = "application/json"
    secured: bool = True

    @property
    def answer(self) -> type | None:
        """The type of a success; None for an object that has no type of its own."""
        return None if isinstance(self.example, dict) else type(self.example)


class Interface(msgspec.Struct, frozen=True):
    """One HTTP interface. `requests` are examples of the types that bodies have, `tags` are the groups of operations
    with a sentence for each."""

    title: str
    version: str
    description: str
    security: Mapping[str, Any]
    operations: tuple[Operation, ...]
    tags: Mapping[str, str]
    requests: tuple[Any, ...] = ()


def ref(named: type) -> dict[str, str]:
    return {"$ref": REF.format(name=named.__name__)}


def message_upload(example: Any, summary: str, description: str) -> dict[str, Any]:
    """The content of a request that carries a raw message beside its parameters, as multipart/form-data."""
    return {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["parameters", "email"],
                "properties": {
                    "parameters": {
                        **ref(type(example)),
                        "description": "The part's own content type must be explicitly set to `application/json`.",
                    },
                    "email": {
                        "type": "string",
                        "format": "binary",
                        "contentMediaType": "message/rfc822",
                        "minLength": 1,
                        "description": description,
                    },
                },
            },
            "examples": {"message": {"summary": summary, "value": {"parameters": to_json(example), "email": EMAIL}}},
            "encoding": {
                "parameters": {"contentType": "application/json"},
                "email": {"contentType": "message/rfc822, application/octet-stream"},
            },
        }
    }


def _describe_itself(path: str, name: str, title: str, version: str) -> Operation:
    """The operation that answers with the document of its own interface."""
    return Operation(
        method="get",
        path=path,
        id=name,
        tag="Description",
        example={"openapi": "3.1.0", "info": {"title": title, "version": version}},
        summary="This document",
        description="Needs no credential.",
        errors=(errors.MALFORMED_REQUEST, *PATH_ERRORS, errors.INTERNAL_ERROR),
        secured=False,
    )


def json_body(example: Any, summary: str) -> dict[str, Any]:
    """The `requestBody` object of a JSON body, by an example of its type."""
    shown = {"request": {"summary": summary, "value": to_json(example)}}
    return {"required": True, "content": {"application/json": {"schema": ref(type(example)), "examples": shown}}}


_GGRID: dict[str, Any] = {
    "name": "ggrid",
    "in": "path",
    "required": True,
    "description": "The id that the scan answered, in any case",
    "schema": {"type": "string", "format": "uuid"},
    "example": examples.RESULT.ggrid,
}
_ONE_MESSAGE = (*CALL_ERRORS, errors.FORBIDDEN, errors.MESSAGE_NOT_FOUND)
_HELD_MESSAGE = (*_ONE_MESSAGE, errors.CORE_UNAVAILABLE)
_UPLOAD_ERRORS = (
    errors.MISSING_PART,
    errors.DUPLICATE_PART,
    errors.WRONG_PART_TYPE,
    errors.INVALID_PARAMETERS,
    errors.EMPTY_EMAIL,
)
_WITH_BODY = (
    *CALL_ERRORS,
    errors.FORBIDDEN,
    errors.INVALID_REQUEST,
    errors.TENANT_NOT_FOUND,
    errors.PAYLOAD_TOO_LARGE,
    errors.UNSUPPORTED_MEDIA_TYPE,
    errors.RATE_LIMITED,
    errors.OVERLOADED,
)
_PAGING = (
    "Pages come newest first. A page ends at `limit` messages, or where the work of one call ends; `next` leads on, "
    "and is null after the last page. Mail that arrives meanwhile is newer than every page, so no message is lost or "
    "repeated. An unknown field is refused: a filter that is misspelt would find everything."
)
_MANY = (
    "At most 100 messages a call, four of them at a time. The answer has a result for each; one that fails does not "
    "stop the others. A call can be repeated."
)

_REPORT_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        **json_body(examples.REPORTING, "A message that should have been held")["content"],
        **message_upload(examples.REPORTING, "A report with the message", "The raw message that is reported."),
    },
}

MESSAGE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        path="/v1/messages/search",
        id="searchMessages",
        tag="Messages",
        example=examples.FOUND,
        summary="Search results",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        body=json_body(examples.SEARCH, "Messages with a link to one host"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}",
        id="getMessage",
        tag="Messages",
        example=examples.MESSAGE,
        summary="Read one analysis with its ledger",
        description="Needs the permission `messages.read`. The `counted` points of all findings add up to `score`.",
        errors=_ONE_MESSAGE,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/timeline",
        id="getMessageTimeline",
        tag="Messages",
        example=examples.TIMELINE,
        summary="Read the way of one message",
        description=(
            "Needs the permission `messages.read`. How the message came, what was decided, what next hops answered, "
            "what people did with it since, in mailboxes too, and other attempts to send it. A token of a tenant is "
            "not told of nodes and next hops. The replies of next hops are written within a second; a node that is "
            "killed loses those of its last second, and the timeline then says that nothing is on record."
        ),
        errors=(*_ONE_MESSAGE, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/text",
        id="getMessageText",
        tag="Messages",
        example=examples.TEXT,
        summary="Read the text of a held message",
        description=(
            "Needs the permission `messages.read`. A sealed worker turns the message into plain text in which nothing "
            "acts; pictures are left out. The audit trail records who read it."
        ),
        errors=(*_HELD_MESSAGE, errors.MESSAGE_NOT_SHOWN, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        path="/v1/messages/{ggrid}/release",
        id="releaseMessage",
        tag="Messages",
        example=examples.RELEASE,
        summary="Send a held message on, once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            "Sends a message that is in the quarantine, or was kept with "
            "`restApi: {keep: held}`, to the next hop for its own recipients. It is not analysed again. Asking "
            "again answers the same and sends nothing. The decision on record stays what it was; the release is "
            "added to the record. A body is not read."
        ),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        path="/v1/messages/{ggrid}/delete",
        id="deleteMessage",
        tag="Messages",
        example=examples.DELETION,
        summary="Delete a held message for good",
        description=(
            "Needs the permission `messages.delete`. The result stays on record. A message that is not held, was "
            "released or is deleted already is 404. A body is not read."
        ),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        path="/v1/messages/{ggrid}/report",
        id="reportMessage",
        tag="Messages",
        example=examples.REPORT,
        summary="Report that a decision was wrong",
        description=(
            "Needs the permission `messages.report`. The report is written to the audit trail. Within seconds, all "
            "nodes take near-copies of a message that should have been held for unwanted, and no longer take those of "
            "a message that should have been delivered for a campaign. The latest report on a message counts. The "
            "decision on record stays what it was. A report also teaches: with `tenantUid` the models of that tenant, "
            "without it those of the deployment. A report that confirms a decision teaches as well. Delivered mail "
            "leaves no bytes behind, so a report may carry the message, as in `submitEmail`: a sealed worker reads it, "
            "and only its features are kept."
        ),
        body=_REPORT_BODY,
        errors=(
            *_WITH_BODY,
            errors.MESSAGE_NOT_FOUND,
            *_UPLOAD_ERRORS,
            errors.MESSAGE_NOT_SHOWN,
            errors.SCANNING_DISABLED,
            errors.CORE_UNAVAILABLE,
            errors.ANALYSIS_TIMEOUT,
        ),
    ),
    Operation(
        path="/v1/heldMessages/search",
        id="searchHeldMessages",
        tag="Messages",
        example=examples.FOUND_HELD,
        summary="Search held mail",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        body=json_body(examples.SEARCH_HELD, "Held mail for one recipient"),
        errors=_WITH_BODY,
    ),
    Operation(
        path="/v1/heldMessages/release",
        id="releaseMessages",
        tag="Messages",
        example=examples.RELEASED,
        summary="Send many held messages on, each once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            f"{_MANY}"
        ),
        body=json_body(examples.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
    Operation(
        path="/v1/heldMessages/delete",
        id="deleteMessages",
        tag="Messages",
        example=examples.DELETED,
        summary="Delete many held messages for good",
        description=f"Needs the permission `messages.delete`. {_MANY}",
        body=json_body(examples.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
)


SCANNING_VERSION = "1.1.0"

_UPLOAD: dict[str, Any] = {
    "required": True,
    "content": message_upload(
        examples.PARAMETERS, "A message and its envelope", "The raw email as transported over the wire (an .eml file)."
    ),
}
_EMPTY: dict[str, Any] = {
    "required": False,
    "content": {
        "application/json": {
            "schema": {"type": "object"},
            "examples": {"empty": {"summary": "An empty object; no body at all means the same", "value": {}}},
        }
    },
}

SCANNING = Interface(
    title="Gatepost Email Scanning API",
    version=SCANNING_VERSION,
    description=(
        "Takes a raw email over HTTP and returns the analysis result synchronously, instead of receiving the mail "
        "over SMTP. Every answer that is not a success, on every path and method, is a JSON `Error`. `v1` only ever "
        "gains optional fields, tags and error codes."
    ),
    security={
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `staticApiTokens`. It may submit and ask for the status without any permission; its "
        "permissions hold for the mail of all tenants.",
    },
    tags={
        "Scanning": "Submit messages and wait for the result.",
        "Status": "The state of the message queue.",
        "Messages": "Results on record, and messages that are held.",
        "Description": "This description of the interface.",
    },
    requests=(examples.PARAMETERS, examples.SEARCH, examples.SEARCH_HELD, examples.ACTION, examples.REPORTING),
    operations=(
        Operation(
            path="/v1/messageQueue/submitEmail",
            id="submitEmail",
            tag="Scanning",
            example=examples.RESULT,
            summary="Submit a message and wait for its analysis",
            description=(
                "Submits a message to the analysis queue and waits for the analysis to complete. The request body may "
                "hold 52,428,800 bytes (50 MiB), announced by Content-Length or chunked. The parts come in either "
                "order; other parts are ignored, and so are unknown fields of `parameters`. Where every core is full "
                "the scan waits for a slot, first come first served."
            ),
            body=_UPLOAD,
            errors=(
                *CALL_ERRORS,
                *_UPLOAD_ERRORS,
                errors.TENANT_NOT_FOUND,
                errors.PAYLOAD_TOO_LARGE,
                errors.UNSUPPORTED_MEDIA_TYPE,
                errors.SCANNING_DISABLED,
                errors.CORE_UNAVAILABLE,
                errors.OVERLOADED,
                errors.ANALYSIS_TIMEOUT,
            ),
        ),
        Operation(
            path="/v1/admin/status",
            id="getStatus",
            tag="Status",
            example=examples.STATUS,
            summary="Ask for the system status",
            description="Takes no body, an empty body or `{}`; unknown fields are ignored.",
            body=_EMPTY,
            errors=(*CALL_ERRORS, errors.INVALID_PARAMETERS, errors.PAYLOAD_TOO_LARGE),
        ),
        *MESSAGE_OPERATIONS,
        _describe_itself("/v1/openapi.json", "getOpenApi", "Gatepost Email Scanning API", SCANNING_VERSION),
    ),
)


LISTS_VERSION = "1.0.0"
LISTS_BASE = "/api/public/lists/v1"
NDJSON = "application/x-ndjson"

_LISTS_ERRORS = (
    errors.MALFORMED_REQUEST,
    errors.INVALID_REQUEST,
    errors.UNAUTHORIZED,
    errors.FORBIDDEN,
    errors.TENANT_NOT_FOUND,
    *PATH_ERRORS,
    errors.PAYLOAD_TOO_LARGE,
    errors.UNSUPPORTED_MEDIA_TYPE,
    errors.INTERNAL_ERROR,
    errors.STORAGE_UNAVAILABLE,
)
_ONE_LIST = (*_LISTS_ERRORS, errors.LIST_NOT_FOUND)
_BUSY = (errors.RATE_LIMITED, errors.OVERLOADED)


def _body(example: Any) -> dict[str, Any]:
    return json_body(example, "A request for one tenant")


LISTS_API = Interface(
    title="Gatepost List API",
    version=LISTS_VERSION,
    description=(
        "Reads and changes named lists. Each call works on one scope: one tenant's, selected by `tenantUid`, or the "
        "deployment-global one. A change holds for the next message scanned, on every node. Unknown fields are "
        "refused. Every answer that is not a success is a JSON `Error`. `v1` only ever gains optional fields, list "
        "names and error codes."
    ),
    security={
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`apikey <API_KEY>`. A key made for one tenant may act on that tenant only.",
    },
    tags={
        "Lists": "The lists of a scope.",
        "Entries": "The entries of one list.",
        "Description": "This description of the interface.",
    },
    requests=(examples.ADD, examples.DELETE, examples.GET, examples.LIST),
    operations=(
        Operation(
            path=f"{LISTS_BASE}/addEntries",
            id="addEntries",
            tag="Entries",
            example=examples.CHANGE,
            summary="Add list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list has already "
                "is updated and counts: comment and expiry become what the call says, `created` and `hits` stay. The "
                "same entry twice counts once, and the last one wins. A refused entry is named by its index."
            ),
            body=_body(examples.ADD),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, errors.INVALID_ENTRY, errors.LIST_FULL, *_BUSY),
        ),
        Operation(
            path=f"{LISTS_BASE}/deleteEntries",
            id="deleteEntries",
            tag="Entries",
            example=examples.CHANGE,
            summary="Delete list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list does not have "
                "is ignored and does not count."
            ),
            body=_body(examples.DELETE),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, *_BUSY),
        ),
        Operation(
            path=f"{LISTS_BASE}/getLists",
            id="getLists",
            tag="Lists",
            example=examples.LISTS,
            summary="List available lists",
            description="All lists of the chosen scope, whether they have entries or not.",
            body=_body(examples.GET),
            errors=_LISTS_ERRORS,
        ),
        Operation(
            path=f"{LISTS_BASE}/listEntries",
            id="listEntries",
            tag="Entries",
            example=examples.ENTRY,
            summary="List all entries of one list",
            description=(
                "One `PublicListsEntry` per line, ordered by entry: one consistent snapshot. A stream that fails "
                "midway ends without the final chunk."
            ),
            media_type=NDJSON,
            body=_body(examples.LIST),
            errors=(*_ONE_LIST, *_BUSY),
        ),
        _describe_itself(f"{LISTS_BASE}/openapi.json", "getListsOpenApi", "Gatepost List API", LISTS_VERSION),
    ),
)


def document(interface: Interface) -> dict[str, Any]:
    answers = [operation.answer for operation in interface.operations if operation.answer is not None]
    types = (Error, *answers, *map(type, interface.requests))
    _, schemas = msgspec.json.schema_components(types, ref_template=REF)
    used = {error for operation in interface.operations for error in operation.errors}
    schemas["Error"]["properties"]["error"] |= {
        "description": "Machine-readable error description",
        "x-extensible-enum": [error.code for error in errors.ERRORS if error in used],
    }
    schemas["Error"]["properties"]["message"] = {"type": "string", "description": "Human-readable error description"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": interface.title,
            "version": interface.version,
            "description": interface.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in interface.tags.items()],
        "paths": _paths(interface.operations),
        "components": {"schemas": _plain(schemas), "securitySchemes": {"credential": dict(interface.security)}},
    }


def _paths(operations: Iterable[Operation]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _describe_operation(operation)
    return paths


def _describe_operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "responses": {"200": _success(operation), **dict(_failures(operation.errors))},
    }
    if "{ggrid}" in operation.path:
        described["parameters"] = [_GGRID]
    if operation.body:
        described["requestBody"] = dict(operation.body)
    described["security"] = [{"credential": []}] if operation.secured else []
    return described


def _success(operation: Operation) -> dict[str, Any]:
    schema = {"type": "object"} if operation.answer is None else ref(operation.answer)
    shown = {"success": {"summary": operation.summary, "value": to_json(operation.example)}}
    content = {"schema": schema, "examples": shown}
    return {"description": "Success", "content": {operation.media_type: content}}


def _failures(errors: Iterable[ErrorCode]) -> Iterator[tuple[str, Any]]:
    by_status: dict[int, list[ErrorCode]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    for status in sorted(by_status):
        lines = "\n".join(f"- `{error.code}`: {error.meaning}" for error in by_status[status])
        response: dict[str, Any] = {
            "description": lines,
            "content": {"application/json": {"schema": ref(Error), "examples": _examples(by_status[status])}},
        }
        headers = _headers(status)
        if headers:
            response["headers"] = headers
        yield str(status), response


def _examples(errors: Iterable[ErrorCode]) -> dict[str, Any]:
    """Return an example of each error code."""
    return {
        error.code: {"summary": error.meaning, "value": {"error": error.code, "message": MESSAGES[error.code]}}
        for error in errors
    }


def _headers(status: int) -> dict[str, Any]:
    named = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}.get(status)
    return {named: {"schema": {"type": "string"}}} if named else {}


def _plain(schema: Any) -> Any:
    """Decimals go over the wire as numbers, and an optional field is absent rather than null by default."""
    if isinstance(schema, dict):
        if schema.get("format") == "decimal":
            return {**{k: v for k, v in schema.items() if k != "format"}, "type": "number", "multipleOf": 0.01}
        return {key: _plain(value) for key, value in schema.items() if not (key == "default" and value is None)}
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return schema
