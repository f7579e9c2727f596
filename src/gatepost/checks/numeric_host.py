"""Links to a bare IP address. Sites that people are asked to visit have names; an address hides who runs them.

Routers and printers inside a network write such links in their reports, so private addresses are left out.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from gatepost.findings import Finding, Kind, Reading

NUMERIC = Kind("url:ip-host", "A link leads to a bare IP address")
KINDS = (NUMERIC,)
NEEDS = frozenset({"link"})


def check(reading: Reading) -> Iterator[Finding]:
    numeric = [host for host in reading.sites if (host[0].isdigit() or host[0] == "[") and _is_public(host)]
    for host in numeric:
        link = reading.sites[host]
        # One among many sites is a mention, as in the digest of a list.
        strength = 1.0 if 2 * len(numeric) >= len(reading.sites) else 0.5
        yield NUMERIC.at(link.where, strength=strength, about=link.url, host=host)


def _is_public(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_global
    except ValueError:
        return False
