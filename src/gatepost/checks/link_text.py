"""Links whose text is an address of one site and whose target is another.

`<a href="https://evil.example">https://bank.example</a>`: people read the text, programs follow the target. Honest
mailers wrap links for counting, and then most show words, not another site's address; those that show one say less.
"""

import re
from collections.abc import Iterator

from gatepost.checks.wellknown import is_genuine, is_guard, is_tenant, is_under
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import org_domain, public_suffix

MISMATCH = Kind("url:text-mismatch", "A link shows the address of one site and leads to another")
KINDS = (MISMATCH,)
NEEDS = frozenset({"link"})

_SHOWN = frozenset({"html", "file"})

# Only where the whole text is an address: a sentence that mentions a domain promises nothing.
_ADDRESS = re.compile(
    r"^\s*(?:https?://)?(?:[\w-]{1,63}\.){1,10}([a-z]{2,24})(?::\d{1,5})?(?:[/?#]\S*)?\s*$", re.IGNORECASE
)
_COUNTER = re.compile(r"(?:clicks?|links?|track(?:ing)?|trk|go|e|em|email|mail|news|r|t|url\d*)\d{0,6}[.-]")
_FILE_ENDINGS = frozenset("html htm php asp aspx jsp pdf doc txt zip jpg png gif exe js css".split())


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.links:
        if link.source not in _SHOWN or not link.host:
            continue
        shown = _host_shown(link.shown)
        if (
            shown
            and not is_guard(link.host)
            and org_domain(shown) not in {org_domain(host) for host in (link.host, *link.wrapped)}
        ):
            strength = _strength(shown, link.host, reading)
            yield MISMATCH.at(link.where, strength=strength, about=link.url, shown=shown, leads_to=link.host)


def _strength(shown: str, host: str, reading: Reading) -> float:
    """A site that is imitated often says most. Mailing services count clicks on shown addresses, too."""
    protected = reading.protected.own_domains | reading.protected.partner_domains
    counted = _COUNTER.match(host) or is_tenant(host) or is_genuine(host) or "list-unsubscribe" in reading.fields
    if (is_genuine(shown) or is_under(shown, protected)) and not is_genuine(host):
        return 0.6 if counted else 1.0
    return 0.3 if counted or reading.is_discussion else 0.6


def _host_shown(text: str) -> str:
    match = _ADDRESS.match(text[:500])
    if not match or match.group(1).lower() in _FILE_ENDINGS:
        return ""
    host = re.split(r"[/?#:]", text.strip().lower().removeprefix("http://").removeprefix("https://"), maxsplit=1)[0]
    return host if public_suffix(host) != host else ""
