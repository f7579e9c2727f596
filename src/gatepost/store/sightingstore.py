"""What a scope knows from delivered mail: that part of the storage interface, with its values."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class Sighting(msgspec.Struct, frozen=True):
    """What is kept of one key: the first and the last day (since 1970), on how many days, in how many delivered
    messages, and in how many that were held since."""

    first: int
    last: int
    days: int
    delivered: int
    held: int


class SightingBatch(msgspec.Struct, frozen=True):
    """What was seen of one tenant's mail on one day: keys, each with in how many messages."""

    tenant: str | None
    day: int
    delivered: Mapping[int, int] = {}
    held: Mapping[int, int] = {}


class SightingStore(Protocol):
    """What is known of senders and links. A key is a digest; a tenant never sees another's."""

    async def sightings(self, tenant: str | None, keys: Sequence[int]) -> dict[int, Sighting]:
        """Those of the keys that are known to a tenant (None: the deployment)."""
        ...

    async def record_sightings(self, batches: Sequence[SightingBatch]) -> None:
        """Add what was seen. What was held counts only for keys that are known, and makes none."""
        ...

    async def purge_sightings(self, before: int, most: int) -> int:
        """Forget keys last seen before that day; of a scope with more than `most`, those seen on one day first."""
        ...

    async def count_sightings(self, tenant: str | None) -> int:
        """How many keys a tenant has."""
        ...
