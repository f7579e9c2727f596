"""One message at several cores: where the core that has it falls silent, another may get it as well.

Trying twice is harmless. Both analyses have the same ggrid, the first record of a ggrid is the one that stays, and
whichever core answers first answers with that record. So nobody has to decide whether a silent core is dead or slow.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gatepost.abby.place import Down, Place
from gatepost.guard.scan import Full, ScanResult


class Attempts:
    """Every attempt at one message. `ended` is called when one is over and its slot is free again."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._running: dict[asyncio.Task[ScanResult | Full | Down], Place] = {}
        self._news = asyncio.Event()
        self._result: ScanResult | None = None
        self._fault: BaseException | None = None
        self.begun = self.deaths = self.refusals = 0

    @property
    def places(self) -> frozenset[Place]:
        """Who is at it."""
        return frozenset(self._running.values())

    @property
    def hopeful(self) -> bool:
        """Is one of them a core that answers as it should?"""
        return any(not place.doubtful for place in self._running.values())

    @property
    def result(self) -> ScanResult | None:
        """What the first that succeeded said; raises what went wrong on our side."""
        if self._fault:
            raise self._fault
        return self._result

    def begin(self, place: Place, work: Coroutine[Any, Any, ScanResult | Full | Down]) -> None:
        """Have a core try, in a slot that was reserved."""
        task = asyncio.create_task(work)
        self._running[task] = place
        self.begun += 1
        place.followers.add(self._news)
        task.add_done_callback(self._over)

    async def news(self) -> None:
        """Return when an attempt is over, when its core falls silent, or when `wake` was called."""
        await self._news.wait()
        self._news.clear()

    def wake(self, _future: object = None) -> None:
        """Something has happened."""
        self._news.set()

    def give_up(self) -> None:
        """Nobody needs the attempts that still run."""
        for task in self._running:
            task.cancel()

    def _over(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        place = self._running.pop(task)
        if place not in self._running.values():
            place.followers.discard(self._news)
        place.release()
        if not task.cancelled():
            self._note(task)
        self._news.set()
        self._ended()

    def _note(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        if fault := task.exception():
            self._fault = self._fault or fault
            return
        outcome = task.result()
        if isinstance(outcome, ScanResult):
            self._result = self._result or outcome
        self.deaths += isinstance(outcome, Down) and outcome.begun
        self.refusals += isinstance(outcome, Down) and not outcome.begun
