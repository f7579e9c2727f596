"""Hosts that are an IP address: bare, or in the name that a provider gives every rented machine.

Sites that people are asked to visit have names; a bare address hides who runs them. A page under
`142.132.167.72.host.provider.example` or `ip-203-0-113-9.…` is a bare address in disguise (RFC 3986 section 3.2.2): an
owner who has a site or sends mail gives a machine a name of its own. Routers and printers write links to addresses in
their reports, and automatic names are used for trying things out, so private addresses are left out.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address

from gatepost.findings import Reading
from gatepost.kinds import SENDER_MACHINE_NAME, URL_IP_HOST, URL_MACHINE_NAME, Finding
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (URL_IP_HOST, URL_MACHINE_NAME, SENDER_MACHINE_NAME)

_ADDRESS = re.compile(r"(?:^|[.-])[a-z]{0,8}(\d{1,3})([.-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?=[.-]|$)(?![.-]\d)")
_PRIVATE = ("10.", "127.", "192.168.", "169.254.", "172.", "0.")
(_MENTION,) = coefficients(URL_IP_HOST, "mention")


def check(reading: Reading) -> Iterator[Finding]:
    bare = [host for host in reading.sites if (host[0].isdigit() or host[0] == "[") and _is_public(host)]
    for host in bare:
        link = reading.sites[host]
        # One among many sites is a mention, as in the digest of a list.
        strength = 1.0 if 2 * len(bare) >= len(reading.sites) else _MENTION
        yield URL_IP_HOST.at(link.where, strength=strength, about=link.url, host=host)
    for host, link in reading.sites.items():
        if address := _address_in(host):
            yield URL_MACHINE_NAME.at(link.where, about=link.url, host=host, address=address)
    for sender in reading.message.senders:
        if address := _address_in(normal_domain(sender.domain)):
            yield SENDER_MACHINE_NAME.at("From", domain=sender.domain, address=address)


def _is_public(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_global
    except ValueError:
        return False


@lru_cache(4096)
def _address_in(host: str) -> str:
    """Return the IPv4 address that a host's name is made from, "" for none."""
    below = host.removesuffix(org_domain(host)).rstrip(".")
    found = _ADDRESS.search(below) if below else None
    if not found:
        return ""
    address = ".".join(found.group(1, 3, 4, 5))
    if any(int(octet) > 255 for octet in address.split(".")) or address.startswith(_PRIVATE):
        return ""
    return address
