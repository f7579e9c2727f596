"""How long a body may take to arrive.

A client earns time with bytes: it may pause for `IDLE_SECONDS`, and after a first minute must have kept up `SLOWEST`
bytes per second.
"""

import asyncio
from types import TracebackType
from typing import Self

IDLE_SECONDS = 30.0
FIRST_SECONDS = 60.0
SLOWEST = 1024


class Pace:
    """A body on its way; raises `TimeoutError` where it stops, or comes too slowly."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start, self._received = self._loop.time(), 0
        self._patience = asyncio.timeout(IDLE_SECONDS)

    def earn(self, count: int) -> None:
        """So many more bytes have come."""
        self._received += count
        earned = self._start + FIRST_SECONDS + self._received / SLOWEST
        self._patience.reschedule(min(self._loop.time() + IDLE_SECONDS, earned))

    async def __aenter__(self) -> Self:
        await self._patience.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._patience.__aexit__(kind, fault, trace)
