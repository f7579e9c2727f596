"""Certificates of a service: the self-signed one of the first start, those that its ports show, and their renewal.

A first start signs a certificate for itself (RFC 5280 section 3.2), so that HTTPS works from the first request, without
an authority: a client that trusts this one file trusts this one service.

Certificates are renewed by programs that know nothing of the services that use them. So a running process looks at its
certificates, keys and CA files every two seconds, and reads again what has changed. A pair that cannot be used, because
it is half written, because only one of the two files is there yet, or because clients would refuse it for its dates
and accept the one before, changes nothing and is tried again. Connections that stand keep the certificate that they
were opened with.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gatepost.api.server import server_context, tls_context
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan
from gatepost.settings.consistency import describe_end, find_pair_fault, read_validity
from gatepost.settings.delivery import DeliverySettings

VALIDITY = timedelta(days=3650)
# Clocks of clients may be behind.
GRACE = timedelta(days=1)

log = Logger("gatepost")


def ensure_certificate(data: DataFolder, hosts: Iterable[str] = ()) -> None:
    """Write a certificate and its key into the data folder unless both are there; half a pair is replaced."""
    if data.certificate.exists() and data.key.exists():
        return
    names = [*hosts, "localhost", socket.gethostname(), "127.0.0.1", "::1"]
    certificate, key = sign_certificate(names, datetime.now(UTC))
    data.certificate.unlink(missing_ok=True)
    data.replace(data.key, key)
    data.replace(data.certificate, certificate)


def sign_certificate(hosts: Iterable[str], now: datetime) -> tuple[bytes, bytes]:
    """Return a certificate for these names and addresses and its ECDSA P-256 key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gatepost")])
    alternatives = list(dict.fromkeys(_general_name(host) for host in hosts if host.isascii()))
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - GRACE)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName(alternatives), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(identity, False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity), False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.lower())


class CertificatesInUse:
    """The certificates that this process has taken over, by their files."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._taken: dict[Path, tuple[datetime, datetime]] = {}

    def take(self, file: Path) -> None:
        """Note that a certificate is taken over. Raises `StartError` where clients would refuse it for its dates, and
        accept the one before; `OSError` and `ValueError` where it cannot be read."""
        pem, now = file.read_bytes(), self._clock()
        dates, before = read_validity(pem), self._taken.get(file)
        if before and before[0] <= now <= before[1] and not dates[0] <= now <= dates[1]:
            raise StartError(f"The certificate {file} {describe_end(pem, now)}.")
        self._taken[file] = dates


in_use = CertificatesInUse()


def check_pair(certificate: Path, key: Path) -> None:
    """Raise `StartError` unless the certificate can be used with the key, and may take the place of the one before."""
    fault = find_pair_fault(certificate, key)
    try:
        if not fault:
            in_use.take(certificate)
    except (OSError, ValueError) as found:
        fault = str(found)
    if fault:
        raise StartError(f"The certificate {certificate} cannot be used with the key {key}: {fault}.")


def find_pair(plan: Plan, name: str) -> tuple[Path, Path] | None:
    """Return the certificate and key that an HTTPS port shows; None where it speaks HTTP."""
    if name == "abby":
        return plan.certificate
    return plan.guard_certificate if name == "guard" else None


def load_certificates(plan: Plan) -> dict[str, ssl.SSLContext]:
    """Return the context of every HTTPS port of a plan; raises `StartError` if one cannot be used."""
    found: dict[str, ssl.SSLContext] = {}
    for name, service in (("guard", plan.guard), ("abby", plan.abby)):
        if service and (pair := find_pair(plan, name)):
            check_pair(*pair)
            found[name] = tls_context(*pair)
    return found


def build_smtp_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context for STARTTLS; raises `StartError`."""
    check_pair(certificate, key)
    return server_context(certificate, key)


LOOK_SECONDS = 2.0

# What the log says of files that have changed, by what they are for: that they are in use, or that they cannot be.
_EVENTS = {
    "ports": ("certificate taken over", "changed certificate not taken over"),
    "next hops": (
        "certificate and CA file towards next hops taken over",
        "changed certificate towards next hops not taken over",
    ),
    "cores": ("CA file taken over", "changed CA file not taken over"),
}

