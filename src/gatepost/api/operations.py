"""Both HTTP interfaces as tables of operations: what their `openapi.json`, `/docs` and the reference pages are made
from."""

from typing import Any

from gatepost.api import errors, examples
from gatepost.api.lists import (
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListChange,
    ListEntriesRequest,
    ListsOfScope,
    PublicListsEntry,
)
from gatepost.api.message_operations import MESSAGE_OPERATIONS, MESSAGE_REQUESTS
from gatepost.api.openapi import CALL_ERRORS, PATH_ERRORS, Interface, Operation, json_body, message_upload
from gatepost.api.scanning import MessageAnalysisRequest, MessageAnalysisResult, SystemStatus

SCANNING_VERSION = "1.1.0"

_UPLOAD: dict[str, Any] = {
    "required": True,
    "content": message_upload(
        MessageAnalysisRequest,
        examples.PARAMETERS,
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
            example=examples.RESULT,
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
            example=examples.STATUS,
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
            example=examples.CHANGE,
            summary="Add list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list has already "
                "is updated and counts: comment and expiry become what the call says, `created` and `hits` stay. The "
                "same entry twice counts once, and the last one wins. A refused entry is named by its index."
            ),
            answer=ListChange,
            body=_body(examples.ADD),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, errors.INVALID_ENTRY, errors.LIST_FULL, *_BUSY),
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/deleteEntries",
            id="deleteEntries",
            tag="Entries",
            example=examples.CHANGE,
            summary="Delete list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list does not have "
                "is ignored and does not count."
            ),
            answer=ListChange,
            body=_body(examples.DELETE),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, *_BUSY),
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/getLists",
            id="getLists",
            tag="Lists",
            example=examples.LISTS,
            summary="List available lists",
            description="All lists of the chosen scope, whether they have entries or not.",
            answer=ListsOfScope,
            body=_body(examples.GET),
            errors=_LISTS_ERRORS,
        ),
        Operation(
            method="post",
            path=f"{LISTS_BASE}/listEntries",
            id="listEntries",
            tag="Entries",
            example=examples.ENTRY,
            summary="List all entries of one list",
            description=(
                "One `PublicListsEntry` per line, ordered by entry: one consistent snapshot. A stream that fails "
                "midway ends without the final chunk."
            ),
            answer=PublicListsEntry,
            media_type=NDJSON,
            body=_body(examples.LIST),
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
