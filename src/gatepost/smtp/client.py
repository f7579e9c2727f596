"""Who the client is, on whose behalf it speaks, and which tenant a recipient belongs to.

The sending host is the address of the connection, or what a known host says of its client. A host that is listed may
tell with XFORWARD (for one message) or XCLIENT (from now on) where it got a message from; from other clients both are
refused. A listed host, or this machine itself, that says nothing is no sending host: then the sending host is not known
here, and the analysis looks for it in the Received fields.

A recipient's domain leads to a tenant, by the configuration first, then by the store's map. A transaction has one
tenant, since it has one decision. Mail to a domain of no tenant has no tenant, and that counts as one, too.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from gatepost.names import normal_domain
from gatepost.scanning.request import is_queue_id
from gatepost.smtp.commands import Attributes

XFORWARD = "NAME ADDR PORT PROTO HELO IDENT SOURCE"
XCLIENT = "NAME REVERSE_NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT"
_NAMES = {"XFORWARD": frozenset(XFORWARD.split()), "XCLIENT": frozenset(XCLIENT.split())}

Networks = tuple[IPv4Network | IPv6Network, ...]


def parse_networks(texts: Sequence[str]) -> Networks:
    """Return the addresses and networks of the settings."""
    return tuple(ip_network(text, strict=False) for text in texts)


def is_among(address: str, networks: Networks) -> bool:
    """Whether an address belongs to one of these networks; what is no address belongs to none."""
    try:
        place = ip_address(address)
    except ValueError:
        return False
    return any(place in network for network in networks)


class SmtpClient(msgspec.Struct, frozen=True):
    """`address` is the peer's; `listed` whether it is believed; `xclient` and `xforward` are what it said of the client
    behind it."""

    address: str
    listed: bool = False
    here: bool = False
    xclient: dict[str, str | None] = {}
    xforward: dict[str, str | None] = {}

    @property
    def known(self) -> bool:
        """Whether it is a host of ours, by list or because it is this machine."""
        return self.listed or self.here

    def remote_address(self) -> str | None:
        """The sending host, as far as it is known."""
        stated = self.xclient | self.xforward
        if "ADDR" in stated:
            return parse_address(stated["ADDR"])
        return None if self.known else self.address

    def helo(self, own: str | None) -> str | None:
        """What the sending host called itself; `own` is what the peer called itself."""
        stated = self.xclient | self.xforward
        if "HELO" in stated or "ADDR" in stated:
            return stated.get("HELO")
        return None if self.known else own

    def queue_id(self, received: str) -> str:
        """The queue id that the message has at the client: what XFORWARD says, or what a host of ours wrote into its
        Received field."""
        ident = self.xforward.get("IDENT") or (received if self.known else "")
        return ident if is_queue_id(ident) else ""

    def with_attributes(self, attributes: Attributes) -> "SmtpClient | None":
        """Return the client with these attributes; None where they make no sense."""
        if not attributes.values.keys() <= _NAMES[attributes.verb]:
            return None
        address = attributes.values.get("ADDR")
        if address is not None and parse_address(address) is None:
            return None
        if attributes.verb == "XCLIENT":
            return msgspec.structs.replace(self, xclient=self.xclient | attributes.values, xforward={})
        return msgspec.structs.replace(self, xforward=self.xforward | attributes.values)

    def after_message(self) -> "SmtpClient":
        """Return the client without what XFORWARD said, which holds for one message."""
        return msgspec.structs.replace(self, xforward={}) if self.xforward else self


def identify_client(peer: str, listed: Networks) -> SmtpClient:
    """Return the client at an address, as the socket tells it."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return SmtpClient(peer)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return SmtpClient(str(address), any(address in network for network in listed), address.is_loopback)


def parse_address(text: str | None) -> str | None:
    """Return an address as mail servers write it, in normal form; None for what is none."""
    text = (text or "").removeprefix("IPV6:").removeprefix("IPv6:").removeprefix("ipv6:")
    try:
        return str(ip_address(text))
    except ValueError:
        return None


class Tenancy:
    """Domains to tenants: those of the configuration, and those that `of_domain` finds (`store.tenants.of_domain`)."""

    def __init__(self, configured: Mapping[str, str], of_domain: Callable[[str], Awaitable[str | None]]) -> None:
        self._configured = {normal_domain(domain): uid for domain, uid in configured.items()}
        self._of_domain = of_domain

    async def tenant_of(self, domain: str) -> str | None:
        """The tenant of a domain in normal form. Raises `StorageError`."""
        if not domain:
            return None
        return self._configured.get(domain) or await self._of_domain(domain)
