"""Requests that are answered without an ASGI exchange, which took a tenth of the event loop's CPU for a scan.

A route that scans mail gets an ordinary request straight from the HTTP parser: the header section, then the whole body,
and an object that takes the answer. Ordinary means a POST to exactly its path, with a Content-Length of at most
`MAX_DIRECT` bytes, on a connection that stays open and on which nothing else is being answered, whose body arrives at
once. Everything else goes through ASGI as before: other lengths, `Transfer-Encoding`, `Expect`, pipelined requests,
slow bodies. So does what the route itself finds unusual, be it right or wrong: it gives the request back before it has
done anything, and the code behind ASGI decides. There is one place that refuses.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Self, TypeAlias

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gatepost.api.http import JsonResponse

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
MAX_DIRECT = 64 << 10
# How long the rest of a body may take before ASGI takes over, which has deadlines for slow bodies.
REST_SECONDS = 0.1

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode()) for status in HTTPStatus}


def announces_direct(headers: RawHeaders) -> bool:
    """Whether a header section announces a body that may be taken whole: small, and of a stated length."""
    size = 0
    for name, value in headers:
        if name == b"content-length":
            size = int(value) if value.isdigit() and len(value) < 8 else 0
        elif name in (b"transfer-encoding", b"expect"):
            return False
    return 0 < size <= MAX_DIRECT


class DirectExchange:
    """One request and its answer. To uvicorn's protocol it is the cycle that runs, so that requests behind it wait,
    and a stop of the server lets it end."""

    # What uvicorn's protocol reads of a cycle.
    waiting_for_100_continue = more_body = response_started = False

    def __init__(self, connection: HttpToolsProtocol, write: Callable[[bytes], None]) -> None:
        self._connection, self._write = connection, write
        self.response_complete = self.disconnected = False
        self.keep_alive = True
        self._gone: asyncio.Future[None] | None = None
        self._on_end: Callable[[], None] | None = None
        self.headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def message_event(self) -> Self:
        """What uvicorn tells that something has happened. An attribute would make each exchange refer to itself, and
        only the collector of cycles would free it, with all that hangs on it."""
        return self

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the answer made; the server waits for it when it stops."""
        task = self._connection.loop.create_task(work)
        self._connection.tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """The work has ended. If there was no answer, it was cancelled or broke: then the connection ends as well."""
        self._connection.tasks.discard(task)
        if not self.response_complete:
            self.response_complete = True
            self._connection.transport.close()
        if self._on_end is not None:
            self._on_end()

    def call_at_end(self, on_end: Callable[[], None]) -> None:
        """Call this once the exchange is over."""
        self._on_end = on_end

    def set(self) -> None:
        """uvicorn calls it when something has happened to the connection."""
        if self.disconnected and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def receive(self) -> Message:
        """As ASGI has it after the whole body: there is nothing to receive but that the client leaves."""
        if not self.disconnected:
            self._gone = self._connection.loop.create_future()
            await self._gone
        return {"type": "http.disconnect"}

    def answer(self, response: JsonResponse | None) -> None:
        """Send the answer in one piece; None where the client has left."""
        self.response_complete = True
        transport = self._connection.transport
        if response is not None and not self.disconnected and not transport.is_closing():
            headers = (*self._connection.server_state.default_headers, *response.raw_headers, *self.headers)
            lines = [b": ".join(header) for header in headers]
            self._write(b"\r\n".join((_STATUS_LINES[response.status_code], *lines, b"", response.body)))
        if not self.keep_alive:
            transport.close()
        self._connection.on_response_complete()


# Takes a whole body; False gives the request back.
DirectCall: TypeAlias = Callable[[bytes, DirectExchange], bool]
# Takes a header section and the address of the client; None gives the request back.
DirectRoute: TypeAlias = Callable[[RawHeaders, str], DirectCall | None]
# Takes the method and the path as well.
FindsDirect: TypeAlias = Callable[[bytes, bytes, RawHeaders, str], DirectCall | None]
# By method and path.
DirectRoutes: TypeAlias = Mapping[tuple[bytes, bytes], DirectRoute]
