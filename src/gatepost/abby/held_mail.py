"""Orders on held mail, for whichever core has the message: its bytes may lie where only one core can reach them.

The record of the message is looked up before any core is asked: for a caller who may act for one tenant only, mail of
other tenants is not held. What can go wrong in the ordinary course of things is a value; `Down` means that no core
which answers has the message, and that one does not answer. It names the core: the one of the record, or else those
that do not answer.

Cores are asked one after the other, first the one that had mail of the same folder before. If one is slow, all others
are asked beside it, so that a core that has stalled delays the answer by half a second, and several of them do not add
up. Where all cores read the same object store, the first one that is asked has every message.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec
import structlog

from gatepost.abby.cores import Down
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
from gatepost.store.message_records import Release
from gatepost.store.quarantine import HeldMessage, QuarantineRecords

R = TypeVar("R")

# How long a release waits for another one of the same message.
BUSY_SECONDS = 30.0
POLL_SECONDS = 0.25
# How long one core is asked alone.
ALONE_SECONDS = 0.5
MAX_OWNERS = 1_000

log = structlog.get_logger("gatepost.abby")


class HeldMailCore(Protocol):
    """A core that may have a message in its quarantine."""

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down: ...


class HeldMailOnCores:
    """All cores as one quarantine. `tenant` None in an order is for callers who may act for all tenants."""

    def __init__(self, store: QuarantineRecords, cores: Sequence[HeldMailCore]) -> None:
        self._store, self._cores = store, tuple(cores)
        # Which core had mail of the folder that records name so.
        self._owners: dict[str, HeldMailCore] = {}

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Have the core that has the bytes do what the order says, and return its result."""
        mail = await self._find(order)
        if mail is None:
            return NotHeld()
        order = msgspec.structs.replace(order, ggrid=mail.record.ggrid)
        if isinstance(order, ReleaseOrder):
            return cast("R | NotHeld | Down", await self._release(order, mail))
        if isinstance(order, RecipientReleaseOrder) and mail.release:
            return cast("R", _describe_release(order.ggrid, mail.release))
        if mail.state == "released":
            return NotHeld()
        result = await self._ask_cores(order, mail.core)
        if isinstance(order, DeleteOrder) and isinstance(result, NotHeld):
            return cast("R | NotHeld", await self._delete_record(order))
        return result

    async def _release(self, order: ReleaseOrder, mail: HeldMessage) -> ReleaseOutcome | Down:
        """A message is sent once: every other release, later or at the same time, gets the result of that one."""
        if mail.release:
            return _describe_release(order.ggrid, mail.release)
        outcome = await self._ask_cores(order, mail.core)
        return await self._wait_for_release(order.ggrid) if isinstance(outcome, Busy) else outcome

    async def _wait_for_release(self, ggrid: str) -> ReleaseOutcome:
        """Return the result of the release that is under way."""
        for _ in range(int(BUSY_SECONDS / POLL_SECONDS)):
            mail = await self._store.find(ggrid)
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
        return Deleted() if await self._store.delete(order.ggrid, order.by, order.tenant) else NotHeld()

    async def _ask_cores(self, order: HeldMailOrder[R], owner: str) -> R | NotHeld | Down:
        """Ask the cores until one has the message."""
        known = self._owners.get(owner)
        waiting = sorted(self._cores, key=lambda core: core is not known)
        asked: dict[asyncio.Task[Any], HeldMailCore] = {}
        nothing: list[Busy | Down] = []
        try:
            while waiting or asked:
                if waiting and not asked:
                    core = waiting.pop(0)
                    asked[asyncio.create_task(core.carry_out(order))] = core
                limit = ALONE_SECONDS if waiting else None
                done = (await asyncio.wait(asked, timeout=limit, return_when=asyncio.FIRST_COMPLETED))[0]
                if not done:
                    asked |= {asyncio.create_task(core.carry_out(order)): core for core in waiting}
                    waiting.clear()
                for task in done:
                    core, result = asked.pop(task), task.result()
                    if isinstance(result, Down | Busy):
                        nothing.append(result)
                    elif not isinstance(result, NotHeld):
                        self._remember(owner, core)
                        return cast("R", result)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return cast("R | NotHeld | Down", _describe_absence(order.ggrid, owner, nothing))

    def _remember(self, owner: str, core: HeldMailCore) -> None:
        if owner and len(self._owners) < MAX_OWNERS:
            self._owners[owner] = core

    async def _find(self, order: HeldMailOrder[R]) -> HeldMessage | None:
        """Return the record of the message, held or released, if the caller may see it."""
        ggrid, tenant = canonical(order.ggrid), order.tenant
        mail = await self._store.find(ggrid, tenant) if ggrid else None
        # Said again here: to storage an empty restriction is none at all.
        return mail if mail and tenant in (None, mail.record.envelope.tenant) else None


def _describe_absence(ggrid: str, owner: str, nothing: Sequence[Busy | Down]) -> NotHeld | Busy | Down:
    """Return the result where no core had the message, by what those said that did not say that."""
    if busy := next((each for each in nothing if isinstance(each, Busy)), None):
        return busy
    down = [each for each in nothing if isinstance(each, Down)]
    for each in down:
        log.warning("core could not be asked about held mail", ggrid=ggrid, core=each.core, reason=each.reason)
    if not down:
        return NotHeld()
    names = sorted(each.core for each in down if each.core)
    return msgspec.structs.replace(down[-1], core=owner or ", ".join(names))


def explain_absence(down: Down, *, named: bool = True) -> str:
    """Return why a held message cannot be had, as the end of a sentence, and which core has it where the reader may
    know the cores."""
    which = f"the core that stores it ({down.core})" if down.core and named else "the core that stores it"
    return f"{which} cannot read it now" if down.answered else f"{which} is not answering"


def _describe_release(ggrid: str, release: Release) -> Released:
    return Released(ggrid, release.time, release.by, release.recipients)
