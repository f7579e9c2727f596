"""Work beside mail runs freely while the event loop is on time, and takes turns with rests while it is late."""

import asyncio
import threading
import time

import pytest
from tests.own_names import replace_in

from gatepost import background_work
from gatepost.background_work import LATE_SECONDS, MAX_REST_SECONDS, REST, BackgroundWork


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was rested; nobody waits for it."""
    found: list[float] = []
    replace_in(monkeypatch, background_work, "time", sleep=found.append)
    return found


def compute(seconds: float) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return "done"


def make_late(work: BackgroundWork) -> None:
    for _ in range(20):
        work.note_lateness(LATE_SECONDS * 2)


def test_nothing_rests_while_the_loop_is_on_time(slept: list[float]) -> None:
    work = BackgroundWork()
    work.note_lateness(LATE_SECONDS)
    assert [work.run(compute, 0.002) for _ in range(5)] == ["done"] * 5
    assert (slept, work.rests) == ([], 0)


def test_the_next_piece_waits_for_the_one_before(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is never kept back: the rest stands before the next piece, whoever asks for it."""
    work = BackgroundWork()
    make_late(work)
    replace_in(monkeypatch, background_work, "time", monotonic=lambda: 100.0)
    assert work.run(compute, 0.01) == "done"
    assert slept == []
    assert work.run(compute, 0.0) == "done"
    (rest,) = slept
    assert rest >= 0.01 * REST
    assert work.rests == 1


def test_a_piece_that_fails_counts_as_well(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    work = BackgroundWork()
    make_late(work)
    replace_in(monkeypatch, background_work, "time", monotonic=lambda: 100.0)
    with pytest.raises(ZeroDivisionError):
        work.run(lambda: compute(0.005) and 1 / 0)
    work.run(compute, 0.0)
    assert slept[0] >= 0.005 * REST


def test_pieces_take_turns_while_the_loop_is_late(slept: list[float]) -> None:
    work = BackgroundWork()
    make_late(work)
    at_once, most, lock = 0, 0, threading.Lock()

    def piece() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        compute(0.003)
        with lock:
            at_once -= 1

    threads = [threading.Thread(target=work.run, args=(piece,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert all(rest <= MAX_REST_SECONDS for rest in slept)


def test_calls_wait_the_longer_the_later_the_loop_is(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    replace_in(monkeypatch, background_work, "asyncio", sleep=sleep)
    work = BackgroundWork()
    asyncio.run(work.wait_for_mail())
    assert waited == []
    for lateness in (LATE_SECONDS * 2, LATE_SECONDS * 4, 10.0):
        for _ in range(30):
            work.note_lateness(lateness)
        asyncio.run(work.wait_for_mail())
    assert 0 < waited[0] < waited[1] < waited[2] == MAX_REST_SECONDS
    assert work.rests == 3


def test_it_ends_when_the_loop_is_on_time_again(slept: list[float]) -> None:
    work = BackgroundWork()
    make_late(work)
    for _ in range(20):
        work.note_lateness(0.0)
    work.run(compute, 0.001)
    work.run(compute, 0.001)
    assert slept == []
