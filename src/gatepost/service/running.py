"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed.

A process that runs only one of the services does not load the other one.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import structlog

from gatepost import __version__
from gatepost.events.open_stream import node_name, observe_audit
from gatepost.events.schema import NodeState
from gatepost.events.stream import Emits
from gatepost.policy.layers import unchanged_policies
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.service.certificate_watch import CertificateWatch
from gatepost.service.event_stream import open_service_events
from gatepost.service.generation import Generations
from gatepost.service.health import ConditionWatch, HealthWatch
from gatepost.service.health_warnings import HealthWarnings
from gatepost.service.heap import trim_forever
from gatepost.service.http_servers import serve
from gatepost.service.listeners import Listeners
from gatepost.service.loop_watchdog import watch_loop
from gatepost.service.metrics import build_registry
from gatepost.service.node import SingleProcess
from gatepost.service.plan import Bound, Plan, SharedParts, port_of, release_ports
from gatepost.service.publishing.follower import Follower, NodeControl
from gatepost.service.web_alerts import WebAlerts
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = structlog.get_logger("gatepost")


class ControlsNode(NodeControl, Protocol):
    """What reloads and restarts a node, once it has what a reload replaces."""

    def attach(self, generations: Generations) -> None: ...


Started = Callable[[int, Store], Awaitable[None]]


async def run_plan(
    plan: Plan,
    stop: asyncio.Event,
    started: Started,
    bound: Bound,
    node: SingleProcess | None = None,
    control: ControlsNode | None = None,
) -> None:
    """Run until asked to stop. `started` is called once everything serves, with abby's or guard's port.

    `node` is set in a process that a parent has started (see `processes`). `control` reloads and restarts the node.
    """
    async with contextlib.AsyncExitStack() as stack:
        node = node or SingleProcess()
        stack.callback(release_ports, bound)
        registry = build_registry()
        events, alerts = await stack.enter_async_context(open_service_events(plan.settings, plan.data, registry))
        store = open_store(plan.settings.storage.url, plan.data.path, plan.writer)
        stack.push_async_callback(store.close)
        health = await _watch_health(events, alerts, store, stack)
        if plan.abby and node.is_first:
            await _encrypt_second_factors(store)
        metrics = node.metrics(registry)
        spool, policies = Spool(plan.data.spool), PoliciesInForce(unchanged_policies())
        shared = SharedParts(store, spool, policies, registry, bound, node, events, health, metrics)
        listeners = Listeners(plan, bound, node)
        generations = Generations(shared, listeners)
        stack.push_async_callback(generations.stop)
        generations.take_over(await generations.build(plan))
        renew = generations.renew_delivery
        watch = CertificateWatch(listeners, lambda: generations.plan, generations.trust, renew)
        conditions, warnings = _watch_condition(plan, shared, generations)
        await conditions.look()
        for run in (watch.run, conditions.run, warnings.run, trim_forever):
            stack.callback(asyncio.create_task(run()).cancel)
        if control:
            control.attach(generations)
            if node.is_first and plan.local:
                follower = Follower(store, plan, _name_node(plan, bound), control, generations.health)
                following = asyncio.create_task(follower.run())
                stack.callback(following.cancel)
        stack.callback(watch_loop(shared.registry).stop)
        port = port_of(next(bound[name] for name in ("abby", "guard", "smtp", "milter") if name in bound))
        for task in node.start():
            stack.callback(task.cancel)

        async def announce_start() -> None:
            await started(port, store)
            if node.is_first:
                events.emit(_describe_state, plan, "started")
                health.start()

        try:
            await serve(listeners.servers, stop, announce_start)
        finally:
            if node.is_first:
                events.emit(_describe_state, plan, "stopping")


def _name_node(plan: Plan, bound: Bound) -> str:
    """Return the name of this node for people: its machine, its services and its port."""
    services = "+".join(name for name, settings in (("guard", plan.guard), ("abby", plan.abby)) if settings)
    port = port_of(next(bound[name] for name in ("abby", "guard", "smtp", "milter") if name in bound))
    return f"{node_name(plan.settings.events)} {services}:{port}"


def _watch_condition(
    plan: Plan, shared: SharedParts, generations: Generations
) -> tuple[ConditionWatch, HealthWarnings]:
    """Return what looks at that which all messages need, and at what will become a fault."""
    condition, store = shared.condition, shared.store
    if shared.health:
        shared.health.watch_warnings(condition)
    counts = (generations.dns_counters, generations.smtp_counts)
    warnings = HealthWarnings(condition, store, lambda: generations.plan, *counts)
    faults = (generations.next_hop_fault, generations.flow_fault)
    return ConditionWatch(condition, store, plan.data.path, *faults), warnings


async def _watch_health(
    events: Emits, alerts: WebAlerts, store: Store, stack: contextlib.AsyncExitStack
) -> HealthWatch:
    """Have changes in storage become events, and the health watched, for whoever gets events."""
    await alerts.look(store)
    stack.callback(asyncio.create_task(alerts.follow(store)).cancel)
    store.observe_changes(observe_audit(events))
    health = HealthWatch(events, store)
    stack.push_async_callback(health.stop)
    return health


def _describe_state(plan: Plan, state: Literal["started", "stopping"]) -> NodeState:
    services = [name for name, settings in (("guard", plan.guard), ("abby", plan.abby)) if settings]
    return NodeState(state=state, services=tuple(services), version=__version__)


async def _encrypt_second_factors(store: Store) -> None:
    """Encrypt what an older version stored in clear. Mail is served also if the key is missing; the log says so."""
    try:
        if count := await store.second_factors.encrypt_totp_secrets():
            log.info("second factors encrypted", count=count)
    except StorageError as fault:
        log.error("second factors not encrypted", reason=str(fault))
