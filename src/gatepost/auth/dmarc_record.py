"""A DMARC policy record as read (RFC 9989 sections 4.7 and 4.8).

Only the version must be right; an unknown or faulty tag is ignored in favour of its default. The exception is a faulty
`p`, `sp` or `np`: then the record counts as `p=none` if its owner wants reports, and as asking for nothing if not
(section 4.10.1). `pct`, `rf` and `ri` of RFC 7489 are unknown tags now.
"""

import re
from typing import Literal

import msgspec

Policy = Literal["none", "quarantine", "reject"]

MAX_RECORD = 8_192
MAX_TAGS = 100

_VERSION = re.compile(r"[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)")
_BLANK = " \t"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-+\--~]+")
_POLICIES: dict[str, Policy] = {"none": "none", "quarantine": "quarantine", "reject": "reject"}
_LOWER: dict[Policy, Policy] = {"reject": "quarantine", "quarantine": "none", "none": "none"}


class Record(msgspec.Struct, frozen=True):
    """What an owner asks for. `applies` is False where nothing can be made of its policy tags."""

    policy: Policy = "none"
    subdomains: Policy = "none"
    nonexistent: Policy = "none"
    strict_dkim: bool = False
    strict_spf: bool = False
    psd: Literal["y", "n", "u"] = "u"
    testing: bool = False
    applies: bool = True

    def lowered(self, policy: Policy) -> Policy:
        """The policy to apply: one step milder while its owner tests it (`t=y`)."""
        return _LOWER[policy] if self.testing else policy


def is_dmarc(text: str) -> bool:
    """Is this TXT record a DMARC record? The value of the version is case-sensitive and must come first."""
    return len(text) <= MAX_RECORD and bool(_VERSION.match(text))


def parse(text: str) -> Record:
    """Read a record that `is_dmarc`. Total: what is wrong in it is left out."""
    tags = _tags(text)
    named = {name: _POLICIES.get(tags[name].lower()) for name in ("p", "sp", "np") if name in tags}
    faulty = None in named.values()
    policy = (None if faulty else named.get("p")) or "none"
    subdomains = (None if faulty else named.get("sp")) or policy
    psd = tags.get("psd", "").lower()
    return Record(
        policy=policy,
        subdomains=subdomains,
        nonexistent=(None if faulty else named.get("np")) or subdomains,
        strict_dkim=tags.get("adkim", "").lower() == "s",
        strict_spf=tags.get("aspf", "").lower() == "s",
        psd="y" if psd == "y" else "n" if psd == "n" else "u",
        testing=tags.get("t", "").lower() == "y",
        applies=not faulty or _wants_reports(tags.get("rua", "")),
    )


def _tags(text: str) -> dict[str, str]:
    """The first value of each tag."""
    tags: dict[str, str] = {}
    for piece in text.split(";", MAX_TAGS)[1:MAX_TAGS]:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK).lower()
        if equals and name not in tags:
            tags[name] = value.strip(_BLANK)
    return tags


def _wants_reports(rua: str) -> bool:
    return any(_URI.fullmatch(uri.strip(_BLANK)) for uri in rua.split(","))
