"""Work beside mail runs freely while little mail comes, and has its share of the interpreter while much does."""

import asyncio
import threading
import time

import pytest
from tests.own_names import replace_in

from gatepost.process import background_work
from gatepost.process.background_work import BURST, MAIL_RATE, MAX_REST_SECONDS, PIECE_SECONDS, SHARE, BackgroundWork


class Clock:
    """A clock that only moves when it is told to, and by what is slept."""

    def __init__(self) -> None:
        self.now, self.slept = 1_000.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_here(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    replace_in(monkeypatch, background_work, "time", sleep=made.sleep)
    replace_in(monkeypatch, background_work, "asyncio", sleep=made.sleep_here)
    return made


def compute(seconds: float) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return "done"


def send_mail(work: BackgroundWork, rate: float = 2 * MAIL_RATE) -> BackgroundWork:
    """So many messages come at once: as many as would come in a second."""
    for _ in range(int(rate)):
        work.note_mail()
    return work


def begin_under_load(clock: Clock, rate: float = 1_000) -> BackgroundWork:
    """Work that has spent its burst while much mail comes."""
    work = send_mail(BackgroundWork(clock), rate)
    work.use(BURST)
    return work


def test_nothing_rests_while_little_mail_comes(clock: Clock) -> None:
    work = begin_under_load(clock, MAIL_RATE)
    assert [work.run(compute, 0.002) for _ in range(5)] == ["done"] * 5
    assert (clock.slept, work.rests) == ([], 0)


def test_a_burst_is_free_and_then_each_piece_is_paid_for(clock: Clock) -> None:
    """A result is never kept back: the rest stands before the next piece, whoever asks for it."""
    work = send_mail(BackgroundWork(clock), 1_000)
    assert work.run(compute, 0.01) == "done"
    assert clock.slept == []
    work.use(BURST)
    for _ in range(5):
        work.run(compute, 0.01)
    assert work.rests == 5
    assert sum(clock.slept) >= 0.05 / SHARE
    assert all(rest <= MAX_REST_SECONDS for rest in clock.slept)


def test_a_piece_that_fails_counts_as_well(clock: Clock) -> None:
    work = begin_under_load(clock, 2 * MAIL_RATE)
    with pytest.raises(ZeroDivisionError):
        work.run(lambda: compute(0.005) and 1 / 0)
    work.run(compute, 0.0)
    assert clock.slept[-1] >= 0.005 / SHARE


def test_pieces_take_turns_while_mail_comes(clock: Clock) -> None:
    work = send_mail(BackgroundWork(clock))
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


def test_what_was_used_is_forgiven_after_a_while(clock: Clock) -> None:
    work = begin_under_load(clock, 2 * MAIL_RATE)
    work.use(100.0)
    clock.now += MAX_REST_SECONDS + BURST / SHARE
    send_mail(work)
    work.run(compute, 0.001)
    assert clock.slept == [], "who comes later waits no longer for it"


def test_calls_pay_for_the_cpu_of_their_steps(clock: Clock) -> None:
    async def run() -> list[str]:
        async def call() -> str:
            for _ in range(4):
                compute(0.005)
                await asyncio.sleep(0)
            return "answered"

        return [await work.call(call()) for _ in range(4)]

    work = begin_under_load(clock)
    assert asyncio.run(run()) == ["answered"] * 4
    rests = [seconds for seconds in clock.slept if seconds]
    assert len(rests) >= 3
    assert all(seconds >= 0.02 / SHARE * 0.9 for seconds in rests[1:])


def test_of_calls_that_come_at_once_not_all_begin_at_once(clock: Clock) -> None:
    began: list[float] = []

    async def call() -> None:
        began.append(clock.now)

    async def run() -> None:
        await asyncio.gather(*(work.call(call()) for _ in range(5)))

    work = begin_under_load(clock)
    asyncio.run(run())
    assert len(set(began)) >= 4


def test_a_cancelled_call_ends_where_it_waits(clock: Clock) -> None:
    seen: list[str] = []

    async def call() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def run() -> None:
        task = asyncio.ensure_future(work.call(call()))
        for _ in range(3):
            await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    work = send_mail(BackgroundWork(clock), 1_000)
    asyncio.run(run())
    assert seen == ["cancelled"]


def test_it_ends_when_mail_does(clock: Clock) -> None:
    work = begin_under_load(clock, 2 * MAIL_RATE)
    clock.now += 3.0
    work.run(compute, 0.001)
    work.run(compute, 0.001)
    assert clock.slept == []


def test_a_piece_counts_as_running_for_a_moment(clock: Clock) -> None:
    work, seen = BackgroundWork(clock), list[bool]()

    def piece() -> None:
        seen.append(work.is_running)
        clock.now += 2 * PIECE_SECONDS
        seen.append(work.is_running)

    work.measure(piece)
    assert [*seen, work.is_running] == [True, False, False]


def test_a_long_piece_rests_between_its_steps(clock: Clock) -> None:
    """A search that unpacks hundreds of records is one piece: it rests in the middle, for what its steps have used."""
    work = begin_under_load(clock)

    def search() -> str:
        for _ in range(3):
            compute(0.02)
            work.rest_between_steps()
        return "done"

    assert work.run(search) == "done"
    assert len(clock.slept) == 3
    assert all(rest >= 0.02 / SHARE - 0.001 for rest in clock.slept[1:])
    # Nothing is paid for twice: what comes next waits for what came after the last rest, and that was nothing.
    assert work.run(compute, 0.0) == "done"
    assert sum(clock.slept[3:]) < 0.1


def test_a_piece_that_began_before_the_mail_rests_once_it_comes(clock: Clock) -> None:
    work = BackgroundWork(clock)
    work.use(BURST)

    def search() -> None:
        compute(0.02)
        work.rest_between_steps()
        assert clock.slept == []
        send_mail(work, 1_000)
        work.rest_between_steps()
        assert len(clock.slept) == 1

    work.run(search)


def test_nothing_rests_outside_of_a_piece(clock: Clock) -> None:
    work = begin_under_load(clock)
    compute(0.02)
    work.rest_between_steps()
    assert clock.slept == []
