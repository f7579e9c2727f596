"""Held mail for commands: its records, which are in storage, and its bytes, wherever they lie.

Where there is a `guard.yml`, the command has the quarantine of this host to itself, beside the service, and releases
mail by the routes of that file. What does not lie there is asked of the cores that `abby.yml` names, over the port and
with the secret that abby uses. Where there is only an `abby.yml`, the cores are asked for everything.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from gatepost.abby.cores import Down
from gatepost.abby.held_mail import HeldMailCore, HeldMailOnCores, explain_absence
from gatepost.abby.remote_core import RemoteCore
from gatepost.cli.commands import BadParameter
from gatepost.cli.deployment import Deployment
from gatepost.guard.quarantine.quarantine import DANGEROUS
from gatepost.process import logs
from gatepost.scanning.held_mail import (
    Busy,
    Deleted,
    HeldMailOrder,
    NotHeld,
    NotSent,
    Released,
    ReleaseOrder,
    ReleaseOutcome,
)
from gatepost.service.core import name_core, open_quarantine
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan
from gatepost.service.routes import open_outbound_routing, open_routing
from gatepost.settings.consistency import is_own_core
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.store import open_store
from gatepost.store.held_search import HeldFilter
from gatepost.store.quarantine import HeldMessage
from gatepost.store.search_language import SearchFault, SearchPlace, by_name_and_id, find_state
from gatepost.store.store import Store
from gatepost.times import now

PAGE = 100
UNKNOWN = "no file of this host names it"
DELETED = "deleted"

R = TypeVar("R")
T = TypeVar("T")


class HeldMail:
    """All held mail of a deployment. `own` is the name of this host's core in records."""

    def __init__(self, store: Store, cores: Sequence[HeldMailCore], own: str) -> None:
        self._store, self._cores, self._own = store, HeldMailOnCores(store.quarantine, cores), own

    async def page(
        self, wanted: HeldFilter, before: str | None = None, limit: int = PAGE, query: str = ""
    ) -> tuple[HeldMessage, ...]:
        """Return messages that match, newest first. `before` is the ggrid of the last one of the page before; `query`
        is a text of the language of searches."""
        tenants = by_name_and_id((each.uid, each.name) for each in await self._store.tenants.all())
        asked = await self._store.messages.read_search(query, SearchPlace(now(), tenants=tenants, is_held=True), None)
        if isinstance(asked, SearchFault):
            raise BadParameter(f"{asked.message} (characters {asked.start + 1} to {asked.end})", "QUERY")
        state = find_state(asked)
        wanted = msgspec.structs.replace(
            wanted, query=asked, released=wanted.released or state == "released", deleted=state == "deleted"
        )
        found: list[HeldMessage] = []
        while len(found) < limit:
            page = await self._store.quarantine.search(wanted, before, limit - len(found))
            found += page.rows
            before = page.next
            if before is None:
                break
        return tuple(found)

    async def one(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """Return a message that is held or was released, of that tenant if one is named."""
        return await self._store.quarantine.find(ggrid, tenant)

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Do what the order says, on whichever host. `Down` names the core that has the bytes and cannot be asked."""
        outcome = await self._cores.carry_out(order)
        if not isinstance(outcome, NotHeld):
            return outcome
        mail = await self._store.quarantine.find(order.ggrid, order.tenant)
        if mail is None or mail.release or mail.core in ("", self._own):
            return outcome
        # It is held, by a core that is none of those that this host knows.
        return Down(UNKNOWN, begun=False, core=mail.core)


def explain(down: Down) -> str:
    """Return why a held message cannot be had from this host, as the end of a sentence."""
    if down.reason == UNKNOWN:
        return f"it lies at {down.core}: use the command there, or on a host whose abby.yml names that core"
    return explain_absence(down)


async def release_all(held: HeldMail, orders: Iterable[ReleaseOrder]) -> list[ReleaseOutcome]:
    """Release messages one after the other; a core that cannot be asked has sent nothing."""
    outcomes = [await held.carry_out(order) for order in orders]
    return [NotSent(explain(outcome)) if isinstance(outcome, Down) else outcome for outcome in outcomes]


def describe_release(uid: str, outcome: ReleaseOutcome) -> str:
    """Return what became of a release, for people."""
    if isinstance(outcome, Released):
        return f"{uid}: released to {', '.join(outcome.recipients)}"
    if isinstance(outcome, NotSent):
        # Who may use this command has the right, and only has to say so.
        how = " (say --dangerous)" if outcome == DANGEROUS else ""
        return f"{uid}: still held; {outcome.reason}{how}"
    return f"{uid}: is being released by another process" if isinstance(outcome, Busy) else f"{uid}: not held"


def describe_deletion(outcome: Deleted | Busy | NotHeld | Down) -> str:
    """Return what became of a deletion, for people; `DELETED` where it succeeded."""
    if isinstance(outcome, Down):
        return f"still held; {explain(outcome)}"
    return DELETED if isinstance(outcome, Deleted) else "not held, or being released"


def with_held_mail(deployment: Deployment, use: Callable[[HeldMail], Awaitable[T]]) -> T:
    """Call `use` with the held mail of the deployment, and return its result; raises `ConfigError` and `StartError`.
    Only errors are logged: everything else is printed as the result of the command."""
    logs.configure("error")
    place = deployment.data_folder
    guard, abby = _load_settings(deployment.folder_in_force)
    url = (guard or cast("AbbySettings", abby)).storage.url
    place.make()

    async def run() -> T:
        store = open_store(url, place.path)
        try:
            with deployment.emit_changes(store):
                async with _open_cores(guard, abby, store, place) as cores:
                    return await use(HeldMail(store, cores, name_core(guard, place) if guard else ""))
        finally:
            await store.close()

    return asyncio.run(run())


def _load_settings(folder: Path) -> tuple[GuardSettings | None, AbbySettings | None]:
    """Read what there is of the two files. With a `guard.yml`, a command can do without the other one."""
    has_guard, has_abby = ((folder / file).exists() for file in (GUARD_FILE, ABBY_FILE))
    if not has_guard and has_abby:
        return None, load_abby(folder)
    guard = load_guard(folder)
    try:
        return guard, load_abby(folder) if has_abby else None
    except ConfigError as fault:
        print(f"Only the mail that this host holds can be read: {fault.faults[0]}", file=sys.stderr)
        return guard, None


@asynccontextmanager
async def _open_cores(
    guard: GuardSettings | None, abby: AbbySettings | None, store: Store, place: DataFolder
) -> AsyncIterator[list[HeldMailCore]]:
    cores: list[HeldMailCore] = []
    async with AsyncExitStack() as stack:
        if guard:
            routes = await stack.enter_async_context(open_routing(guard, place))
            outbound = await stack.enter_async_context(open_outbound_routing(guard, routes, place))
            opened = open_quarantine(guard, store, place, routes, outbound)
            cores.append(await stack.enter_async_context(opened))
        hosts = abby.service_providers.core.hosts if abby else ()
        plan = Plan(place, None, abby)
        for url in hosts:
            if not (guard and is_own_core(url, guard)):
                remote = _open_remote(url, plan)
                stack.push_async_callback(remote.close)
                cores.append(remote)
        yield cores


def _open_remote(url: str, plan: Plan) -> RemoteCore:
    try:
        return RemoteCore(url, plan.secret, plan.ca)
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        raise StartError(f"{url} cannot be asked; its secret or certificate authority: {reason}.") from None
