"""The part of the storage interface that counts traffic for charts: five minutes to a bucket, never a look at messages.

Latency is counted in bins that double: bin 0 is below 1 ms, bin n from 2^(n-1) to 2^n ms, the last one all above.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Protocol

import msgspec

BUCKET_MILLISECONDS = 300_000
BINS = 18
MAX_STEPS = 2_000


class Bucket(msgspec.Struct, frozen=True):
    """What was analysed from `start` on, for one step. `duration` is the sum and `longest` the most, in ms."""

    start: int
    messages: int = 0
    bytes: int = 0
    duration: int = 0
    longest: int = 0
    latency: tuple[int, ...] = (0,) * BINS
    verdicts: Mapping[str, int] = {}
    decisions: Mapping[str, int] = {}

    def percentile(self, part: float) -> int:
        """The latency in ms below which that part (0.5, 0.99) of the messages stayed: the upper end of its bin."""
        wanted = part * sum(self.latency)
        place = next((n for n, total in enumerate(accumulate(self.latency)) if total >= wanted), 0)
        return min(1 << place, self.longest)


class TrafficStore(Protocol):
    """How much came, and what became of it."""

    async def traffic(self, tenant: str | None, since: int, until: int, step: int) -> tuple[Bucket, ...]:
        """Every step of a time, the empty ones too, the oldest first; of a tenant, or of all (None).

        Steps are whole multiples of five minutes and begin at whole multiples of themselves (UTC); at most 2,000.
        """
        ...
