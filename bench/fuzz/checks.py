"""What every execution of a target is held to: no exception, the same result again, time and memory within bounds.

Time is CPU time of the thread, so that a busy machine does not decide; an execution that seems too slow is tried again,
and the fastest counts. Memory is the growth of the process's peak by one execution, and of its size over the run.
"""

import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import psutil

Run = Callable[[bytes], object]

BASE_SECONDS = 1.0
SECONDS_A_KILOBYTE = 0.02
MAX_PEAK = 192 << 20  # of one execution; archives of a few kilobytes may unpack to four megabytes each
MAX_GROWTH = 64 << 20  # of the whole run, after its first fifth
REPEATED = 8  # every so many executions one is done twice
TRIES = 3
GROWN, TOO_MUCH = 4, 2.5
WORTH_LOOKING = 0.02


@dataclass
class Failure:
    """An input that broke a rule: which one, where, and the bytes."""

    reason: str
    detail: str
    data: bytes


@dataclass
class Tally:
    """What a run has seen so far."""

    runs: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)
    slowest: float = 0.0
    slow: list[tuple[float, bytes]] = field(default_factory=list)
    settled: int = 0
    grown: int = 0
    cpu: float = 0.0


class Checker:
    """Runs one target on one input after the other, and keeps what broke a rule, each place once."""

    def __init__(self, run: Run) -> None:
        self.tally = Tally()
        self._run = run
        self._peak = _peak()
        self._process = psutil.Process()

    def execute(self, data: bytes) -> None:
        """Run the target once."""
        tally = self.tally
        tally.runs += 1
        begin = time.thread_time()
        failure = find_failure(self._run, data, twice=tally.runs % REPEATED == 0)
        spent = time.thread_time() - begin
        tally.cpu += spent
        if not failure and spent > allowed_seconds(data):
            spent = min(spent, *(measure(self._run, data) for _ in range(TRIES - 1)))
            if spent > allowed_seconds(data):
                failure = Failure("slow", f"{spent:.1f} s for {len(data)} bytes", data)
        if not failure and (peak := _peak()) > self._peak:
            if peak - self._peak > MAX_PEAK:
                failure = Failure("memory", f"{(peak - self._peak) >> 20} MiB for {len(data)} bytes", data)
            self._peak = peak
        if failure:
            tally.failures.setdefault(f"{failure.reason} {failure.detail.splitlines()[-1][:200]}", failure)
        if spent > tally.slowest:
            tally.slowest = spent
            tally.slow = [*tally.slow[-2:], (spent, data)]

    def watch_growth(self, done: float) -> None:
        """Compare the size of the process with what it was after the first fifth of the run."""
        now = self._process.memory_info().rss
        if done < 0.2 or not self.tally.settled:
            self.tally.settled = max(self.tally.settled, now)
        self.tally.grown = max(self.tally.grown, now - self.tally.settled)

    def finish(self) -> None:
        """Look at how the time for the slowest inputs grows with their size, and at the growth of the process."""
        for spent, data in self.tally.slow:
            if spent > WORTH_LOOKING and (failure := find_super_linear(self._run, data)):
                self.tally.failures.setdefault("grows", failure)
        if self.tally.grown > MAX_GROWTH:
            self.tally.failures["leak"] = Failure("leak", f"{self.tally.grown >> 20} MiB", b"")


def find_failure(run: Run, data: bytes, *, twice: bool = True) -> Failure | None:
    """Return what is wrong with the target's answer to this input."""
    try:
        result = run(data)
        if twice and run(data) != result:
            return Failure("unsteady", "two executions differ", data)
    except Exception:  # noqa: BLE001  whatever it is, it is what is looked for
        return Failure("raised", traceback.format_exc(limit=-4), data)
    return None


def find_super_linear(run: Run, data: bytes) -> Failure | None:
    """Return a failure where four times the input takes far more than four times as long, twice in a row."""
    times = [min(measure(run, data * factor) for _ in range(2)) for factor in (1, GROWN, GROWN * GROWN)]
    steep = [later / max(earlier, WORTH_LOOKING / 4) for earlier, later in pairwise(times)]
    if min(steep) > GROWN * TOO_MUCH:
        return Failure("grows", " ".join(f"{seconds:.2f} s" for seconds in times), data)
    return None


def measure(run: Run, data: bytes) -> float:
    """Return the CPU time of one execution."""
    begin = time.thread_time()
    run(data)
    return time.thread_time() - begin


def allowed_seconds(data: bytes) -> float:
    """Return the CPU time that an input of this size may take."""
    return BASE_SECONDS + SECONDS_A_KILOBYTE * len(data) / 1024


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def minimise(data: bytes, is_bad: Callable[[bytes], bool], tries: int = 400) -> bytes:
    """Return a shorter input that is still bad: pieces are left out, ever smaller ones."""
    size = max(1, len(data) // 2)
    while size and tries > 0:
        place, shorter = 0, False
        while place < len(data) and tries > 0:
            tries -= 1
            candidate = data[:place] + data[place + size :]
            if is_bad(candidate):
                data, shorter = candidate, True
            else:
                place += size
        if not shorter or size > len(data):
            size //= 2
    return data