Signature = tuple[tuple[int, int, int], ...]


class CertificateWatch:
    """Looks at the files of a plan. `renew_ports` is called when a certificate of a port has changed, with
    what HTTPS ports show from now on; `renew_delivery` when a file for TLS towards next hops has; `trust` when the CA
    file of the cores has."""

    def __init__(
        self,
        plan: Plan,
        renew_ports: Callable[[Plan, Mapping[str, ssl.SSLContext]], Awaitable[None]],
        renew_delivery: Callable[[], None],
        trust: Callable[[Path], None],
    ) -> None:
        self._plan, self._renew_ports, self._renew_delivery, self._trust = plan, renew_ports, renew_delivery, trust
        self._seen: dict[str, Signature] = {}
        self._refused: dict[str, Signature] = {}
        self._faults: dict[str, str] = {}
        self.periodic = PeriodicWork(self.look, LOOK_SECONDS, "certificates could not be looked at", log)

    @property
    def fault(self) -> str:
        """What could not be taken over, and so would keep the service from its next start; "" if nothing."""
        return "; ".join(self._faults.values())

    async def look(self) -> None:
        """Look once, and take over what has changed."""
        plan = self._plan
        used = (plan.certificate, plan.own_certificate, plan.guard_certificate)
        pairs = {path for pair in used if pair for path in pair}
        await self._renew("ports", pairs, partial(self._show_pairs, plan))
        if plan.guard:
            delivery = plan.guard.delivery
            files = {Path(file) for file in (delivery.ca, delivery.certificate, delivery.key) if file}
            if delivery.certificate and "next hops" not in self._seen:
                with contextlib.suppress(StartError, OSError, ValueError):
                    in_use.take(Path(delivery.certificate))
            await self._renew("next hops", files, partial(self._use_delivery_files, delivery))
        if plan.abby:
            await self._renew("cores", {plan.ca}, partial(self._use_ca, plan.ca))

    async def _renew(self, what: str, files: set[Path], use: Callable[[], Awaitable[dict[str, str]]]) -> None:
        """Have files used anew if they have changed. The first look only notes what the process has started with."""
        now, (taken, refused) = await asyncio.to_thread(_sign, files), _EVENTS[what]
        if self._seen.setdefault(what, now) == now:
            self._faults.pop(what, None)
            return
        try:
            used = await use()
        except (StartError, OSError, ValueError) as fault:
            if self._refused.get(what) != now:
                log.warning(refused, reason=str(fault))
            self._refused[what] = now
            self._faults[what] = f"{refused}: the one before is in use, see the log"
        else:
            self._seen[what] = now
            self._faults.pop(what, None)
            log.info(taken, **used)

    async def _show_pairs(self, plan: Plan) -> dict[str, str]:
        await self._renew_ports(plan, await asyncio.to_thread(load_certificates, plan))
        certificate, _ = plan.smtp_certificate if plan.guard else plan.certificate or plan.own_certificate
        try:
            content = await asyncio.to_thread(certificate.read_bytes)
            return {"file": str(certificate), "expires": f"{read_validity(content)[1]:%Y-%m-%d}"}
        except (OSError, ValueError):
            return {"file": str(certificate)}

    async def _use_delivery_files(self, delivery: DeliverySettings) -> dict[str, str]:
        if delivery.certificate and delivery.key:
            await asyncio.to_thread(check_pair, Path(delivery.certificate), Path(delivery.key))
        await asyncio.to_thread(self._renew_delivery)
        return {}

    async def _use_ca(self, ca: Path) -> dict[str, str]:
        await asyncio.to_thread(ca.read_bytes)
        self._trust(ca)
        return {"file": str(ca)}


def _sign(paths: Iterable[Path]) -> Signature:
    """Return what tells one state of files from another without reading them; a file that is missing has zeros."""
    found = []
    for path in sorted(paths):
        try:
            state = path.stat()
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
