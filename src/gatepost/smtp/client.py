"""Who is at the other end, and on whose behalf: the address of the connection, or what a known host says of its client.

A host that is listed may tell with XFORWARD (for one message) or XCLIENT (from now on) whom it got a message from; from
anybody else both are refused. A listed host, or this machine itself, that says nothing is no sending host: then it is
not known here, and the analysis looks for it in the Received fields.

Whose mail it is: a recipient's domain leads to a tenant, by the configuration first, then by the store's map.

A transaction has one tenant, since it has one decision. Mail to nobody's domain has no tenant, which is one, too.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

import msgspec

from gatepost.names import normal_domain
from gatepost.smtp.commands import Attributes

XFORWARD = "NAME ADDR PORT PROTO HELO IDENT SOURCE"
XCLIENT = "NAME REVERSE_NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT"
_NAMES = {"XFORWARD": frozenset(XFORWARD.split()), "XCLIENT": frozenset(XCLIENT.split())}

Networks = tuple[IPv4Network | IPv6Network, ...]


def networks(texts: Sequence[str]) -> Networks:
    """Addresses and networks of the settings."""
    return tuple(ip_network(text, strict=False) for text in texts)


class Client(msgspec.Struct, frozen=True):
    """`address` is the peer's; `listed` whether it is believed; `told` what it said of the client behind it."""

    address: str
    listed: bool = False
    here: bool = False
    told: dict[str, str | None] = {}
    forwarded: dict[str, str | None] = {}

    @property
    def known(self) -> bool:
        """A host of ours, by list or because it is this machine."""
        return self.listed or self.here

    def remote_address(self) -> str | None:
        """The sending host, as far as it is known."""
        said = self.told | self.forwarded
        if "ADDR" in said:
            return _address(said["ADDR"])
        return None if self.known else self.address

    def helo(self, said: str | None) -> str | None:
        """What the sending host called itself; `said` is what the peer called itself."""
        told = self.told | self.forwarded
        if "HELO" in told or "ADDR" in told:
            return told.get("HELO")
        return None if self.known else said

    def hears(self, attributes: Attributes) -> "Client | None":
        """With what it says taken over; None where it makes no sense."""
        if not attributes.values.keys() <= _NAMES[attributes.verb]:
            return None
        address = attributes.values.get("ADDR")
        if address is not None and _address(address) is None:
            return None
        if attributes.verb == "XCLIENT":
            return msgspec.structs.replace(self, told=self.told | attributes.values, forwarded={})
        return msgspec.structs.replace(self, forwarded=self.forwarded | attributes.values)

    def after_message(self) -> "Client":
        """What XFORWARD said holds for one message."""
        return msgspec.structs.replace(self, forwarded={}) if self.forwarded else self


def client_of(peer: str, listed: Networks) -> Client:
    """The client at an address, as the socket tells it."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return Client(peer)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return Client(str(address), any(address in network for network in listed), address.is_loopback)


def _address(text: str | None) -> str | None:
    text = (text or "").removeprefix("IPV6:").removeprefix("IPv6:").removeprefix("ipv6:")
    try:
        return str(ip_address(text))
    except ValueError:
        return None


class KnowsDomains(Protocol):
    """The store, as far as it is needed here."""

    async def tenant_of(self, domain: str) -> str | None: ...


class Tenancy:
    """Domains to tenants."""

    def __init__(self, configured: Mapping[str, str], store: KnowsDomains) -> None:
        self._configured = {normal_domain(domain): uid for domain, uid in configured.items()}
        self._store = store

    async def tenant_of(self, domain: str) -> str | None:
        """The tenant of a domain in normal form. Raises `StorageError`."""
        if not domain:
            return None
        return self._configured.get(domain) or await self._store.tenant_of(domain)
