"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed.

A process that runs only one of the services does not load the other one.

A node of one process, which serves and has nobody above it: its signals, its reloads and its restart.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol

import structlog

from gatepost import __version__
from gatepost.events.schema import NodeState
from gatepost.events.stream import Emits, node_name, observe_audit
from gatepost.policy.layers import unchanged_policies
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.service import systemd
from gatepost.service.certificates import CertificateWatch
from gatepost.service.data_folder import StartError
from gatepost.service.event_stream import WebAlerts, open_service_events
from gatepost.service.generation import Generations
from gatepost.service.health import ConditionWatch, HealthWarnings, HealthWatch
from gatepost.service.heap import build_trimming
from gatepost.service.listeners import Listeners, run, serve
from gatepost.service.metrics import build_registry
from gatepost.service.node import SingleProcess
from gatepost.service.plan import Bound, Plan, SharedParts, port_of, release_ports
from gatepost.service.reloading import ReloadOutcome, read_again, report_outcome
from gatepost.service.rollout import Follower, NodeControl
from gatepost.service.watchdogs import watch_loop
from gatepost.settings.faults import ConfigError
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
        shared = SharedParts(store, spool, policies, registry, bound, node, events, metrics)
        listeners = Listeners(plan, bound, node)
        generations = Generations(shared, listeners, health)
        stack.push_async_callback(generations.stop)
        generations.take_over(await generations.build(plan))
        renewals = (listeners.renew_certificates, generations.renew_delivery, generations.trust)
        watch = CertificateWatch(lambda: generations.plan, *renewals)
        health.watch_warnings(shared.condition)
        conditions, warnings = _watch_condition(plan, shared, generations)
        await conditions.look()
        for periodic in (watch.periodic, conditions.periodic, warnings.periodic, build_trimming()):
            periodic.start()
            stack.callback(periodic.cancel)
        if control:
            control.attach(generations)
            if node.is_first and plan.local:
                follower = Follower(store, plan, _name_node(plan, bound), control, generations.health)
                following = asyncio.create_task(follower.run())
                stack.callback(following.cancel)
        stack.callback(watch_loop(shared.registry).stop)
        port = port_of(next(bound[name] for name in ("abby", "guard", "smtp", "milter") if name in bound))
        for end in node.start():
            stack.callback(end)

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
    counts = (generations.dns_counters, generations.smtp_counts)
    warnings = HealthWarnings(condition, store, lambda: generations.plan, *counts)
    faults = (generations.next_hop_fault, generations.flow_fault)
    return ConditionWatch(condition, store, plan.data.path, *faults), warnings


async def _watch_health(
    events: Emits, alerts: WebAlerts, store: Store, stack: contextlib.AsyncExitStack
) -> HealthWatch:
    """Have changes in storage become events, and the health watched, for whoever gets events."""
    await alerts.look(store)
    following = alerts.build_following(store)
    following.start()
    stack.callback(following.cancel)
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


class Reloader:
    """Reloads a node of one process, one reload after the other."""

    def __init__(self) -> None:
        self._generations: Generations | None = None
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[ReloadOutcome]] = set()

    def attach(self, generations: Generations) -> None:
        """Set what is replaced by a reload."""
        self._generations = generations

    def begin(self) -> None:
        """Read the files again, beside what serves."""
        task = asyncio.create_task(self.reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def reload(self, folder: Path | None = None) -> ReloadOutcome:
        """Read the files, of another folder if one is given, and take over what can be taken over."""
        async with self._lock:
            generations = self._generations
            plan, read = generations.plan if generations else None, None
            assert generations is not None
            assert plan is not None
            systemd.notify_reloading()
            try:
                read = await asyncio.to_thread(read_again, plan, folder)
                generations.take_over(await generations.build(read.plan))
                outcome = read.outcome
            except (ConfigError, StartError, StorageError) as fault:
                outcome = ReloadOutcome(False, str(fault))
            report_outcome(plan, read, outcome)
            systemd.notify_ready("serves" if outcome.taken else "serves with the settings before: a file is faulty")
            return outcome


class SingleControl:
    """Reloads and restarts this process; `NodeControl` of a node of one process."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop, self._reloader = stop, Reloader()
        self.restarts = False

    def attach(self, generations: Generations) -> None:
        """Reload on SIGHUP from now on."""
        self._reloader.attach(generations)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reloader.begin)

    async def reload(self, folder: Path) -> ReloadOutcome:
        """Read the files of a folder and take over what can be taken over."""
        return await self._reloader.reload(folder)

    def restart(self) -> None:
        """End as on SIGTERM, then start again with the same sockets."""
        self.restarts = True
        self._stop.set()


def run_single(plan: Plan, bound: Bound, started: Started) -> bool:
    """Serve until asked to stop; returns whether the process is to be started again."""
    restarts = False

    async def main(stop: asyncio.Event) -> None:
        nonlocal restarts
        # Until there is something to reload: the default would end the process.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        control = SingleControl(stop)
        watchdog = asyncio.create_task(_feed_watchdog())

        async def announce(port: int, store: Store) -> None:
            await started(port, store)
            systemd.notify_ready()

        try:
            await run_plan(plan, stop, announce, bound, control=control)
        finally:
            watchdog.cancel()
            restarts = control.restarts

    run(main)
    return restarts


async def _feed_watchdog() -> None:
    """Tell the service manager, if it asks, that the event loop turns."""
    while seconds := systemd.watchdog_seconds():
        systemd.feed_watchdog()
        await asyncio.sleep(seconds)
