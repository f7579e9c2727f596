"""What a domain publishes in its DMARC record (RFC 9989 section 4.7): its policy, and where it wants reports.

Only the version must be right; an unknown or faulty tag is ignored in favour of its default (sections 4.7 and 4.8). The
exception is a faulty `p`, `sp` or `np`: then the record counts as `p=none` if its owner wants reports, and as asking
for nothing if not (section 4.10.1). `pct`, `rf` and `ri` of RFC 7489 are unknown tags now.
"""

import re
from typing import Literal

import msgspec

Policy = Literal["none", "quarantine", "reject"]

MAX_TAGS, MAX_RECORD = 100, 8_192
MAX_DESTINATIONS = 5
_BLANK = " \t"
_VERSION = re.compile(r"[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-+\--~]+")
_POLICIES: dict[str, Policy] = {"none": "none", "quarantine": "quarantine", "reject": "reject"}
_LOWER: dict[Policy, Policy] = {"reject": "quarantine", "quarantine": "none", "none": "none"}
# A local part without quotes, so that nothing in it can act in a command or a header field.
_MAILTO = re.compile(
    r"mailto:([A-Za-z0-9#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9_.-]{1,253})(?:!([0-9]{1,12})([kmgt]?))?", re.IGNORECASE
)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")


def is_dmarc(text: str) -> bool:
    """Is this TXT record a DMARC record? The value of the version is case-sensitive and must come first."""
    return len(text) <= MAX_RECORD and bool(_VERSION.match(text))


def parse_tags(text: str) -> dict[str, str]:
    """Return the first value of each tag behind the version of a record."""
    tags: dict[str, str] = {}
    for piece in text.split(";", MAX_TAGS)[1:MAX_TAGS]:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK).lower()
        if equals and name not in tags:
            tags[name] = value.strip(_BLANK)
    return tags


class DmarcRecord(msgspec.Struct, frozen=True):
    """What an owner asks for. `applies` is False where nothing can be made of its policy tags."""

    policy: Policy = "none"
    subdomains: Policy = "none"
    nonexistent: Policy = "none"
    strict_dkim: bool = False
    strict_spf: bool = False
    psd: Literal["y", "n", "u"] = "u"
    testing: bool = False
    applies: bool = True

    def soften(self, policy: Policy) -> Policy:
        """Return the policy to apply: one step milder while its owner tests it (`t=y`)."""
        return _LOWER[policy] if self.testing else policy


def parse_record(text: str) -> DmarcRecord:
    """Parse a record that `is_dmarc`. It never raises: a faulty tag is left out."""
    tags = parse_tags(text)
    named = {name: _POLICIES.get(tags[name].lower()) for name in ("p", "sp", "np") if name in tags}
    faulty = None in named.values()
    policy = (None if faulty else named.get("p")) or "none"
    subdomains = (None if faulty else named.get("sp")) or policy
    psd = tags.get("psd", "").lower()
    return DmarcRecord(
        policy=policy,
        subdomains=subdomains,
        nonexistent=(None if faulty else named.get("np")) or subdomains,
        strict_dkim=tags.get("adkim", "").lower() == "s",
        strict_spf=tags.get("aspf", "").lower() == "s",
        psd="y" if psd == "y" else "n" if psd == "n" else "u",
        testing=tags.get("t", "").lower() == "y",
        applies=not faulty or any(_URI.fullmatch(uri.strip(_BLANK)) for uri in tags.get("rua", "").split(",")),
    )


class ReportUri(msgspec.Struct, frozen=True):
    """Where a domain wants reports, and how many bytes it takes; 0 is no limit."""

    address: str
    limit: int = 0

    @property
    def host(self) -> str:
        """The host of the destination."""
        return self.address.rpartition("@")[2].lower()


def parse_report_uris(text: str) -> tuple[ReportUri, ...]:
    """Return the mail addresses that `rua=` names, in their order, up to `MAX_DESTINATIONS`. What is no `mailto:` is
    left out; `!10m` is the size that a destination takes (RFC 7489 section 6.4)."""
    found: dict[str, ReportUri] = {}
    for piece in text[:MAX_RECORD].split(","):
        match = _MAILTO.fullmatch(_PERCENT.sub(lambda code: chr(int(code[1], 16)), piece.strip(_BLANK)))
        if match and len(found) < MAX_DESTINATIONS:
            limit = int(match[2]) << _UNITS[match[3].lower()] if match[2] else 0
            found.setdefault(match[1].lower(), ReportUri(match[1], limit))
    return tuple(found.values())
