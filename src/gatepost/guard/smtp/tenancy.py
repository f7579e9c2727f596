"""Whose mail it is: a recipient's domain leads to a tenant, by the configuration first, then by the store's map.

A transaction has one tenant, since it has one decision. Mail to nobody's domain has no tenant, which is one, too.
"""

from collections.abc import Mapping
from typing import Protocol

from gatepost.names import normal_domain


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
