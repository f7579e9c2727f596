"""The name that a provider gives every rented machine: `142.132.167.72.host.provider.example`, `ip-203-0-113-9.…`.

Whoever has a site or sends mail for others gives a machine a name of its own. A page under the automatic one is there
for a few days, on a machine that was rented or broken into. It is a bare address (RFC 3986 section 3.2.2) in disguise.
Private addresses are left out: such names are for trying things out.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain, org_domain

LINK = Kind("url:machine-name", "A link leads to a machine by the name that its provider made from its address")
SENDER = Kind("sender:machine-name", "The sender's domain is the name that a provider made from a machine's address")
KINDS = (LINK, SENDER)

_ADDRESS = re.compile(r"(?:^|[.-])[a-z]{0,8}(\d{1,3})([.-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?=[.-]|$)(?![.-]\d)")
_PRIVATE = ("10.", "127.", "192.168.", "169.254.", "172.", "0.")


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in reading.sites.items():
        if address := _address(host):
            yield LINK.at(link.where, about=link.url, host=host, address=address)
    for sender in reading.message.senders:
        if address := _address(normal_domain(sender.domain)):
            yield SENDER.at("From", domain=sender.domain, address=address)


@lru_cache(4096)
def _address(host: str) -> str:
    """The IPv4 address that a host's name is made from, "" for none."""
    below = host.removesuffix(org_domain(host)).rstrip(".")
    found = _ADDRESS.search(below) if below else None
    if not found:
        return ""
    address = ".".join(found.group(1, 3, 4, 5))
    if any(int(octet) > 255 for octet in address.split(".")) or address.startswith(_PRIVATE):
        return ""
    return address
