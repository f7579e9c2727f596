"""Links through a shortener, which do not show where they lead.

Newsletters and people use them, too; that is why they weigh little by themselves. Mail that claims to be a company and
hides its own site behind one has a reason.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_shortener
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import org_domain

SHORTENER = Kind("url:shortener", "A link leads through a shortener, which hides its target")
KINDS = (SHORTENER,)
NEEDS = frozenset({"link"})


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in reading.sites.items():
        # Twitter's own mail links through t.co.
        if is_shortener(host) and org_domain(host) not in reading.sender_domains:
            yield SHORTENER.at(link.where, about=link.url, host=host)
            return
