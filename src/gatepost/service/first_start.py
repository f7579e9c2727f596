"""The self-signed certificate of the first start: HTTPS from the first request, without an authority.

It names itself and signs itself (RFC 5280 section 3.2), so whoever trusts this one file trusts this one service.

The first start: from an empty folder to a service that takes mail.

Every file is written whole or not at all and only where it is absent, so a start that was killed in between is
completed by the next one, and a second start changes nothing. The administrator's password is the exception: only its
hash is kept, so it is shown first and kept then. Whoever is interrupted between the two gets a new one.
"""

import ipaddress
import secrets
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_guard

if TYPE_CHECKING:
    from gatepost.store.users import UserStore


VALIDITY = timedelta(days=3650)
# Clocks of clients may be behind.
GRACE = timedelta(days=1)


def ensure_certificate(data: DataFolder, hosts: Iterable[str] = ()) -> None:
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


def certificate_expiry(pem: bytes) -> datetime:
    """When the first certificate of a file ends; raises `ValueError`."""
    return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.lower())


ADMINISTRATOR = "admin"

GUARD_YML = """\
# Gatepost's core: where mail comes in and how it is analysed.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then restart.

# Messages that are worked on at once. maxGuardRequestsInProcessing (from where on mail has to wait) and
# guardRequestThrottleThreshold (from where on it is slowed down) follow this number unless they are set.
mainWorkerCount: 20

scanSources:
  # The Email Scanning API's way in. HTTPS, and only abby gets in; `restApi: {}` alone means the same.
  restApi: {host: 127.0.0.1, port: 9785}
  # smtp: {host: 127.0.0.1, port: 10025}

# delivery: {nextHop: "smtp://127.0.0.1:10026"}

# The system's name servers are asked unless others are named.
# dns: {nameservers: ["192.0.2.53:53"], timeout: 2000}

# Results and ledgers are kept in one file of the data folder.
storage: {url: "sqlite:gatepost.db"}
"""
ABBY_YML = """\
# Gatepost's API service: who may send mail for analysis, and which cores do the work.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then restart.

# Only this machine can reach it. 0.0.0.0 opens it to others; give it a certificate of yours then:
# tls: {{certificate: /path/fullchain.pem, key: /path/privkey.pem}}
listen: {{host: 127.0.0.1, port: 9081}}

serviceProviders:
  core:
    # The cores that messages are spread over. Several are several machines, with PostgreSQL as storage.
    hosts: ["https://127.0.0.1:{port}"]
{secret}    # Milliseconds that a scan may wait for its turn and run.
    longRequestTimeout: 3600000

# Who may use the Email Scanning API: `Authorization: Bearer TOKEN`. Make more with `openssl rand -hex 32`.
staticApiTokens:
  - name: first
    token: "{token}"
    permissions: [messages.read]

storage: {{url: "{storage}"}}
"""
EXAMPLE = """\
From: Ann Example <ann@example.org>\r
To: Bob Example <bob@example.com>\r
Subject: Minutes of Tuesday\r
Date: Tue, 10 Nov 2026 09:12:00 +0000\r
Message-ID: <minutes-1@example.org>\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=utf-8\r
\r
Hello Bob,\r
\r
the minutes of Tuesday's meeting are on the shared drive as usual.\r
\r
Regards\r
Ann\r
"""


def prepare(data: DataFolder, config: Path | None) -> Path:
    """Complete what is missing in the data folder; returns the folder of the configuration.

    A configuration that the operator keeps elsewhere is never written to.
    """
    if config is None:
        _write_configuration(data)
    ensure_secret(data)
    data.write_once(data.example, EXAMPLE)
    return config or data.path


def ensure_secret(data: DataFolder) -> None:
    """Have what abby proves itself to guard with."""
    data.write_once(data.secret, secrets.token_hex(32))


def _write_configuration(data: DataFolder) -> None:
    data.write_once(data.path / GUARD_FILE, GUARD_YML)
    if (data.path / ABBY_FILE).exists():
        return
    data.write_once(data.token, secrets.token_hex(32))
    guard = load_guard(data.path)
    source = guard.scan_sources.rest_api
    text = ABBY_YML.format(
        port=source.port if source else 9785,
        secret=f'    secret: "{source.secret}"\n' if source and source.secret else "",
        token=data.token.read_text().strip(),
        storage=guard.storage.url,
    )
    data.write_once(data.path / ABBY_FILE, text)


async def keep_administrator(store: "UserStore", password: str) -> None:
    """The first user, who makes all others."""
    from gatepost.store.audit import SYSTEM
    from gatepost.web.credentials import PasswordHashes

    await store.create_user(ADMINISTRATOR, "administrator", None, await PasswordHashes().hash(password), SYSTEM)
