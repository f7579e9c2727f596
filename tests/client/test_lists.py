"""Both clients and the List API, against a scripted service: what they send, and how a stream is read."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.scripted_service import Script, Step, answer, error, refuse

from gatepost.api.lists import NewListEntry, PublicListsEntry, encode_lines
from gatepost.client import AsyncClient, Client
from gatepost.client.calls import (
    ApiError,
    BrokenStreamError,
    EntryLines,
    Retries,
    UnexpectedReplyError,
    UnreachableError,
)

RETRIES = Retries(attempts=3, first=0.0, jitter=lambda: 0.0)
TIME = "2026-11-15T00:00:00.000Z"
TENANT = "0198c5a2-7c11-7d3e-9f00-00000000aa01"


def line(entry: str) -> PublicListsEntry:
    return PublicListsEntry(entry, "", TIME, TIME, "key:x", None, 0, None)


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in pieces; the last one may be a fault. It notes that it was closed."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


def streaming(stream: Stream) -> Step:
    return lambda _: httpx.Response(200, stream=stream)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run(script, name, …)` makes a client of either kind and one call; a stream becomes a list."""

    def sync(script: Script, name: str, *arguments: Any, **options: Any) -> Any:
        transport = httpx.MockTransport(script.handle)
        with Client(
            "https://gate.test", api_key="k", retries=RETRIES, transport=transport, sleep=lambda _: None
        ) as made:
            result = getattr(made, name)(*arguments, **options)
            return list(result) if name == "list_entries" else result

    async def asynchronous(script: Script, name: str, *arguments: Any, **options: Any) -> Any:
        transport = httpx.MockTransport(script.handle)
        async with AsyncClient("https://gate.test", "t", api_key="k", retries=RETRIES, transport=transport) as made:
            result = getattr(made, name)(*arguments, **options)
            return [entry async for entry in result] if name == "list_entries" else await result

    if request.param == "sync":
        return sync
    return lambda *arguments, **options: asyncio.run(asynchronous(*arguments, **options))


def test_calls_are_what_the_interface_asks_for(run: Callable[..., Any]) -> None:
    changed = answer(200, {"modifiedEntries": 2, "laterField": 1})
    script = Script(changed, changed, answer(200, {"listFileInfos": []}))
    entries = ["a.example", NewListEntry("b.example", "why", "2030-01-01T00:00:00Z")]
    assert run(script, "add_entries", "blocked-urls", entries, tenant=TENANT).modified_entries == 2
    assert run(script, "delete_entries", "blocked-urls", ["a.example"]).dry_run is None
    assert run(script, "get_lists", tenant=TENANT) == ()
    paths = [request.url.path for request in script.requests]
    assert paths == [f"/api/public/lists/v1/{name}" for name in ("addEntries", "deleteEntries", "getLists")]
    assert {request.headers["authorization"] for request in script.requests} == {"apikey k"}
    assert {request.headers["content-type"] for request in script.requests} == {"application/json"}
    bodies = [json.loads(request.content) for request in script.requests]
    assert bodies[0] == {
        "listName": "blocked-urls",
        "entries": [
            {"entry": "a.example"},
            {"entry": "b.example", "comment": "why", "expires": "2030-01-01T00:00:00Z"},
        ],
        "tenantUid": TENANT,
    }
    assert bodies[1:] == [{"listName": "blocked-urls", "entries": ["a.example"]}, {"tenantUid": TENANT}]


def test_a_dry_run_is_asked_for_and_read(run: Callable[..., Any]) -> None:
    trial = {"considered": 9, "wouldModify": 1, "wouldHit": 3, "wouldFlip": 2, "entries": [
        {"entry": "a.example", "wouldHit": 3, "wouldFlip": 2}]}  # fmt: skip
    script = Script(answer(200, {"modifiedEntries": 0, "dryRun": trial}))
    change = run(script, "add_entries", "blocked-urls", ["a.example"], dry_run=True)
    assert json.loads(script.requests[0].content)["dryRun"] is True
    assert (change.dry_run.considered, change.dry_run.entries[0].would_flip) == (9, 2)


def test_a_stream_is_read_as_it_comes(run: Callable[..., Any]) -> None:
    raw = encode_lines([line("a"), line("b\n{"), line("ü")])
    stream = Stream(raw[:7], raw[7:150], raw[150:])
    assert [entry.entry for entry in run(Script(streaming(stream)), "list_entries", "x")] == ["a", "b\n{", "ü"]
    assert stream.closed
    assert run(Script(streaming(Stream())), "list_entries", "x") == []


@pytest.mark.parametrize(
    "pieces",
    [
        (encode_lines([line("a")]), httpx.RemoteProtocolError("peer closed connection")),
        (encode_lines([line("a")])[:-9],),
        (httpx.ReadTimeout("slow"),),
    ],
)
def test_a_broken_stream_is_no_whole_list(run: Callable[..., Any], pieces: tuple[bytes | Exception, ...]) -> None:
    stream = Stream(*pieces)
    with pytest.raises(BrokenStreamError):
        run(Script(streaming(stream)), "list_entries", "x")
    assert stream.closed


def test_a_stream_is_asked_for_again_until_it_opens(run: Callable[..., Any]) -> None:
    script = Script(refuse, error(503, "overloaded", "later"), streaming(Stream(encode_lines([line("a")]))))
    assert len(run(script, "list_entries", "x")) == 1
    with pytest.raises(UnreachableError):
        run(Script(refuse, refuse, refuse), "list_entries", "x")
    with pytest.raises(ApiError, match="list_not_found"):
        run(Script(error(404, "list_not_found", "no")), "list_entries", "x")


def test_somebody_else_streams(run: Callable[..., Any]) -> None:
    with pytest.raises(UnexpectedReplyError):
        run(Script(streaming(Stream(b"<html>\n</html>\n"))), "list_entries", "x")


def test_a_stream_that_is_left_is_closed() -> None:
    stream = Stream(encode_lines([line("a"), line("b")]))
    transport = httpx.MockTransport(Script(streaming(stream)).handle)
    with Client("https://gate.test", api_key="k", transport=transport) as client:
        entries = client.list_entries("x")
        assert next(entries).entry == "a"
        entries.close()  # type: ignore[attr-defined]
    assert stream.closed


@given(st.lists(st.text(), max_size=20), st.lists(st.integers(0, 4_000), max_size=10))
def test_lines_however_they_are_cut(entries: list[str], cuts: list[int]) -> None:
    raw = encode_lines([line(entry) for entry in entries])
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    lines = EntryLines()
    found = [entry for start, end in pairwise(places) for entry in lines.feed(raw[start:end])]
    lines.end()
    assert [msgspec.json.encode(entry) for entry in found] == [msgspec.json.encode(line(entry)) for entry in entries]
