"""Periodic work: what a process does by itself every so many seconds, for as long as it serves.

A run that fails never ends the work. Storage that does not answer is ordinary: the log says in one line what cannot be
done, and in another that it is done again. Anything else is a fault of the program: the log has its traceback under a
reference. The next run comes as usual in both cases.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from gatepost.ids import new_id
from gatepost.process.logs import ExpectedError, Logger

T = TypeVar("T")


async def complete(work: Coroutine[Any, Any, T]) -> T:
    """Do a piece of work to its end, also where whoever waits for it is cancelled; the cancellation comes after it."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class Outage:
    """A context for something that is done again and again: an ordinary failure in it goes no further, and is logged
    once until it works again. Nothing is logged of what fails because of a fault that has a line of its own: `explains`
    says so, and a process that serves sets it."""

    explains: Callable[[ExpectedError], Awaitable[bool]] | None = None

    def __init__(self, failed: str, log: Logger) -> None:
        self._failed, self._log, self._is_told = failed, log, False

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, fault: BaseException | None, _trace: object) -> bool:
        if fault is None and self._is_told:
            self._is_told = False
            self._log.info("it works again", before=self._failed)
        if not isinstance(fault, ExpectedError):
            return False
        if not self._is_told and not (Outage.explains and await Outage.explains(fault)):
            self._is_told = True
            self._log.warning(self._failed, reason=str(fault))
        return True


class PeriodicWork:
    """Calls `work` now and every `seconds` after a run has ended, from `start` until `stop`, `finish` or `cancel`; with
    `waits_first` the first call comes after the first period. `seconds` may be a function that is asked after each run.
    `failed` is what `log` says of a run that failed."""

    def __init__(
        self,
        work: Callable[[], Awaitable[object]],
        seconds: float | Callable[[], float],
        failed: str,
        log: Logger,
        *,
        waits_first: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._work, self._seconds, self._failed, self._log = work, seconds, failed, log
        self._outage = Outage(failed, log)
        self._waits_first, self._sleep = waits_first, sleep
        self._task: asyncio.Task[None] | None = None
        self._is_working = self._is_finishing = False

    def start(self) -> None:
        """Begin, on the event loop that runs."""
        self._is_finishing = False
        self._task = asyncio.create_task(self._repeat())

    def cancel(self) -> None:
        """End without waiting for that; a run that is under way is cancelled."""
        if self._task:
            self._task.cancel()

    async def stop(self) -> None:
        """End, and wait for it; a run that is under way is cancelled."""
        self.cancel()
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    async def finish(self) -> None:
        """End after the run that is under way, if there is one."""
        self._is_finishing = True
        if self._task and not self._is_working:
            self._task.cancel()
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _repeat(self) -> None:
        if self._waits_first:
            await self._pause()
        while not self._is_finishing:
            await self._run()
            if not self._is_finishing:
                await self._pause()

    async def _pause(self) -> None:
        await self._sleep(self._seconds() if callable(self._seconds) else self._seconds)

    async def _run(self) -> None:
        self._is_working = True
        try:
            async with self._outage:
                await self._work()
        except Exception as fault:  # noqa: BLE001  it would end the work for good, and nobody would know
            self._log.error(self._failed, reference=new_id(), exc_info=fault)
        finally:
            self._is_working = False
