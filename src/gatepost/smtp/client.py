"""Who the client is, on whose behalf it speaks, and which tenant a recipient belongs to.

The sending host is the address of the connection, or what a known host says of its client. A host that is listed may
tell with XFORWARD (for one message) or XCLIENT (from now on) where it got a message from, and whether the client had
logged in; from other clients both are refused. A host that says nothing and is listed, or has a private address, is a
relay in front and no sending host: then the sending host is not known here, and the analysis looks for it in the
Received fields.

A recipient's domain leads to a tenant, by the configuration first, then by the store's map. A transaction has one
tenant, since it has one decision. Mail to a domain of no tenant has no tenant, and that counts as one, too.

For outbound mail the question is for which tenants a client may send. The envelope sender is the client's own word, so
it proves nothing. What proves a tenant is the address of the connection (`outbound.hosts`), and the user whom a listed
host names with XCLIENT LOGIN, which is the name of its SASL login: by `outbound.logins`, else by the domain of the
login. Where both are known, both must fit. A host under `*` checks itself who sends for which tenant.

Hosts in a list (as older files have them) and clients that nothing is known of are bound to no tenant: nothing is
signed for a tenant's domain then.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network

import msgspec

from gatepost.auth.origin import Networks, is_private
from gatepost.names import normal_domain
from gatepost.scanning.request import is_queue_id
from gatepost.smtp.commands import Attributes

XFORWARD = "NAME ADDR PORT PROTO HELO IDENT SOURCE"
XCLIENT = "NAME REVERSE_NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT"
_NAMES = {"XFORWARD": frozenset(XFORWARD.split()), "XCLIENT": frozenset(XCLIENT.split())}


def is_among(address: str, networks: Networks) -> bool:
    """Whether an address belongs to one of these networks; what is no address belongs to none."""
    try:
        place = ip_address(address)
    except ValueError:
        return False
    return any(place in network for network in networks)


class SmtpClient(msgspec.Struct, frozen=True):
    """`address` is the peer's; `listed` whether it is believed, `here` whether it is this machine, `inside` whether its
    address is a private one; `xclient` and `xforward` are what it said of the client behind it."""

    address: str
    listed: bool = False
    here: bool = False
    inside: bool = False
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
        return None if self.known or self.inside else self.address

    @property
    def local(self) -> bool:
        """Whether the client behind it was a program on its own machine, such as `sendmail`. Postfix also says LOCAL of
        clients whose headers it completes, and those may have any address."""
        address = self.remote_address()
        is_here = address is None or ip_address(address).is_loopback
        return is_here and (self.xforward.get("SOURCE") or "").upper() == "LOCAL"

    def logged_in(self, *, by_field: bool) -> bool:
        """Whether the client behind it had logged in. XFORWARD cannot say so: then the Received field on top does,
        which a host that forwards has written itself."""
        return bool(self.xclient.get("LOGIN")) or (by_field and "ADDR" in self.xforward)

    def helo(self, own: str | None) -> str | None:
        """What the sending host called itself; `own` is what the peer called itself."""
        stated = self.xclient | self.xforward
        if "HELO" in stated or "ADDR" in stated:
            return stated.get("HELO")
        return None if self.known or self.inside else own

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
    is_listed = any(address in network for network in listed)
    return SmtpClient(str(address), is_listed, address.is_loopback, is_private(address))


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


ANY_TENANT = "*"


class NetworkTenants:
    """Tenants by the networks of their hosts. An address costs one look-up for each length of a prefix."""

    def __init__(self, hosts: Mapping[str, Sequence[str]]) -> None:
        self._by_length: dict[tuple[int, int], dict[int, set[str]]] = {}
        for tenant, texts in hosts.items():
            for text in texts:
                network = ip_network(text, strict=False)
                places = self._by_length.setdefault((network.version, network.prefixlen), {})
                places.setdefault(int(network.network_address), set()).add(tenant)

    def find(self, address: str) -> frozenset[str]:
        """Return every tenant that has this address among its hosts; what is no address belongs to none."""
        try:
            place = ip_address(address)
        except ValueError:
            return frozenset()
        found: set[str] = set()
        for (version, length), places in self._by_length.items():
            if version == place.version:
                rest = place.max_prefixlen - length
                found |= places.get(int(place) >> rest << rest, set())
        return frozenset(found)


class SenderClaim(msgspec.Struct, frozen=True):
    """What is known of one envelope sender. `tenant` is whose mail it is, `bound` the tenants that the client was
    proven to send for (None: every one, as the operator says), `fits` whether the envelope sender is one of theirs."""

    tenant: str | None
    bound: frozenset[str] | None
    fits: bool = True

    def may_sign(self, owner: str | None) -> bool:
        """Whether mail of this sender may be signed for a domain of that tenant. Domains of no tenant are the
        operator's: hosts that are bound to tenants do not sign for them."""
        if self.bound is None:
            return owner == self.tenant
        if owner is None:
            return not self.bound and self.tenant is None
        return owner in self.bound and self.tenant in (None, owner)


class OutboundTenants:
    """Which hosts and logins send for which tenants. `is_bound` is False for older settings with a list of hosts or
    none: mail is then filed under the tenant of its envelope sender, and not refused."""

    def __init__(
        self, hosts: Mapping[str, Sequence[str]] | Sequence[str], logins: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        mapping = hosts if isinstance(hosts, Mapping) else {}
        listed = [] if isinstance(hosts, Mapping) else hosts
        self.is_bound = bool(mapping or logins)
        self._hosts = NetworkTenants({**mapping, "": listed} if listed else mapping)
        self._logins = {login: tenant for tenant, several in (logins or {}).items() for login in several}

    def has_host(self, address: str) -> bool:
        """Whether an address is one of the hosts, of whatever tenant."""
        return bool(self._hosts.find(address))

    async def judge(self, client: SmtpClient, domain: str, tenancy: Tenancy) -> SenderClaim:
        """Return what is known of an envelope sender in this domain. Raises `StorageError`."""
        owner = await tenancy.tenant_of(domain) if domain else None
        bound = self._narrow(self._hosts.find(client.address) - {""}, await self._find_login(client, tenancy))
        if bound is None or owner in bound:
            return SenderClaim(owner, bound)
        if not bound and not self.is_bound:
            return SenderClaim(owner, bound)
        only = next(iter(bound)) if len(bound) == 1 else None
        return SenderClaim(only, bound, fits=owner is None)

    @staticmethod
    def _narrow(of_host: frozenset[str], of_login: str | None) -> frozenset[str] | None:
        if of_login is None:
            return None if ANY_TENANT in of_host else of_host
        if of_host and ANY_TENANT not in of_host:
            return of_host & {of_login}
        return frozenset({of_login})

    async def _find_login(self, client: SmtpClient, tenancy: Tenancy) -> str | None:
        """Return the tenant of the user that a listed host names; None if it names none or the user has none."""
        login = client.xclient.get("LOGIN") or ""
        if not login:
            return None
        domain = normal_domain(login.rpartition("@")[2]) if "@" in login else ""
        found = self._logins.get(login) or (self._logins.get(f"@{domain}") if domain else None)
        return found or (await tenancy.tenant_of(domain) if domain else None)
