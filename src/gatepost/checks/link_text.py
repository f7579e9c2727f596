"""Links whose text is an address of one site and whose target is another.

`<a href="https://evil.example">https://bank.example</a>`: people read the text, programs follow the target. Honest
mailers wrap links for counting, but then they show words, not another site's address.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading
from gatepost.names import org_domain, public_suffix

MISMATCH = Kind("url:text-mismatch", "A link shows the address of one site and leads to another")
KINDS = (MISMATCH,)

# Only where the whole text is an address: a sentence that mentions a domain promises nothing.
_ADDRESS = re.compile(
    r"^\s*(?:https?://)?(?:[\w-]{1,63}\.){1,10}([a-z]{2,24})(?::\d{1,5})?(?:[/?#]\S*)?\s*$", re.IGNORECASE
)
_FILE_ENDINGS = frozenset("html htm php asp aspx jsp pdf doc txt zip jpg png gif exe js css".split())


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.message.links:
        if link.source != "html" or not link.host:
            continue
        shown = _host_shown(link.shown)
        if shown and org_domain(shown) not in {org_domain(host) for host in (link.host, *link.wrapped)}:
            yield MISMATCH.at(link.where, about=link.url, shown=shown, leads_to=link.host)


def _host_shown(text: str) -> str:
    match = _ADDRESS.match(text[:500])
    if not match or match.group(1).lower() in _FILE_ENDINGS:
        return ""
    host = re.split(r"[/?#:]", text.strip().lower().removeprefix("http://").removeprefix("https://"), maxsplit=1)[0]
    return host if public_suffix(host) != host else ""
