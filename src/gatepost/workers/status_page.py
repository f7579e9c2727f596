"""The page that a worker shares with guard: which job it executes, in which stage.

A worker that hangs in native code can say nothing on its socket. So before each stage it writes one 64-bit word into
memory that guard maps too. A single aligned word is never seen half written. A count of changes is part of it, so that
guard can tell "still there" from "there again". The worker is not believed blindly: job and stage are checked by
whoever reads.
"""

import fcntl
import mmap
import os
from collections.abc import Callable

import msgspec

from gatepost.stages import INDISPENSABLE, STAGES

SIZE = mmap.PAGESIZE
IDLE = "idle"
RECEIVE = "receive"
PARSE = "parse"
TRIAL = "check:trial"
NAMES: tuple[str, ...] = (IDLE, RECEIVE, *STAGES, TRIAL)
UNSKIPPABLE = INDISPENSABLE | {IDLE, RECEIVE}

_INDEX = {name: index for index, name in enumerate(NAMES)}


class WorkerState(msgspec.Struct, frozen=True):
    """Where a worker is: job 0 means that it waits."""

    job: int
    stage: str


class StatusPage:
    """One shared page. Only the worker writes."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._map).cast("Q")
        self._changes = 0

    @property
    def word(self) -> int:
        """The word as it stands, for comparison with an earlier one."""
        return self._words[0]

    @property
    def place(self) -> WorkerState:
        """The word in words; an unknown stage reads as idle."""
        word = self._words[0]
        stage = word & 0xFFFF
        return WorkerState(word >> 32, NAMES[stage] if stage < len(NAMES) else IDLE)

    @property
    def out_of_memory(self) -> bool:
        """Did the worker say that it ended for lack of memory?"""
        return self._words[1] != 0

    def enter(self, job: int, stage: str) -> None:
        """Say that `job` now executes `stage`."""
        self._changes = (self._changes + 1) & 0xFFFF
        self._words[0] = job << 32 | self._changes << 16 | _INDEX.get(stage, 0)

    def marker(self, job: int) -> Callable[[str], None]:
        """`enter` for the many stages of one job, without a call inside the call."""
        words, index, high = self._words, _INDEX, job << 32

        def mark(stage: str) -> None:
            self._changes = changes = (self._changes + 1) & 0xFFFF
            words[0] = high | changes << 16 | index.get(stage, 0)

        return mark

    def say_out_of_memory(self) -> None:
        """Say why this worker is about to end; needs no memory itself."""
        self._words[1] = 1

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._map.close()


def new_status_page() -> int:
    """A descriptor of a fresh page whose size nobody can change: a shorter one would be a trap for whoever reads."""
    descriptor = os.memfd_create("gatepost-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
