"""Held messages over the API: their text, release and deletion, one message or many at once.

Every operation is carried out by the core that has the bytes (see `held_mail`), and written to the audit trail with the
name of the token. A call for many messages answers what became of each; one that fails does not keep the others from
being done, and the whole call can be repeated: a message is released once, however often it is asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby import message_bodies
from gatepost.abby.authenticator import Authenticator, Caller
from gatepost.abby.cores import Down
from gatepost.abby.held_mail import HeldMailOnCores, explain_absence
from gatepost.abby.messages import describe_release, find_tenant_fault
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import (
    CORE_UNAVAILABLE,
    DELIVERY_FAILED,
    FORBIDDEN,
    MESSAGE_NOT_FOUND,
    MESSAGE_NOT_SHOWN,
    STORAGE_UNAVAILABLE,
    Failure,
)
from gatepost.api.http import ClientLeft, JsonResponse
from gatepost.api.messages import (
    ActionResult,
    ActionResults,
    MessageDeletion,
    MessageText,
    TextHeader,
    TextLink,
    TextPart,
    TextPassage,
)
from gatepost.api.scanning import MessageRelease, encode_scanning
from gatepost.ids import canonical
from gatepost.scanning.held_mail import (
    Busy,
    Deleted,
    DeleteOrder,
    NotHeld,
    NotSent,
    Released,
    ReleaseOrder,
    ViewOrder,
)
from gatepost.settings.keys import TokenPermission
from gatepost.store.errors import StorageError
from gatepost.store.message_records import Release
from gatepost.store.store import Store
from gatepost.times import date_time, now
from gatepost.view.values import NotShown, View

log = structlog.get_logger("gatepost.abby")

# How many messages of one call are under way at once.
ACTIONS_AT_ONCE = 4
NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no message with this ggrid is held")

Done: TypeAlias = MessageRelease | MessageDeletion
Action: TypeAlias = Callable[[str, str | None, Caller], Awaitable[Done | Failure]]


class HeldMessagesApi:
    """The endpoints for held messages."""

    def __init__(
        self, *, authenticator: Authenticator, held_mail: HeldMailOnCores, store: Store, limits: CallLimits
    ) -> None:
        self._authenticator, self._held_mail, self._store, self._limits = authenticator, held_mail, store, limits

    async def show_text(self, request: Request) -> Response | Failure:
        """Return the text of one message, made of it by a sealed worker."""
        caller = await self._enter(request, "messages.read")
        if isinstance(caller, Failure):
            return caller
        ggrid = canonical(request.path_params["ggrid"])
        mail = await self._store.quarantine.find(ggrid) if ggrid else None
        if ggrid is None or mail is None:
            return NOT_FOUND
        call = self._limits.begin("view", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            view = await self._held_mail.carry_out(ViewOrder(ggrid))
        if isinstance(view, NotShown):
            return Failure(MESSAGE_NOT_SHOWN, f"the message cannot be shown: {view.reason}")
        if not isinstance(view, View):
            return _fail(view)
        await self._store.audit.note_view(ggrid, mail.record.envelope.tenant, caller.actor)
        return JsonResponse(encode_scanning(describe_text(ggrid, view)))

    async def release(self, request: Request) -> Response | Failure:
        """Release one message, by its ggrid in any case."""
        return await self._act_on_one(request, "messages.release", self._release)

    async def delete(self, request: Request) -> Response | Failure:
        """Delete one held message, by its ggrid in any case."""
        return await self._act_on_one(request, "messages.delete", self._delete)

    async def release_many(self, request: Request) -> Response | Failure | None:
        """Release many messages."""
        return await self._act_on_many(request, "messages.release", self._release)

    async def delete_many(self, request: Request) -> Response | Failure | None:
        """Delete many held messages."""
        return await self._act_on_many(request, "messages.delete", self._delete)

    async def _enter(self, request: Request, permission: TokenPermission) -> Caller | Failure:
        caller = await self._authenticator.enter(request)
        return caller if isinstance(caller, Failure) else caller.may(permission) or caller

    async def _act_on_one(self, request: Request, permission: TokenPermission, action: Action) -> Response | Failure:
        caller = await self._enter(request, permission)
        if isinstance(caller, Failure):
            return caller
        done = await action(request.path_params["ggrid"], None, caller)
        return done if isinstance(done, Failure) else JsonResponse(encode_scanning(done))

    async def _act_on_many(
        self, request: Request, permission: TokenPermission, action: Action
    ) -> Response | Failure | None:
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        body = await message_bodies.ACT.read(request)
        if isinstance(body, ClientLeft):
            return None
        if isinstance(body, Failure):
            return body
        tenant = canonical(body.tenant_uid) if body.tenant_uid is not None else None
        if refusal := caller.may(permission) or await find_tenant_fault(self._store.tenants, tenant):
            return refusal
        call = self._limits.begin("bulk action", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            turns = asyncio.Semaphore(ACTIONS_AT_ONCE)

            async def act(ggrid: str) -> ActionResult:
                async with turns:
                    try:
                        done = await action(ggrid, tenant, caller)
                    except StorageError as fault:
                        log.warning("held message could not be acted on", ggrid=ggrid, reason=str(fault))
                        done = Failure(STORAGE_UNAVAILABLE, "storage did not answer; ask for this message again")
                    return _describe_action(ggrid, done)

            ggrids = dict.fromkeys(ggrid.lower() for ggrid in body.ggrids)
            results = await asyncio.gather(*map(act, ggrids))
        return JsonResponse(encode_scanning(ActionResults(tuple(results))))

    async def _release(self, ggrid: str, tenant: str | None, caller: Caller) -> Done | Failure:
        outcome = await self._held_mail.carry_out(
            ReleaseOrder(ggrid, tenant, by=caller.actor, dangerous=caller.may("messages.releaseDangerous") is None)
        )
        if isinstance(outcome, Released):
            return describe_release(outcome.ggrid, Release(outcome.time, outcome.by, outcome.recipients))
        return _fail(outcome)

    async def _delete(self, ggrid: str, tenant: str | None, caller: Caller) -> Done | Failure:
        outcome = await self._held_mail.carry_out(DeleteOrder(ggrid, tenant, by=caller.actor))
        return MessageDeletion(ggrid.lower(), date_time(now())) if isinstance(outcome, Deleted) else _fail(outcome)


def _fail(outcome: NotHeld | NotSent | Busy | Down) -> Failure:
    """Return the failure that an outcome is answered with."""
    if isinstance(outcome, NotHeld):
        return NOT_FOUND
    if isinstance(outcome, Down):
        return Failure(CORE_UNAVAILABLE, f"no core that answers has this message: {explain_absence(outcome)}")
    if isinstance(outcome, NotSent) and outcome.forbidden:
        return Failure(FORBIDDEN, f"{outcome.reason}; the message is held as before")
    if isinstance(outcome, NotSent):
        return Failure(DELIVERY_FAILED, f"{outcome.reason}; the message is held as before")
    return Failure(DELIVERY_FAILED, "another release of this message is under way")


def _describe_action(ggrid: str, done: Done | Failure) -> ActionResult:
    if isinstance(done, Failure):
        return ActionResult(ggrid, "failed", done.error.code, done.message)
    if isinstance(done, MessageRelease):
        return ActionResult(ggrid, "released", release=done)
    return ActionResult(ggrid, "deleted")


def describe_text(ggrid: str, view: View) -> MessageText:
    """Return a view as the API shows it, without pictures."""
    return MessageText(
        ggrid=ggrid,
        headers=tuple(TextHeader(field.name, field.value) for field in view.headers),
        passages=tuple(msgspec.convert(passage, TextPassage, from_attributes=True) for passage in view.passages),
        links=tuple(msgspec.convert(link, TextLink, from_attributes=True) for link in view.links),
        parts=tuple(TextPart(part.path, part.type, part.size, part.names) for part in view.parts),
        left_out=view.left_out,
    )
