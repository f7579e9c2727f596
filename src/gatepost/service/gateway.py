"""The SMTP source of a core from its settings: intake, relay, and what both share. Nothing starts here."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.guard.core import Guard
from gatepost.guard.holding import Holding
from gatepost.guard.smtp.client import networks
from gatepost.guard.smtp.intake import Intake
from gatepost.guard.smtp.limits import Patience
from gatepost.guard.smtp.outcome import Outcomes
from gatepost.guard.smtp.relay import Relay
from gatepost.guard.smtp.services import Services
from gatepost.guard.smtp.tenancy import Tenancy
from gatepost.guard.spool import Spool
from gatepost.settings import Guard as GuardSettings
from gatepost.settings import Smtp
from gatepost.store.store import Store


class Parts(NamedTuple):
    """What the source is put together from; `certificate` is that of STARTTLS, with its key."""

    guard: Guard
    holding: Holding
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
    return Relay(delivery.next_hop, delivery.tls, hostname(settings), Patience.of(delivery.timeout / 1000))


def build_intake(
    settings: GuardSettings,
    source: Smtp,
    sockets: Sequence[socket.socket],
    parts: Parts,
) -> Intake:
    """The SMTP source on sockets that are bound already."""
    services = Services(
        guard=parts.guard,
        outcomes=Outcomes(parts.guard, parts.holding, after_queue=source.after_queue),
        relay=parts.relay,
        tenancy=Tenancy(settings.tenants, parts.store),
        spool=parts.spool,
        hostname=hostname(settings),
        tls=None if source.tls == "off" else _tls(*parts.certificate),
        tls_required=source.tls == "required",
    )
    intake = Intake(services, sockets, source.max_connections, networks(source.xclient_hosts))
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


def _tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
