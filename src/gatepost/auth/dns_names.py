"""Names as DNS is asked for them, within the bounds of RFC 1035 section 2.3.4, and addresses as it answers them.

Domains reach authentication from hostile places (envelope, From, macros in SPF records), so nothing here raises:
what cannot be asked or is no address is False or None.
"""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from gatepost.questions import DnsAnswer

MAX_NAME = 253
MAX_LABEL = 63
# Addresses that are looked at in one answer: a reply over TCP can carry thousands.
MAX_ADDRESSES = 500
_LONGEST = 45

IpAddress: TypeAlias = IPv4Address | IPv6Address


def is_queryable(name: str) -> bool:
    """Return whether DNS can be asked for this name. Odd but printable characters may be in it: SPF macros make such
    names."""
    if not 0 < len(name) <= MAX_NAME or not (name.isascii() and name.isprintable()):
        return False
    labels = name.split(".")
    return "" not in labels and max(map(len, labels)) <= MAX_LABEL


def is_domain(name: str) -> bool:
    """Return whether this is a name of several labels that a mail domain can have (RFC 7208 section 4.3)."""
    return "." in name and is_queryable(name) and name[0] != "[" and " " not in name


def parse_address(text: str) -> IpAddress | None:
    """Parse an IP address; IPv4 written as IPv6 becomes IPv4 (RFC 7208 section 5). Return None where it is not an
    address."""
    return _parse_cached(text) if len(text) <= _LONGEST else _parse_address(text)


def _parse_address(text: str) -> IpAddress | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


# The same hosts send again and again, and taking an address apart is slow.
_parse_cached = lru_cache(4096)(_parse_address)


def parse_addresses(answer: DnsAnswer) -> Iterator[IpAddress]:
    """Return the addresses in an answer, at most `MAX_ADDRESSES` of them."""
    return filter(None, map(parse_address, answer.records[:MAX_ADDRESSES]))


def reverse_name(host: IpAddress) -> str:
    """Return the name under which an address keeps its PTR records (RFC 1035 section 3.5, RFC 3596 section 2.5)."""
    parts = str(host).split(".") if host.version == 4 else format(int(host), "032x")
    return f"{'.'.join(reversed(parts))}.{'in-addr' if host.version == 4 else 'ip6'}.arpa"
