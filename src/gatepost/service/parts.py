"""What a process runs: the parts of guard and abby that its settings call for, built and started in this order.

Policies, the core with its workers, the API, scheduled work, and the servers of all ports. The stack ends what was
started, in reverse. Ports, storage and events are opened before (see `running`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette

from gatepost.process.health import WELL, Health, HealthLedger
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.service.certificates import check_pair
from gatepost.service.health import Signs, count_source
from gatepost.service.listeners import HttpMetrics, Server, Serves, build_servers
from gatepost.service.metrics import AskerMetrics, GatewayMetrics, build_metrics_app
from gatepost.service.plan import Bound, Plan, SharedParts
from gatepost.service.schedules import Schedule, build_schedules
from gatepost.settings.files import load_policies
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.service.api_service import ApiParts
    from gatepost.service.core import CoreParts, SmtpPart
    from gatepost.smtp.intake import AskerIntake, AskerPart, Intake
    from gatepost.workers.fair_queue import QueueCounters


class Parts(msgspec.Struct, eq=False):
    """What runs. `http` are servers by the names of their ports, `askers` those of sources for mail servers that ask,
    by their names; `source` is what the SMTP server uses."""

    plan: Plan
    ledger: HealthLedger
    core: "CoreParts | None" = None
    api: "ApiParts | None" = None
    schedules: Sequence[Schedule] = ()
    http: Mapping[str, Server] = {}
    smtp: "Intake | None" = None
    source: "SmtpPart | None" = None
    askers: "Mapping[str, AskerIntake[Any]]" = {}

    @property
    def servers(self) -> list[Serves]:
        """Every server."""
        return [*self.http.values(), *([self.smtp] if self.smtp else ()), *self.askers.values()]

    def health(self) -> Health:
        """How this node is by itself; cores of other nodes say how they are."""
        if self.core:
            return self.core.guard.load().health
        return self.api.own_health if self.api else WELL

    def slots(self) -> tuple[int, int]:
        """Return the messages in processing and the slots."""
        own = [self.core.guard.load()] if self.core else []
        loads = [load for _, load in self.api.cores.states if load] if self.api else own
        return sum(each.in_processing for each in loads), sum(each.maximum for each in loads)

    async def ask_health(self) -> Health:
        """Return the health of the queue: of all cores, if the API service runs here, as its clients are told."""
        if self.api:
            return await self.api.cores.status()
        await self.ledger.look()
        return self.health()

    def next_hop_fault(self) -> str:
        """Return why mail of the SMTP source waits for a next hop; "" if all is well or there is none."""
        routings = self.source.services.routings if self.source else ()
        return "; ".join(said for each in routings if (said := each.trouble))

    def slot_counts(self) -> "QueueCounters | None":
        """Return what the queue of slots has counted; None without a core."""
        return self.core.guard.queue_counters() if self.core else None

    def read_signs(self, certificates: str) -> Signs:
        """Return what the parts have counted; `certificates` names files that could not be taken over."""
        sources = {name: count_source(each, each.services) for name, each in self.askers.items()}
        if self.smtp:
            sources["smtp"] = count_source(self.smtp, self.smtp.services)
        dns, held = (self.core.guard.dns_counters(), self.core.quarantine.failures) if self.core else (None, 0)
        return Signs(self.plan, certificates, dns, sources, held)

    async def renew_certificates(self, plan: Plan, contexts: Mapping[str, SSLContext]) -> None:
        """Show certificates whose files have changed: that for STARTTLS, which is read again, and these contexts of
        HTTPS. Raises `StartError` if the first cannot be used."""
        tls = self.smtp.services.tls if self.smtp else None
        if tls:
            await asyncio.to_thread(check_pair, *plan.smtp_certificate)
            tls.load_cert_chain(*plan.smtp_certificate)
        for name, server in self.http.items():
            server.use_tls(contexts.get(name))

    def renew_delivery(self) -> None:
        """Read the files for TLS towards next hops again; raises `OSError` if one cannot be used."""
        if self.core:
            self.core.renew_tls()

    def trust(self, ca: Path) -> None:
        """Verify the certificates of the cores with this file, which has changed; raises `OSError`."""
        if self.api:
            self.api.cores.trust(ca)


async def load_policies_in_force(plan: Plan, store: Store, stack: AsyncExitStack) -> PoliciesInForce:
    """Read the policies and follow their rules in storage, until the stack ends; raises `ConfigError`."""
    files = await asyncio.to_thread(load_policies, plan.settings.policy, plan.settings.plugins)
    policies = PoliciesInForce(files, store.own_rules)
    stack.push_async_callback(policies.stop)
    await policies.start()
    return policies


async def start_parts(plan: Plan, bound: Bound, shared: SharedParts, stack: AsyncExitStack) -> Parts:
    """Build and start everything but the servers, which are built; raises `StartError`. A process that runs one of the
    services does not load the other."""
    parts, registry, metrics = Parts(plan, shared.health), shared.registry, build_metrics_app(shared.metrics)
    apps = {"metrics": metrics, "guard metrics": metrics}
    pages = _prepare_pages(stack) if plan.abby else None
    if plan.guard:
        from gatepost.service.core import build_asker_sources, build_rest_source, build_smtp_source, start_core

        parts.core = core = await start_core(plan, plan.guard, shared, stack)
        apps["guard"] = await asyncio.to_thread(build_rest_source, plan, core, shared)
        parts.source = await asyncio.to_thread(build_smtp_source, plan, core, shared)
        parts.askers = _build_askers(build_asker_sources(core, shared), bound)
        for asker in parts.askers.values():
            registry.register(AskerMetrics(asker, asker.services))
    if parts.source:
        parts.smtp = _build_intake(parts.source, bound)
        registry.register(GatewayMetrics(parts.smtp, parts.smtp.services))
    if plan.abby:
        from gatepost.service.api_service import build_api

        parts.api = build_api(plan, plan.abby, shared, parts.core)
        apps["abby"] = parts.api.app
    parts.schedules = build_schedules(plan, shared, parts.core)
    for schedule in parts.schedules:
        registry.register(schedule)
        stack.push_async_callback(schedule.periodic.stop)
    if pages:
        await pages
    await _enter_apps(apps.values(), stack)
    parts.http = build_servers(plan, bound, apps)
    registry.register(HttpMetrics(parts.http))
    return parts


async def _enter_apps(apps: Iterable[Starlette], stack: AsyncExitStack) -> None:
    for app in dict.fromkeys(apps):
        await stack.enter_async_context(app.router.lifespan_context(app))


def _build_intake(part: "SmtpPart", bound: Bound) -> "Intake":
    """Build the SMTP server."""
    from gatepost.auth.origin import parse_networks
    from gatepost.smtp.intake import Intake

    source, sockets = part.settings, (*bound["smtp"], *bound.get("outbound smtp", ()))
    listed = parse_networks(tuple(source.xclient_hosts))
    return Intake(part.services, sockets, source.max_connections, listed, reserved=source.reserved_connections)


def _build_askers(parts: "Mapping[str, AskerPart]", bound: Bound) -> "dict[str, AskerIntake[Any]]":
    """Build the servers of sources for mail servers that ask for verdicts."""
    from gatepost.service.core import ASKER_SESSIONS
    from gatepost.smtp.intake import AskerIntake

    return {name: AskerIntake(name, part, ASKER_SESSIONS[name], bound[name]) for name, part in parts.items()}


def _prepare_pages(stack: AsyncExitStack) -> asyncio.Task[None]:
    """Compile the pages in a thread, while the workers start."""
    from gatepost.web.registry import prepare_pages

    task = asyncio.create_task(asyncio.to_thread(prepare_pages))
    stack.callback(task.cancel)
    return task
