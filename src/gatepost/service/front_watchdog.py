"""Fronts that hang: the parent of a node looks at each of them once a second and kills one that stands still.

A front that ends gives back all that it held (`node_memory`). One that hangs does not: it is stopped by a signal, or
stuck in native code or in a system call. If it has the lock of the shared memory, every other front waits for it, and
the whole node stands still; then a few seconds are enough. Without the lock only its own connections wait, and it gets
a minute, which no sound event loop needs.

Each front counts in a cell of its own for as long as its event loop runs. The parent compares counts and reads no
clock: after a pause of the whole machine nobody is late.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from gatepost.node_memory import NodeMemory

BEAT_SECONDS = 0.5
LOOK_SECONDS = 1.0
# How often in a row a front must be seen with the same count: while it has the lock, and in any case.
LOOKS_WITH_LOCK = 5
LOOKS_IN_ALL = 60
# The count of a front that is about to end: it finishes its requests and counts no longer.
ENDING = -1


class Heartbeats:
    """Where the fronts of a node count; 0 is the count of one that does not serve yet."""

    def __init__(self, memory: NodeMemory) -> None:
        self.memory = memory
        self.columns = memory.allocate_columns(1)

    async def beat_forever(self) -> None:
        """Count for as long as the event loop of this process runs and this task is not cancelled."""
        own = self.columns[self.memory.member]
        try:
            while True:
                own[0] += 1
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            own[0] = ENDING


class _Look(msgspec.Struct):
    pid: int
    count: int
    still: int = 0
    with_lock: int = 0


class FrontWatchdog:
    """What the parent has seen of its fronts."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats
        self._looks: dict[int, _Look] = {}

    def find_hung(self, fronts: Mapping[int, int]) -> dict[int, str]:
        """Look at fronts that serve, by number and process id; return those that hang, each with what was seen."""
        holder = self._heartbeats.memory.lock_holder()
        hung = {}
        for number, pid in fronts.items():
            count, look = int(self._heartbeats.columns[number][0]), self._looks.get(number)
            if look is None or (look.pid, look.count) != (pid, count):
                self._looks[number] = _Look(pid, count)
                continue
            look.still += count > 0
            look.with_lock = look.with_lock + 1 if holder == pid else 0
            if look.with_lock >= LOOKS_WITH_LOCK:
                hung[number] = "it stands still with the lock of the shared memory"
            elif look.still >= LOOKS_IN_ALL:
                hung[number] = "its event loop stands still"
        return hung
