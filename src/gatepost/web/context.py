"""What all pages need: the store, cores and policies that the APIs use too, who may sign in, and the scopes of a user.

A password that somebody else chose has to be changed, and a user whose role or tenant needs a second factor has to have
one, before any other page opens. Users of an OpenID provider have neither here: their proofs are the provider's. Where
passwords are switched off, one named account still has one, for the day on which the provider does not answer.

Work on many messages runs in the background, four at a time. Its record (`store.bulk_actions`) is what pages
show; a task of this process does the work. Storing results writes all of the record, so that of long work a hundredth
is stored at once, or what some seconds brought. Should the process end, the record says how far the work came, and its
user can continue it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

import msgspec
from starlette.responses import Response

from gatepost.abby.authenticator import Guesses
from gatepost.abby.cores import Cores
from gatepost.abby.held_mail import HeldMailOnCores
from gatepost.abby.lists import Exports
from gatepost.api.call_limits import CallLimits, RunningCall
from gatepost.api.errors import Failure
from gatepost.api.http import end_with_client
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.mailboxes.removal import MailRemover
from gatepost.policy.condition_process import condition_work
from gatepost.policy.layers import Policies
from gatepost.policy.rules import PolicyError
from gatepost.process.logs import Logger
from gatepost.rejudge.list_plan import ListDryRuns
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.rejudge.try_change import Change, Messages, Trial, try_change
from gatepost.scanning.spool import Spool
from gatepost.settings.events import WebAlert
from gatepost.settings.keys import SignInSettings
from gatepost.store.bulk_actions import BulkAction, BulkActions
from gatepost.store.errors import StorageError
from gatepost.store.feeds import FeedDefinition
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.store.users import User
from gatepost.web.configuration import Publisher
from gatepost.web.credentials import PasswordHashes
from gatepost.web.openid import OpenidClient
from gatepost.web.page_responses import html_response
from gatepost.web.rendering import PageRenderer
from gatepost.web.request import GLOBAL, SignedInRequest

P = ParamSpec("P")
T = TypeVar("T")
SetupStep: TypeAlias = Literal["password", "second-factor"]


class SignInRules(msgspec.Struct, frozen=True):
    """The rules that the settings make."""

    settings: SignInSettings = SignInSettings()

    def accepts(self, user: User) -> bool:
        """May this user be signed in? Where passwords are off, of those who have one only the emergency account."""
        return user.external is not None or self.settings.passwords or self._is_emergency_account(user)

    def next_step(self, user: User) -> SetupStep | None:
        """Return what the user has to do first; None if nothing is left."""
        if user.external is not None:
            return None
        if user.must_change:
            return "password"
        return "second-factor" if self.needs_second_factor(user) and not user.has_second_factor else None

    def needs_second_factor(self, user: User) -> bool:
        """Has a user of this role, or of this tenant, to have a second factor?"""
        return bool(self.describe_need(user))

    def describe_need(self, user: User) -> Literal["", "role", "tenant"]:
        """Return what makes a second factor necessary for a user; "" where nothing does."""
        if user.external is not None:
            return ""
        if user.role in self.settings.second_factor:
            return "role"
        return "tenant" if self.is_tenant_strict(user.tenant) else ""

    def is_tenant_strict(self, tenant: str | None) -> bool:
        """Do all users of a tenant need a second factor?"""
        return tenant is not None and tenant in self.settings.second_factor_tenants

    def _is_emergency_account(self, user: User) -> bool:
        named = self.settings.emergency_account
        return named is not None and user.name.strip().casefold() == named.strip().casefold()


class FeedLine(msgspec.Struct, frozen=True):
    """A feed as pages show it. `source` holds no secret; `every` None: it is run by hand. `definition` is that of the
    web interface, None where abby.yml has it."""

    name: str
    scope: str | None
    list_name: str
    source: str
    format: str
    every: int | None
    definition: FeedDefinition | None = None


class Installation(msgspec.Struct, frozen=True):
    """What the system page shows of this process: when it started, the settings in force without their
    secrets, as (file, key, value), and the health check of `gatepost doctor`, which may take some seconds. `learn`
    keeps a message that was judged wrongly for the text model's next training, and `unlearn` has the one with a hash as
    it was before: wanted, unwanted, or not kept (None). `feeds` are those of the files.
    `certificate` is the file of the certificate of our own making, which clients have to be told of; "" where the
    operator has configured another one. `try_feed` makes a dry run of a feed; `data` is the data folder; `publisher`
    knows the files of this node. `test_alert`
    sends an alert and returns why it failed."""

    started: float = 0.0
    settings: tuple[tuple[str, str, str], ...] = ()
    examine: Callable[[], Sequence[object]] = tuple
    learn: Callable[[bytes, bool], object] = lambda _raw, _wanted: None
    unlearn: Callable[[str, bool | None], object] = lambda _sha256, _wanted: None
    feeds: tuple[FeedLine, ...] = ()
    certificate: str = ""
    try_feed: Callable[[str], Awaitable[tuple[bool, str]]] | None = None
    data: Path | None = None
    publisher: Publisher | None = None
    test_alert: Callable[[WebAlert], str] | None = None


AT_ONCE = 4
# How long a request waits for its own work before it shows the progress instead; proxies give up after 30 or 60.
PATIENCE_SECONDS = 15.0
# Results are stored so many times for all items, and after so many seconds: far below the lease of the work.
STORED_TIMES = 100
STORE_SECONDS = 5.0

log = Logger("gatepost.abby")

# Does the action for one message; returns why it failed, "" if it succeeded.
ActsOnOne: TypeAlias = Callable[[str], Awaitable[str]]


class BulkWork:
    """The tasks of this process."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(
        self, store: BulkActions, work: BulkAction, act: ActsOnOne, call: RunningCall | None = None
    ) -> None:
        """Begin or continue work, unless somebody does it, and wait a little for its end. `call` is what it counts as
        until it ends."""
        if work.id not in self._tasks and await store.claim(work.id):
            task = asyncio.create_task(self._run(store, work, act, call))
            self._tasks[work.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(work.id, None))
        elif call:
            call.end()
        if running := self._tasks.get(work.id):
            await asyncio.wait({running}, timeout=PATIENCE_SECONDS)

    async def _run(self, store: BulkActions, work: BulkAction, act: ActsOnOne, call: RunningCall | None) -> None:
        left = work.items[len(work.results) :]
        results: list[str] = []
        stored = time.monotonic()
        try:
            for start in range(0, len(left), AT_ONCE):
                results += await asyncio.gather(*(_try(act, item) for item in left[start : start + AT_ONCE]))
                is_last = start + AT_ONCE >= len(left)
                late = time.monotonic() - stored >= STORE_SECONDS
                if is_last or late or len(results) >= len(work.items) // STORED_TIMES:
                    await store.add_results(work.id, results)
                    results, stored = [], time.monotonic()
        except StorageError as fault:
            # The record keeps what was stored; its user is told, and can continue.
            log.warning("work on many messages stopped", id=work.id, reason=str(fault))
        finally:
            if call:
                call.end()


