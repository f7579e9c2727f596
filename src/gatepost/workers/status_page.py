"""The page of memory that a worker shares with guard: which job it executes, in which stage.

A worker that hangs in native code can say nothing on its socket. So before each stage it writes one 64-bit word into
memory that guard maps too. A single aligned word is never seen half written. A count of changes is part of it, so that
guard can tell "still there" from "there again". guard does not believe a worker blindly: whatever number stands there,
`WorkerProcess.state` accepts it only for a job whose turn it is.

Stages are numbered. guard's event loop loads no analysis, so the loader, which has seen no mail, tells it their names.
"""

import fcntl
import mmap
import os
from collections.abc import Callable

import msgspec

SIZE = mmap.PAGESIZE
IDLE = "idle"
RECEIVE = "receive"
LOAD_POLICY = "load policy"
LOAD_LISTS = "load lists"
LOAD_MODELS = "load models"


class StageNames(msgspec.Struct, frozen=True):
    """The stages of an analysis in the order of their numbers, and those that no attempt can do without."""

    names: tuple[str, ...] = ()
    indispensable: frozenset[str] = frozenset()

    def can_skip(self, stage: str) -> bool:
        """Whether a message can be judged without this stage."""
        return stage in self.names and stage not in self.indispensable


NO_STAGES = StageNames()


class WorkerState(msgspec.Struct, frozen=True):
    """The job that a worker executes and its stage; job 0 means that the worker waits."""

    job: int
    stage: str


class StatusPage:
    """One shared page. Only the worker writes. `stages` may be set later, before the first job."""

    def __init__(self, descriptor: int, stages: StageNames = NO_STAGES) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._map).cast("Q")
        self._changes = 0
        self.stages = stages

    @property
    def stages(self) -> StageNames:
        """The stages whose numbers the page holds."""
        return self._stages

    @stages.setter
    def stages(self, stages: StageNames) -> None:
        self._stages = stages
        self._names = (IDLE, RECEIVE, LOAD_POLICY, LOAD_LISTS, LOAD_MODELS, *stages.names)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    @property
    def word(self) -> int:
        """The word as it stands, for comparison with an earlier one."""
        return self._words[0]

    @property
    def state(self) -> WorkerState:
        """The word, decoded; an unknown stage reads as idle."""
        word = self._words[0]
        number = word & 0xFFFF
        return WorkerState(word >> 32, self._names[number] if number < len(self._names) else IDLE)

    @property
    def out_of_memory(self) -> bool:
        """Whether the worker has said that it ends for lack of memory."""
        return self._words[1] != 0

    def enter(self, job: int, stage: str) -> None:
        """Say that `job` now executes `stage`."""
        self._changes = (self._changes + 1) & 0xFFFF
        self._words[0] = job << 32 | self._changes << 16 | self._numbers.get(stage, 0)

    def marker(self, job: int) -> Callable[[str], None]:
        """Return `enter` for the many stages of one job, without a call inside the call."""
        words, numbers, high = self._words, self._numbers, job << 32

        def mark(stage: str) -> None:
            self._changes = changes = (self._changes + 1) & 0xFFFF
            words[0] = high | changes << 16 | numbers.get(stage, 0)

        return mark

    def say_out_of_memory(self) -> None:
        """Say why this worker is about to end; needs no memory itself."""
        self._words[1] = 1

    def close(self) -> None:
        """Unmap the page."""
        self._words.release()
        self._map.close()


def new_status_page() -> int:
    """Return a descriptor of a fresh page whose size is sealed: reading a page that was cut short would kill guard."""
    descriptor = os.memfd_create("gatepost-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
