"""`POST /v1/messages/{ggrid}/release`: a held message goes on, once, for tokens with `messages.release`.

The bytes may lie where only one core can reach them, so every core is asked until one has them. Whoever asks again, or
at the same time, gets the answer of the one release that there is.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.credentials import Caller, Door
from gatepost.abby.failures import Json
from gatepost.abby.messages import released
from gatepost.abby.place import Down
from gatepost.api.errors import CORE_UNAVAILABLE, DELIVERY_FAILED, MESSAGE_NOT_FOUND, Failure
from gatepost.api.scanning import encode
from gatepost.guard.holding import NotHeld, NotSent, Outcome, Released
from gatepost.ids import canonical
from gatepost.store.heldstore import HeldStore
from gatepost.store.interface import Actor, Release

# How long a call waits for another one that is at the same message.
BUSY_SECONDS = 30.0
LOOK_SECONDS = 0.25

NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no message with this ggrid is held")

log = structlog.get_logger("gatepost.abby")


class ReleasingCore(Protocol):
    """A core that may have a message in its quarantine."""

    async def release(self, ggrid: str, by: Actor) -> Outcome | Down: ...


class Releasing:
    """The endpoint that lets messages go."""

    def __init__(self, *, door: Door, store: HeldStore, cores: Sequence[ReleasingCore]) -> None:
        self._door, self._store, self._cores = door, store, tuple(cores)

    async def release(self, request: Request) -> Response | Failure:
        """Release one message, by its ggrid in any case."""
        caller = await self._door.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.release"):
            return refusal
        ggrid = canonical(request.path_params["ggrid"])
        mail = await self._store.held(ggrid) if ggrid else None
        if mail is None:
            return NOT_FOUND
        uid, release = mail.record.ggrid, mail.release or await self._released(mail.record.ggrid, caller)
        return release if isinstance(release, Failure) else Json(encode(released(uid, release)))

    async def _released(self, ggrid: str, caller: Caller) -> Release | Failure:
        down = False
        for core in self._cores:
            outcome = await core.release(ggrid, Actor("token", caller.name))
            if isinstance(outcome, Down):
                log.warning("core could not release", ggrid=ggrid, reason=outcome.reason)
                down = True
            elif not isinstance(outcome, NotHeld):
                return await self._settled(ggrid, outcome)
        return Failure(CORE_UNAVAILABLE, "no core that answers has this message") if down else NOT_FOUND

    async def _settled(self, ggrid: str, outcome: Outcome) -> Release | Failure:
        if isinstance(outcome, Released):
            return Release(outcome.time, outcome.by, outcome.recipients)
        if isinstance(outcome, NotSent):
            return Failure(DELIVERY_FAILED, f"{outcome.reason}; the message is held as before")
        return await self._waited(ggrid)

    async def _waited(self, ggrid: str) -> Release | Failure:
        """Somebody else is at it: what comes of that?"""
        for _ in range(int(BUSY_SECONDS / LOOK_SECONDS)):
            mail = await self._store.held(ggrid)
            if mail is None:
                return NOT_FOUND
            if mail.release:
                return mail.release
            if mail.state == "held":
                return Failure(DELIVERY_FAILED, "the next hop did not take the message; it is held as before")
            await asyncio.sleep(LOOK_SECONDS)
        return Failure(DELIVERY_FAILED, "another release of this message is under way")
