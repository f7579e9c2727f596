"""The scopes that a visitor can choose from, by name."""

import msgspec

from gatepost.abby.web.desk import Desk
from gatepost.abby.web.visit import GLOBAL, Visit
from gatepost.store.tenants import Tenant

WHOLE = "the whole deployment"


class Scopes(msgspec.Struct, frozen=True):
    """Tenants that the visitor may see; `whole` says whether the deployment-global scope is theirs too."""

    tenants: tuple[Tenant, ...]
    whole: bool

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """(value, name) for a field."""
        named = tuple((tenant.uid, tenant.name) for tenant in self.tenants)
        return ((GLOBAL, WHOLE), *named) if self.whole else named

    def name(self, uid: str | None) -> str:
        """What a scope is called."""
        if uid is None:
            return WHOLE
        return next((tenant.name for tenant in self.tenants if tenant.uid == uid), uid)


async def scopes(desk: Desk, visit: Visit) -> Scopes:
    """All of them, or the visitor's own."""
    if visit.user.tenant:
        own = await desk.store.tenant(visit.user.tenant)
        return Scopes((own,) if own else (), whole=False)
    return Scopes(await desk.store.tenants(), whole=True)
