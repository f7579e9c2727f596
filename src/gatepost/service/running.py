"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed. A process that
runs only one of the services does not load the other one.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once. The second loses
nothing that was answered: an answer is sent only when its record is on disk.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import uvloop

from gatepost import __version__
from gatepost.events.schema import NodeState
from gatepost.events.stream import Emits, node_name, observe_audit
from gatepost.policy.condition_process import end_all_work
from gatepost.policy.layers import unchanged_policies
from gatepost.process.background_work import background
from gatepost.process.logs import Logger
from gatepost.process.metrics import exposition
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.process.sandbox import SealedProcess, kill_sealed_processes
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.service import systemd
from gatepost.service.certificates import CertificateWatch
from gatepost.service.data_folder import StartError
from gatepost.service.event_stream import ThresholdWatch, WebAlerts, open_service_events
from gatepost.service.generation import Generations
from gatepost.service.health import ConditionWatch, HealthWarnings, HealthWatch, SlotWatch
from gatepost.service.listeners import HttpMetrics, Listeners, Serves
from gatepost.service.metrics import HealthMetrics, build_registry
from gatepost.service.plan import Bound, Plan, SharedParts, port_of, release_ports
from gatepost.service.reloading import ReloadOutcome, read_again, report_outcome
from gatepost.service.rollout import Follower, NodeControl
from gatepost.service.watchdogs import watch_loop
from gatepost.settings.faults import ConfigError
from gatepost.settings.scan_sources import ASKERS
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = Logger("gatepost")


SIGNALS, REPEATED_SECONDS = (signal.SIGINT, signal.SIGTERM), 0.05

# Called once everything serves, with abby's or guard's port.
OnStart = Callable[[int, Store], Awaitable[None]]


async def run_plan(plan: Plan, stop: asyncio.Event, started: OnStart, bound: Bound, control: NodeControl) -> None:
    """Run until asked to stop. `started` is called once everything serves; `control` reloads and restarts the node."""
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
        spool, policies = Spool(plan.data.spool), PoliciesInForce(unchanged_policies())
        shared = SharedParts(store, spool, policies, registry, events, partial(exposition, registry))
        listeners = Listeners(plan, bound)
        registry.register(HttpMetrics(listeners.http_servers()))
        generations = Generations(shared, listeners)
        stack.push_async_callback(generations.stop)
        generations.take_over(await generations.build(plan))
        renewals = (listeners.renew_certificates, generations.renew_delivery, generations.trust)
        watch = CertificateWatch(lambda: generations.plan, *renewals)
        looking = await _watch_health(plan, shared, generations, lambda: watch.fault)
        for periodic in (watch.periodic, *looking):
            periodic.start()
            stack.callback(periodic.cancel)
        health = HealthWatch(events, shared.health, generations.ask_health)
        stack.push_async_callback(health.periodic.stop)
        control.attach(generations)
        if plan.local:
            follower = Follower(store, plan, name, control, generations.health, generations.slots)
            stack.callback(asyncio.create_task(follower.run()).cancel)
        stack.callback(watch_loop(shared.registry).stop)
        stack.callback(_end_trials_at(stop))

        async def announce_start() -> None:
            await started(port, store)
            events.emit(_describe_state, plan, "started")
            health.periodic.start()

        try:
            await serve(listeners.servers, stop, announce_start)
        finally:
            events.emit(_describe_state, plan, "stopping")


def _end_trials_at(stop: asyncio.Event) -> Callable[[], object]:
    """End trials and the reading of imported files when the service stops: whoever waits gets an answer without the
    rest. Returns what ends this."""

    async def wait() -> None:
        await stop.wait()
        end_all_work()
        kill_sealed_processes()

    return asyncio.create_task(wait()).cancel


