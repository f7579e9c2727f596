"""Messages that wait for a slot while processors are idle: a node that could do more with the CPU that it has.

A slot is held for as long as a message is processed, and much of that time it waits for DNS. So a node with many
processors can have all of its slots taken (`mainWorkerCount`) and most of its CPU unused. That costs nothing but time,
and nothing else tells of it: this does, from counts of the queue and of the system.

The system counts what its processors did (`/proc/stat`); those count that this process may use. A container whose CPU
is limited sees the processors of its host, so that the use of its control group is compared with its limit as well
(`cpu.max` and `cpu.stat`, https://docs.kernel.org/admin-guide/cgroup-v2.html). What is less idle decides. A system
without these files is never told of.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gatepost.logs import Logger
from gatepost.periodic import PeriodicWork
from gatepost.scanning.request import Condition
from gatepost.workers.fair_queue import QueueCounters

log = Logger("gatepost")

LOOK_SECONDS = 10.0
# The last looks that are judged together.
LOOKS = 6
# On average so many messages waited, or so many were refused a minute; and this share of the CPU was not used.
WAITING, REFUSED = 0.5, 10
IDLE_SHARE = 0.3

STAT = Path("/proc/stat")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


read_clock = time.monotonic


class CpuUse(NamedTuple):
    """CPU that was used, and CPU that there was, both since some time in the past and in the same unit."""

    used: float
    whole: float


def read_cpu() -> tuple[CpuUse, ...]:
    """What the processors of this process did, and what its control group used of its limit; empty where the system
    does not say."""
    return (*_read_processors(), *_read_group())


def _read_processors() -> tuple[CpuUse, ...]:
    try:
        lines = STAT.read_text("ascii").splitlines()
        allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    except (OSError, AttributeError, ValueError):
        return ()
    # user, nice, system, idle, iowait, irq, softirq, steal; what guests used is part of the first two.
    counts = [[int(each) for each in line.split()[1:9]] for line in lines if line.partition(" ")[0] in allowed]
    whole, idle = sum(map(sum, counts)), sum(each[3] + each[4] for each in counts)
    return (CpuUse(whole - idle, whole),) if counts else ()


def _read_group() -> tuple[CpuUse, ...]:
    """Of the groups that this process is in, those whose CPU is limited."""
    try:
        path = OWN_GROUP.read_text("utf-8").splitlines()[0].rpartition("::")[2].strip("/")
        folders = [GROUPS / path, *(GROUPS / path).parents] if path else [GROUPS]
        return tuple(use for folder in folders if folder.is_relative_to(GROUPS) for use in _read_limit(folder))
    except (OSError, ValueError, IndexError):
        return ()


def _read_limit(folder: Path) -> tuple[CpuUse, ...]:
    limit = folder / "cpu.max"
    if not limit.exists():
        return ()
    quota, period = limit.read_text("ascii").split()
    if quota == "max":
        return ()
    counts = dict(line.split() for line in (folder / "cpu.stat").read_text("ascii").splitlines())
    return (CpuUse(int(counts["usage_usec"]) / 1e6, time.monotonic() * int(quota) / int(period)),)


class _Look(NamedTuple):
    moment: float
    queue: QueueCounters
    cpu: tuple[CpuUse, ...]


class SlotWatch:
    """Warns while messages wait for a slot and processors are idle. `queue` returns what the queue of slots has
    counted, None without a core; `advise` says what to raise."""

    def __init__(
        self, condition: Condition, queue: Callable[[], QueueCounters | None], advise: Callable[[], str]
    ) -> None:
        self._condition, self._queue, self._advise = condition, queue, advise
        self._seen: deque[_Look] = deque(maxlen=LOOKS + 1)
        self.periodic = PeriodicWork(self.look, LOOK_SECONDS, "waiting for slots could not be looked at", log)

    async def look(self) -> None:
        """Look once."""
        said = self._judge()
        if self._condition.warn("slots", said):
            log.warning("health warning", component="slots", reason=said)

    def _judge(self) -> str:
        counters = self._queue()
        if counters is None:
            return ""
        self._seen.append(_Look(read_clock(), counters, read_cpu()))
        first, last = self._seen[0], self._seen[-1]
        seconds = last.moment - first.moment
        idle = _find_idle_share(first.cpu, last.cpu)
        if not seconds or idle is None or idle < IDLE_SHARE:
            return ""
        waited, refused = last.queue.waited - first.queue.waited, last.queue.refused - first.queue.refused
        if waited < WAITING * seconds and refused * 60 < REFUSED * seconds:
            return ""
        late = f"{waited / seconds:.1f} messages waited for a slot on average"
        late += f" and {refused:,} were refused" if refused else ""
        return f"{late} in the last {seconds:.0f} seconds, while {idle:.0%} of the CPU was idle: {self._advise()}"


def _find_idle_share(before: tuple[CpuUse, ...], after: tuple[CpuUse, ...]) -> float | None:
    if not after or len(before) != len(after):
        return None
    shares = []
    for old, new in zip(before, after, strict=True):
        whole = new.whole - old.whole
        if whole <= 0:
            return None
        shares.append(max(0.0, 1 - (new.used - old.used) / whole))
    return min(shares)
