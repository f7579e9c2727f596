"""Links whose text is an address of one site and whose target is another.

`<a href="https://evil.example">https://bank.example</a>`: people read the text, programs follow the target. Honest
mailers wrap links for counting, and then most show words, not another site's address; those that show one say less.
"""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import is_genuine, is_guard, is_tenant, is_under
from gatepost.findings import Reading
from gatepost.kinds import URL_TEXT_MISMATCH, Finding
from gatepost.names import org_domain, public_suffix
from gatepost.strengths import coefficients

KINDS = (URL_TEXT_MISMATCH,)
NEEDS = frozenset({"link"})

_SHOWN = frozenset({"html", "file"})

# Only where the whole text is an address: a sentence that mentions a domain promises nothing.
_ADDRESS = re.compile(
    r"^\s*(?:https?://)?(?:[\w-]{1,63}\.){1,10}([a-z]{2,24})(?::\d{1,5})?(?:[/?#]\S*)?\s*$", re.IGNORECASE
)
_COUNTER = re.compile(r"(?:clicks?|links?|track(?:ing)?|trk|go|e|em|email|mail|news|r|t|url\d*)\d{0,6}[.-]")
_FILE_ENDINGS = frozenset("html htm php asp aspx jsp pdf doc txt zip jpg png gif exe js css".split())
_TRUSTED_COUNTED, _OTHER, _OTHER_COUNTED = coefficients(URL_TEXT_MISMATCH, "trusted_counted", "other", "other_counted")


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.links:
        if link.source not in _SHOWN or not link.host:
            continue
        shown = _read_host(link.shown)
        if (
            shown
            and not is_guard(link.host)
            and org_domain(shown) not in {org_domain(host) for host in (link.host, *link.wrapped)}
        ):
            strength = _measure(shown, link.host, reading)
            yield URL_TEXT_MISMATCH.at(link.where, strength=strength, about=link.url, shown=shown, leads_to=link.host)


def _measure(shown: str, host: str, reading: Reading) -> float:
    """A site that is imitated often says most. Mailing services count clicks on shown addresses, too."""
    protected = reading.protected.own_domains | reading.protected.partner_domains
    counted = _COUNTER.match(host) or is_tenant(host) or is_genuine(host) or "list-unsubscribe" in reading.fields
    if (is_genuine(shown) or is_under(shown, protected)) and not is_genuine(host):
        return _TRUSTED_COUNTED if counted else 1.0
    return _OTHER_COUNTED if counted or reading.is_discussion else _OTHER


def _read_host(text: str) -> str:
    match = _ADDRESS.match(text[:500])
    if not match or match.group(1).lower() in _FILE_ENDINGS:
        return ""
    host = re.split(r"[/?#:]", text.strip().lower().removeprefix("http://").removeprefix("https://"), maxsplit=1)[0]
    return host if public_suffix(host) != host else ""
