"""Certificates and keys that the configuration names: they are loaded, not only looked for.

A service that reads its certificate only when it starts would refuse to start at the worst moment. An expired
certificate is a warning and not a fault: clients will refuse it, but everything else works, and so it starts.
"""

import ssl
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from gatepost.settings.document import Key
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.scan_sources import TlsSettings

SOON_DAYS = 14

_TLS, _DELIVERY = ("tls",), ("delivery",)
_CERTIFICATE, _CA = ("tls", "certificate"), ("serviceProviders", "core", "ca")


def find_certificate_faults(abby: AbbySettings) -> Iterator[tuple[Key, str]]:
    """Yield why a certificate or key of `abby.yml` cannot be used."""
    if isinstance(abby.tls, TlsSettings):
        yield from _find_pair_faults(_TLS, Path(abby.tls.certificate), Path(abby.tls.key))
    ca = abby.service_providers.core.ca
    if ca is not None and (fault := _find_ca_fault(Path(ca))):
        yield _CA, fault


def find_guard_certificate_faults(guard: GuardSettings) -> Iterator[tuple[Key, str]]:
    """Yield why a certificate, key or CA file of `guard.yml` cannot be used."""
    delivery = guard.delivery
    if guard.tls:
        yield from _find_pair_faults(_TLS, Path(guard.tls.certificate), Path(guard.tls.key))
    if delivery.certificate and delivery.key:
        yield from _find_pair_faults(_DELIVERY, Path(delivery.certificate), Path(delivery.key))
    if delivery.ca and (fault := _find_ca_fault(Path(delivery.ca))):
        yield (*_DELIVERY, "ca"), fault


def find_expired_certificates(abby: AbbySettings, now: datetime | None = None) -> Iterator[tuple[Key, str]]:
    """Yield certificates of `abby.yml` that are not valid now, or not for long."""
    named: list[tuple[Key, str]] = []
    if isinstance(abby.tls, TlsSettings):
        named.append((_CERTIFICATE, abby.tls.certificate))
    if ca := abby.service_providers.core.ca:
        named.append((_CA, ca))
    yield from _find_expired(named, now)


def find_expired_guard_certificates(guard: GuardSettings, now: datetime | None = None) -> Iterator[tuple[Key, str]]:
    """Yield certificates of `guard.yml` that are not valid now, or not for long."""
    named: list[tuple[Key, str]] = []
    if guard.tls:
        named.append((_CERTIFICATE, guard.tls.certificate))
    if guard.delivery.certificate:
        named.append(((*_DELIVERY, "certificate"), guard.delivery.certificate))
    yield from _find_expired(named, now)


def _find_expired(named: Iterable[tuple[Key, str]], now: datetime | None) -> Iterator[tuple[Key, str]]:
    moment = now or datetime.now(UTC)
    for key, file in named:
        if validity := _read_validity(Path(file)):
            yield from ((key, sentence) for sentence in _describe_validity(*validity, moment))


def _find_pair_faults(above: Key, certificate: Path, key: Path) -> Iterator[tuple[Key, str]]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    certificate_key, key_key = (*above, "certificate"), (*above, "key")
    pem, secret = _read(certificate), _read(key)
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    shown = private = b""
    if isinstance(pem, str):
        yield certificate_key, pem
    else:
        try:
            shown = x509.load_pem_x509_certificates(pem)[0].public_key().public_bytes(*form)
        except ValueError:
            yield certificate_key, f"is no PEM file with a certificate: {certificate}"
    if isinstance(secret, str):
        yield key_key, secret
    else:
        try:
            private = load_pem_private_key(secret, None).public_key().public_bytes(*form)
        except TypeError:
            yield (
                key_key,
                f"is encrypted, and a service cannot ask for its passphrase; decrypt it with openssl pkey: {key}",
            )
        except ValueError:
            yield key_key, f"is no PEM file with a private key: {key}"
    if shown and private:
        if shown != private:
            yield key_key, f"does not belong to the first certificate in {certificate}"
        elif fault := _find_server_fault(certificate, key):
            yield certificate_key, fault


def _find_server_fault(certificate: Path, key: Path) -> str:
    """Return why a TLS server cannot use the pair, such as for a key that is too short."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as fault:
        return f"cannot be used: {getattr(fault, 'reason', None) or fault}"
    return ""


def _find_ca_fault(path: Path) -> str:
    pem = _read(path)
    if isinstance(pem, str):
        return pem
    try:
        ssl.create_default_context(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return f"is no PEM file with certificates: {path}"
    return ""


def _read(path: Path) -> bytes | str:
    """Return the content of a file, or why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as fault:
        return f"cannot be read: {path}: {(fault.strerror or 'unknown error').lower()}"


def _read_validity(path: Path) -> tuple[datetime, datetime] | None:
    from cryptography import x509

    try:
        first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError):
        return None
    return first.not_valid_before_utc, first.not_valid_after_utc


def _describe_validity(start: datetime, end: datetime, now: datetime) -> Iterator[str]:
    if now > end:
        yield f"expired on {end:%Y-%m-%d}: clients refuse it"
    elif now < start:
        yield f"is not valid before {start:%Y-%m-%d}: clients refuse it"
    elif (end - now).days < SOON_DAYS:
        yield f"expires on {end:%Y-%m-%d}, in {(end - now).days} days"
