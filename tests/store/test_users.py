"""Users, on both engines; somebody always remains who may administer the deployment."""

import asyncio

import pytest
from tests.store.accounts import new_scope

from gatepost.ids import new_id
from gatepost.store import users
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound, TenantFull
from gatepost.store.sessions import WebSession
from gatepost.store.store import Store
from gatepost.store.users import User

ROOT = Actor("user", "root", "1")
FAR = 1 << 50


async def made(store: Store, name: str, role: str = "administrator", tenant: str | None = None) -> User:
    user = await store.users.create(name, role, tenant, f"hash of {name}", ROOT)  # type: ignore[arg-type]
    assert isinstance(user, User)
    return user


async def test_a_user_comes_back(store: Store) -> None:
    uid = await new_scope(store, "t")
    ann = await made(store, " Ann ", "analyst", uid.upper())
    assert (ann.name, ann.role, ann.tenant, ann.disabled, ann.totp, ann.last_sign_in) == (
        *("Ann", "analyst", uid, False, False),
        None,
    )
    assert await store.users.find(ann.uid.upper()) == ann
    assert await store.users.find("\0") is None
    bob = await made(store, "bob")
    assert await store.users.all() == (ann, bob)
    assert await store.users.all(uid) == (ann,)
    assert await store.users.all(new_id()) == ()
    found = await store.users.credentials("ANN")
    assert found
    assert (found.user, found.password, found.totp_secret) == (ann, "hash of  Ann ", None)
    assert await store.users.credentials("nobody") is None


async def test_names_are_unique_in_any_case(store: Store) -> None:
    await made(store, "Straße")
    for name in ("STRASSE", "straße", " Straße"):
        assert await store.users.create(name, "auditor", None, "h", ROOT) == NameTaken(name)
    assert await store.users.create("x", "auditor", new_id(), "h", ROOT) == NotFound("tenant")
    assert len(await store.users.all()) == 1
    both = await asyncio.gather(*(store.users.create("new", "auditor", None, "h", ROOT) for _ in range(5)))
    assert sorted(type(each).__name__ for each in both) == ["NameTaken"] * 4 + ["User"]


async def test_the_last_administrator_stays(store: Store) -> None:
    uid = await new_scope(store, "t")
    root = await made(store, "root")
    await made(store, "local", "administrator", uid)
    off = await made(store, "off")
    assert isinstance(await store.users.update(off.uid, by=ROOT, disabled=True), User)
    last = LastAdministrator(root.uid)
    assert await store.users.update(root.uid, by=ROOT, disabled=True) == last
    assert await store.users.update(root.uid, by=ROOT, role="analyst") == last
    assert await store.users.delete(root.uid, ROOT) == last
    assert await store.users.find(root.uid) == root
    assert isinstance(await store.users.update(off.uid, by=ROOT, disabled=False), User)
    assert isinstance(await store.users.delete(root.uid, ROOT), User)
    assert await store.users.delete(root.uid, ROOT) == NotFound("user")
    assert await store.users.update(root.uid, by=ROOT, role="auditor") == NotFound("user")


async def test_administrators_who_disable_each_other_at_once(store: Store) -> None:
    everybody = [await made(store, f"a{n}") for n in range(6)]
    outcomes = await asyncio.gather(
        *(store.users.update(user.uid, by=ROOT, disabled=True) for user in everybody[:3]),
        *(store.users.delete(user.uid, ROOT) for user in everybody[3:5]),
        store.users.update(everybody[5].uid, by=ROOT, role="auditor"),
    )
    assert sum(isinstance(outcome, LastAdministrator) for outcome in outcomes) == 1
    left = [user for user in await store.users.all() if user.role == "administrator" and not user.disabled]
    assert len(left) == 1


async def test_changes_are_audited_without_secrets(store: Store) -> None:
    uid = await new_scope(store, "t")
    ann = await made(store, "ann", "analyst", uid)
    await store.users.set_password(ann.uid, "$argon2$new", ROOT)
    await store.second_factors.set_totp(ann.uid, "TOTPSECRET", ROOT)
    await store.users.update(ann.uid, by=ROOT, role="auditor")
    await store.users.update(ann.uid, by=ROOT, role="auditor")
    await store.users.update(ann.uid, by=ROOT, disabled=True)
    await store.users.update(ann.uid, by=ROOT, disabled=False)
    await store.users.delete(ann.uid, ROOT)
    trail = [
        record for record in (await store.audit.page(AuditFilter(scope=uid))).rows if record.action.startswith("user.")
    ]
    assert [record.action.removeprefix("user.") for record in reversed(trail)] == [
        *("create", "password", "totp", "change", "disable", "enable"),
        "delete",
    ]
    assert {record.actor for record in trail} == {ROOT}
    assert {record.sample[0] for record in trail} == {f"ann {ann.uid}"}
    assert not [record for record in trail if "argon2" in str(record) or "TOTPSECRET" in str(record)]


async def test_a_tenant_takes_its_users_along(store: Store) -> None:
    mine, other = await new_scope(store, "t"), await new_scope(store, "o")
    ann, bob = await made(store, "ann", "analyst", mine), await made(store, "bob", "analyst", other)
    for user, digest in ((ann, "a"), (bob, "b")):
        assert isinstance(await store.sessions.create(user.uid, digest, FAR, "", ""), WebSession)
    await store.tenants.delete(mine, CLI)
    assert await store.users.all() == (bob,)
    assert await store.sessions.find("a", 1) is None
    assert await store.sessions.find("b", 1)


async def test_a_hash_is_renewed_unless_the_password_was_changed(store: Store) -> None:
    ann = await made(store, "ann")
    assert await store.users.renew_password(ann.uid, "hash of ann", "renewed")
    assert not await store.users.renew_password(ann.uid, "hash of ann", "again")
    found = await store.users.credentials("ann")
    assert found
    assert found.password == "renewed"


async def test_a_password_of_somebody_else_s_choice_is_marked(store: Store) -> None:
    given = await store.users.create("given", "analyst", None, "h", ROOT, must_change=True)
    assert isinstance(given, User)
    assert given.must_change
    assert await store.users.find(given.uid) == given
    changed = await store.users.set_password(given.uid, "own", ROOT)
    assert isinstance(changed, User)
    found = await store.users.find(given.uid)
    assert found
    assert not found.must_change
    await store.users.set_password(given.uid, "again", ROOT, must_change=True)
    found = await store.users.find(given.uid)
    assert found
    assert found.must_change
    first = await store.users.create("first", "administrator", None, "h", ROOT, first_password=True)
    assert isinstance(first, User)
    assert await store.users.find(first.uid) == first
    assert first.first_password
    assert not first.must_change, "who read it printed may look around first"
    await store.users.set_password(first.uid, "own", ROOT)
    found = await store.users.find(first.uid)
    assert found
    assert not found.first_password


async def test_a_tenant_has_so_many_users(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAX_OF_TENANT", 1)

    tenant = await new_scope(store, "full")
    await made(store, "first of them", "analyst", tenant)
    refused = await store.users.create("second of them", "analyst", tenant, "h", ROOT)
    assert isinstance(refused, TenantFull)
    assert "1 users" in refused.explanation
    await made(store, "nobody's limit", "analyst")
    await made(store, "another's first", "analyst", await new_scope(store, "other"))
