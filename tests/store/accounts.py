"""Tenants and users that tests of storage make."""

from gatepost.store.audit import CLI, Actor
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.store.users import User

ROOT = Actor("user", "root", "1")


async def new_tenant(store: Store, name: str = "t", by: Actor = CLI) -> Tenant:
    tenant = await store.tenants.create(name, by)
    assert isinstance(tenant, Tenant)
    return tenant


async def new_scope(store: Store, name: str = "t") -> str:
    """The uid of a new tenant."""
    return (await new_tenant(store, name)).uid


async def new_analyst(store: Store, name: str, tenant: str | None = None) -> User:
    user = await store.users.create(name, "analyst", tenant, f"hash of {name}", ROOT)
    assert isinstance(user, User)
    return user
