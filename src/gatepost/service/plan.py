"""What one process runs, and the parts and ports that guard and abby share in it."""

import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from gatepost.policy.layers import Policies
from gatepost.scanning.spool import Spool
from gatepost.service import ports
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.rows import DoctorRow
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.keys import Tls
from gatepost.settings.values import split_address
from gatepost.store.store import Store

Bound = dict[str, tuple[socket.socket, ...]]


class Plan(msgspec.Struct, frozen=True):
    """What this process runs: a core, the API service, or both.

    `examine` returns what `gatepost doctor` finds; `fault_injection` is for
    tests only: a Python file that makes workers misbehave.
    """

    data: DataFolder
    guard: GuardSettings | None = None
    abby: AbbySettings | None = None
    fault_injection: str = ""
    examine: Callable[[], tuple[DoctorRow, ...]] = tuple

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


def bind_ports(plan: Plan) -> Bound:
    """Bind every port that is needed, or none of them."""
    bound: Bound = {}
    try:
        for name, host, port, key in list_addresses(plan):
            bound[name] = ports.bind(host, port, key)
    except StartError:
        release_ports(bound)
        raise
    return bound


def release_ports(bound: Bound) -> None:
    """Close every socket that was bound."""
    for each in bound.values():
        ports.close_sockets(each)


def list_addresses(plan: Plan) -> list[tuple[str, str, int, str]]:
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
