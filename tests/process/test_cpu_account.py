"""One account of CPU: what is spent is refused, what runs is interrupted, and what is found before is kept."""

import os
import re
import signal
import traceback
from collections.abc import Callable, Iterator

import pytest

from gatepost.process import cpu_account
from gatepost.process.cpu_account import ALL, FILES, READING, SPENT, CpuAccount, CpuSpentError, start_timer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(cpu_account, "time", type("Clock", (), {"process_time": staticmethod(lambda: now[0])}))
    monkeypatch.setattr(cpu_account, "count_cpu_seconds", lambda: 0.0)
    return now


def test_each_step_leaves_something_to_those_after_it(clock: list[float]) -> None:
    account = CpuAccount(10.0)
    account.resume()
    assert (account.left(READING), account.left(FILES), account.left()) == (6.0, 8.5, 10.0)
    clock[0] += 7.0
    with pytest.raises(CpuSpentError, match=SPENT):
        account.run(READING, list)
    assert account.run(FILES, list, "ab") == ["a", "b"]
    clock[0] += 2.0
    assert account.attempt(FILES, "nothing", str) == "nothing"
    assert account.missed
    assert account.run(ALL, list, "ab") == ["a", "b"]


def test_the_time_of_others_does_not_count(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    account = CpuAccount(1.0)
    account.resume()
    clock[0] += 0.25
    account.pause()
    clock[0] += 50.0
    account.resume()
    assert account.left() == 0.75
    monkeypatch.setattr(cpu_account, "count_cpu_seconds", lambda: 0.5)
    assert account.left() == 0.25, "that of its children does"


def look() -> None:
    """What the timer does."""
    cpu_account._look(signal.SIGPROF, None)


def test_only_work_within_run_is_interrupted(clock: list[float]) -> None:
    account = CpuAccount(1.0)
    account.resume()

    def inner() -> str:
        look()
        clock[0] += 0.7
        with pytest.raises(CpuSpentError):
            account.run(READING, str)
        look()  # the share of the inner one is not that of the outer one
        clock[0] += 1.0
        with pytest.raises(CpuSpentError, match=SPENT):
            look()
        return "kept"

    assert account.run(ALL, inner) == "kept"
    look()


def endless() -> None:
    while True:
        pass


def swallowing() -> None:
    """Everything is an exception to some library."""
    for _ in range(3):
        try:
            endless()
        except BaseException:  # noqa: BLE001
            pass
    endless()


def endless_generator() -> Iterator[int]:
    yield from iter(int, 1)


@pytest.mark.parametrize(
    "work",
    [
        endless,
        swallowing,
        lambda: [None for _ in endless_generator()],
        lambda: re.search(r"(a*)*b", "a" * 64),
    ],
    ids=["loop", "swallowed", "generator", "expression"],
)
@pytest.mark.process
def test_what_does_not_end_is_interrupted(work: Callable[[], object]) -> None:
    """In a process of its own, since the timer is for good."""
    child = os.fork()
    if child == 0:
        try:
            start_timer()
            account = CpuAccount(0.1)
            account.resume()
            assert account.attempt(ALL, "interrupted", work) == "interrupted"
            account.pause()
            for _ in range(1_000_000):  # several signals come here
                pass
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL
