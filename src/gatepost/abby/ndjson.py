"""The stream of `listEntries`: newline-delimited JSON, one batch after the other, in constant memory.

The next batch is read when the last one has left for the client, and a client that takes nothing for a minute is let
go: a snapshot that stays open keeps storage from tidying up. A stream that breaks ends without its final chunk (RFC
9112 section 7.1), so that nobody takes a part for the whole.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gatepost.api.lists import PublicListsEntry, encode_lines
from gatepost.api.lists_interface import NDJSON
from gatepost.api.times import date_time
from gatepost.store.entries import EntryRow

STALL_SECONDS = 60.0
MAX_TIMES = 10_000

log = structlog.get_logger("gatepost.abby")

Batches = AsyncGenerator[bytes, None]


class Lines:
    """Writes the rows of one stream as lines of JSON, in the thread that reads them."""

    def __init__(self) -> None:
        self._times = _Times()

    def __call__(self, rows: Sequence[EntryRow]) -> bytes:
        return encode_lines(self.entries(rows))

    def entries(self, rows: Sequence[EntryRow]) -> list[PublicListsEntry]:
        """The rows as the interface shows them."""
        at = self._times
        return [
            PublicListsEntry(
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
    """Times as they are written. The entries of one call have one time, so few times are many entries'."""

    def __missing__(self, time: int) -> str:
        if len(self) >= MAX_TIMES:
            self.clear()
        shown = self[time] = date_time(time)
        return shown


class EntryStream(Response):
    """All entries of a list. `batches` is closed and `done` called when it ends, however it ends."""

    def __init__(self, first: bytes, batches: Batches, done: Callable[[], None]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-content-type-options": "nosniff"}, media_type=NDJSON)
        del self.headers["content-length"]
        self._first, self._batches, self._done = first, batches, done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_gone(receive))
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
            batch = await following(self._batches)
        await send({"type": "http.response.body", "body": b""})


async def following(batches: Batches) -> bytes:
    """The lines of the next batch; none at the end."""
    async for batch in batches:
        return batch
    return b""


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
