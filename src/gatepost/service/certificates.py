"""The self-signed certificate of the first start: HTTPS from the first request, without an authority.

It names itself and signs itself (RFC 5280 section 3.2): a client that trusts this one file trusts this one service.
"""

import ipaddress
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gatepost.service.data_folder import DataFolder, StartError

VALIDITY = timedelta(days=3650)
# Clocks of clients may be behind.
GRACE = timedelta(days=1)


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


def read_expiry(pem: bytes) -> datetime:
    """Return when the first certificate of a PEM file expires; raises `ValueError`."""
    return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.lower())


def check_pair(certificate: Path, key: Path) -> None:
    """Raise `StartError` unless the certificate can be used with the key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "reason", None) or getattr(fault, "strerror", None) or str(fault)
        raise StartError(f"The certificate {certificate} cannot be used with the key {key}: {reason}.") from None
