"""The quarantine's part of the storage interface; the values that it deals in are those of `interface`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gatepost.store.interface import Actor, HeldFilter, HeldMail, MessageRecord, Release


class HeldStore(Protocol):
    """What the quarantine has on record. `tenant` None means any; the raw bytes lie elsewhere."""

    async def hold(self, record: MessageRecord) -> bool:
        """Put a message among the held ones; False where its ggrid is known already, held or released."""
        ...

    async def held(self, ggrid: str, tenant: str | None = None) -> HeldMail | None: ...

    async def held_page(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> tuple[HeldMail, ...]:
        """Those that fit, newest first. For the next page, `before` is the ggrid of the last one of this."""
        ...

    async def claim_release(self, ggrid: str, holder: str, now: int, until: int) -> bool:
        """Take a message for oneself until a time; False where it is not held, or somebody else is at it."""
        ...

    async def give_back(self, ggrid: str, holder: str) -> None: ...

    async def mark_released(self, ggrid: str, recipients: Sequence[str], by: Actor) -> Release:
        """Add a release to the record and the audit trail, once; returns the one that stands."""
        ...

    async def delete_held(self, ggrid: str, by: Actor, tenant: str | None = None) -> bool:
        """Take a message out; False where there is none, or it is being released."""
        ...

    async def note_export(self, ggrid: str, tenant: str | None, by: Actor) -> None: ...

    async def purge_held(self, before: int) -> int:
        """Forget what was kept before that time; returns how many."""
        ...

    async def needed_among(self, ggrids: Sequence[str]) -> frozenset[str]:
        """Those of these whose raw bytes are still wanted."""
        ...

    async def held_size(self) -> int:
        """Bytes of all that is held."""
        ...

    async def held_totals(self) -> tuple[int, int]:
        """How many messages are held, and their bytes."""
        ...

    async def undecided_before(self, digest: str) -> int:
        """How often this digest came here in the last 24 hours, this time not counted; this time is noted."""
        ...
