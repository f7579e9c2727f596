"""Periodic work: when it runs, what it survives, and how it ends. A pause ends when the test says so."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gatepost.process import logs
from gatepost.process.logs import ExpectedError
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.store.errors import StorageError

log = logs.Logger("gatepost")


class Time:
    """Pauses that were asked for. The work goes on when `pass_on` is called."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._over.clear()
        await self._over.wait()

    async def pass_on(self) -> None:
        """End the pause, and let what it held up run as far as it gets."""
        self._over.set()
        await let_run()


async def let_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Work:
    """Counts its runs. A run raises the next of `faults`, and waits for `gate` where that is closed."""

    def __init__(self, *faults: Exception | None) -> None:
        self.begun = self.ended = 0
        self._faults = list(faults)
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> None:
        self.begun += 1
        await self.gate.wait()
        if self._faults and (fault := self._faults.pop(0)):
            raise fault
        self.ended += 1


async def begin(
    work: Work, time: Time, seconds: float | Callable[[], float] = 1.0, *, waits_first: bool = False
) -> PeriodicWork:
    """Start work, and let it run as far as it gets."""
    failed = "the pantry could not be tidied"
    periodic = PeriodicWork(work, seconds, failed, log, waits_first=waits_first, sleep=time.sleep)
    periodic.start()
    await let_run()
    return periodic


@pytest.mark.parametrize(("waits_first", "at_once"), [(False, 1), (True, 0)])
def test_the_first_run_comes_at_once_or_after_a_period(*, waits_first: bool, at_once: int) -> None:
    async def test() -> None:
        work, time = Work(), Time()
        periodic = await begin(work, time, 30.0, waits_first=waits_first)
        assert (work.ended, time.pauses) == (at_once, [30.0])
        await time.pass_on()
        await time.pass_on()
        assert (work.ended, time.pauses) == (at_once + 2, [30.0] * 3)
        await periodic.stop()

    asyncio.run(test())


def test_the_period_may_be_another_after_each_run() -> None:
    async def test() -> None:
        work, time = Work(), Time()
        periodic = await begin(work, time, lambda: 10.0 * work.ended)
        await time.pass_on()
        assert time.pauses == [10.0, 20.0]
        await periodic.stop()

    asyncio.run(test())


def test_no_fault_ends_the_work() -> None:
    async def test() -> None:
        work, time = Work(StorageError("locked"), ZeroDivisionError("by nothing")), Time()
        with logs.capture() as lines:
            periodic = await begin(work, time)
            await time.pass_on()
            await time.pass_on()
        assert (work.begun, work.ended) == (3, 1)
        storage, unexpected, again = lines
        del storage["time"], storage["logger"]
        assert storage == {"event": "the pantry could not be tidied", "level": "warning", "reason": "locked"}
        assert (unexpected["event"], unexpected["level"]) == ("the pantry could not be tidied", "error")
        assert "ZeroDivisionError: by nothing" in unexpected["exception"]
        assert unexpected["reference"]
        assert (again["event"], again["before"]) == ("it works again", "the pantry could not be tidied")
        await periodic.stop()

    asyncio.run(test())


def test_one_outage_is_one_line_and_its_end_another(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def explains(fault: ExpectedError) -> bool:
        told.append(str(fault))
        return str(fault) == "all is away"

    async def test() -> None:
        work = Work(*map(StorageError, ("locked", "locked", "gone")), None, *[StorageError("all is away")] * 3, None)
        time = Time()
        with logs.capture() as lines:
            periodic = await begin(work, time)
            for _ in range(8):
                await time.pass_on()
        assert [line["event"] for line in lines] == ["the pantry could not be tidied", "it works again"]
        assert told == ["locked", *["all is away"] * 3], "what has a line of its own is asked about each time"
        await periodic.stop()

    monkeypatch.setattr(Outage, "explains", staticmethod(explains))
    asyncio.run(test())


@pytest.mark.parametrize("end", [PeriodicWork.stop, PeriodicWork.finish])
def test_it_ends_in_a_pause(end: Callable[[PeriodicWork], Awaitable[None]]) -> None:
    async def test() -> None:
        work, time = Work(), Time()
        await end(await begin(work, time))
        await time.pass_on()
        assert work.begun == 1

    asyncio.run(test())


def test_stopping_cancels_a_run() -> None:
    async def test() -> None:
        work, time = Work(), Time()
        work.gate.clear()
        await (await begin(work, time)).stop()
        work.gate.set()
        await let_run()
        assert (work.begun, work.ended) == (1, 0)

    asyncio.run(test())


def test_finishing_waits_for_a_run() -> None:
    async def test() -> None:
        work, time = Work(), Time()
        work.gate.clear()
        periodic = await begin(work, time)
        finishing = asyncio.create_task(periodic.finish())
        await let_run()
        assert not finishing.done()
        work.gate.set()
        await finishing
        assert (work.begun, work.ended, time.pauses) == (1, 1, [])

    asyncio.run(test())


def test_what_has_not_begun_ends_and_what_has_ended_begins_again() -> None:
    async def test() -> None:
        work = Work()
        periodic = PeriodicWork(work, 1.0, "it failed", log, sleep=Time().sleep)
        periodic.cancel()
        await periodic.stop()
        await periodic.finish()
        periodic.start()
        await let_run()
        await periodic.finish()
        periodic.start()
        await let_run()
        assert work.ended == 2
        await periodic.stop()

    asyncio.run(test())
