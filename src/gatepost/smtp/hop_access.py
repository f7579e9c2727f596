"""How a next hop is reached: its address, and TLS as the settings ask for.

An address is `smtp://host:port`, `lmtp://host:port`, or `lmtp:/path` for the Unix socket of an LMTP server.
"""

import ssl
from typing import Literal
from urllib.parse import urlsplit

import msgspec

Tls = Literal["off", "opportunistic", "required", "verified"]

SMTP_PORT, LMTP_PORT = 25, 24


class HopAddress(msgspec.Struct, frozen=True):
    """Where a next hop listens: host and port, or the path of a Unix socket."""

    host: str
    port: int
    path: str = ""
    lmtp: bool = False

    @property
    def name(self) -> str:
        """The name that its certificate must have."""
        return self.host or "localhost"


def parse_next_hop(url: str) -> HopAddress:
    """Return the address in a URL of the settings."""
    parts = urlsplit(url)
    lmtp = parts.scheme == "lmtp"
    if lmtp and not parts.netloc:
        return HopAddress("", 0, parts.path, lmtp=True)
    return HopAddress(parts.hostname or "", parts.port or (LMTP_PORT if lmtp else SMTP_PORT), lmtp=lmtp)


class HopTls(msgspec.Struct, frozen=True):
    """TLS towards a next hop. `ca` is a file with the authorities that `verified` accepts, instead of the system's;
    `certificate` and `key` are files with what this gateway shows to a server that asks for it."""

    mode: Tls
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def build_context(self) -> ssl.SSLContext | None:
        """Read the files; raises `OSError` if one cannot be used. None is no TLS."""
        if self.mode == "off":
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.mode != "verified":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        return context
