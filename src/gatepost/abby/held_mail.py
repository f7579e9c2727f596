"""Held mail, wherever it lies: the bytes may be where only one core can reach them, so cores are asked until one has
them.

Whoever may act for one tenant only says so with `tenant`, and the record of the message is looked at before any core is
asked: what is another's is not held. Whatever can go wrong in the ordinary course of things is a value; `Down` means
that no core which answers has the message, and that one does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from gatepost.abby.core_state import Down
from gatepost.ids import canonical
from gatepost.scanning.held_mail import Busy, Deleted, NotHeld, NotSent, Outcome, Released
from gatepost.store.audit import Actor
from gatepost.store.held_mail import HeldMailStore, HeldMessage
from gatepost.store.messages import Release
from gatepost.view.values import NotShown, Picture, View

T = TypeVar("T")

# How long a release waits for another one that is at the same message.
BUSY_SECONDS = 30.0
LOOK_SECONDS = 0.25

log = structlog.get_logger("gatepost.abby")


class HeldMailCore(Protocol):
    """A core that may have a message in its quarantine."""

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome | Down: ...

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown | Down: ...

    async def picture(
        self, ggrid: str, index: int, tenant: str | None = None
    ) -> Picture | NotHeld | NotShown | Down: ...

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld | Down: ...

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy | Down: ...


class HeldMailOnCores:
    """What can be done with held mail. `tenant` None is for those who may act for everybody."""

    def __init__(self, store: HeldMailStore, cores: Sequence[HeldMailCore]) -> None:
        self._store, self._cores = store, tuple(cores)

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown | Down:
        """The message to look at: plain text, nothing in it acts."""
        uid = await self._held(ggrid, tenant)
        return await self._asked(uid, lambda core: core.look(uid, tenant)) if uid else NotHeld()

    async def picture(self, ggrid: str, index: int, tenant: str | None = None) -> Picture | NotHeld | NotShown | Down:
        """One of the pictures that the view lists, drawn anew as PNG."""
        uid = await self._held(ggrid, tenant)
        return await self._asked(uid, lambda core: core.picture(uid, index, tenant)) if uid else NotHeld()

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld | Down:
        """The message as it came, to be taken away; audited."""
        uid = await self._held(ggrid, tenant)
        return await self._asked(uid, lambda core: core.export(uid, by, tenant)) if uid else NotHeld()

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy | Down:
        """Delete the message for good; audited. Where its bytes are lost, its record still goes."""
        uid = await self._held(ggrid, tenant)
        if not uid:
            return NotHeld()
        answer: Deleted | Busy | NotHeld | Down = await self._asked(uid, lambda core: core.delete(uid, by, tenant))
        if isinstance(answer, NotHeld) and await self._store.delete_held(uid, by, tenant):
            return Deleted()
        return answer

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome | Down:
        """Send the message on, once: whoever asks again, or at the same time, gets the answer of that one release."""
        mail = await self._record(ggrid, tenant)
        if mail is None:
            return NotHeld()
        uid = mail.record.ggrid
        if mail.release:
            return _released(uid, mail.release)
        outcome: Outcome | Down = await self._asked(uid, lambda core: core.release(uid, by, recipients, tenant))
        return await self._waited(uid) if isinstance(outcome, Busy) else outcome

    async def _waited(self, ggrid: str) -> Outcome:
        """Somebody else is at it: what comes of that?"""
        for _ in range(int(BUSY_SECONDS / LOOK_SECONDS)):
            mail = await self._store.held(ggrid)
            if mail is None:
                return NotHeld()
            if mail.release:
                return _released(ggrid, mail.release)
            if mail.state == "held":
                return NotSent("the next hop did not take the message")
            await asyncio.sleep(LOOK_SECONDS)
        return Busy()

    async def _asked(
        self, ggrid: str, ask: Callable[[HeldMailCore], Awaitable[T | NotHeld | Down]]
    ) -> T | NotHeld | Down:
        nothing: NotHeld | Down = NotHeld()
        for core in self._cores:
            answer = await ask(core)
            if isinstance(answer, Down):
                log.warning("core could not be asked about held mail", ggrid=ggrid, reason=answer.reason)
                nothing = answer
            elif not isinstance(answer, NotHeld):
                return answer
        return nothing

    async def _held(self, ggrid: str, tenant: str | None) -> str | None:
        """The ggrid in its normal form, if that message is held for the caller to see."""
        mail = await self._record(ggrid, tenant)
        return mail.record.ggrid if mail and mail.state != "released" else None

    async def _record(self, ggrid: str, tenant: str | None) -> HeldMessage | None:
        uid = canonical(ggrid)
        mail = await self._store.held(uid, tenant) if uid else None
        # Said again here: to storage an empty restriction is none at all.
        return mail if mail and tenant in (None, mail.record.envelope.tenant) else None


def _released(ggrid: str, release: Release) -> Released:
    return Released(ggrid, release.time, release.by, release.recipients)
