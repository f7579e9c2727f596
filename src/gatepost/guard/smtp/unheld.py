"""A core without a quarantine: nothing is held, so that whoever sends keeps the message and tries again."""

import time
from collections.abc import Callable

from gatepost.guard.scan import Body, ScanRequest, ScanResult
from gatepost.store.interface import StorageError

DAY_SECONDS = 86_400.0
MAX_REMEMBERED = 10_000


class NoHolding:
    """Refuses to hold; remembers the last digests that came to no decision in memory, until a restart."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, list[float]] = {}

    async def keep(self, request: ScanRequest, _result: ScanResult, _raw: Body) -> None:
        raise StorageError(f"There is no quarantine that could hold {request.ggrid}.")

    async def undecided_before(self, digest: str) -> int:
        """As `Holding` has it."""
        now = self._clock()
        recent = [moment for moment in self._seen.pop(digest, ()) if now - moment < DAY_SECONDS]
        self._seen[digest] = [*recent[-8:], now]
        if len(self._seen) > MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return len(recent)
