"""The List API as a table of operations: what `GET /api/public/lists/v1/openapi.json` and `/docs` are made from."""

from typing import Any

from gatepost.api import errors
from gatepost.api.lists import (
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListChange,
    ListEntriesRequest,
    ListsOfScope,
    PublicListsEntry,
)
from gatepost.api.openapi import Interface, Operation, ref

VERSION = "1.0.0"
BASE = "/api/public/lists/v1"
NDJSON = "application/x-ndjson"

_ANYWHERE = (
    errors.MALFORMED_REQUEST,
    errors.INVALID_REQUEST,
    errors.UNAUTHORIZED,
    errors.FORBIDDEN,
    errors.TENANT_NOT_FOUND,
    errors.PAYLOAD_TOO_LARGE,
    errors.UNSUPPORTED_MEDIA_TYPE,
    errors.INTERNAL_ERROR,
)
_ONE_LIST = (*_ANYWHERE, errors.LIST_NOT_FOUND)


def _body(named: type) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": ref(named)}}}


LISTS_API = Interface(
    title="Gatepost List API",
    version=VERSION,
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
    types=(AddEntriesRequest, DeleteEntriesRequest, GetListsRequest, ListEntriesRequest),
    operations=(
        Operation(
            method="post",
            path=f"{BASE}/addEntries",
            id="addEntries",
            summary="Add list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list has already "
                "is updated and counts: comment and expiry become what the call says, `created` and `hits` stay. The "
                "same entry twice counts once, and the last one wins. A refused entry is named by its index."
            ),
            answer=ListChange,
            body=_body(AddEntriesRequest),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES, errors.INVALID_ENTRY, errors.LIST_FULL),
        ),
        Operation(
            method="post",
            path=f"{BASE}/deleteEntries",
            id="deleteEntries",
            summary="Delete list entries in bulk",
            description=(
                "At most 500 entries a call, all of them or, on any error, none. An entry that the list does not have "
                "is ignored and does not count."
            ),
            answer=ListChange,
            body=_body(DeleteEntriesRequest),
            errors=(*_ONE_LIST, errors.TOO_MANY_ENTRIES),
        ),
        Operation(
            method="post",
            path=f"{BASE}/getLists",
            id="getLists",
            summary="List available lists",
            description="All lists of the chosen scope, whether they have entries or not.",
            answer=ListsOfScope,
            body=_body(GetListsRequest),
            errors=_ANYWHERE,
        ),
        Operation(
            method="post",
            path=f"{BASE}/listEntries",
            id="listEntries",
            summary="List all entries of one list",
            description=(
                "One `PublicListsEntry` per line, ordered by entry: one consistent snapshot. A stream that fails "
                "midway ends without the final chunk."
            ),
            answer=PublicListsEntry,
            media_type=NDJSON,
            body=_body(ListEntriesRequest),
            errors=(*_ONE_LIST, errors.OVERLOADED),
        ),
        Operation(
            method="get",
            path=f"{BASE}/openapi.json",
            id="listsOpenapi",
            summary="This document",
            description="Needs no credential.",
            answer=None,
            errors=(errors.MALFORMED_REQUEST, errors.INTERNAL_ERROR),
            secured=False,
        ),
    ),
)
