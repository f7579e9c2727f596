"""Links to a bare IP address. Sites that people are asked to visit have names; an address hides who runs them.

Routers and printers inside a network write such links in their reports, so private addresses are left out.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from gatepost.findings import Finding, Kind, Reading

NUMERIC = Kind("url:ip-host", "A link leads to a bare IP address")
KINDS = (NUMERIC,)


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in reading.sites.items():
        if host[0].isdigit() or host[0] == "[":
            try:
                address = ip_address(host.strip("[]"))
            except ValueError:
                continue
            if address.is_global:
                yield NUMERIC.at(link.where, about=link.url, host=host)
