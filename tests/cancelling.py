"""Cancels a coroutine at every await in turn, running it again and again, as a client that leaves or a stop would.

A task is cancelled while it waits, or in the moment after what it waited for is done and before it goes on. The second
is where a result is lost: a connection that was opened, and that nobody has yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

Moment = Literal["while waiting", "when done"]
MOMENTS: tuple[Moment, ...] = ("while waiting", "when done")


class _Steps:
    """A coroutine whose task is cancelled at one of its awaits, the first one being number 0."""

    def __init__(self, work: Coroutine[Any, Any, object], place: int, moment: Moment) -> None:
        self._work, self._place, self._moment = work, place, moment
        self.is_reached = False

    def __await__(self) -> Generator[Any, Any, object]:
        send: Callable[[Any], Any] = self._work.send
        value: Any = None
        at = 0
        while True:
            try:
                awaited = send(value)
            except StopIteration as end:
                return end.value
            if at == self._place:
                self._cancel(awaited)
            at += 1
            try:
                value = yield awaited
            except BaseException as fault:  # noqa: BLE001  it is the coroutine's
                send, value = self._work.throw, fault
            else:
                send = self._work.send

    def _cancel(self, awaited: "asyncio.Future[Any] | None") -> None:
        self.is_reached = True
        task = asyncio.current_task()
        assert task
        if awaited is None or self._moment == "while waiting":
            task.cancel()
        else:
            # This is called before what wakes the task up.
            awaited.add_done_callback(lambda _: task.cancel())


async def cancel_everywhere(
    make: Callable[[], Coroutine[Any, Any, object]],
    *,
    after: Callable[[], Awaitable[None]] | None = None,
    most: int = 10_000,
) -> int:
    """Run what `make` returns, cancelled at its first await, then at its second, and so on until it ends before it is
    cancelled, or until so many were; `after` is called after each. Returns how many were cancelled."""
    cancelled = 0
    for moment in MOMENTS:
        for place in range(most):
            steps = _Steps(make(), place, moment)
            try:
                await asyncio.create_task(_take(steps))
            except asyncio.CancelledError:
                cancelled += 1
            if after:
                await after()
            if not steps.is_reached or cancelled >= most:
                break
    return cancelled


async def _take(steps: _Steps) -> object:
    return await steps


def count_sockets() -> int:
    """Return how many sockets this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself is closed
            found += link.readlink().name.startswith("socket:")
    return found


async def settle(is_settled: Callable[[], bool]) -> None:
    """Wait until what others still have to do is done: a server that closes its end, a task that ends by itself."""
    async with asyncio.timeout(60):
        while not is_settled():  # noqa: ASYNC110  no event tells it
            await asyncio.sleep(0.005)
