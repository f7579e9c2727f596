"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed. A process that
runs only one of the services does not load the other one.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once. The second loses
nothing that was answered: an answer is sent only when its record is on disk.
"""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Literal

import uvloop

from gatepost import __version__
from gatepost.events.schema import NodeState
from gatepost.events.stream import Emits, node_name, observe_audit
from gatepost.names import preload_suffixes
from gatepost.policy.condition_process import end_all_work
from gatepost.process.background_work import background
from gatepost.process.logs import Logger
from gatepost.process.metrics import exposition
from gatepost.process.periodic import Outage
from gatepost.process.sandbox import SealedProcess, give_back_memory, kill_sealed_processes
from gatepost.scanning.spool import Spool
from gatepost.service import systemd
from gatepost.service.certificates import CertificateWatch
from gatepost.service.changes import DRAIN_SECONDS, Changes, NodeFiles
from gatepost.service.event_stream import ThresholdWatch, WebAlerts, open_service_events
from gatepost.service.health import ConditionWatch, HealthWarnings, HealthWatch, SlotWatch
from gatepost.service.listeners import Serves
from gatepost.service.metrics import HealthMetrics, build_registry
from gatepost.service.parts import Parts, load_policies_in_force, start_parts
from gatepost.service.plan import Bound, Plan, SharedParts, port_of, release_ports
from gatepost.service.rollout import Follower
from gatepost.settings.scan_sources import ASKERS
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = Logger("gatepost")


SWITCH_SECONDS = 0.0005
# Objects that were made and not freed before the collector of cycles looks at the young ones, and how often it then
# looks at older ones.
COLLECT_EVERY = (7_000, 10, 10)
SIGNALS, REPEATED_SECONDS = (signal.SIGINT, signal.SIGTERM), 0.05

# Called once everything serves, with abby's or guard's port.
OnStart = Callable[[int, Store], Awaitable[None]]


async def run_plan(plan: Plan, stop: asyncio.Event, started: OnStart, bound: Bound, changes: Changes) -> None:
    """Run until asked to stop. `started` is called once everything serves; `changes` restart the node."""
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(release_ports, bound)
        port = port_of(next(bound[name] for name in ("abby", "guard", "smtp", *ASKERS) if name in bound))
        # The name of this node for people: its machine, its services and its port.
        name = f"{node_name(plan.settings.events)} {'+'.join(plan.services)}:{port}"
        registry = build_registry(name)
        events, alerts = await stack.enter_async_context(open_service_events(plan.settings, plan.data, registry))
        store = open_store(plan.settings.storage.url, plan.data.path)
        stack.push_async_callback(store.close)
        await _watch_changes(events, alerts, store, stack)
        if plan.abby:
            await _encrypt_secrets(store)
        spool, policies = Spool(plan.data.spool), await load_policies_in_force(plan, store, stack)
        shared = SharedParts(store, spool, policies, registry, events, partial(exposition, registry))
        parts = await start_parts(plan, bound, shared, stack)
        health = await _begin_watching(parts, shared, stack)
        if plan.local:
            follower = Follower(store, name, changes, parts)
            stack.callback(asyncio.create_task(follower.run()).cancel)
        prepare_interpreter()
        stack.callback(_end_trials_at(stop))

        async def announce_start() -> None:
            await started(port, store)
            changes.attach(shared.health, parts.health)
            events.emit(_describe_state, plan, "started")
            health.periodic.start()

        try:
            await serve(parts.servers, stop, announce_start, changes)
        finally:
            events.emit(_describe_state, plan, "stopping")


async def _begin_watching(parts: Parts, shared: SharedParts, stack: contextlib.AsyncExitStack) -> HealthWatch:
    """Begin everything that looks at something from time to time, until the stack ends; returns what is to be begun
    once the service serves."""
    plan, ledger, store = parts.plan, shared.health, shared.store
    ledger.ask = lambda: {"nextHop": parts.next_hop_fault()}
    shared.registry.register(HealthMetrics(parts.health))
    watch = CertificateWatch(plan, parts.renew_certificates, parts.renew_delivery, parts.trust)
    warnings = HealthWarnings(ledger, store, lambda: parts.read_signs(watch.fault))
    conditions = ConditionWatch(ledger, store, plan.data.path)
    await conditions.look()
    Outage.explains = staticmethod(conditions.explains)
    slots = SlotWatch(ledger, parts.slot_counts, partial(_advise_slots, plan))
    watches = (each.periodic for each in (watch, conditions, warnings, slots))
    for periodic in (*watches, *(each.periodic for each in parts.schedules)):
        periodic.start()
        stack.callback(periodic.cancel)
    health = HealthWatch(shared.events, ledger, parts.ask_health)
    stack.push_async_callback(health.periodic.stop)
    return health


def prepare_interpreter() -> None:
    """Set the interpreter up for a service that runs. What exists by now lives as long as the process, so the collector
    of cycles need not look at it again and again: that takes 60 ms. What comes later is looked at less often than by
    default, as hardly anything of a message refers to itself. Threads that judge stored messages or read rows give the
    interpreter back soon: the loop waits for it after each wait for the network, and with three of them 5 ms each time,
    the default, would make a scan several times as long."""
    sys.setswitchinterval(SWITCH_SECONDS)
    preload_suffixes()  # at the first address it would take 90 ms of the loop
    import_module("anyio._backends._asyncio")  # Starlette asks for it within a request
    gc.collect()
    gc.freeze()
    give_back_memory()  # of what a start has needed for a moment
    gc.set_threshold(*COLLECT_EVERY)


def _end_trials_at(stop: asyncio.Event) -> Callable[[], object]:
    """End trials and the reading of imported files when the service stops: whoever waits gets an answer without the
    rest. Returns what ends this."""

    async def wait() -> None:
        await stop.wait()
        end_all_work()
        kill_sealed_processes()

    return asyncio.create_task(wait()).cancel


def _advise_slots(plan: Plan) -> str:
    """Say which key lets more messages be processed at once."""
    guard = plan.guard
    if guard is None:
        return "raise mainWorkerCount"
    key = "maxGuardRequestsInProcessing" if guard.max_guard_requests_in_processing else "mainWorkerCount"
    return f"raise {key} (now {guard.maximum}) in guard.yml"


async def _watch_changes(events: Emits, alerts: WebAlerts, store: Store, stack: contextlib.AsyncExitStack) -> None:
    """Have changes in storage become events, for whoever gets events."""
    await alerts.look(store)
    following = alerts.build_following(store)
    following.start()
    stack.callback(following.cancel)
    store.observe_changes(observe_audit(events))
    thresholds = ThresholdWatch(store).periodic
    thresholds.start()
    stack.callback(thresholds.cancel)


def _describe_state(plan: Plan, state: Literal["started", "stopping"]) -> NodeState:
    return NodeState(state=state, services=plan.services, version=__version__)


async def _encrypt_secrets(store: Store) -> None:
    """Encrypt what an older version stored in clear. Mail is served also if the key is missing; the log says so."""
    try:
        if count := await store.secrets.seal_clear():
            log.info("secrets in storage encrypted", count=count)
    except StorageError as fault:
        log.error("secrets in storage not encrypted", reason=str(fault))


async def serve(
    servers: Sequence[Serves], stop: asyncio.Event, started: Callable[[], Awaitable[None]], changes: Changes
) -> None:
    """Serve until asked to stop or until one server fails; in either case all of them end. Before a restart, what is
    under way has a limited time."""
    tasks = [asyncio.create_task(server.run_here()) for server in servers]
    try:
        if await _wait_for_first(tasks, _wait_until_ready(servers)):
            await started()
            await _wait_for_first(tasks, stop.wait())
    finally:
        for server in servers:
            server.should_exit = True
        if changes.restarts and (await asyncio.wait(tasks, timeout=DRAIN_SECONDS))[1]:
            log.warning("service restarts with requests or messages under way, which are cut off")
            for server in servers:
                server.cut_off()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _wait_until_ready(servers: Sequence[Serves]) -> None:
    for server in servers:
        await server.ready.wait()


async def _wait_for_first(tasks: Sequence[asyncio.Task[None]], awaited: Coroutine[Any, Any, Any]) -> bool:
    """Wait; return whether `awaited` finished before any of the tasks."""
    waiter = asyncio.create_task(awaited)
    await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    if waiter.done():
        return True
    waiter.cancel()
    return False


class _StopSignals:
    """Handles SIGINT and SIGTERM. A signal that comes while uvloop reads another one is told twice; what follows at
    once is therefore no second signal. One that comes while the service is about to start again ends it for good."""

    def __init__(self, stop: asyncio.Event, changes: Changes, end: Callable[[int], object] = os._exit) -> None:
        self._stop, self._changes, self._end, self._first = stop, changes, end, 0.0

    def handle(self, number: int) -> None:
        if not self._stop.is_set() or self._changes.restarts:
            self._first = time.monotonic()
            log.info("service stopping", signal=signal.Signals(number).name)
            systemd.notify_stopping()
            self._changes.give_up()
            self._stop.set()
        elif time.monotonic() - self._first > REPEATED_SECONDS:
            log.warning("service stopped at once", signal=signal.Signals(number).name)
            self._end(128 + number)


def run_service(plan: Plan, bound: Bound, started: OnStart, spare: Sequence[socket.socket]) -> None:
    """Serve until asked to stop. It does not return if the configuration is changed: the process starts again, with its
    sockets; `spare` are those of the configuration before, for a trial that fails."""
    stop = asyncio.Event()
    # These stay open in a restart, whatever the services close; a stop closes them.
    kept = systemd.duplicate(each for several in bound.values() for each in several)
    changes = Changes(plan, stop, kept, spare)
    changes.watch_start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve_until_signal(plan, bound, started, stop, changes))
    except Exception as fault:
        if not changes.restarts and not NodeFiles(plan.data, plan.service).end_broken_trial(fault):
            raise
        changes.restarts = True
    if changes.restarts:
        changes.replace_process()


async def _serve_until_signal(
    plan: Plan, bound: Bound, started: OnStart, stop: asyncio.Event, changes: Changes
) -> None:
    loop, stop_signals = asyncio.get_running_loop(), _StopSignals(stop, changes)
    SealedProcess.mail_comes = staticmethod(lambda: background.must_rest)
    for number in SIGNALS:
        loop.add_signal_handler(number, stop_signals.handle, number)
    loop.add_signal_handler(signal.SIGHUP, changes.begin)
    # One may have come during a restart, in which it would have ended the process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    watchdog = asyncio.create_task(_feed_watchdog())

    async def announce(port: int, store: Store) -> None:
        await started(port, store)
        systemd.notify_ready()

    try:
        await run_plan(plan, stop, announce, bound, changes)
    finally:
        watchdog.cancel()


async def _feed_watchdog() -> None:
    """Tell the service manager, if it asks, that the event loop turns."""
    while seconds := systemd.read_watchdog_seconds():
        systemd.feed_watchdog()
        await asyncio.sleep(seconds)
