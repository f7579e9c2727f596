"""What people can do with the mail that a core holds: look at it, let it go, take it away, delete it.

guard's event loop never parses mail, and does not start here: what is shown was read in a sealed worker, within the
same limits as an analysis, and comes back as plain text or as a picture drawn anew. A message that breaks its worker
is not shown, and that is a value like any other.

REST scans whose raw mail is kept: with `restApi: {keep: held}`, what is to be held can be released later.
"""

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import Busy, Deleted, Holding, NotHeld, Outcome
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.store.audit import Actor
from gatepost.store.held_mail import HeldMessage
from gatepost.view.values import NotShown, Picture, View
from gatepost.workers.jobs import AnalysisJob
from gatepost.workers.protocol import Purpose, ViewResult

UNEXPECTED = NotShown("the worker showed something else")


class ViewsMail(Protocol):
    """Whoever has messages read to be shown; `guard.core.Guard` does."""

    async def show(self, job: AnalysisJob) -> ViewResult: ...


class ReadsHeldMail(Protocol):
    """The quarantine."""

    async def one(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None: ...

    async def raw(self, ggrid: str, tenant: str | None = None) -> bytes | None: ...

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | None: ...

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome: ...

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> bool: ...


class _HeldBytes(msgspec.Struct, frozen=True):
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self) -> bytes:
        return self.content


class HeldMailOperations:
    """Held mail of one core. With a `tenant`, nobody else's is there; `NotHeld` says that the bytes are not here."""

    def __init__(self, quarantine: ReadsHeldMail, looks: ViewsMail) -> None:
        self._quarantine, self._looks = quarantine, looks

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown:
        """The message to look at."""
        seen = await self._looked(ggrid, tenant, "view")
        return UNEXPECTED if isinstance(seen, Picture) else seen

    async def picture(self, ggrid: str, index: int, tenant: str | None = None) -> Picture | NotHeld | NotShown:
        """The picture that the view of the message lists under this index."""
        seen = await self._looked(ggrid, tenant, "picture", index)
        return UNEXPECTED if isinstance(seen, View) else seen

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld:
        """The message as it came, for somebody to take away; the audit trail says who."""
        raw = await self._quarantine.export(ggrid, by, tenant)
        return NotHeld() if raw is None else raw

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome:
        """Send a message on, to these recipients or to its own, once."""
        return await self._quarantine.release(ggrid, by, recipients, tenant)

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy:
        """Take a message out for good, if its bytes are here: with the record alone they would stay behind."""
        if await self._quarantine.raw(ggrid, tenant) is None:
            return NotHeld()
        if await self._quarantine.delete(ggrid, by, tenant):
            return Deleted()
        mail = await self._quarantine.one(ggrid, tenant)
        return Busy() if mail and mail.state == "releasing" else NotHeld()

    async def _looked(self, ggrid: str, tenant: str | None, purpose: Purpose, index: int = 0) -> ViewResult | NotHeld:
        raw = await self._quarantine.raw(ggrid, tenant)
        if raw is None:
            return NotHeld()
        job = AnalysisJob(ggrid, Envelope(), _HeldBytes(raw), time.time(), purpose=purpose, index=index)
        return await self._looks.show(job)


class ScansMail(Protocol):
    """The core that scans; `guard.core.Guard` is one."""

    @property
    def rest_enabled(self) -> bool: ...

    def load(self) -> Load: ...

    async def room(self) -> None: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...


class HoldingSource:
    """A core that keeps what it holds. The answer comes when the bytes are safe, or not at all."""

    def __init__(self, core: ScansMail, holding: Holding) -> None:
        self._core, self._holding = core, holding

    @property
    def rest_enabled(self) -> bool:
        return self._core.rest_enabled

    def load(self) -> Load:
        """How busy it is."""
        return self._core.load()

    async def room(self) -> None:
        """Return once a slot is free, or a little later."""
        await self._core.room()

    async def scan(self, request: ScanRequest) -> ScanResult | Full:
        """Analyse one message, and keep it where it is not to go on. Raises `StorageError`."""
        result = await self._core.scan(request)
        if isinstance(result, ScanResult) and result.report.decision == "quarantine":
            await self._holding.keep(request, result, request.body)
        return result
