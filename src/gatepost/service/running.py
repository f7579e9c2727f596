"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from gatepost.api.server import server_config
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.service import Guard
from gatepost.policy.layers import Policies
from gatepost.scanning.spool import Spool
from gatepost.service import ports
from gatepost.service.assembly import (
    IntakeParts,
    OwnCore,
    build_abby,
    build_cores,
    build_guard,
    build_intake,
    build_own_core,
    open_quarantine,
    open_relay,
)
from gatepost.service.certificates import check_pair
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.http_servers import Server, Serves, serve
from gatepost.service.metrics import build_metrics_app, render_on_demand
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_policies
from gatepost.settings.in_force import settings_in_force
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.keys import Tls
from gatepost.settings.values import split_address
from gatepost.smtp.relay import Relay
from gatepost.store import open_store
from gatepost.store.store import Store
from gatepost.textmodel import deployed
from gatepost.textmodel.deployed import FOLDER
from gatepost.web.context import Examination, Installation, no_examination
from gatepost.workers.supervisor import SealError

Bound = dict[str, tuple[socket.socket, ...]]
Started = Callable[[int, Store], Awaitable[None]]


class Plan(msgspec.Struct, frozen=True):
    """What this process runs: a core, the API service, or both.

    `examine` returns what `gatepost doctor` finds; `trial` is for tests only.
    """

    data: DataFolder
    guard: GuardSettings | None = None
    abby: AbbySettings | None = None
    trial: bool = False
    examine: Examination = no_examination

    @property
    def settings(self) -> GuardSettings | AbbySettings:
        """The settings that decide what both services share: storage and policy."""
        settings = self.guard or self.abby
        assert settings is not None
        return settings

    @property
    def secret(self) -> str:
        """The secret with which abby authenticates to guard."""
        source = self.guard.scan_sources.rest_api if self.guard else None
        given = (source.secret if source else None) or (self.abby.service_providers.core.secret if self.abby else None)
        return given or self.data.secret.read_text("ascii").strip()

    @property
    def ca(self) -> Path:
        """The file with which guard's certificate is verified."""
        given = self.abby.service_providers.core.ca if self.abby else None
        return Path(given) if given else self.data.certificate

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """The certificate and key that abby shows, and SMTP with it; None with `tls: off`."""
        tls = self.abby.tls if self.abby else None
        if tls == "off":
            return None
        return (Path(tls.certificate), Path(tls.key)) if isinstance(tls, Tls) else self.own_certificate

    @property
    def own_certificate(self) -> tuple[Path, Path]:
        """The self-signed certificate of the data folder, and its key."""
        return self.data.certificate, self.data.key


class SharedParts(msgspec.Struct, frozen=True):
    """What guard and abby share in one process, each built once."""

    store: Store
    spool: Spool
    policies: Policies
    registry: CollectorRegistry
    bound: Bound


class CoreParts(msgspec.Struct, frozen=True):
    """A core that runs: the service itself, its held mail, its way out, and what abby calls."""

    settings: GuardSettings
    guard: Guard
    quarantine: Quarantine
    relay: Relay | None
    own: OwnCore


async def run_plan(plan: Plan, stop: asyncio.Event, started: Started) -> None:
    """Run until asked to stop. `started` is called once everything serves, with abby's or guard's port."""
    async with contextlib.AsyncExitStack() as stack:
        bound = _bind(plan)
        stack.callback(_release, bound)
        store = open_store(plan.settings.storage.url, plan.data.path)
        stack.push_async_callback(store.close)
        policies = load_policies(plan.settings.policy)
        shared = SharedParts(store, Spool(plan.data.spool), policies, CollectorRegistry(), bound)
        core = await _start_core(plan, plan.guard, shared, stack) if plan.guard else None
        port = ports.port_of(next(bound[name] for name in ("abby", "guard", "smtp") if name in bound))
        await serve(_build_servers(plan, shared, core), stop, lambda: started(port, store))


