"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed.

A process that runs only one of the services does not load the other one.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Literal

import structlog

from gatepost import __version__
from gatepost.events.open_stream import observe_audit
from gatepost.events.schema import NodeState
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.scanning.spool import Spool
from gatepost.service.event_stream import open_service_events
from gatepost.service.health import HealthWatch
from gatepost.service.http_servers import Serves, build_server, serve
from gatepost.service.loop_watchdog import watch_loop
from gatepost.service.metrics import build_metrics_app, build_registry
from gatepost.service.node import SingleProcess
from gatepost.service.plan import Bound, Plan, SharedParts, bind_ports, port_of, release_ports
from gatepost.settings.files import load_policies
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = structlog.get_logger("gatepost")

Started = Callable[[int, Store], Awaitable[None]]


async def run_plan(
    plan: Plan,
    stop: asyncio.Event,
    started: Started,
    bound: Bound | None = None,
    node: SingleProcess | None = None,
) -> None:
    """Run until asked to stop. `started` is called once everything serves, with abby's or guard's port.

    `bound` and `node` are set in a process that a parent has started (see `processes`): the parent holds the ports.
    """
    async with contextlib.AsyncExitStack() as stack:
        node = node or SingleProcess()
        bound = bound or bind_ports(plan)
        stack.callback(release_ports, bound)
        registry = build_registry()
        events = await stack.enter_async_context(open_service_events(plan.settings, plan.data, registry))
        store = open_store(plan.settings.storage.url, plan.data.path, plan.writer)
        stack.push_async_callback(store.close)
        health = _watch_health(events, store, stack)
        if plan.abby and node.is_first:
            await _encrypt_second_factors(store)
        policies = load_policies(plan.settings.policy)
        shared = SharedParts(store, Spool(plan.data.spool), policies, registry, bound, node, events, health)
        servers = await _build_servers(plan, shared, stack)
        stack.callback(watch_loop(shared.registry).stop)
        port = port_of(next(bound[name] for name in ("abby", "guard", "smtp") if name in bound))
        for task in node.start():
            stack.callback(task.cancel)

        async def announce_start() -> None:
            await started(port, store)
            if node.is_first:
                events.emit(_describe_state, plan, "started")
                if health:
                    health.start()

        try:
            await serve(servers, stop, announce_start)
        finally:
            if node.is_first:
                events.emit(_describe_state, plan, "stopping")


def _watch_health(events: Emits, store: Store, stack: contextlib.AsyncExitStack) -> HealthWatch | None:
    """Have changes in storage become events, and the health watched, where events have an output."""
    if events is NO_EVENTS:
        return None
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
        if count := await store.encrypt_totp_secrets():
            log.info("second factors encrypted", count=count)
    except StorageError as fault:
        log.error("second factors not encrypted", reason=str(fault))


async def _build_servers(plan: Plan, shared: SharedParts, stack: contextlib.AsyncExitStack) -> list[Serves]:
    """Start the core, if there is one, and build a server for every address that is bound."""
    servers: list[Serves] = []
    own = None
    if plan.guard:
        from gatepost.service.core import build_core_servers, start_core, start_learning

        core = await start_core(plan, plan.guard, shared, stack)
        servers += build_core_servers(plan, core, shared)
        own = core.own
        if shared.node.is_first:
            start_learning(plan, plan.guard, shared, stack)
    if plan.abby:
        from gatepost.service.api_service import build_api_server, start_feeds

        servers.append(build_api_server(plan, plan.abby, shared, own))
        if shared.node.is_first:
            start_feeds(plan, plan.abby, shared, stack)
    metrics = build_metrics_app(shared.node.metrics(shared.registry))
    ports = [shared.bound[name] for name in ("metrics", "guard metrics") if name in shared.bound]
    return [*servers, *(build_server(metrics, each) for each in ports)]
