"""Orders on held mail, for whichever core has the message: its bytes may lie where only one core can reach them.

The record of the message is looked up before any core is asked: for a caller who may act for one tenant only, mail of
other tenants is not held. What can go wrong in the ordinary course of things is a value; `Down` means that no core
which answers has the message, and that one does not answer. It names the core: the one of the record, or else those
that do not answer.

Cores are asked one after the other, first the one that had mail of the same folder before. If one is slow, all others
are asked beside it, so that a core that has stalled delays the answer by half a second, and several of them do not add
up. Where all cores read the same object store, the first one that is asked has every message.

`HeldMessagesApi` is what clients call: the text, release and deletion of one message or of many at once. Every
operation is carried out by the core that has the bytes, and written to the audit trail with the name of the token. A
call for many messages answers what became of each; one that fails does not keep the others from being done, and the
whole call can be repeated: a message is released once, however often it is asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator, Caller
from gatepost.abby.cores import Down
from gatepost.abby.json_bodies import BodyReader
from gatepost.abby.messages import Entered, describe_release, enter_with_body
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
from gatepost.api.http import JsonResponse
from gatepost.api.messages import (
    MAX_BODY,
    ActionResult,
    ActionResults,
    HeldMessagesRequest,
    MessageDeletion,
    MessageText,
    TextHeader,
    TextLink,
    TextPart,
    TextPassage,
)
from gatepost.api.scanning import MessageRelease, encode_scanning
from gatepost.ids import canonical
from gatepost.process.logs import Logger
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
    ViewOrder,
)
from gatepost.settings.keys import TokenPermission
from gatepost.store.errors import StorageError
from gatepost.store.message_records import Release
from gatepost.store.quarantine import HeldMessage, QuarantineRecords
from gatepost.store.store import Store
from gatepost.times import date_time, now
from gatepost.view.values import NotShown, View

R = TypeVar("R")

# How long a release waits for another one of the same message.
BUSY_SECONDS = 30.0
POLL_SECONDS = 0.25
# How long one core is asked alone.
ALONE_SECONDS = 0.5
MAX_OWNERS = 1_000

log = Logger("gatepost.abby")


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


# How many messages of one call are under way at once.
ACTIONS_AT_ONCE = 4
NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no message with this ggrid is held")

ACT = BodyReader(HeldMessagesRequest, most=MAX_BODY)

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
        caller = await self._authenticator.enter(request, "messages.read")
        if isinstance(caller, Failure):
            return caller
        ggrid = canonical(request.path_params["ggrid"])
        mail = await self._store.quarantine.find(ggrid, caller.tenant) if ggrid else None
        if ggrid is None or mail is None:
            return NOT_FOUND
        call = self._limits.begin("view", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            view = await self._held_mail.carry_out(ViewOrder(ggrid, caller.tenant))
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

    async def _act_on_one(self, request: Request, permission: TokenPermission, action: Action) -> Response | Failure:
        caller = await self._authenticator.enter(request, permission)
        if isinstance(caller, Failure):
            return caller
        done = await action(request.path_params["ggrid"], caller.tenant, caller)
        return done if isinstance(done, Failure) else JsonResponse(encode_scanning(done))

    async def _act_on_many(
        self, request: Request, permission: TokenPermission, action: Action
    ) -> Response | Failure | None:
        entered = await enter_with_body(self._authenticator, self._store.tenants, request, ACT, permission)
        if not isinstance(entered, Entered):
            return entered
        caller, tenant = entered.caller, entered.tenant
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

            ggrids = dict.fromkeys(ggrid.lower() for ggrid in entered.body.ggrids)
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
