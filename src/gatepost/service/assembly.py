"""The SMTP source of a core from its settings: intake, relay, and what both share. Nothing starts here.

The quarantine of a configuration, put together: for the service, and for the command line beside it.

A guard and an abby from their settings: which parts, wired how. Nothing starts here.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from gatepost.abby.app import create_app
from gatepost.abby.core_clients import LocalCore, RemoteCore
from gatepost.abby.cores import Cores
from gatepost.guard.admission import Admission
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.clamd import ClamdClient
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.guard.http_source import HoldingCore
from gatepost.guard.metrics import GuardMetrics, QuarantineMetrics, SenderHistoryMetrics
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine, ShowsMail
from gatepost.guard.quarantine.raw_store import open_raw_store
from gatepost.guard.service import Guard
from gatepost.metrics import exposition
from gatepost.policy.layers import Policies
from gatepost.scanning.held_mail import HoldsMail
from gatepost.scanning.request import RestCore
from gatepost.scanning.spool import Spool
from gatepost.service.data_folder import DataFolder
from gatepost.service.http_servers import AbbyMetrics
from gatepost.settings import files
from gatepost.settings.agreement import host_and_port, is_this_machine, leads_to
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.keys import Smtp
from gatepost.smtp.client import Tenancy, parse_networks
from gatepost.smtp.intake import Intake
from gatepost.smtp.next_hop import NextHopTimeouts
from gatepost.smtp.relay import Relay
from gatepost.smtp.services import MessageHandler, Services
from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore
from gatepost.store.store import Store
from gatepost.web.context import Installation
from gatepost.workers.pool import PoolSettings, WorkerPool

log = structlog.get_logger("gatepost.guard")


class Parts(NamedTuple):
    """What the source is put together from; `certificate` is that of STARTTLS, with its key."""

    guard: Guard
    holding: HoldsMail
    relay: Relay | None
    store: Store
    spool: Spool
    registry: CollectorRegistry
    certificate: tuple[Path, Path]


def hostname(settings: GuardSettings) -> str:
    """Our name towards other mail servers."""
    smtp = settings.scan_sources.smtp
    return (smtp.hostname if smtp else None) or socket.gethostname()


def build_relay(settings: GuardSettings) -> Relay | None:
    """The way to the next hop, where there is one."""
    delivery = settings.delivery
    if delivery.next_hop is None:
        return None
    timeouts = NextHopTimeouts.from_setting(delivery.timeout / 1000)
    return Relay(delivery.next_hop, delivery.tls, hostname(settings), timeouts)


def build_intake(
    settings: GuardSettings,
    source: Smtp,
    sockets: Sequence[socket.socket],
    parts: Parts,
) -> Intake:
    """The SMTP source on sockets that are bound already."""
    services = Services(
        guard=parts.guard,
        handler=MessageHandler(parts.guard, parts.holding, after_queue=source.after_queue),
        relay=parts.relay,
        tenancy=Tenancy(settings.tenants, parts.store),
        spool=parts.spool,
        hostname=hostname(settings),
        tls=None if source.tls == "off" else _smtp_tls(*parts.certificate),
        tls_required=source.tls == "required",
    )
    intake = Intake(services, sockets, source.max_connections, parse_networks(source.xclient_hosts))
    parts.registry.register(GatewayMetrics(intake, services))
    return intake


class GatewayMetrics(Collector):
    """What the SMTP source tells Prometheus."""

    def __init__(self, intake: Intake, services: Services) -> None:
        self._intake, self._services = intake, services

    def collect(self) -> Iterator[Metric]:
        intake, relay = self._intake, self._services.relay
        yield GaugeMetricFamily("gatepost_smtp_sessions", "SMTP sessions at this moment", value=intake.open)
        yield CounterMetricFamily("gatepost_smtp_connections", "SMTP connections", value=intake.connections)
        yield CounterMetricFamily("gatepost_smtp_turned_away", "Those over a limit", value=intake.turned_away)
        answers = CounterMetricFamily("gatepost_smtp_messages", "Whole messages by their answer", labels=("answer",))
        for answer, count in self._services.answers.items():
            answers.add_metric((answer,), count)
        yield answers
        if relay:
            yield CounterMetricFamily("gatepost_relay_connections", "Connections to the next hop", value=relay.opened)
            yield CounterMetricFamily("gatepost_relay_reused", "Transactions on one that stood", value=relay.reused)
            yield CounterMetricFamily("gatepost_relay_failures", "Connections that failed", value=relay.failures)


def _smtp_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


@asynccontextmanager
async def open_quarantine(
    settings: GuardSettings,
    store: HeldMailStore,
    data: DataFolder,
    registry: CollectorRegistry | None = None,
    viewer: ShowsMail | None = None,
) -> AsyncIterator[Quarantine]:
    """A quarantine on this store. A service names its registry: it has the quarantine tidied and counted while it runs;
    a command leaves that to the service."""
    raw = open_raw_store(settings.quarantine.url, data.quarantine)
    relay = build_relay(settings)
    tally = QuarantineMetrics(store, settings.quarantine.max_size)
    quarantine = Quarantine(store, raw, relay, viewer, max_size=settings.quarantine.max_size, metrics=tally)
    tidying = Cleanup(store, raw, settings.quarantine.retention, metrics=tally)
    if registry:
        registry.register(tally)
        tally.start()
        tidying.start()
    try:
        yield quarantine
    finally:
        await quarantine.finish()
        await tidying.stop()
        await tally.stop()
        if relay:
            await relay.close()


_NOBODY = "00000000-0000-0000-0000-000000000000"


def build_guard(
    settings: GuardSettings, store: Store, registry: CollectorRegistry, *, models: str = "", fault_injection: str = ""
) -> Guard:
    """A core with its workers, resolver and door. `models` is a folder of text models. `fault_injection`
    is for tests only: a Python file that makes workers misbehave."""
    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1000)
    lists = ListAnswers(store)
    antivirus = ClamdClient(settings.clamd.address) if settings.clamd else None
    known = SenderHistories(store, settings.acquaintance) if settings.acquaintance.enabled else None
    answerer = Answerer(resolver, lists=lists, antivirus=antivirus, sender_histories=known)
    policies = files.load_policies(settings.policy)
    of_tenants = {uid: each.policy for uid, each in policies.tenants.items()}
    if fault_injection:
        log.warning("faults are injected into workers", file=fault_injection)
    pool_settings = _pool_settings(settings, models, fault_injection)
    pool = WorkerPool(pool_settings, answerer.answer, policies.deployment.policy, of_tenants)
    admission = Admission(settings.maximum, settings.threshold, settings.max_throttle_delay / 1000)
    metrics = GuardMetrics(admission, pool, resolver, store)
    registry.register(metrics)
    if known:
        registry.register(SenderHistoryMetrics(known))
    return Guard(
        settings, store, pool, answerer, admission, lists=lists, sender_histories=known, observe=metrics.observe_scan
    )


def _pool_settings(settings: GuardSettings, models: str, fault_injection: str) -> PoolSettings:
    return PoolSettings(
        processes=settings.worker_processes,
        analysis_timeout=settings.analysis_timeout / 1000,
        stage_limit=settings.stage_limit / 1000,
        memory=settings.worker_memory,
        unsealed=settings.unsealed,
        fault_injection=fault_injection,
        rules=settings.yara.folder if settings.yara else None,
        models=models,
        antivirus=settings.clamd is not None,
    )


class Own(msgspec.Struct, frozen=True):
    """The core of this very process, as REST scans get it, and what can be done with the mail that it holds."""

    settings: GuardSettings
    guard: RestCore
    quarantine: Quarantine


def rest_core(settings: GuardSettings, guard: Guard, quarantine: Quarantine) -> RestCore:
    """The core as REST scans get it: with `keep: held` it keeps what it holds."""
    source = settings.scan_sources.rest_api
    return HoldingCore(guard, quarantine) if source and source.keep == "held" else guard


def build_cores(settings: AbbySettings, secret: str, ca: Path, own: Own | None) -> tuple[LocalCore | RemoteCore, ...]:
    """The cores that `hosts` names; the guard of this very process is talked to without a second upload."""

    def core(url: str) -> LocalCore | RemoteCore:
        if own and _is_own(url, own.settings):
            return LocalCore(own.guard, own.quarantine)
        return RemoteCore(url, secret, ca)

    return tuple(core(url) for url in settings.service_providers.core.hosts)


def _is_own(url: str, guard: GuardSettings) -> bool:
    """A guard without `restApi` listens nowhere; an address on this machine can then only mean it."""
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
    """The API service; `policies` are those of the cores, `installation` is what its system page tells."""
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
        ready=lambda: _missing(store),
        metrics=exposed(registry),
        observe=metrics.scanned,
        policies=policies,
        installation=installation,
    )


def exposed(registry: CollectorRegistry) -> Callable[[], bytes]:
    """What `/metrics` answers, when asked."""
    return lambda: exposition(registry)


async def _missing(store: Store) -> str | None:
    try:
        await store.tenant(_NOBODY)
    except StorageError:
        return "storage cannot be read"
    return None
