"""guard's end of a worker's socket: reading and writing that never blocks the event loop.

What the socket does not take at once waits here, uncopied, and goes out as the worker reads; so a large message flows
at the worker's pace. Works on any asyncio loop, uvloop included: all it needs is to be told when a descriptor is ready.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from gatepost.guard.frames import Frame, FrameError, FrameReader

_READ = 64 << 10
_JOINED = 64 << 10  # up to here one copy is cheaper than another system call


class Channel:
    """Frames to and from one worker. `ended` is called once, when the other end has closed or broken the rules."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        received: Callable[[Frame, int, bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._received = received
        self._ended = ended
        self._reader = FrameReader()
        self._waiting: deque[memoryview] = deque()
        self._open = True
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def flushed(self) -> bool:
        """Has everything been handed to the socket?"""
        return not self._waiting

    def send(self, *buffers: bytes) -> None:
        """Send in order; never blocks, never raises: a socket that is gone is noticed by reading."""
        if not self._open:
            return
        idle = not self._waiting
        if sum(map(len, buffers)) <= _JOINED:
            buffers = (b"".join(buffers),)
        self._waiting.extend(memoryview(buffer) for buffer in buffers if buffer)
        if idle:
            self._write()
            if self._waiting:
                self._loop.add_writer(self._sock.fileno(), self._writable)

    def close(self) -> None:
        """Let go of the socket: the worker sees its end and stops."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def _writable(self) -> None:
        self._write()
        if not self._waiting and self._open:
            self._loop.remove_writer(self._sock.fileno())

    def _write(self) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                sent = self._sock.send(first)
                if sent < len(first):
                    self._waiting[0] = first[sent:]
                    return
                self._waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        try:
            for kind, job, body in self._reader.feed(data):
                self._received(kind, job, body)
                if not self._open:
                    return
        except FrameError:
            self._end()

    def _end(self) -> None:
        self.close()
        self._ended()