async def _try(act: ActsOnOne, item: str) -> str:
    try:
        return await act(item)
    except StorageError as fault:
        return f"storage failed: {fault}"


# The count beside the menu may be so old; the page of the quarantine counts anew.
FRAME_MILLISECONDS = 3_000
MAX_FRAMES = 1_000


class WebContext(msgspec.Struct, frozen=True):
    """Everything that page functions need, besides the request."""

    store: Store
    cores: Cores
    held_mail: HeldMailOnCores
    spool: Spool
    in_force: PoliciesInForce
    dry_runs: ListDryRuns
    exports: Exports
    limits: CallLimits
    passwords: PasswordHashes
    guesses: Guesses
    renderer: PageRenderer
    installation: Installation
    scan_seconds: float
    bulk_work: BulkWork = msgspec.field(default_factory=BulkWork)
    sign_in: SignInRules = SignInRules()
    openid: OpenidClient | None = None
    public_url: str | None = None
    remover: MailRemover | None = None
    events: Emits = NO_EVENTS
    clock: Callable[[], float] = time.time
    examining: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    # What pages have counted lately, by what it was counted for.
    top_values: dict[tuple[Any, ...], Any] = msgspec.field(default_factory=dict)
    frames: dict[str | None, tuple[int, str, int, bool]] = msgspec.field(default_factory=dict)
    reading_policy: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    @property
    def policies(self) -> Policies:
        """The policies that hold now."""
        return self.in_force.now

    @property
    def sign_in_ways(self) -> dict[str, str | bool]:
        """What the page for signing in offers: the name of the OpenID provider, if there is one, and passwords."""
        provider = self.openid.settings.provider_name if self.openid else ""
        return {"provider": provider, "passwords": self.sign_in.settings.passwords}

    async def page(self, request: SignedInRequest, template: str, **values: Any) -> Response:
        """Return a page for a signed-in user, with these values in its template."""
        frame = await self._describe_frame(request)
        return html_response(await self.renderer.render_in_turns(template, request, **frame, **values))

    async def error_page(self, failure: Failure, request: SignedInRequest) -> Response:
        """Return a failure as a page for a signed-in user; where storage does not answer, its frame says less."""
        try:
            frame = await self._describe_frame(request)
        except StorageError:
            frame = {}
        return self.renderer.error_page_in_frame(failure, request, frame)

    async def _describe_frame(self, request: SignedInRequest) -> Mapping[str, Any]:
        """What the frame of every page says: the name of the user's tenant, how many messages are held, and whether
        mail can be taken out of mailboxes."""
        tenant, now = request.user.tenant, self.now()
        known = self.frames.get(tenant)
        if known is None or not 0 <= now - known[0] < FRAME_MILLISECONDS:
            own = await self.store.tenants.find(tenant) if tenant else None
            held = await self.store.quarantine.counts(tenant)
            if len(self.frames) >= MAX_FRAMES:
                self.frames.clear()
            known = self.frames[tenant] = (now, own.name if own else "", held.messages, held.more)
        _, name, number, more = known
        shown = f"{number:,}{'+' if more else ''}" if number and request.may("quarantine.read") else ""
        return {"tenant_name": name, "held_shown": shown, "can_remove": self.remover is not None}

    async def read_policy(self, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Read the text of a policy in a thread, one at a time: it may be hostile, and the event loop has other work.
        Where nobody waits any more, its conditions are not compiled any further."""
        async with self.reading_policy:
            with condition_work() as work:
                try:
                    return await asyncio.to_thread(read, *arguments, **named)
                except asyncio.CancelledError:
                    work.end()
                    raise

    async def try_policies(
        self, request: SignedInRequest, find: Callable[[], Awaitable[Policies]], messages: Messages
    ) -> Trial:
        """Return what other policies would do to messages, or the mistakes of the policies. It ends with its client."""

        async def work() -> Trial:
            with condition_work():
                try:
                    change = Change(policies=await find())
                except PolicyError as fault:
                    return Trial(mistakes=tuple(str(fault).splitlines()[:50]))
                return await try_change(self.store, self.policies, change, messages)

        return await end_with_client(request.http.receive, work())

    def now(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)


ALL_TENANTS = "All tenants"


class Scopes(msgspec.Struct, frozen=True):
    """Tenants that the user may see; `has_all_tenants` says whether the user may act for all of them at once."""

    tenants: tuple[Tenant, ...]
    has_all_tenants: bool

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """(value, label) of each scope, for a select field."""
        named = tuple((tenant.uid, tenant.name) for tenant in self.tenants)
        return ((GLOBAL, ALL_TENANTS), *named) if self.has_all_tenants else named

    def name(self, uid: str | None) -> str:
        """Return the label of a scope, given as in storage: a tenant's uid, or None for all tenants."""
        if uid is None:
            return ALL_TENANTS
        return next((tenant.name for tenant in self.tenants if tenant.uid == uid), uid)


async def find_scopes(context: WebContext, request: SignedInRequest) -> Scopes:
    """Return every scope, or only the user's own tenant where the user belongs to one."""
    if request.user.tenant:
        own = await context.store.tenants.find(request.user.tenant)
        return Scopes((own,) if own else (), has_all_tenants=False)
    return Scopes(await context.store.tenants.all(), has_all_tenants=True)
