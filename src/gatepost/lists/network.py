"""Networks: an IP address or a CIDR block, in canonical form (RFC 4632, RFC 5952)."""

import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from gatepost.lists.entry import Category, EntryKind, Normal, Refused, same

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_WIDEST = {4: {"allow": 16}, 6: {"allow": 32}}
_WIDEST_OTHERWISE = {4: 8, 6: 16}


def normalise(text: str) -> Normal | Refused:
    """Host bits cleared, a single address without its mask, IPv4 inside IPv6 as IPv4."""
    if _is_plain(text):
        return same(text)
    network = parse(text)
    return Refused("is neither an IP address nor a CIDR block") if network is None else same(_text(network))


def _is_plain(text: str) -> bool:
    """Whether this is an IPv4 address as it is shown: most entries are, and there is nothing to do about them."""
    try:
        return socket.inet_ntop(socket.AF_INET, socket.inet_pton(socket.AF_INET, text)) == text
    except (OSError, ValueError):
        return False


def parse(text: str) -> Network | None:
    try:
        network = ip_network(text.strip().strip("[]"), strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((int(mapped), network.prefixlen - 96))
    return network


def refuse(key: str, category: Category) -> str:
    """Whole continents are no entry; private ranges are one's own business."""
    network = parse(key) if "/" in key else None
    if network is None or network.is_private:
        return ""
    widest = _WIDEST[network.version].get(category, _WIDEST_OTHERWISE[network.version])
    return f"is too wide: at most a /{widest} here" if network.prefixlen < widest else ""


@lru_cache(4096)
def keys(address: str) -> tuple[str, ...]:
    """Every entry that would match this address, narrowest first."""
    try:
        place = ip_address(address)
    except ValueError:
        return ()
    if isinstance(place, IPv6Address) and place.ipv4_mapped is not None:
        place = place.ipv4_mapped
    if isinstance(place, IPv4Address):
        return tuple(_text(IPv4Network((int(place), length), strict=False)) for length in range(32, -1, -1))
    return tuple(_text(IPv6Network((int(place), length), strict=False)) for length in range(128, -1, -1))


def _text(network: Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


NETWORK = EntryKind("network", "an IP address or a CIDR block", "192.0.2.0/24", normalise, refuse, keyed=True)
