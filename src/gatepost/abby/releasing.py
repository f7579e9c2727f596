"""`POST /v1/messages/{ggrid}/release`: a held message goes on, once, for tokens with `messages.release`."""

from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.credentials import Door
from gatepost.abby.failures import Json
from gatepost.abby.holding import HeldMailRoom
from gatepost.abby.messages import released
from gatepost.abby.place import Down
from gatepost.api.errors import CORE_UNAVAILABLE, DELIVERY_FAILED, MESSAGE_NOT_FOUND, Failure
from gatepost.api.scanning import encode
from gatepost.guard.holding import NotHeld, NotSent, Outcome, Released
from gatepost.store.audit import Actor
from gatepost.store.messages import Release

NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no message with this ggrid is held")


class Releasing:
    """The endpoint that lets messages go."""

    def __init__(self, *, door: Door, room: HeldMailRoom) -> None:
        self._door, self._room = door, room

    async def release(self, request: Request) -> Response | Failure:
        """Release one message, by its ggrid in any case."""
        caller = await self._door.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.release"):
            return refusal
        outcome = await self._room.release(request.path_params["ggrid"], Actor("token", caller.name))
        if isinstance(outcome, Released):
            release = Release(outcome.time, outcome.by, outcome.recipients)
            return Json(encode(released(outcome.ggrid, release)))
        return _failure(outcome)


def _failure(outcome: Outcome | Down) -> Failure:
    if isinstance(outcome, NotHeld):
        return NOT_FOUND
    if isinstance(outcome, Down):
        return Failure(CORE_UNAVAILABLE, "no core that answers has this message")
    if isinstance(outcome, NotSent):
        return Failure(DELIVERY_FAILED, f"{outcome.reason}; the message is held as before")
    return Failure(DELIVERY_FAILED, "another release of this message is under way")
