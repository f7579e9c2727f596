"""Both HTTP interfaces as tables of operations: what their `openapi.json`, `/docs` and the reference pages are made
from.

The operations on messages of the Email Scanning API, as its OpenAPI document describes them.
"""

from typing import Any

from gatepost.api import errors, openapi
from gatepost.api.lists import (
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListChange,
    ListEntriesRequest,
    ListsOfScope,
    PublicListsEntry,
)
from gatepost.api.messages import (
    ActionResults,
    FoundHeldMessages,
    FoundMessages,
    HeldMessagesRequest,
    MessageDeletion,
    MessageReport,
    MessageText,
    ReportMessageRequest,
    SearchHeldMessagesRequest,
    SearchMessagesRequest,
    Timeline,
)
from gatepost.api.openapi import CALL_ERRORS, PATH_ERRORS, Interface, Operation, json_body, message_upload
from gatepost.api.scanning import (
    AnalysedMessage,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    MessageRelease,
    SystemStatus,
)

MESSAGE_REQUESTS: tuple[type, ...] = (
    SearchMessagesRequest,
    SearchHeldMessagesRequest,
    HeldMessagesRequest,
    ReportMessageRequest,
)

_GGRID: dict[str, Any] = {
    "name": "ggrid",
    "in": "path",
    "required": True,
    "description": "The id that the scan answered, in any case",
    "schema": {"type": "string", "format": "uuid"},
    "example": openapi.RESULT.ggrid,
}
_ONE_MESSAGE = (*CALL_ERRORS, errors.FORBIDDEN, errors.MESSAGE_NOT_FOUND)
_HELD_MESSAGE = (*_ONE_MESSAGE, errors.CORE_UNAVAILABLE)
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
        **json_body(openapi.REPORTING, "A message that should have been held")["content"],
        **message_upload(
            ReportMessageRequest, openapi.REPORTING, "A report with the message", "The raw message that is reported."
        ),
    },
}

