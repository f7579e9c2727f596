"""The watchdog tells a callback that holds the loop from many that do not."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from bench import loop_watchdog
from bench.loop_watchdog import LoopWatchdog
from prometheus_client import CollectorRegistry
from tests.stolen_time import StolenTime

from gatepost.process.metrics import exposition

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def compute_until_seen(watchdog: LoopWatchdog, seconds: float = loop_watchdog.LIMIT_SECONDS) -> None:
    """Compute until the watchdog has counted so much of this callback. The kernel looks at CPU timers at ticks only,
    and while others want the processor, few of them come while this thread has it."""
    until = time.thread_time() + 20
    while watchdog._used < seconds:
        assert time.thread_time() < until, "it was never counted"


def watched(run: Run, work: Callable[[LoopWatchdog], Coroutine[Any, Any, None]]) -> LoopWatchdog:
    async def main() -> LoopWatchdog:
        watchdog = LoopWatchdog()
        assert watchdog.start()
        try:
            await asyncio.sleep(0)
            await asyncio.create_task(work(watchdog))
            await asyncio.sleep(0.01)
        finally:
            watchdog.stop()
        return watchdog

    watchdog: LoopWatchdog = run(main())
    return watchdog


@LOOPS
def test_a_callback_that_computes_is_named(run: Run) -> None:
    used: list[float] = []

    def callback(watchdog: LoopWatchdog) -> None:
        before = time.thread_time()
        compute_until_seen(watchdog, 0.03)
        used.append(time.thread_time() - before)

    async def work(watchdog: LoopWatchdog) -> None:
        asyncio.get_running_loop().call_soon(callback, watchdog)
        await asyncio.sleep(0)

    watchdog = watched(run, work)
    assert watchdog.blocked == 1
    assert 0.03 <= watchdog.worst <= used[0], "a lower bound"
    assert watchdog.worst_name.partition(", ")[0].endswith("callback")


@LOOPS
def test_a_step_of_a_coroutine_is_named_with_its_place(run: Run) -> None:
    async def work(watchdog: LoopWatchdog) -> None:
        await asyncio.sleep(0)
        compute_until_seen(watchdog)
        await asyncio.sleep(0)

    watchdog = watched(run, work)
    assert watchdog.blocked == 1
    assert "work, " in watchdog.worst_name
    assert "compute_until_seen" in watchdog.worst_name


@LOOPS
def test_native_code_is_counted_with_its_callback(run: Run) -> None:
    numbers, native = [-(number * 7919 % 1_000_003) for number in range(300_000)], 0.0

    async def work(watchdog: LoopWatchdog) -> None:
        nonlocal native
        await asyncio.sleep(0)
        compute_until_seen(watchdog)
        before, seen = time.thread_time(), watchdog._used
        for _ in range(3):
            numbers.reverse()
            numbers.sort()
        native = time.thread_time() - before
        compute_until_seen(watchdog, seen + native)
        await asyncio.sleep(0)

    watchdog = watched(run, work)
    assert watchdog.blocked == 1
    assert watchdog.worst > native > 0


@pytest.mark.variant
@LOOPS
def test_many_short_callbacks_are_not_one_long_one(run: Run) -> None:
    async def work() -> None:
        for _ in range(500):
            compute(0.0005)
            await asyncio.sleep(0)

    async def many(_watchdog: LoopWatchdog) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(500):
            loop.call_soon(compute, 0.0005)
        await asyncio.gather(*(work() for _ in range(3)))

    stolen = StolenTime()
    watchdog = watched(run, many)
    stolen.expect(
        watchdog.blocked == 0, f"callbacks of 0.5 ms took {watchdog.worst * 1000:.0f} ms", watchdog.worst_name
    )
    assert watchdog.worst_name == ""


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []

    class Log:
        def warning(self, event: str, **fields: Any) -> None:
            lines.append({"event": event, **fields})

    monkeypatch.setattr(loop_watchdog, "log", Log())
    return iter([lines])


def test_each_place_is_logged_once_a_minute_and_counted(logged: Iterator[list[dict[str, Any]]]) -> None:
    async def work(watchdog: LoopWatchdog) -> None:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(compute_until_seen, watchdog)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    watchdog = watched(asyncio.run, work)
    lines = next(logged)
    assert watchdog.blocked == 3
    assert 1 <= len(lines) <= 3
    assert len({line["callback"] for line in lines}) == len(lines)
    registry = CollectorRegistry()
    registry.register(watchdog)
    text = exposition(registry).decode()
    assert "gatepost_loop_blocked_total 3.0" in text
    assert f"gatepost_loop_blocked_worst_seconds {watchdog.worst}" in text


def test_a_system_without_such_timers_is_said(
    monkeypatch: pytest.MonkeyPatch, logged: Iterator[list[dict[str, Any]]]
) -> None:
    monkeypatch.setattr(loop_watchdog, "_CALLS", {})

    async def main() -> bool:
        return LoopWatchdog().start()

    assert not asyncio.run(main())
    assert [line["event"] for line in next(logged)] == ["the event loop is not watched"]
