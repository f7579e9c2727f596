"""Where a message comes from: outside, an own network, a client that had logged in, or nobody knows.

It is decided once for all sources (`sending_host.find_sending_host`), from what each of them knows of the client:

- `logged in`: the source says that the client had logged in, or a trusted relay wrote so (RFC 3848: `with ESMTPSA`);
- `own network`: an address in `ownNetworks`, a server that sends outbound mail, a program on the machine of the MTA;
- `outside`: any other public address;
- `unknown`: nothing tells the client. A private address in no own network is that of a relay in front.

A stranger can write Received fields, so only what the source or a trusted relay tells makes a message one of own
people. A field on top of a message whose source told no client can leave a question open, and no more.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

MAX_TEXT = 2_000
# Addresses that mean something within one network only (RFC 6890).
_PRIVATE = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16"
    " ::/127 fc00::/7 fe80::/10"
)
_COMMENTS = r"(?>\s*+\([^()]{0,500}+(?>\([^()]{0,500}+\)[^()]{0,500}+){0,5}+\)){0,6}+"
# Protocols with an A at their end (RFC 3848, RFC 6531 section 4.3); older versions of Exim write asmtp.
_LOGIN = re.compile(
    rf"\s*+from\s++[^\s()]++{_COMMENTS}\s++by\s++[^\s()]++{_COMMENTS}\s++with\s++"
    r"(?:(?:e?smtp|utf8smtp|(?:utf8)?lmtp)s?a|asmtp)\b",
    re.IGNORECASE,
)


@lru_cache(256)
def parse_networks(texts: tuple[str, ...]) -> Networks:
    """Return the addresses and networks of the settings."""
    return tuple(ip_network(text, strict=False) for text in texts)


PRIVATE_NETWORKS = parse_networks(tuple(_PRIVATE.split()))


def is_private(host: IpAddress) -> bool:
    """Return whether an address means something within one network only."""
    return any(host in network for network in PRIVATE_NETWORKS)


def is_login(received: str) -> bool:
    """Return whether a Received field says that its client had logged in.

    A client may write anything in HELO, also what looks like the rest of a field, and some servers keep it. The server
    writes `by` behind it, so what follows the only `by` was written by the server.
    """
    if len(received) > MAX_TEXT or received.lower().split().count("by") != 1:
        return False
    return bool(_LOGIN.match(received))
