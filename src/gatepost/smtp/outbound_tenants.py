"""For which tenants a client of the outbound direction may send.

The envelope sender is the client's own word, so it proves nothing. What proves a tenant is the address of the
connection (`outbound.hosts`), and the user whom a listed host names with XCLIENT LOGIN, which is the name of its SASL
login: by `outbound.logins`, else by the domain of the login. Where both are known, both must fit. A host under `*`
checks itself who sends for which tenant.

Hosts in a list (as older files have them) and clients that nothing is known of are bound to no tenant: nothing is
signed for a tenant's domain then.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network

import msgspec

from gatepost.names import normal_domain
from gatepost.smtp.client import SmtpClient, Tenancy

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
        self,
        hosts: Mapping[str, Sequence[str]] | Sequence[str],
        logins: Mapping[str, Sequence[str]] | None = None,
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
