"""Orders on held mail, for whichever core has the message: its bytes may lie where only one core can reach them.

The record of the message is looked up before any core is asked: for a caller who may act for one tenant only, mail of
other tenants is not held. What can go wrong in the ordinary course of things is a value; `Down` means that no core
which answers has the message, and that one does not answer.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeVar, cast

import msgspec
import structlog

from gatepost.abby.core_state import Down
from gatepost.ids import canonical
from gatepost.scanning.held_mail import (
    Busy,
    Deleted,
    DeleteOrder,
    HeldMailOrder,
    NotHeld,
    NotSent,
    RecipientReleaseOrder,
    Released,
    ReleaseOrder,
    ReleaseOutcome,
)
from gatepost.store.held_mail import HeldMailStore, HeldMessage
from gatepost.store.messages import Release

R = TypeVar("R")

# How long a release waits for another one of the same message.
BUSY_SECONDS = 30.0
POLL_SECONDS = 0.25

log = structlog.get_logger("gatepost.abby")


class HeldMailCore(Protocol):
    """A core that may have a message in its quarantine."""

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down: ...


class HeldMailOnCores:
    """All cores as one quarantine. `tenant` None in an order is for callers who may act for all tenants."""

    def __init__(self, store: HeldMailStore, cores: Sequence[HeldMailCore]) -> None:
        self._store, self._cores = store, tuple(cores)

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Have the core that has the bytes do what the order says, and return its result."""
        mail = await self._find(order)
        if mail is None:
            return NotHeld()
        order = msgspec.structs.replace(order, ggrid=mail.record.ggrid)
        if isinstance(order, ReleaseOrder):
            return cast("R | NotHeld | Down", await self._release(order, mail.release))
        if isinstance(order, RecipientReleaseOrder) and mail.release:
            return cast("R", _describe_release(order.ggrid, mail.release))
        if mail.state == "released":
            return NotHeld()
        result = await self._ask_cores(order)
        if isinstance(order, DeleteOrder) and isinstance(result, NotHeld):
            return cast("R | NotHeld", await self._delete_record(order))
        return result

    async def _release(self, order: ReleaseOrder, before: Release | None) -> ReleaseOutcome | Down:
        """A message is sent once: every other release, later or at the same time, gets the result of that one."""
        if before:
            return _describe_release(order.ggrid, before)
        outcome = await self._ask_cores(order)
        return await self._wait_for_release(order.ggrid) if isinstance(outcome, Busy) else outcome

    async def _wait_for_release(self, ggrid: str) -> ReleaseOutcome:
        """Return the result of the release that is under way."""
        for _ in range(int(BUSY_SECONDS / POLL_SECONDS)):
            mail = await self._store.held(ggrid)
            if mail is None:
                return NotHeld()
            if mail.release:
                return _describe_release(ggrid, mail.release)
            if mail.state == "held":
                return NotSent("the next hop did not take the message")
            await asyncio.sleep(POLL_SECONDS)
        return Busy()

    async def _delete_record(self, order: DeleteOrder) -> Deleted | NotHeld:
        """No core has the bytes, which are lost: the record goes all the same."""
        return Deleted() if await self._store.delete_held(order.ggrid, order.by, order.tenant) else NotHeld()

    async def _ask_cores(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Ask one core after the other until one has the message."""
        nothing: NotHeld | Down = NotHeld()
        for core in self._cores:
            result = await core.carry_out(order)
            if isinstance(result, Down):
                log.warning("core could not be asked about held mail", ggrid=order.ggrid, reason=result.reason)
                nothing = result
            elif not isinstance(result, NotHeld):
                return result
        return nothing

    async def _find(self, order: HeldMailOrder[R]) -> HeldMessage | None:
        """Return the record of the message, held or released, if the caller may see it."""
        ggrid, tenant = canonical(order.ggrid), order.tenant
        mail = await self._store.held(ggrid, tenant) if ggrid else None
        # Said again here: to storage an empty restriction is none at all.
        return mail if mail and tenant in (None, mail.record.envelope.tenant) else None


def _describe_release(ggrid: str, release: Release) -> Released:
    return Released(ggrid, release.time, release.by, release.recipients)
