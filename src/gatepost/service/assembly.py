"""Build the parts of guard and abby from their settings. Each part is built in one place; nothing is started here.

The service builds them once per process (`running`); commands that work beside a running service, such as
`gatepost quarantine`, build the few that they need.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from gatepost.abby.app import create_app
from gatepost.abby.core_clients import InProcess, LocalCore, RemoteCore
from gatepost.abby.cores import Cores
from gatepost.guard.admission import Admission
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.clamd import Clamd
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.guard.metrics import GuardMetrics, QuarantineMetrics, SenderHistoryMetrics
from gatepost.guard.quarantine.held_mail import HeldMailOperations, HoldingSource
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine
from gatepost.guard.quarantine.raw_store import open_raw_store
from gatepost.guard.service import Guard
from gatepost.policy.layers import Policies
from gatepost.scanning.held_mail import Holding
from gatepost.scanning.spool import Spool
from gatepost.service.data_folder import DataFolder
from gatepost.service.metrics import AbbyMetrics, GatewayMetrics, render_on_demand
from gatepost.settings.agreement import host_and_port, is_this_machine, leads_to
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.keys import Smtp
from gatepost.smtp.client import Tenancy, networks
from gatepost.smtp.intake import Intake
from gatepost.smtp.limits import Patience
from gatepost.smtp.relay import Relay
from gatepost.smtp.services import Outcomes, Services
from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore
from gatepost.store.store import Store
from gatepost.web.context import Installation
from gatepost.workers.pool import PoolSettings, WorkerPool

# A uid that no tenant has: looking it up shows whether storage answers.
_NO_TENANT = "00000000-0000-0000-0000-000000000000"


def hostname(settings: GuardSettings) -> str:
    """Return the name under which this core greets other mail servers."""
    smtp = settings.scan_sources.smtp
    return (smtp.hostname if smtp else None) or socket.gethostname()


@asynccontextmanager
async def open_relay(settings: GuardSettings) -> AsyncIterator[Relay | None]:
    """Build the relay to the next hop, if there is one, and close its connections in the end."""
    delivery = settings.delivery
    if delivery.next_hop is None:
        yield None
        return
    relay = Relay(delivery.next_hop, delivery.tls, hostname(settings), Patience.of(delivery.timeout / 1000))
    try:
        yield relay
    finally:
        await relay.close()


@asynccontextmanager
async def open_quarantine(
    settings: GuardSettings,
    store: HeldMailStore,
    data: DataFolder,
    relay: Relay | None,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[Quarantine]:
    """Build the quarantine on a store; released mail leaves through the relay.

    A service passes its registry: then expired mail is deleted and held mail is counted while the service runs. A
    command passes none and leaves both to the service.
    """
    raw = open_raw_store(settings.quarantine.url, data.quarantine)
    tally = QuarantineMetrics(store, settings.quarantine.max_size)
    quarantine = Quarantine(store, raw, relay, max_size=settings.quarantine.max_size, tally=tally)
    cleanup = Cleanup(store, raw, settings.quarantine.retention, tally=tally)
    if registry:
        registry.register(tally)
        tally.start()
        cleanup.start()
    try:
        yield quarantine
    finally:
        await quarantine.finish()
        await cleanup.stop()
        await tally.stop()


def build_guard(
    settings: GuardSettings,
    store: Store,
    policies: Policies,
    registry: CollectorRegistry,
    *,
    models: str = "",
    trial: bool = False,
) -> Guard:
    """Build a core with its workers, resolver and admission.

    `models` is a folder of text models. `trial` lets messages ask for misbehaviour; it is for tests only.
    """
    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1000)
    lists = ListAnswers(store)
    antivirus = Clamd(settings.clamd.address) if settings.clamd else None
    histories = SenderHistories(store, settings.sender_history) if settings.sender_history.enabled else None
    answerer = Answerer(resolver, lists=lists, antivirus=antivirus, acquaintances=histories)
    of_tenants = {uid: each.policy for uid, each in policies.tenants.items()}
    pool_settings = _pool_settings(settings, models, trial)
    pool = WorkerPool(pool_settings, answerer.answer, policies.deployment.policy, of_tenants)
    admission = Admission(settings.maximum, settings.threshold, settings.max_throttle_delay / 1000)
    metrics = GuardMetrics(admission, pool, resolver, store)
    registry.register(metrics)
    if histories:
        registry.register(SenderHistoryMetrics(histories))
    return Guard(
        settings, store, pool, answerer, admission, lists=lists, acquaintances=histories, observe=metrics.scanned
    )


def _pool_settings(settings: GuardSettings, models: str, trial: bool) -> PoolSettings:
    return PoolSettings(
        processes=settings.worker_processes,
        analysis_timeout=settings.analysis_timeout / 1000,
        stage_limit=settings.stage_limit / 1000,
        memory=settings.worker_memory,
        unsealed=settings.unsealed,
        trial=trial,
        rules=settings.yara.folder if settings.yara else None,
        models=models,
        antivirus=settings.clamd is not None,
    )


class IntakeParts(msgspec.Struct, frozen=True):
    """The parts of this process that the SMTP source uses; `certificate` is the pair of files for STARTTLS."""

    guard: Guard
    holding: Holding
    relay: Relay | None
    store: Store
    spool: Spool
    registry: CollectorRegistry
    certificate: tuple[Path, Path]


def build_intake(settings: GuardSettings, source: Smtp, sockets: Sequence[socket.socket], parts: IntakeParts) -> Intake:
    """Build the SMTP source on sockets that are already bound."""
    services = Services(
        guard=parts.guard,
        outcomes=Outcomes(parts.guard, parts.holding, after_queue=source.after_queue),
        relay=parts.relay,
        tenancy=Tenancy(settings.tenants, parts.store),
        spool=parts.spool,
        hostname=hostname(settings),
        tls=None if source.tls == "off" else _smtp_tls(*parts.certificate),
        tls_required=source.tls == "required",
    )
    intake = Intake(services, sockets, source.max_connections, networks(source.xclient_hosts))
    parts.registry.register(GatewayMetrics(intake, services))
    return intake


def _smtp_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


class OwnCore(msgspec.Struct, frozen=True):
    """The core of this process, as REST scans use it, with the operations on the mail that it holds."""

    settings: GuardSettings
    guard: InProcess
    held_mail: HeldMailOperations


def build_own_core(settings: GuardSettings, guard: Guard, quarantine: Quarantine) -> OwnCore:
    """Build the core as REST scans use it: with `keep: held` it keeps the raw mail of scans that are held."""
    source = settings.scan_sources.rest_api
    core = HoldingSource(guard, quarantine) if source and source.keep == "held" else guard
    return OwnCore(settings, core, HeldMailOperations(quarantine, guard))


def build_cores(
    settings: AbbySettings, secret: str, ca: Path, own: OwnCore | None
) -> tuple[LocalCore | RemoteCore, ...]:
    """Build a client for each core in `hosts`; the core of this process is called directly, without an upload."""

    def build(url: str) -> LocalCore | RemoteCore:
        if own and _is_own(url, own.settings):
            return LocalCore(own.guard, own.held_mail)
        return RemoteCore(url, secret, ca)

    return tuple(build(url) for url in settings.service_providers.core.hosts)


def _is_own(url: str, guard: GuardSettings) -> bool:
    """A guard without `restApi` listens nowhere, so that an address on this machine can only mean it."""
    if guard.scan_sources.rest_api is None:
        return is_this_machine(host_and_port(url)[0])
    return leads_to(url, guard)


def build_abby(
    settings: AbbySettings,
    hosts: Sequence[LocalCore | RemoteCore],
    store: Store,
    spool: Spool,
    registry: CollectorRegistry,
    policies: Policies,
    installation: Installation,
) -> Starlette:
    """Build the API service; `policies` are those of the cores, `installation` is what its system page shows."""
    cores = Cores(hosts)
    metrics = AbbyMetrics(cores)
    registry.register(metrics)
    return create_app(
        cores=cores,
        releasers=hosts,
        store=store,
        tokens=settings.static_api_tokens,
        spool=spool,
        long_request_seconds=settings.service_providers.core.long_request_timeout / 1000,
        ready=lambda: _check_storage(store),
        metrics=render_on_demand(registry),
        observe=metrics.scanned,
        policies=policies,
        installation=installation,
    )


async def _check_storage(store: Store) -> str | None:
    """Return why the service is not ready; None if storage answers."""
    try:
        await store.tenant(_NO_TENANT)
    except StorageError:
        return "storage cannot be read"
    return None
