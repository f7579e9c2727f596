"""guard and abby, together or one each, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, the core ends before storage closes.
"""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from gatepost.api.server import server_config
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.service import Guard
from gatepost.scanning.held_mail import HoldsMail
from gatepost.scanning.spool import Spool
from gatepost.service import http_servers
from gatepost.service.assembly import (
    Own,
    Parts,
    build_abby,
    build_cores,
    build_guard,
    build_intake,
    build_relay,
    exposed,
    open_quarantine,
    rest_core,
)
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.http_servers import Server, Serves, metrics_app, serve
from gatepost.settings import files
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.settings.in_force import settings_in_force
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.keys import Tls
from gatepost.settings.values import split_address
from gatepost.smtp.intake import Intake
from gatepost.store import open_store
from gatepost.store.store import Store
from gatepost.textmodel import deployed
from gatepost.textmodel.deployed import FOLDER
from gatepost.web.context import Examination, Installation, no_examination
from gatepost.workers.supervisor import SealError

Bound = dict[str, tuple[socket.socket, ...]]
Started = Callable[[int, Store], Awaitable[None]]


class Plan(msgspec.Struct, frozen=True):
    """What this process runs: a core, the API service, or both. `examine` is what the doctor does; `fault_injection`
    is for tests only: a Python file that makes workers misbehave."""

    data: DataFolder
    guard: GuardSettings | None = None
    abby: AbbySettings | None = None
    fault_injection: str = ""
    examine: Examination = no_examination

    @property
    def storage(self) -> str:
        """Where both keep what they keep."""
        settings = self.guard or self.abby
        assert settings is not None
        return settings.storage.url

    @property
    def secret(self) -> str:
        """What abby proves itself to guard with."""
        source = self.guard.scan_sources.rest_api if self.guard else None
        stated = (source.secret if source else None) or (self.abby.service_providers.core.secret if self.abby else None)
        return stated or self.data.secret.read_text("ascii").strip()

    @property
    def ca(self) -> Path:
        """What guard's certificate is verified with."""
        stated = self.abby.service_providers.core.ca if self.abby else None
        return Path(stated) if stated else self.data.certificate


async def run_plan(plan: Plan, stop: asyncio.Event, started: Started) -> None:
    """Run until asked to stop. `started` is called once everything serves, with abby's or guard's port."""
    async with contextlib.AsyncExitStack() as stack:
        bound = _bind(plan)
        stack.callback(_release, bound)
        store = open_store(plan.storage, plan.data.path)
        stack.push_async_callback(store.close)
        spool = Spool(plan.data.spool)
        servers: list[Serves] = []
        own, registry = None, CollectorRegistry()
        if plan.guard:
            models = str(plan.data.path / FOLDER)
            guard = build_guard(plan.guard, store, registry, models=models, fault_injection=plan.fault_injection)
            opened = open_quarantine(plan.guard, store, plan.data, registry, guard)
            quarantine = await stack.enter_async_context(opened)
            await _start(guard, stack)
            own = Own(plan.guard, rest_core(plan.guard, guard, quarantine), quarantine)
            servers += _rest(plan, own, spool, registry, bound)
            servers += _smtp(plan, plan.guard, guard, quarantine, store, spool, registry, bound)
        if plan.abby:
            servers += _abby(plan, plan.abby, own, store, spool, registry, bound)
        for name in ("metrics", "guard metrics"):
            if name in bound:
                servers.append(_server(metrics_app(exposed(registry)), bound[name], None, None))
        port = http_servers.port_of(next(bound[name] for name in ("abby", "guard", "smtp") if name in bound))
        await serve(servers, stop, lambda: started(port, store))


async def _start(guard: Guard, stack: contextlib.AsyncExitStack) -> None:
    try:
        await guard.start()
    except SealError as fault:
        raise StartError(str(fault)) from None
    stack.push_async_callback(guard.stop)


def _bind(plan: Plan) -> Bound:
    """Every port that is needed, or none of them."""
    bound: Bound = {}
    try:
        for name, host, port, key in _addresses(plan):
            bound[name] = http_servers.bind(host, port, key)
    except StartError:
        _release(bound)
        raise
    return bound


def _release(bound: Bound) -> None:
    for each in bound.values():
        http_servers.close(each)


def _addresses(plan: Plan) -> list[tuple[str, str, int, str]]:
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


def _rest(plan: Plan, own: Own, spool: Spool, registry: CollectorRegistry, bound: Bound) -> list[Server]:
    if "guard" not in bound:
        return []
    app = build_rest_app(own.guard, plan.secret, spool, registry, own.quarantine)
    return [_server(app, bound["guard"], plan.data.certificate, plan.data.key)]


def _smtp(
    plan: Plan,
    settings: GuardSettings,
    guard: Guard,
    holding: HoldsMail,
    store: Store,
    spool: Spool,
    registry: CollectorRegistry,
    bound: Bound,
) -> list[Intake]:
    source = settings.scan_sources.smtp
    if source is None:
        return []
    certificate, key = _certificate(plan.data, plan.abby)
    if not certificate or not key:
        certificate, key = plan.data.certificate, plan.data.key
    _check_pair(certificate, key)
    relay = build_relay(settings)
    parts = Parts(guard, holding, relay, store, spool, registry, (certificate, key))
    return [build_intake(settings, source, bound["smtp"], parts)]


def _abby(
    plan: Plan,
    settings: AbbySettings,
    own: Own | None,
    store: Store,
    spool: Spool,
    registry: CollectorRegistry,
    bound: Bound,
) -> list[Server]:
    cores = build_cores(settings, plan.secret, plan.ca, own)
    policies = files.load_policies((plan.guard or settings).policy)
    app = build_abby(settings, cores, store, spool, registry, policies, _installation(plan, settings))
    return [_server(app, bound["abby"], *_certificate(plan.data, settings))]


def _installation(plan: Plan, settings: AbbySettings) -> Installation:
    of_guard = settings_in_force(GUARD_FILE.name, plan.guard) if plan.guard else ()
    return Installation(
        started=time.time(),
        settings=(*settings_in_force(ABBY_FILE.name, settings), *of_guard),
        examine=plan.examine,
        learn=partial(deployed.save_feedback, plan.data.path),
    )


def _certificate(data: DataFolder, settings: AbbySettings | None) -> tuple[Path | None, Path | None]:
    if settings and settings.tls == "off":
        return None, None
    if settings and isinstance(settings.tls, Tls):
        return Path(settings.tls.certificate), Path(settings.tls.key)
    return data.certificate, data.key


def _server(app: Any, bound: tuple[socket.socket, ...], certificate: Path | None, key: Path | None) -> Server:
    if certificate and key:
        _check_pair(certificate, key)
    return Server(server_config(app, certificate=certificate, key=key), bound)


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "reason", None) or getattr(fault, "strerror", None) or str(fault)
        raise StartError(f"The certificate {certificate} cannot be used with the key {key}: {reason}.") from None
