"""The part of the storage interface that hears from people: a verdict that was wrong.

What somebody reported is a line of the audit trail, `message.reported`, so it cannot be changed or lost. Whoever learns
from it, as the text model does, reads it with `feedback`, oldest first, from where it stopped the last time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from gatepost.store.interface import Actor

Says: TypeAlias = Literal["should have been delivered", "should have been held"]


class Feedback(msgspec.Struct, frozen=True):
    """Somebody says that a decision was wrong. `id` grows with time; `tenant` is whose message it was."""

    id: int
    ggrid: str
    says: Says
    by: str
    time: int
    tenant: str | None = None


class FeedbackStore(Protocol):
    """What people report."""

    async def report_wrong(self, ggrid: str, says: Says, by: Actor, tenant: str | None = None) -> bool:
        """Put on record that a decision was wrong; False where no such message is on record, or it is not that
        tenant's."""
        ...

    async def feedback(self, after: int = 0, limit: int = 1_000) -> tuple[Feedback, ...]:
        """What was reported after the one with that id, oldest first."""
        ...