async def _start_core(
    plan: Plan, settings: GuardSettings, shared: SharedParts, stack: contextlib.AsyncExitStack
) -> CoreParts:
    """Build a core and start its workers; the stack stops them."""
    relay = await stack.enter_async_context(open_relay(settings))
    quarantine = await stack.enter_async_context(
        open_quarantine(settings, shared.store, plan.data, relay, shared.registry)
    )
    models = str(plan.data.path / FOLDER)
    guard = build_guard(settings, shared.store, shared.policies, shared.registry, models=models, trial=plan.trial)
    try:
        await guard.start()
    except SealError as fault:
        raise StartError(str(fault)) from None
    stack.push_async_callback(guard.stop)
    return CoreParts(settings, guard, quarantine, relay, build_own_core(settings, guard, quarantine))


def _bind(plan: Plan) -> Bound:
    """Bind every port that is needed, or none of them."""
    bound: Bound = {}
    try:
        for name, host, port, key in _list_addresses(plan):
            bound[name] = ports.bind(host, port, key)
    except StartError:
        _release(bound)
        raise
    return bound


def _release(bound: Bound) -> None:
    for each in bound.values():
        ports.close_sockets(each)


def _list_addresses(plan: Plan) -> list[tuple[str, str, int, str]]:
    """Return name, host, port and key of every address to listen on."""
    wanted = []
    if plan.abby:
        wanted.append(("abby", plan.abby.listen.host, plan.abby.listen.port, "listen in abby.yml"))
        if plan.abby.metrics.listen:
            wanted.append(("metrics", *split_address(plan.abby.metrics.listen, 0), "metrics.listen in abby.yml"))
    if plan.guard and (source := plan.guard.scan_sources.rest_api):
        wanted.append(("guard", source.host, source.port, "scanSources.restApi in guard.yml"))
    if plan.guard and (smtp := plan.guard.scan_sources.smtp):
        wanted.append(("smtp", smtp.host, smtp.port, "scanSources.smtp in guard.yml"))
    if plan.guard and plan.guard.metrics.listen:
        wanted.append(("guard metrics", *split_address(plan.guard.metrics.listen, 0), "metrics.listen in guard.yml"))
    return wanted


def _build_servers(plan: Plan, shared: SharedParts, core: CoreParts | None) -> list[Serves]:
    """Build a server for every address that is bound."""
    servers: list[Serves] = []
    bound = shared.bound
    if core and "guard" in bound:
        app = build_rest_app(core.own.guard, plan.secret, shared.spool, shared.registry, core.own.held_mail)
        servers.append(_build_server(app, bound["guard"], plan.own_certificate))
    if core and (source := core.settings.scan_sources.smtp):
        pair = plan.certificate or plan.own_certificate
        check_pair(*pair)
        parts = IntakeParts(core.guard, core.quarantine, core.relay, shared.store, shared.spool, shared.registry, pair)
        servers.append(build_intake(core.settings, source, bound["smtp"], parts))
    if plan.abby:
        cores = build_cores(plan.abby, plan.secret, plan.ca, core.own if core else None)
        installation = _describe_installation(plan, plan.abby)
        app = build_abby(plan.abby, cores, shared.store, shared.spool, shared.registry, shared.policies, installation)
        servers.append(_build_server(app, bound["abby"], plan.certificate))
    metrics = [bound[name] for name in ("metrics", "guard metrics") if name in bound]
    return [*servers, *(_build_server(build_metrics_app(render_on_demand(shared.registry)), each) for each in metrics)]


def _describe_installation(plan: Plan, settings: AbbySettings) -> Installation:
    of_guard = settings_in_force(GUARD_FILE.name, plan.guard) if plan.guard else ()
    return Installation(
        started=time.time(),
        settings=(*settings_in_force(ABBY_FILE.name, settings), *of_guard),
        examine=plan.examine,
        learn=partial(deployed.save_feedback, plan.data.path),
    )


def _build_server(app: Any, bound: tuple[socket.socket, ...], pair: tuple[Path, Path] | None = None) -> Server:
    certificate, key = pair or (None, None)
    if certificate and key:
        check_pair(certificate, key)
    return Server(server_config(app, certificate=certificate, key=key), bound)
