"""Reports about the mail of other domains as plain data: what we count for them, and what a domain wants of it.

What we report is counted in `SeenMail` and `SeenSession`, and `parse_tags` and `parse_report_uris` read what a domain
wants of it: its DMARC and TLS records are lists of tags.
"""

import re
from typing import Literal, TypeAlias

import msgspec

Disposition: TypeAlias = Literal["pass", "none", "quarantine", "reject", ""]

MAX_TAGS, MAX_RECORD = 100, 8_192
MAX_DESTINATIONS = 5
_BLANK = " \t"
_DMARC_VERSION = re.compile(r"[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)")
# A local part without quotes, so that nothing in it can act in a command or a header field.
_MAILTO = re.compile(
    r"mailto:([A-Za-z0-9#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9_.-]{1,253})(?:!([0-9]{1,12})([kmgt]?))?", re.IGNORECASE
)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")


class SeenMail(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a day that are alike to DMARC (RFC 9990 section 2.1.1): the sending host, the domains in From and
    MAIL FROM, what was done by the policy and why not what it asks for, whether each method passed and was aligned, and
    the raw results: signatures as domain, selector and result, SPF as domain and result."""

    source: str
    header_from: str
    envelope_from: str
    disposition: Disposition
    dkim: bool
    spf: bool
    override: str = ""
    signatures: tuple[tuple[str, str, str], ...] = ()
    spf_domain: str = ""
    spf_result: str = "none"


class SeenSession(msgspec.Struct, frozen=True, array_like=True):
    """Connections of a day to mail servers of one domain that are alike (RFC 8460 section 4.4): under which policy
    (`sts` or `no-policy-found`), its lines and hosts, to which server, and why TLS failed; "" where it did not."""

    policy: str
    lines: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    server: str = ""
    address: str = ""
    failure: str = ""
    detail: str = ""


class ReportUri(msgspec.Struct, frozen=True):
    """Where a domain wants reports, and how many bytes it takes; 0 is no limit."""

    address: str
    limit: int = 0

    @property
    def host(self) -> str:
        """The host of the destination."""
        return self.address.rpartition("@")[2].lower()


def is_dmarc(text: str) -> bool:
    """Is this TXT record a DMARC record? The value of the version is case-sensitive and must come first."""
    return len(text) <= MAX_RECORD and bool(_DMARC_VERSION.match(text))


def parse_tags(text: str) -> dict[str, str]:
    """Return the first value of each tag behind the version of a record."""
    tags: dict[str, str] = {}
    for piece in text.split(";", MAX_TAGS)[1:MAX_TAGS]:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK).lower()
        if equals and name not in tags:
            tags[name] = value.strip(_BLANK)
    return tags


def parse_report_uris(text: str) -> tuple[ReportUri, ...]:
    """Return the mail addresses that `rua=` names, in their order, up to `MAX_DESTINATIONS`. What is no `mailto:` is
    left out; `!10m` is the size that a destination takes (RFC 7489 section 6.4)."""
    found: dict[str, ReportUri] = {}
    for piece in text[:MAX_RECORD].split(","):
        match = _MAILTO.fullmatch(_PERCENT.sub(_decode, piece.strip(_BLANK)))
        if match and len(found) < MAX_DESTINATIONS:
            limit = int(match[2]) << _UNITS[match[3].lower()] if match[2] else 0
            found.setdefault(match[1].lower(), ReportUri(match[1], limit))
    return tuple(found.values())


def _decode(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
