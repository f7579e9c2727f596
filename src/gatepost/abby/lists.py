"""The List API: `addEntries`, `deleteEntries`, `getLists` and `listEntries` under `/api/public/lists/v1`.

The order of checks is that of the interface: credential, media type, size, syntax, fields, scope, tenant, list,
entries. Whatever fails, nothing was changed.

`listEntries` streams newline-delimited JSON, one batch after the other, in constant memory. The next batch is read when
the last one has left for the client, and a client that takes nothing for a minute is disconnected: a snapshot that
stays open keeps storage from purging old rows. A stream that breaks ends without its final chunk (RFC 9112 section
7.1), so that no client takes a part for the whole. The number of streams is bounded, for API and pages together.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gatepost.abby.authenticator import ApiKeyAuthenticator
from gatepost.abby.json_bodies import BodyReader, list_faults
from gatepost.abby.messages import find_tenant_fault
from gatepost.api import lists
from gatepost.api.call_limits import CallingParty, CallLimits
from gatepost.api.errors import (
    FORBIDDEN,
    INVALID_ENTRY,
    LIST_FULL,
    LIST_NOT_FOUND,
    TENANT_NOT_FOUND,
    TOO_MANY_ENTRIES,
    Failure,
)
from gatepost.api.http import ClientLeft, Handler, JsonResponse
from gatepost.api.openapi import NDJSON
from gatepost.ids import canonical
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.process.background_work import background
from gatepost.process.logs import Logger
from gatepost.rejudge.list_plan import ListDryRuns, new_entry
from gatepost.rejudge.try_change import can_look_back
from gatepost.store.api_keys import ApiKey
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.lists import EntryRow, NewEntry
from gatepost.store.store import Store
from gatepost.times import date_time

Body: TypeAlias = (
    lists.AddEntriesRequest | lists.DeleteEntriesRequest | lists.GetListsRequest | lists.ListEntriesRequest
)
B = TypeVar("B", bound=Body)


ADD = BodyReader(lists.AddEntriesRequest, most=lists.MAX_BODY)
DELETE = BodyReader(lists.DeleteEntriesRequest, most=lists.MAX_BODY)
GET = BodyReader(lists.GetListsRequest, most=lists.MAX_BODY)
LIST = BodyReader(lists.ListEntriesRequest, most=lists.MAX_BODY)

STALL_SECONDS = 60.0
MAX_TIMES = 10_000
# What is done on the event loop; each piece of more has as many entries.
FEW_ENTRIES = 20
FEW_CHARACTERS = 1_000
A = TypeVar("A")
T = TypeVar("T")

log = Logger("gatepost.abby")

Batches = AsyncGenerator[bytes, None]


class EntryLineEncoder:
    """Encodes the rows of one stream as lines of JSON, in the thread that reads them."""

    def __init__(self) -> None:
        self._times = _Times()

    def __call__(self, rows: Sequence[EntryRow]) -> bytes:
        return lists.encode_lines(self.entries(rows))

    def entries(self, rows: Sequence[EntryRow]) -> list[lists.PublicListsEntry]:
        """Return the rows as the API shows them."""
        at = self._times
        return [
            lists.PublicListsEntry(
                shown,
                comment,
                at[created],
                at[modified],
                by,
                None if expires is None else at[expires],
                hits,
                None if last_hit is None else at[last_hit],
            )
            for _, shown, comment, created, modified, by, expires, hits, last_hit in rows
        ]


class _Times(dict[int, str]):
    """Encoded times. The entries of one call have the same time, so a few times serve many entries."""

    def __missing__(self, time: int) -> str:
        if len(self) >= MAX_TIMES:
            self.clear()
        shown = self[time] = date_time(time)
        return shown


class EntryStream(Response):
    """All entries of a list as a stream. `batches` is closed and `done` called when it ends, however it ends."""

    def __init__(self, first: bytes, batches: Batches, done: Callable[[], None]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-content-type-options": "nosniff"}, media_type=NDJSON)
        del self.headers["content-length"]
        self._first, self._batches, self._done = first, batches, done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            async with aclosing(self._batches):
                await self._send_all(send, gone)
        except TimeoutError:
            log.info("list reader stalled", path=scope["path"])
        finally:
            gone.cancel()
            self._done()

    async def _send_all(self, send: Send, gone: asyncio.Future[None]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        batch = self._first
        while batch:
            async with asyncio.timeout(STALL_SECONDS):
                await send({"type": "http.response.body", "body": batch, "more_body": True})
            if gone.done():
                return
            batch = await next_batch(self._batches)
        await send({"type": "http.response.body", "body": b""})


async def next_batch(batches: Batches) -> bytes:
    """Return the lines of the next batch, b"" at the end."""
    async for batch in batches:
        return batch
    return b""


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


class Exports:
    """Streams of whole lists, of the API and of the pages together, as many as `limits` allow."""

    def __init__(self, store: Store, limits: CallLimits) -> None:
        self._store, self._limits = store, limits

    async def stream(
        self,
        party: CallingParty,
        scope: str | None,
        name: str,
        encode: Callable[[Sequence[EntryRow]], bytes],
        heading: bytes = b"",
    ) -> EntryStream | Failure:
        """Return all entries of a list, each batch encoded by `encode`, below a heading."""
        call = self._limits.begin("stream", party)
        if isinstance(call, Failure):
            return call
        batches = self._store.lists.stream_rows(scope, name, encode)
        try:
            return EntryStream(heading + await next_batch(batches), batches, call.end)
        except BaseException:
            call.end()
            raise


class ListsApi:
    """The four operations of the List API. With `look_back`, new entries of lists that block wait for a look back into
    delivered mail."""

    def __init__(
        self,
        *,
        authenticator: ApiKeyAuthenticator,
        store: Store,
        dry_runs: ListDryRuns,
        exports: Exports,
        limits: CallLimits,
        look_back: bool = False,
    ) -> None:
        self._authenticator = authenticator
        self._store = store
        self._look_back = look_back
        self._dry_runs = dry_runs
        self._exports = exports
        self._limits = limits

    @property
    def operations(self) -> dict[str, Handler]:
        """The handlers by the last part of their paths."""
        return {
            "addEntries": lambda request: self._answer(request, ADD, self._add),
            "deleteEntries": lambda request: self._answer(request, DELETE, self._delete),
            "getLists": lambda request: self._answer(request, GET, self._lists),
            "listEntries": lambda request: self._answer(request, LIST, self._stream),
        }

    async def _answer(
        self,
        request: Request,
        form: BodyReader[B],
        operation: Callable[[ApiKey, B, str | None], Awaitable[Response | Failure]],
    ) -> Response | Failure | None:
        key = await self._authenticator.enter(request)
        if isinstance(key, Failure):
            return key
        body = await form.read(request)
        if isinstance(body, ClientLeft):
            return None
        if isinstance(body, Failure):
            return self._log_refusal(key, body)
        scope = canonical(body.tenant_uid) if body.tenant_uid else None
        failure = _forbidden(key, scope, body) or await find_tenant_fault(self._store.tenants, scope)
        outcome = failure or await operation(key, body, scope)
        return self._log_refusal(key, outcome) if isinstance(outcome, Failure) else outcome

    def _log_refusal(self, key: ApiKey, failure: Failure) -> Failure:
        log.info("list call refused", key=key.name, error=failure.error.code)
        return failure

    async def _find_list(self, scope: str | None, name: str, entries: Sequence[object]) -> ListDefinition | Failure:
        """Return the list that a change names, unless the change has too many entries."""
        definition = await self._store.lists.definition(scope, name)
        if definition is None:
            return _no_list(name)
        if len(entries) > lists.MAX_ENTRIES:
            text = f"entries has {len(entries):,} items; a call takes at most {lists.MAX_ENTRIES}"
            return Failure(TOO_MANY_ENTRIES, text)
        return definition

    async def _add(self, key: ApiKey, body: lists.AddEntriesRequest, scope: str | None) -> Response | Failure:
        definition = await self._find_list(scope, body.list_name, body.entries)
        if isinstance(definition, Failure):
            return definition
        texts = [each.entry for each in body.entries]
        entries = _refuse_faults(await _beside_the_loop(texts, partial(new_entry, definition=definition), body.entries))
        if isinstance(entries, Failure):
            return entries
        if body.dry_run:
            return await self._run_within_limits(key, self._dry_runs.try_adding(scope, definition, entries))
        # Beside the writer: what does not fit in any case keeps no record of a message waiting.
        if not definition.keyed and (full := await self._store.lists.bytes_left(scope, definition, entries)):
            return _list_full(full)
        look_back = self._look_back and can_look_back(definition)
        modified = await self._store.lists.add(scope, definition, entries, _actor(key), look_back=look_back)
        if isinstance(modified, ListFull):
            return _list_full(modified)
        if isinstance(modified, NotFound):
            return _no_tenant(scope) if modified.what == "tenant" else _no_list(body.list_name)
        return _change_response(modified)

    async def _delete(self, key: ApiKey, body: lists.DeleteEntriesRequest, scope: str | None) -> Response | Failure:
        definition = await self._find_list(scope, body.list_name, body.entries)
        if isinstance(definition, Failure):
            return definition
        keys = await _beside_the_loop(body.entries, definition.key, body.entries)
        if body.dry_run:
            return await self._run_within_limits(key, self._dry_runs.try_deleting(scope, definition, keys))
        return _change_response(await self._store.lists.remove(scope, definition.name, keys, _actor(key)))

    async def _run_within_limits(
        self, key: ApiKey, dry_run: Coroutine[None, None, lists.DryRun | ListFull]
    ) -> Response | Failure:
        """Run a dry run, if as many of this key and its tenant are not running already."""
        call = self._limits.begin("dry run", _party(key))
        if isinstance(call, Failure):
            dry_run.close()
            return call
        with call:
            done = await dry_run
        return _list_full(done) if isinstance(done, ListFull) else _change_response(0, done)

    async def _lists(self, _key: ApiKey, _body: lists.GetListsRequest, scope: str | None) -> Response:
        infos = tuple(_describe_list(state.definition) for state in await self._store.lists.all(scope))
        return JsonResponse(lists.encode_lists(lists.ListsOfScope(infos)))

    async def _stream(self, key: ApiKey, body: lists.ListEntriesRequest, scope: str | None) -> Response | Failure:
        if await self._store.lists.definition(scope, body.list_name) is None:
            return _no_list(body.list_name)
        return await self._exports.stream(_party(key), scope, body.list_name, EntryLineEncoder())


async def _beside_the_loop(texts: Sequence[str], work: Callable[[A], T], items: Sequence[A]) -> list[T]:
    """Do work for the entries with these texts, in threads where it is much: a thousand characters take up to 2 ms, and
    scans wait meanwhile."""
    if len(texts) <= FEW_ENTRIES and sum(map(len, texts)) <= FEW_CHARACTERS:
        return [work(item) for item in items]
    return await background.map(work, items, FEW_ENTRIES)


def _forbidden(key: ApiKey, scope: str | None, body: Body) -> Failure | None:
    """Return why the key may not do this; the same whether another tenant exists or not."""
    if key.tenant is not None and key.tenant != scope:
        return Failure(FORBIDDEN, "tenantUid: the key is made for one tenant, and may act on that one only")
    if key.read_only and isinstance(body, lists.AddEntriesRequest | lists.DeleteEntriesRequest) and not body.dry_run:
        return Failure(FORBIDDEN, "the key is read-only; with dryRun it may try changes")
    return None


def _refuse_faults(made: Sequence[NewEntry | ListRefusal]) -> list[NewEntry] | Failure:
    """Return the entries in their normal forms, or every one that the list refuses."""
    refused = [
        f"entries[{index}].{each.field}{'' if each.field == 'entry' else ': the entry'} {each.reason}"
        for index, each in enumerate(made)
        if isinstance(each, ListRefusal)
    ]
    if refused:
        return list_faults(INVALID_ENTRY, refused)
    return [each for each in made if not isinstance(each, ListRefusal)]


def _party(key: ApiKey) -> CallingParty:
    return CallingParty(f"key:{key.id}", key.tenant)


def _actor(key: ApiKey) -> Actor:
    return Actor("key", key.name, key.id)


def _change_response(modified: int, dry_run: lists.DryRun | None = None) -> Response:
    return JsonResponse(lists.encode_lists(lists.ListChange(modified, dry_run)))


def _describe_list(definition: ListDefinition) -> lists.ListFileInfo:
    about = lists.ListInfo(definition.display_name, definition.category, definition.description, definition.max_size)
    return lists.ListFileInfo(definition.name, about)


def _list_full(full: ListFull) -> Failure:
    return Failure(LIST_FULL, f"{full.explanation}; nothing of the call was applied")


def _no_list(name: str) -> Failure:
    return Failure(LIST_NOT_FOUND, f"listName: there is no list {name[:100]} in this scope")


def _no_tenant(scope: str | None) -> Failure:
    return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {scope}")
