"""Users of an OpenID provider, on both engines: made once, kept as the claims say, signed out by the provider."""

import asyncio

from tests.store.accounts import new_tenant

from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound
from gatepost.store.store import Store
from gatepost.store.users import User

ROOT = Actor("user", "root", "1")
ISSUER = "https://id.example"
FAR = 1 << 50


async def admitted(store: Store, subject: str, *names: str, role: str = "analyst", tenant: str | None = None) -> User:
    user = await store.users.admit_external(f"{ISSUER} {subject}", names or (subject,), role, tenant)  # type: ignore[arg-type]
    assert isinstance(user, User)
    return user


async def test_a_user_is_made_once_and_follows_the_claims(store: Store) -> None:
    tenant = await new_tenant(store)
    many = await asyncio.gather(*(admitted(store, "7", "ann") for _ in range(5)))
    assert len({each.uid for each in many}) == 1, "first sign-ins at the same moment make one user"
    ann = many[0]
    assert await store.users.find(ann.uid) == ann
    assert ann.external == f"{ISSUER} 7"
    await store.sessions.create(ann.uid, "d1", FAR, "", "", strong=True)
    assert await admitted(store, "7", "another name") == ann, "the name stays"
    assert len(await store.sessions.of_user(ann.uid, 0)) == 1
    moved = await admitted(store, "7", role="auditor", tenant=tenant.uid)
    assert (moved.uid, moved.role, moved.tenant) == (ann.uid, "auditor", tenant.uid)
    assert await store.sessions.of_user(ann.uid, 0) == ()
    gone = await store.users.admit_external(f"{ISSUER} 8", ("x",), "analyst", ann.uid)
    assert gone == NotFound("tenant")
    trail = [each.action for each in (await store.audit.page(AuditFilter(actor="system:OpenID Connect"))).rows]
    assert trail == ["user.change", "user.create"]


async def test_names_of_others_and_passwords_stay_out(store: Store) -> None:
    local = await store.users.create("Admin", "administrator", None, "hash", ROOT)
    assert isinstance(local, User)
    other = await admitted(store, "1", "ADMIN", "ADMIN (external)", role="administrator")
    assert other.name == "ADMIN (external)"
    assert await store.users.admit_external(f"{ISSUER} 2", ("admin",), "analyst", None) == NameTaken("admin")
    assert await store.users.set_password(other.uid, "hash", ROOT) == NotFound("user")
    outcome = await store.users.update(local.uid, by=ROOT, disabled=True)
    assert isinstance(outcome, LastAdministrator), "one who has a password has to stay"


async def test_the_provider_ends_the_sessions_that_it_names(store: Store) -> None:
    ann, bob = await admitted(store, "a"), await admitted(store, "b")
    for number, (user, session) in enumerate([(ann, "s1"), (ann, "s2"), (bob, "s1"), (bob, "")]):
        await store.sessions.create(user.uid, f"d{number}", FAR, "", "", provider_session=session)
    assert await store.sessions.end_of_provider("https://other.example", "", "s1") == 0
    assert await store.sessions.end_of_provider(ISSUER, "a", "s1") == 1
    assert await store.sessions.end_of_provider(ISSUER, "", "s1") == 1
    assert await store.sessions.end_of_provider(ISSUER, "b", "") == 1
    assert await store.sessions.end_of_provider(ISSUER, "nobody", "") == 0
    assert (len(await store.sessions.of_user(ann.uid, 0)), len(await store.sessions.of_user(bob.uid, 0))) == (1, 0)
