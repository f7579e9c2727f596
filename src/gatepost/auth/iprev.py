"""iprev (RFC 8601 section 3): does the name of the sending host lead back to its address?

Anyone can publish any name for an address of their own; only the owner of the name can make it point back.
"""

from gatepost.asking import Asking, Dns
from gatepost.auth.dnsname import IpAddress, addresses, queryable, reverse_name
from gatepost.auth.results import Iprev

# RFC 8601 section 3 asks for a limit on the names that are followed.
MAX_NAMES = 10


def verify(host: IpAddress | None) -> Asking[Iprev]:
    """Follow the host's names back to its address."""
    if host is None:
        return Iprev(reason="sending host unknown")
    (answer,) = yield (Dns(reverse_name(host), "PTR"),)
    if answer.status == "failed":
        return Iprev("temperror", reason="DNS failed for the host's name")
    claimed = [name.lower().removesuffix(".") for name in answer.records[:MAX_NAMES]]
    names = [name for name in claimed if queryable(name)]
    if not names:
        return Iprev("permerror", reason="the host has no name")
    answers = yield tuple(Dns(name, "A" if host.version == 4 else "AAAA") for name in names)
    for name, forward in zip(names, answers, strict=False):
        if host in addresses(forward):
            return Iprev("pass", name)
    if any(forward.status == "failed" for forward in answers):
        return Iprev("temperror", names[0], "DNS failed for the name's address")
    return Iprev("fail", names[0], "the name does not lead back to the host")
