"""What a process builds from its settings, and how it is replaced while the process serves: a reload.

Everything that settings decide (policies, workers with their rules and models, resolver and zones, relay, quarantine,
tokens, cores, pages, feeds) is built as one `Generation`. A reload builds the next one beside the one that serves. When
the next one is ready, ports hand new requests and sessions to it; the one before finishes what it has and ends. So a
fault in new settings shows before anything has changed, no request sees half of a change, and no port is closed.

Ports, storage, events and the counts of slots and connections belong to the process (see `running`) and stay.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from gatepost.process import logs
from gatepost.process.health import Health, make_reason
from gatepost.process.logs import Logger
from gatepost.process.metrics import keep_counters, merge
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.service.certificates import load_certificates
from gatepost.service.health import Signs, count_source
from gatepost.service.listeners import Listeners
from gatepost.service.metrics import AskerMetrics, GatewayMetrics, build_metrics_app
from gatepost.service.plan import Plan, SharedParts
from gatepost.service.schedules import Schedule, build_schedules
from gatepost.settings.files import load_policies
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.service.api_service import ApiParts
    from gatepost.service.core import CoreParts, SmtpPart
    from gatepost.smtp.intake import AskerPart
    from gatepost.workers.fair_queue import QueueCounters

# How long the generation before the last one may go on with what it has once another reload waits for it.
PATIENCE_SECONDS = 60.0
log = Logger("gatepost")


class Generation(msgspec.Struct, eq=False):
    """What one set of settings has built; `apps` are HTTP applications by the names of their ports."""

    plan: Plan
    stack: AsyncExitStack
    registry: CollectorRegistry
    apps: dict[str, Starlette]
    contexts: dict[str, ssl.SSLContext]
    core: "CoreParts | None" = None
    smtp: "SmtpPart | None" = None
    askers: "Mapping[str, AskerPart]" = {}
    api: "ApiParts | None" = None
    schedules: Sequence[Schedule] = ()

    async def end(self) -> None:
        """Stop everything that this generation started."""
        await self.stack.aclose()


class Generations(Collector):
    """The generation of this process that serves, and those before it that finish what they have."""

    def __init__(self, shared: SharedParts, listeners: Listeners) -> None:
        self._shared, self._listeners = shared, listeners
        self._current: Generation | None = None
        self._ending: dict[Generation, asyncio.Task[None]] = {}
        self._ended: list[Metric] = []
        self._created = now()
        shared.registry.register(self)

    @property
    def plan(self) -> Plan | None:
        """The plan of the generation that serves."""
        return self._current.plan if self._current else None

    def describe(self) -> tuple[Metric, ...]:
        """Nothing is asked before `/metrics` is."""
        return ()

    def collect(self) -> Iterator[Metric]:
        current = self._current.registry.collect() if self._current else ()
        ending = chain.from_iterable(keep_counters(each.registry.collect()) for each in self._ending)
        yield from merge(chain(current, ending, self._ended))

    async def build(self, plan: Plan) -> Generation:
        """Build everything of a plan, and start its workers; nothing serves yet. Raises `StartError`, `ConfigError`."""
        await self._await_ending()
        stack, registry = AsyncExitStack(), CollectorRegistry()
        try:
            files = await asyncio.to_thread(load_policies, plan.settings.policy, plan.settings.plugins)
            policies = PoliciesInForce(files, self._shared.store.own_rules)
            stack.push_async_callback(policies.stop)
            await policies.start()
            shared = msgspec.structs.replace(self._shared, policies=policies, registry=registry)
            contexts = await asyncio.to_thread(load_certificates, plan)
            generation = Generation(plan, stack, registry, {}, contexts)
            await self._build_services(generation, shared)
        except BaseException:
            await stack.aclose()
            raise
        return generation

    def take_over(self, generation: Generation) -> None:
        """Let a generation that was built serve, and the one before finish."""
        before, self._current = self._current, generation
        log_settings = generation.plan.settings.log
        logs.configure(log_settings.level, log_settings.format)
        for schedule in before.schedules if before else ():
            schedule.periodic.cancel()
        for schedule in generation.schedules:
            schedule.periodic.start()
        self._listeners.use_tls(generation.contexts)
        idle = self._listeners.use(generation.plan, generation.apps, generation.smtp, generation.askers)
        if before:
            task = asyncio.create_task(self._finish(before, idle))
            self._ending[before] = task

    async def stop(self) -> None:
        """End all generations; the servers have ended before."""
        for task in self._ending.values():
            task.cancel()
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        if self._current:
            await self._current.end()

    async def _build_services(self, generation: Generation, shared: SharedParts) -> None:
        """Start the core, if there is one, and build an application for every port. A process that runs one of the
        services does not load the other."""
        plan, core = generation.plan, None
        pages = _prepare_pages(generation.stack) if plan.abby else None
        if plan.guard:
            from gatepost.service.core import build_asker_sources, build_rest_source, build_smtp_source, start_core

            generation.core = core = await start_core(plan, plan.guard, shared, generation.stack)
            generation.apps["guard"] = await asyncio.to_thread(build_rest_source, plan, core, shared)
            generation.smtp = await asyncio.to_thread(build_smtp_source, plan, core, shared)
            generation.askers = build_asker_sources(core, shared)
            if generation.smtp:
                intake = self._listeners.intake(generation.smtp)
                shared.registry.register(GatewayMetrics(intake, generation.smtp.services))
            for name, part in generation.askers.items():
                shared.registry.register(AskerMetrics(self._listeners.asker_intake(name, part), part.services))
        if plan.abby:
            from gatepost.service.api_service import build_api

            generation.api = build_api(plan, plan.abby, shared, core)
            generation.apps["abby"] = generation.api.app
        generation.schedules = build_schedules(plan, shared, core)
        for schedule in generation.schedules:
            shared.registry.register(schedule)
            generation.stack.push_async_callback(schedule.periodic.stop)
        if pages:
            await pages
        metrics = build_metrics_app(shared.metrics)
        generation.apps |= dict.fromkeys(("metrics", "guard metrics"), metrics)
        for app in generation.apps.values():
            await generation.stack.enter_async_context(app.router.lifespan_context(app))

    async def _finish(self, generation: Generation, idle: Callable[[], Awaitable[object]]) -> None:
        try:
            await idle()
        finally:
            await generation.end()
            self._ended = merge([*self._ended, *keep_counters(generation.registry.collect())])
            del self._ending[generation]
        log.info("settings before are no longer in use")

    async def _await_ending(self) -> None:
        """Wait for the generation before; one more would need the memory of three at once."""
        if not self._ending:
            return
        _, late = await asyncio.wait(self._ending.values(), timeout=PATIENCE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def health(self) -> Health:
        """How this node is by itself; cores of other nodes say how they are."""
        if self._current and self._current.core:
            return self._current.core.guard.load().health
        if self._current and self._current.api:
            return self._current.api.own_health
        return Health.of([make_reason("starting", "the node is starting", self._created)])

    def slots(self) -> tuple[int, int]:
        """Return the messages in processing and the slots."""
        now = self._current
        loads = [load for _, load in now.api.cores.states if load] if now and now.api else []
        if now and now.core and not now.api:
            loads = [now.core.guard.load()]
        return sum(each.in_processing for each in loads), sum(each.maximum for each in loads)

    async def ask_health(self) -> Health:
        """Return the health of the queue: of all cores, if the API service runs here, as its clients are told."""
        if self._current and self._current.api:
            return await self._current.api.cores.status()
        await self._shared.health.look()
        return self.health()

    def next_hop_fault(self) -> str:
        """Return why mail of the SMTP source waits for a next hop; "" if all is well or there is none."""
        part = self._current.smtp if self._current else None
        return "; ".join(said for each in part.services.routings if (said := each.trouble)) if part else ""

    def slot_counts(self) -> "QueueCounters | None":
        """Return what the queue of slots has counted; None without a core."""
        return self._current.core.guard.queue_counters() if self._current and self._current.core else None

    def read_signs(self, certificates: Callable[[], str]) -> Signs:
        """Return what the generation that serves has counted; `certificates` names files that could not be used."""
        now = self._current
        if now is None:
            return Signs()
        asked = {name: self._listeners.asker_intake(name, part) for name, part in now.askers.items()}
        sources = {name: count_source(intake, now.askers[name].services) for name, intake in asked.items()}
        if now.smtp:
            sources["smtp"] = count_source(self._listeners.intake(now.smtp), now.smtp.services)
        dns, held = (now.core.guard.dns_counters(), now.core.quarantine.failures) if now.core else (None, 0)
        return Signs(now.plan, certificates(), dns, sources, held)

    def renew_delivery(self) -> None:
        """Read the files for TLS towards next hops again; raises `OSError` if one cannot be used."""
        if self._current and self._current.core:
            self._current.core.renew_tls()

    def trust(self, ca: Path) -> None:
        """Verify the certificates of the cores with this file, which has changed; raises `OSError`."""
        if self._current and self._current.api:
            self._current.api.cores.trust(ca)


def _prepare_pages(stack: AsyncExitStack) -> asyncio.Task[None]:
    """Compile the pages in a thread, while the workers start."""
    from gatepost.web.registry import prepare_pages

    task = asyncio.create_task(asyncio.to_thread(prepare_pages))
    stack.callback(task.cancel)
    return task
