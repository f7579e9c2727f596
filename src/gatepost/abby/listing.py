"""The List API: `addEntries`, `deleteEntries`, `getLists` and `listEntries` under `/api/public/lists/v1`.

The order of checks is that of the interface: credential, media type, size, syntax, fields, scope, tenant, list,
entries. Whatever fails, nothing was changed.
"""

from collections.abc import Awaitable, Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby import listbodies
from gatepost.abby.apikeys import KeyDoor
from gatepost.abby.dryrun import DryRuns
from gatepost.abby.exports import Exports
from gatepost.abby.failures import Handler, Json
from gatepost.abby.faults import listed
from gatepost.abby.listbodies import B, Body, Form
from gatepost.abby.listtrials import new_entry, try_adding, try_deleting
from gatepost.abby.multipart import Left
from gatepost.abby.ndjson import Lines
from gatepost.api.errors import (
    FORBIDDEN,
    INVALID_ENTRY,
    LIST_FULL,
    LIST_NOT_FOUND,
    TENANT_NOT_FOUND,
    TOO_MANY_ENTRIES,
    Failure,
)
from gatepost.api.lists import (
    MAX_ENTRIES,
    AddEntriesRequest,
    DeleteEntriesRequest,
    DryRun,
    GetListsRequest,
    ListChange,
    ListEntriesRequest,
    ListFileInfo,
    ListInfo,
    ListsOfScope,
    NewListEntry,
    encode,
)
from gatepost.ids import canonical
from gatepost.lists.catalogue import Definition
from gatepost.lists.entry import Refused
from gatepost.store.api_keys import ApiKey
from gatepost.store.audit import Actor
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.store import Store

log = structlog.get_logger("gatepost.abby")


class Listing:
    """The four operations with everything they need."""

    def __init__(self, *, door: KeyDoor, store: Store, trials: DryRuns, exports: Exports) -> None:
        self._door = door
        self._store = store
        self._trials = trials
        self._exports = exports

    @property
    def operations(self) -> dict[str, Handler]:
        """The handlers by the last part of their paths."""
        return {
            "addEntries": lambda request: self._answered(request, listbodies.ADD, self._add),
            "deleteEntries": lambda request: self._answered(request, listbodies.DELETE, self._delete),
            "getLists": lambda request: self._answered(request, listbodies.GET, self._lists),
            "listEntries": lambda request: self._answered(request, listbodies.LIST, self._stream),
        }

    async def _answered(
        self,
        request: Request,
        form: Form[B],
        operation: Callable[[ApiKey, B, str | None], Awaitable[Response | Failure]],
    ) -> Response | Failure | None:
        key = await self._door.enter(request)
        if isinstance(key, Failure):
            return key
        body = await form.read(request)
        if isinstance(body, Left):
            return None
        if isinstance(body, Failure):
            return self._refused(key, body)
        scope = canonical(body.tenant_uid) if body.tenant_uid else None
        failure = _forbidden(key, scope, body) or await self._absent(scope)
        outcome = failure or await operation(key, body, scope)
        return self._refused(key, outcome) if isinstance(outcome, Failure) else outcome

    def _refused(self, key: ApiKey, failure: Failure) -> Failure:
        log.info("list call refused", key=key.name, error=failure.error.code)
        return failure

    async def _absent(self, scope: str | None) -> Failure | None:
        if scope is None or await self._store.tenant(scope):
            return None
        return _no_tenant(scope)

    async def _add(self, key: ApiKey, body: AddEntriesRequest, scope: str | None) -> Response | Failure:
        definition = await self._store.list_definition(scope, body.list_name)
        if definition is None:
            return _no_list(body.list_name)
        entries = _entries(body.entries, definition)
        if isinstance(entries, Failure):
            return entries
        if body.dry_run:
            return await self._try_adding(scope, definition, entries)
        modified = await self._store.add_entries(scope, definition, entries, _actor(key))
        if isinstance(modified, ListFull):
            return _full(modified)
        if isinstance(modified, NotFound):
            return _no_tenant(scope) if modified.what == "tenant" else _no_list(body.list_name)
        return _changed(modified)

    async def _delete(self, key: ApiKey, body: DeleteEntriesRequest, scope: str | None) -> Response | Failure:
        definition = await self._store.list_definition(scope, body.list_name)
        if definition is None:
            return _no_list(body.list_name)
        if len(body.entries) > MAX_ENTRIES:
            return _too_many(len(body.entries))
        keys = [definition.key(text) for text in body.entries]
        if body.dry_run:
            return _tried(await try_deleting(self._store, self._trials, scope, definition, keys))
        return _changed(await self._store.delete_entries(scope, definition.name, keys, _actor(key)))

    async def _try_adding(
        self, scope: str | None, definition: Definition, entries: list[NewEntry]
    ) -> Response | Failure:
        trial = await try_adding(self._store, self._trials, scope, definition, entries)
        return _full(trial) if isinstance(trial, ListFull) else _tried(trial)

    async def _lists(self, _key: ApiKey, _body: GetListsRequest, scope: str | None) -> Response:
        infos = tuple(_info(state.definition) for state in await self._store.lists(scope))
        return Json(encode(ListsOfScope(infos)))

    async def _stream(self, _key: ApiKey, body: ListEntriesRequest, scope: str | None) -> Response | Failure:
        if await self._store.list_definition(scope, body.list_name) is None:
            return _no_list(body.list_name)
        return await self._exports.stream(scope, body.list_name, Lines())


def _forbidden(key: ApiKey, scope: str | None, body: Body) -> Failure | None:
    """What this key may not do, whether the other tenant exists or not."""
    if key.tenant is not None and key.tenant != scope:
        return Failure(FORBIDDEN, "tenantUid: the key is made for one tenant, and may act on that one only")
    if key.read_only and isinstance(body, AddEntriesRequest | DeleteEntriesRequest) and not body.dry_run:
        return Failure(FORBIDDEN, "the key is read-only; with dryRun it may try changes")
    return None


def _entries(stated: tuple[NewListEntry, ...], definition: Definition) -> list[NewEntry] | Failure:
    """The entries in their normal forms, or every one that the list refuses."""
    if len(stated) > MAX_ENTRIES:
        return _too_many(len(stated))
    made = [new_entry(each, definition) for each in stated]
    refused = [f"entries[{place}].entry {each.reason}" for place, each in enumerate(made) if isinstance(each, Refused)]
    if refused:
        return listed(INVALID_ENTRY, refused)
    return [each for each in made if not isinstance(each, Refused)]


def _actor(key: ApiKey) -> Actor:
    return Actor("key", key.name, key.id)


def _changed(modified: int) -> Response:
    return Json(encode(ListChange(modified)))


def _tried(trial: DryRun) -> Response:
    return Json(encode(ListChange(0, trial)))


def _info(definition: Definition) -> ListFileInfo:
    about = ListInfo(definition.display_name, definition.category, definition.description, definition.max_size)
    return ListFileInfo(definition.name, about)


def _too_many(count: int) -> Failure:
    return Failure(TOO_MANY_ENTRIES, f"entries has {count:,} items; a call takes at most {MAX_ENTRIES}")


def _full(full: ListFull) -> Failure:
    return Failure(
        LIST_FULL, f"the list has {full.size:,} of at most {full.max_size:,} entries; nothing of the call was applied"
    )


def _no_list(name: str) -> Failure:
    return Failure(LIST_NOT_FOUND, f"listName: there is no list {name[:100]} in this scope")


def _no_tenant(scope: str | None) -> Failure:
    return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {scope}")
