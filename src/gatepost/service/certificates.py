"""The self-signed certificate of the first start: HTTPS from the first request, without an authority.

It names itself and signs itself (RFC 5280 section 3.2), so whoever trusts this one file trusts this one service.
"""

import ipaddress
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gatepost.service.datafolder import DataFolder

VALIDITY = timedelta(days=3650)
# Clocks of clients may be behind.
GRACE = timedelta(days=1)


def ensure(data: DataFolder, hosts: Iterable[str] = ()) -> None:
    """Have a certificate and its key in the data folder; a half of a pair is no pair and is made anew."""
    if data.certificate.exists() and data.key.exists():
        return
    certificate, key = self_signed([*hosts, "localhost", socket.gethostname(), "127.0.0.1", "::1"], datetime.now(UTC))
    data.certificate.unlink(missing_ok=True)
    data.replace(data.key, key)
    data.replace(data.certificate, certificate)


def self_signed(hosts: Iterable[str], now: datetime) -> tuple[bytes, bytes]:
    """A certificate for these names and addresses and its ECDSA P-256 key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gatepost")])
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - GRACE)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(map(_named, filter(str.isascii, hosts))))), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(identity, False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity), False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def expiry(pem: bytes) -> datetime:
    """When the first certificate of a file ends; raises `ValueError`."""
    return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.lower())