MESSAGE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="post",
        path="/v1/messages/search",
        id="searchMessages",
        tag="Messages",
        example=openapi.FOUND,
        summary="Search results",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        answer=FoundMessages,
        body=json_body(openapi.SEARCH, "Messages with a link to one host"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}",
        id="getMessage",
        tag="Messages",
        example=openapi.MESSAGE,
        summary="Read one analysis with its ledger",
        description="Needs the permission `messages.read`. The `counted` points of all findings add up to `score`.",
        answer=AnalysedMessage,
        parameters=(_GGRID,),
        errors=_ONE_MESSAGE,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/timeline",
        id="getMessageTimeline",
        tag="Messages",
        example=openapi.TIMELINE,
        summary="Read the way of one message",
        description=(
            "Needs the permission `messages.read`. How the message came, what was decided, what next hops answered, "
            "what people did with it since, and other attempts to send it. The replies of next hops are written within "
            "a second; a node that is killed loses those of its last second, and the timeline then says that nothing "
            "is on record."
        ),
        answer=Timeline,
        parameters=(_GGRID,),
        errors=(*_ONE_MESSAGE, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/text",
        id="getMessageText",
        tag="Messages",
        example=openapi.TEXT,
        summary="Read the text of a held message",
        description=(
            "Needs the permission `messages.read`. A sealed worker turns the message into plain text in which nothing "
            "acts; pictures are left out. The audit trail records who read it."
        ),
        answer=MessageText,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.MESSAGE_NOT_SHOWN, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/release",
        id="releaseMessage",
        tag="Messages",
        example=openapi.RELEASE,
        summary="Send a held message on, once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            "Sends a message that is in the quarantine, or was kept with "
            "`restApi: {keep: held}`, to the next hop for its own recipients. It is not analysed again. Asking "
            "again answers the same and sends nothing. The decision on record stays what it was; the release is "
            "added to the record. A body is not read."
        ),
        answer=MessageRelease,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/delete",
        id="deleteMessage",
        tag="Messages",
        example=openapi.DELETION,
        summary="Delete a held message for good",
        description=(
            "Needs the permission `messages.delete`. The result stays on record. A message that is not held, was "
            "released or is deleted already is 404. A body is not read."
        ),
        answer=MessageDeletion,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/report",
        id="reportMessage",
        tag="Messages",
        example=openapi.REPORT,
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
        answer=MessageReport,
        parameters=(_GGRID,),
        body=_REPORT_BODY,
        errors=(
            *_WITH_BODY,
            errors.MESSAGE_NOT_FOUND,
            errors.MISSING_PART,
            errors.DUPLICATE_PART,
            errors.WRONG_PART_TYPE,
            errors.INVALID_PARAMETERS,
            errors.EMPTY_EMAIL,
            errors.MESSAGE_NOT_SHOWN,
            errors.SCANNING_DISABLED,
            errors.CORE_UNAVAILABLE,
            errors.ANALYSIS_TIMEOUT,
        ),
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/search",
        id="searchHeldMessages",
        tag="Messages",
        example=openapi.FOUND_HELD,
        summary="Search held mail",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        answer=FoundHeldMessages,
        body=json_body(openapi.SEARCH_HELD, "Held mail for one recipient"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/release",
        id="releaseMessages",
        tag="Messages",
        example=openapi.RELEASED,
        summary="Send many held messages on, each once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            f"{_MANY}"
        ),
        answer=ActionResults,
        body=json_body(openapi.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/delete",
        id="deleteMessages",
        tag="Messages",
        example=openapi.DELETED,
        summary="Delete many held messages for good",
        description=f"Needs the permission `messages.delete`. {_MANY}",
        answer=ActionResults,
        body=json_body(openapi.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
)


SCANNING_VERSION = "1.1.0"

_UPLOAD: dict[str, Any] = {
    "required": True,
    "content": message_upload(
        MessageAnalysisRequest,
        openapi.PARAMETERS,
        "A message and its envelope",
        "The raw email as transported over the wire (an .eml file).",
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
    types=(MessageAnalysisRequest, *MESSAGE_REQUESTS),
    operations=(
        Operation(
            method="post",
            path="/v1/messageQueue/submitEmail",
            id="submitEmail",
            tag="Scanning",
            example=openapi.RESULT,
            summary="Submit a message and wait for its analysis",
            description=(
                "Submits a message to the analysis queue and waits for the analysis to complete. The request body may "
                "hold 52,428,800 bytes (50 MiB), announced by Content-Length or chunked. The parts come in either "
                "order; other parts are ignored, and so are unknown fields of `parameters`. Where every core is full "
                "the scan waits for a slot, first come first served."
            ),
            answer=MessageAnalysisResult,
            body=_UPLOAD,
            errors=(
                *CALL_ERRORS,
                errors.MISSING_PART,
                errors.DUPLICATE_PART,
                errors.WRONG_PART_TYPE,
                errors.INVALID_PARAMETERS,
                errors.EMPTY_EMAIL,
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
            method="post",
            path="/v1/admin/status",
            id="getStatus",
            tag="Status",
            example=openapi.STATUS,
            summary="Ask for the system status",
            description="Takes no body, an empty body or `{}`; unknown fields are ignored.",
            answer=SystemStatus,
            body=_EMPTY,
            errors=(*CALL_ERRORS, errors.INVALID_PARAMETERS, errors.PAYLOAD_TOO_LARGE),
        ),
        *MESSAGE_OPERATIONS,
        Operation(
            method="get",
            path="/v1/openapi.json",
            id="getOpenApi",
            tag="Description",
            example={"openapi": "3.1.0", "info": {"title": "Gatepost Email Scanning API", "version": SCANNING_VERSION}},
            summary="This document",
            description="Needs no credential.",
            answer=None,
            errors=(errors.MALFORMED_REQUEST, *PATH_ERRORS, errors.INTERNAL_ERROR),
            secured=False,
        ),
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
    types=(AddEntriesRequest, DeleteEntriesRequest, GetListsRequest, ListEntriesRequest),
    operations=(
        Operation(
            method="post",
            path=f"{LISTS_BASE}/addEntries",
            id="addEntries",
            tag="Entries",
            example=openapi.CHANGE,
            summary="Add list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list has already "
                "is updated and counts: comment and expiry become what the call says, `created` and `hits` stay. The "
                "same entry twice counts once, and the last one wins. A refused entry is named by its index."
            ),
            answer=ListChange,
            body=_body(openapi.ADD),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, errors.INVALID_ENTRY, errors.LIST_FULL, *_BUSY),
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/deleteEntries",
            id="deleteEntries",
            tag="Entries",
            example=openapi.CHANGE,
            summary="Delete list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list does not have "
                "is ignored and does not count."
            ),
            answer=ListChange,
            body=_body(openapi.DELETE),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, *_BUSY),
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/getLists",
            id="getLists",
            tag="Lists",
            example=openapi.LISTS,
            summary="List available lists",
            description="All lists of the chosen scope, whether they have entries or not.",
            answer=ListsOfScope,
            body=_body(openapi.GET),
            errors=_LISTS_ERRORS,
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/listEntries",
            id="listEntries",
            tag="Entries",
            example=openapi.ENTRY,
            summary="List all entries of one list",
            description=(
                "One `PublicListsEntry` per line, ordered by entry: one consistent snapshot. A stream that fails "
                "midway ends without the final chunk."
            ),
            answer=PublicListsEntry,
            media_type=NDJSON,
            body=_body(openapi.LIST),
            errors=(*_ONE_LIST, *_BUSY),
        ),
        Operation(
            method="get",
            path=f"{LISTS_BASE}/openapi.json",
            id="getListsOpenApi",
            tag="Description",
            example={"openapi": "3.1.0", "info": {"title": "Gatepost List API", "version": LISTS_VERSION}},
            summary="This document",
            description="Needs no credential.",
            answer=None,
            errors=(errors.MALFORMED_REQUEST, *PATH_ERRORS, errors.INTERNAL_ERROR),
            secured=False,
        ),
    ),
)
