"""Slots of a core that runs as several processes: the same as those of one, whoever takes and gives back."""

import asyncio
import os
import signal
import time

from hypothesis import given
from hypothesis import strategies as st

from gatepost.guard.admission import Admission, AdmissionCells, SharedAdmission, Slot
from gatepost.node_memory import NodeMemory

MEMBERS = 3


def share(maximum: int, threshold: int, max_delay: float) -> tuple[NodeMemory, list[SharedAdmission]]:
    """The admissions of three processes, all of them in this one."""
    memory = NodeMemory(MEMBERS)
    cells = AdmissionCells(memory)
    several = []
    for number in range(MEMBERS):
        memory.member = number
        several.append(SharedAdmission(maximum, threshold, max_delay, cells))
    return memory, several


@given(st.integers(1, 6), st.integers(1, 6), st.lists(st.integers(-1, MEMBERS - 1), max_size=40))
def test_several_processes_are_as_one(maximum: int, threshold: int, events: list[int]) -> None:
    one, (_, several) = Admission(maximum, threshold, 5.0), share(maximum, threshold, 5.0)
    inside: list[tuple[Slot, Slot]] = []
    for event in events:
        if event < 0 and inside:
            for slot in inside.pop(0):
                slot.leave()
        elif event >= 0:
            expected, got = one.enter(), several[event].enter()
            assert (expected and expected.delay) == (got and got.delay)
            if expected and got:
                inside.append((expected, got))
        assert {each.load() for each in several} == {one.load()}
    admitted = sum(each.counters().admitted for each in several)
    assert admitted == one.counters().admitted


def test_the_maximum_holds_under_load_and_a_kill_gives_slots_back() -> None:
    maximum = 4
    memory = NodeMemory(MEMBERS)
    cells = AdmissionCells(memory)
    full, done = memory.allocate(1), memory.allocate(MEMBERS)

    def work(number: int) -> None:
        memory.member = number
        admission = SharedAdmission(maximum, maximum, 0.0, cells)
        slots: list[Slot] = []
        for turn in range(300):
            slot = admission.enter()
            assert admission.load().in_processing <= maximum
            full[0] = max(full[0], admission.load().in_processing)
            if slot:
                slots.append(slot)
            if slots and (turn % 3 or slot is None):
                slots.pop().leave()
        done[number] = 1
        if number == 0:
            while not admission.enter() and not slots:
                time.sleep(0.001)
            time.sleep(60)
        for slot in slots:
            slot.leave()

    pids = []
    for number in range(MEMBERS):
        if not (pid := os.fork()):
            try:
                work(number)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    while not done[0]:
        time.sleep(0.01)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids[1:]] == [0, 0]
    time.sleep(0.05)
    os.kill(pids[0], signal.SIGKILL)
    os.waitpid(pids[0], 0)
    watching = SharedAdmission(maximum, maximum, 0.0, cells)
    assert full[0] == maximum
    assert watching.load().in_processing >= 1, "what the killed process held"
    memory.forget(0)
    assert watching.load().in_processing == 0


def test_a_slot_that_another_process_frees_wakes_who_waits() -> None:
    async def run() -> None:
        memory, (first, second, _) = share(1, 1, 0.0)
        loop = asyncio.get_running_loop()
        memory.member = 1
        loop.add_reader(memory.bells[1], memory.answer_bell)
        slot = first.enter()
        assert slot
        waiting = asyncio.ensure_future(second.wait_for_slot())
        await asyncio.sleep(0)
        assert not waiting.done()
        memory.member = 0
        slot.leave()
        memory.member = 1
        await asyncio.wait_for(waiting, 60)
        assert second.enter()
        loop.remove_reader(memory.bells[1])

    asyncio.run(run())
