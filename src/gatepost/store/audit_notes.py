"""What goes on the audit trail although it changes nothing: who read or exported mail, tried something, or failed.

A reader of the trail asks not only who changed a list, but also who has seen a message. Each of these records is a
transaction of its own, written before its caller gets what it is about.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Work, change, normalize_scope, now, storable

NotedAction: TypeAlias = Literal[
    "audit.export",
    "digest.rotateKey",
    "list.export",
    "message.trial",
    "messages.export",
    "policy.trial",
    "quarantine.export",
    "quarantine.releaseFailed",
    "quarantine.view",
    "system.examine",
    "system.testEvent",
    "user.lockedOut",
    "user.signIn",
    "user.signInFailed",
]
MAX_TEXT = 300


class AuditNotes(Operations):
    """Records of what people did without a change."""

    @change
    def note(
        self,
        action: NotedAction,
        by: Actor,
        tenant: str | None = None,
        *,
        sample: Sequence[str] = (),
        list_name: str = "",
        count: int = 1,
    ) -> Work[None]:
        """Write to the audit trail what somebody did; texts are cut."""
        texts = [storable(text[:MAX_TEXT]) for text in sample]
        yield from write_audit(now(), by, action, normalize_scope(tenant), list_name, count, texts)

    async def note_export(self, ggrid: str, tenant: str | None, by: Actor) -> None:
        """Write to the audit trail that the bytes of a message were exported."""
        await self.note("quarantine.export", by, tenant, sample=[ggrid.lower()])

    async def note_view(self, ggrid: str, tenant: str | None, by: Actor) -> None:
        """Write to the audit trail that the text or a picture of a held message was read."""
        await self.note("quarantine.view", by, tenant, sample=[ggrid.lower()])

    async def note_failed_release(self, ggrid: str, tenant: str | None, by: Actor, reason: str) -> None:
        """Write to the audit trail that somebody wanted to release a message, and why it was not sent."""
        await self.note("quarantine.releaseFailed", by, tenant, sample=[ggrid.lower(), reason])
