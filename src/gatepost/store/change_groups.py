"""Changes that every message makes, collected in the event loop and written in groups.

A commit costs far more than the rows in it, and so does handing a change to a thread, a process or a server. So the
records of messages that end at nearly the same time are handed over together, and one commit keeps them all. Nobody is
answered before that commit.

A caller says how many other messages are under way. Where these are two or more, a record waits for some of them, for a
few milliseconds at most: with every core busy that costs no message any time, since those who wait leave the cores to
the others. Where a message is alone, or nearly so, it never waits. What comes while a group is being written waits for
the next one, which takes all of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

A = TypeVar("A")
R = TypeVar("R")

LINGER_SECONDS = 0.008
# So many share a commit before a record no longer waits for others: four take a third of the CPU for each that one
# alone takes, and more of them hardly less.
WORTH_WAITING_FOR = 4
MAX_TOGETHER = 64


class WritingState(NamedTuple):
    """How many changes were written and how many were not since the start, and for how many seconds the oldest group
    that is being written has been so."""

    written: int = 0
    failed: int = 0
    seconds: float = 0.0


class ChangeGroups(Generic[A, R]):
    """Collects the changes of one event loop; those of another loop go one by one.

    `apply` writes a group: it returns one result for each argument, or the fault of that one alone, and raises where
    all have failed. At most `most_under_way` groups are written at the same time.
    """

    def __init__(self, apply: Callable[[Sequence[A]], Awaitable[Sequence[R | Exception]]], most_under_way: int) -> None:
        self._apply, self._most = apply, most_under_way
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._under_way: dict[asyncio.Task[None], float] = {}
        self._written = self._failed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wanted, self._until = 1, 0.0

    async def add(self, argument: A, others: int = 0) -> R:
        """Have a change written; returns after its commit. `others` are further messages under way, of which some will
        ask for the same soon."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop and not self._belong_to(loop):
            (outcome,) = await self._apply((argument,))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        future: asyncio.Future[R] = loop.create_future()
        if not self._waiting:
            self._until = loop.time() + LINGER_SECONDS
        self._waiting.append((argument, future))
        self._wanted = min(WORTH_WAITING_FOR, 1 + others // 2)
        self._start_or_wait(loop)
        return await future

    @property
    def state(self) -> WritingState:
        """How writing goes."""
        oldest = min(self._under_way.values(), default=None)
        seconds = self._loop.time() - oldest if self._loop and oldest is not None else 0.0
        return WritingState(self._written, self._failed, seconds)

    async def finish(self) -> None:
        """Wait until everything that was asked for is written."""
        self._wanted = 1
        while self._loop is asyncio.get_running_loop() and (self._waiting or self._under_way):
            self._start_or_wait(self._loop)
            await asyncio.wait(set(self._under_way))

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the changes of this loop can be collected: one that has ended leaves its place."""
        if self._loop is not None and not self._loop.is_closed():
            return False
        self._loop, self._timer = loop, None
        self._waiting.clear()
        self._under_way.clear()
        return True

    def _start_or_wait(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and len(self._under_way) < self._most:
            if len(self._waiting) < self._wanted and loop.time() < self._until:
                if self._timer is None:
                    self._timer = loop.call_at(self._until, self._end_wait)
                return
            if self._timer:
                self._timer.cancel()
                self._timer = None
            group, self._waiting = self._waiting[:MAX_TOGETHER], self._waiting[MAX_TOGETHER:]
            task = loop.create_task(self._write(group))
            self._under_way[task] = loop.time()
            task.add_done_callback(self._end_group)

    def _end_wait(self) -> None:
        self._timer, self._until = None, 0.0
        if self._loop:
            self._start_or_wait(self._loop)

    def _end_group(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if self._loop:
            self._start_or_wait(self._loop)

    async def _write(self, group: Sequence[tuple[A, asyncio.Future[R]]]) -> None:
        outcomes: Sequence[R | BaseException]
        try:
            outcomes = await self._apply([argument for argument, _ in group])
        except BaseException as fault:  # noqa: BLE001  whatever it is, those who wait are told
            outcomes = [fault] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            is_fault = isinstance(outcome, BaseException)
            self._failed += is_fault
            self._written += not is_fault
            if future.done():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
