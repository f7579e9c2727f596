"""What has cost workers their lives: messages by their digest, and snapshots by key and version.

A message that breaks a worker comes again: a sender that is told "later" sends it again, and an attacker sends copies.
So what it did is remembered for a while. If it ended undecided, its copies get the same report without an attempt; if
it could be judged without the stage that broke the worker, its copies are analysed without that stage from the start.

A worker can also die while it loads the lists or the policy of a tenant. That is nobody's message: the snapshot is
blamed. One death may be an accident. After the second one no worker gets this version for a minute, and the messages
that need it are undecided.

Both memories are bounded in number; the oldest are forgotten first.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from gatepost.workers.jobs import Job, SnapshotName

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

MESSAGE_SECONDS = 600.0
SNAPSHOT_SECONDS = 60.0
MAX_REMEMBERED = 10_000
MAX_SNAPSHOT_DEATHS = 2


class BrokenStages(msgspec.Struct, frozen=True):
    """The stages in which a message broke a worker, with what happened, and how it ended if that was the end."""

    skip: Mapping[str, str]
    result: Any


class _Expiring(Generic[K, T]):
    """Values by key for so many seconds, at most `MAX_REMEMBERED`."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._values: dict[K, tuple[float, T]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> T | None:
        found = self._values.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            del self._values[key]
            return None
        return found[1]

    def put(self, key: K, value: T) -> None:
        self._values.pop(key, None)
        self._values[key] = (self._clock() + self._seconds, value)
        if len(self._values) > MAX_REMEMBERED:
            del self._values[next(iter(self._values))]


class PoisonMemory:
    """Messages and snapshots that broke workers. `recalled` counts the copies that were known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._messages: _Expiring[tuple[str, int, str], BrokenStages] = _Expiring(MESSAGE_SECONDS, clock)
        self._deaths: _Expiring[SnapshotName, int] = _Expiring(SNAPSHOT_SECONDS, clock)
        self.recalled = 0

    @property
    def has_snapshots(self) -> bool:
        """Whether any snapshot was blamed lately."""
        return bool(self._deaths)

    def remember(self, job: Job[T], result: T | None) -> None:
        """A message broke a worker in the stages that it skips from now on; `result` is how it ended, if it has."""
        self._messages.put(_key(job), BrokenStages(dict(job.skip), result))

    def recall(self, job: Job[Any]) -> BrokenStages | None:
        """Return what a copy of this message did, if one broke a worker lately."""
        if not self._messages:
            return None
        found = self._messages.get(_key(job))
        self.recalled += found is not None
        return found

    def blame_snapshot(self, name: SnapshotName) -> None:
        """A worker died while it loaded this snapshot."""
        self._deaths.put(name, (self._deaths.get(name) or 0) + 1)

    def refuses(self, names: tuple[SnapshotName, ...]) -> bool:
        """Whether one of these snapshots broke workers, so that no message that needs it is tried."""
        return any((self._deaths.get(name) or 0) >= MAX_SNAPSHOT_DEATHS for name in names)


def _key(job: Job[Any]) -> tuple[str, int, str]:
    return job.purpose.name, job.index, job.body.sha256