async def _watch_health(
    plan: Plan, shared: SharedParts, generations: Generations, certificates: Callable[[], str]
) -> tuple[PeriodicWork, ...]:
    """Look at what all messages need, and return that and what looks at what will become a fault."""
    ledger = shared.health
    ledger.ask = lambda: {"nextHop": generations.next_hop_fault()}
    signs = partial(generations.read_signs, certificates)
    warnings = HealthWarnings(ledger, shared.store, signs)
    conditions = ConditionWatch(ledger, shared.store, plan.data.path)
    await conditions.look()
    Outage.explains = staticmethod(conditions.explains)
    shared.registry.register(HealthMetrics(generations.health))
    slots = SlotWatch(ledger, generations.slot_counts, partial(_advise_slots, generations))
    return conditions.periodic, warnings.periodic, slots.periodic


def _advise_slots(generations: Generations) -> str:
    """Say which key lets more messages be processed at once."""
    guard = generations.plan.guard if generations.plan else None
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


async def serve(servers: Sequence[Serves], stop: asyncio.Event, started: Callable[[], Awaitable[None]]) -> None:
    """Serve until asked to stop or until one server fails; in either case all of them end."""
    tasks = [asyncio.create_task(server.run_here()) for server in servers]
    try:
        if await _wait_for_first(tasks, _wait_until_ready(servers)):
            await started()
            await _wait_for_first(tasks, stop.wait())
    finally:
        for server in servers:
            server.should_exit = True
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
    """Handles SIGINT and SIGTERM. A signal that comes while uvloop reads another one, such as those of the watchdog, is
    told twice; what follows at once is therefore no second signal."""

    def __init__(
        self, stop: asyncio.Event, kept: list[int] | None = None, end: Callable[[int], object] = os._exit
    ) -> None:
        self._stop, self._kept, self._end, self._first = stop, kept or [], end, 0.0

    def handle(self, number: int) -> None:
        if not self._stop.is_set():
            self._first = time.monotonic()
            log.info("service stopping", signal=signal.Signals(number).name)
            systemd.notify_stopping()
            # No restart needs them now. While one is open its port listens, and connections wait for nobody.
            while self._kept:
                os.close(self._kept.pop())
            self._stop.set()
        elif time.monotonic() - self._first > REPEATED_SECONDS:
            log.warning("service stopped at once", signal=signal.Signals(number).name)
            self._end(128 + number)


class ServiceControl:
    """Reloads and restarts this node, one reload after the other."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop, self.restarts = stop, False
        self._generations: Generations | None = None
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[ReloadOutcome]] = set()

    def attach(self, generations: Generations) -> None:
        """Reload on SIGHUP from now on; a reload replaces what serves in these."""
        self._generations = generations
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._begin_reload)

    def _begin_reload(self) -> None:
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
            await asyncio.to_thread(report_outcome, plan, read, outcome)
            return outcome

    def restart(self) -> None:
        """End as on SIGTERM, then start again with the same sockets."""
        self.restarts = True
        self._stop.set()


def run_service(plan: Plan, bound: Bound, started: OnStart, kept: list[int]) -> bool:
    """Serve until asked to stop; returns whether the process is to be started again, with the sockets in `kept`."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve_until_signal(plan, bound, started, kept))


async def _serve_until_signal(plan: Plan, bound: Bound, started: OnStart, kept: list[int]) -> bool:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    stop_signals = _StopSignals(stop, kept)
    SealedProcess.mail_comes = staticmethod(lambda: background.must_rest)
    for number in SIGNALS:
        loop.add_signal_handler(number, stop_signals.handle, number)
    # Until there is something to reload: the default would end the process.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    control = ServiceControl(stop)
    watchdog = asyncio.create_task(_feed_watchdog())

    async def announce(port: int, store: Store) -> None:
        await started(port, store)
        systemd.notify_ready()

    try:
        await run_plan(plan, stop, announce, bound, control)
    finally:
        watchdog.cancel()
    return control.restarts


async def _feed_watchdog() -> None:
    """Tell the service manager, if it asks, that the event loop turns."""
    while seconds := systemd.read_watchdog_seconds():
        systemd.feed_watchdog()
        await asyncio.sleep(seconds)
