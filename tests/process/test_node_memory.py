"""Counters over processes: exact while several change them, and given back when one is killed."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from gatepost.process.node_memory import NodeMemory, SharedRecords, SharedTally, Tally


def fork(work: Callable[[], None]) -> int:
    """A process that does this and ends; 1 is its status where it fails."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def succeeds(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_limit_holds_over_processes() -> None:
    memory = NodeMemory(3)
    tally, taken = SharedTally(memory, 64), memory.allocate(1)

    def take_and_give_back(member: int) -> None:
        memory.member = member
        for _ in range(400):
            with tally:
                free = tally.count("slot") < 2
                if free:
                    tally.add("slot")
                assert tally.count("slot") <= 2
                taken[0] += free
            if free:
                tally.remove("slot")

    assert all(map(succeeds, [fork(lambda member=number: take_and_give_back(member)) for number in range(3)]))  # type: ignore[misc]
    assert tally.count("slot") == 0
    assert taken[0] > 400, "no change was lost to another process"


def test_what_a_killed_process_held_is_given_back() -> None:
    memory = NodeMemory(2)
    tally, ready = SharedTally(memory, 64), memory.allocate(1)
    tally.add("mine")

    def hold() -> None:
        memory.member = 1
        for _ in range(3):
            tally.add("theirs")
        tally.add("mine")
        memory.__enter__()  # killed with the lock in its hands
        ready[0] = 1
        time.sleep(60)

    pid = fork(hold)
    while not ready[0]:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with tally:
        assert (tally.count("mine"), tally.count("theirs")) == (2, 3)
        memory.forget(1)
        assert (tally.count("mine"), tally.count("theirs"), tally.names) == (1, 0, 1)


def test_a_full_table_says_so_and_names_without_a_count_make_room() -> None:
    memory = NodeMemory(1)
    tally = SharedTally(memory, 1)
    added = [name for name in map(str, range(2_000)) if tally.add(name)]
    assert 16 <= len(added) < 2_000
    assert tally.find_or_share("one more") == tally.find_or_share("and another")
    for name in added:
        tally.remove(name)
    assert tally.names == 0
    assert tally.add("one more")


def test_both_tallies_count_alike() -> None:
    for tally in (Tally(), SharedTally(NodeMemory(1), 64)):
        assert [tally.add("a"), tally.add("a"), tally.add("ü\udcff")] == [True, True, True]
        tally.remove("a")
        assert (tally.count("a"), tally.count("ü\udcff"), tally.count("b"), tally.names) == (1, 1, 0, 2)
        tally.remove("a")
        assert tally.names == 1


def test_records_are_bounded_and_the_oldest_go_first() -> None:
    records = SharedRecords(NodeMemory(1), 2, 16)
    records.put("first", (1, -5))
    for number in range(500):
        records.put(str(number), (number, number))
        if number % 5 == 0:
            records.put("kept", (number, 7))
    assert records.get("kept") == [495, 7]
    assert records.get("499") == [499, 499]
    assert records.get("first") is None
    assert records.get("unknown") is None


def test_a_bell_wakes_one_member() -> None:
    memory = NodeMemory(2)
    heard: list[int] = []
    memory.listen(lambda: heard.append(memory.member))
    memory.ring(1)
    memory.answer_bell()
    assert heard == [], "it was for another"
    memory.member = 1
    memory.answer_bell()
    memory.answer_bell()
    assert heard == [1]


def test_memory_that_is_too_small_is_refused() -> None:
    with pytest.raises(MemoryError):
        NodeMemory(64).allocate_columns(1 << 25)
