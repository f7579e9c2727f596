"""Security keys of users, on both engines: counted, bound to sessions; counters that rise, challenges for one use."""

import asyncio

import msgspec
from tests.store.accounts import ROOT, new_analyst, new_tenant
from tests.store.test_second_factors import FAR, SECRET, found

from gatepost.store.audit import AuditFilter
from gatepost.store.errors import NotFound
from gatepost.store.second_factors import MAX_KEYS, KeyNotAdded, NewSecurityKey, SecurityKey
from gatepost.store.sessions import WebSession
from gatepost.store.store import Store
from gatepost.store.users import User


def new_key(number: int = 1, counter: int = 0) -> NewSecurityKey:
    return NewSecurityKey(f"credential{number}", "mail.example", b"\0key", counter, f"key {number}", "usb")


async def added(store: Store, user: User, number: int = 1, counter: int = 0) -> SecurityKey:
    key = await store.second_factors.add_security_key(user.uid, new_key(number, counter), ROOT)
    assert isinstance(key, SecurityKey)
    return key


async def test_keys_are_added_listed_and_removed(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    assert not ann.has_second_factor
    first = await store.second_factors.add_security_key(ann.uid.upper(), new_key(), ROOT, recovery=["d1", "d2"])
    assert isinstance(first, SecurityKey)
    assert await store.second_factors.security_keys(ann.uid) == (first,)
    assert (await found(store, "ann")).user.has_second_factor
    assert await store.second_factors.count_recovery_codes(ann.uid) == 2
    assert await store.second_factors.add_security_key(bob.uid, new_key(), ROOT) == KeyNotAdded("known"), "it is ann's"
    second = await added(store, ann, 2)
    assert await store.second_factors.count_recovery_codes(ann.uid) == 2, "the codes stay"
    assert await store.second_factors.remove_security_key(bob.uid, second.id, ROOT) == NotFound("key")
    assert isinstance(await store.second_factors.remove_security_key(ann.uid, second.id.upper(), ROOT), User)
    await store.second_factors.set_totp(ann.uid, SECRET, ROOT, recovery=["e1"])
    assert isinstance(await store.second_factors.remove_security_key(ann.uid, first.id, ROOT), User)
    assert await store.second_factors.count_recovery_codes(ann.uid) == 1, "the app is still there"
    await added(store, ann, 3)
    await store.second_factors.set_totp(ann.uid, None, ROOT)
    assert await store.second_factors.count_recovery_codes(ann.uid) == 1, "a key is still there"
    trail = (await store.audit.page(AuditFilter(), limit=50)).rows
    said = [each.sample[2:] for each in trail if each.action == "user.key"]
    assert said[::-1] == [
        *[("added", "key 1"), ("added", "key 2"), ("removed", "key 2"), ("removed", "key 1")],
        ("added", "key 3"),
    ]


async def test_there_are_only_so_many_also_at_once(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    outcomes = await asyncio.gather(
        *(store.second_factors.add_security_key(ann.uid, new_key(number), ROOT) for number in range(MAX_KEYS + 3))
    )
    assert sum(isinstance(each, SecurityKey) for each in outcomes) == MAX_KEYS
    assert outcomes.count(KeyNotAdded("full")) == 3
    assert (await found(store, "ann")).user.keys == MAX_KEYS


async def test_a_change_of_keys_ends_sessions_and_those_that_begin(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    kept = await store.sessions.create(ann.uid, "kept", FAR, "", "", strong=True)
    await store.sessions.create(ann.uid, "other", FAR, "", "", strong=True)
    assert isinstance(kept, WebSession)
    before = await found(store, "ann")
    key = await store.second_factors.add_security_key(ann.uid, new_key(), ROOT, keep=kept.id)
    assert isinstance(key, SecurityKey)
    assert await store.sessions.find("kept", kept.created)
    assert not await store.sessions.find("other", kept.created)
    assert await store.sessions.create(ann.uid, "1", FAR, "", "", proven=before) == NotFound("user")
    with_key = await found(store, "ann")
    assert isinstance(await store.sessions.create(ann.uid, "2", FAR, "", "", proven=with_key), WebSession)
    await store.second_factors.remove_security_key(ann.uid, key.id, ROOT)
    await added(store, ann, 2)
    assert await store.sessions.create(ann.uid, "3", FAR, "", "", proven=with_key) == NotFound("user"), "another key"


async def test_counters_only_rise(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    key, plain = await added(store, ann, counter=5), await added(store, ann, 2)
    assert await store.second_factors.use_security_key(ann, key, 6, "192.0.2.1") == "used"
    for counter in (6, 5, 0):
        assert await store.second_factors.use_security_key(ann, key, counter, "192.0.2.1") == "copied"
    assert await store.second_factors.use_security_key(ann, key, 900, "") == "used"
    for _ in range(2):
        assert await store.second_factors.use_security_key(ann, plain, 0, "") == "used", "a key without a counter"
    at_once = await asyncio.gather(*(store.second_factors.use_security_key(ann, key, 901, "") for _ in range(4)))
    assert sorted(at_once) == ["copied", "copied", "copied", "used"]
    known = {each.id: each for each in await store.second_factors.security_keys(ann.uid)}
    assert (known[key.id].counter, bool(known[key.id].last_used)) == (901, True)
    assert await store.second_factors.security_key_uses() == {
        ann.uid: max(each.last_used or 0 for each in known.values())
    }
    await store.second_factors.remove_security_key(ann.uid, plain.id, ROOT)
    assert await store.second_factors.use_security_key(ann, plain, 0, "") == "unknown"
    other = msgspec.structs.replace(ann, uid="somebody-else")
    assert await store.second_factors.use_security_key(other, key, 999, "") == "unknown"
    trail = (await store.audit.page(AuditFilter(), limit=50)).rows
    refused = [each.sample for each in trail if each.action == "user.keyRefused"]
    assert len(refused) == 6
    assert refused[-1] == ("192.0.2.1", "key 1", "signature counter 6 after 6")


async def test_a_challenge_is_taken_once_in_time_and_for_its_purpose(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    session, other = [await store.sessions.create(ann.uid, each, FAR, "", "") for each in ("a", "b")]
    assert isinstance(session, WebSession)
    assert isinstance(other, WebSession)
    assert await store.second_factors.take_challenge(session.id, "sign-in", 1) == "", "none is open"
    await store.second_factors.set_challenge(session.id, "sign-in", "first", 100)
    await store.second_factors.set_challenge(session.id, "sign-in", "second", 100)
    assert await store.second_factors.take_challenge(other.id, "sign-in", 1) == ""
    taken = await asyncio.gather(*(store.second_factors.take_challenge(session.id, "sign-in", 99) for _ in range(4)))
    assert sorted(taken) == ["", "", "", "second"]
    await store.second_factors.set_challenge(session.id, "sign-in", "late", 100)
    assert await store.second_factors.take_challenge(session.id, "sign-in", 100) == ""
    await store.second_factors.set_challenge(session.id, "proof", "for another purpose", 100)
    assert await store.second_factors.take_challenge(session.id, "add", 1) == ""
    assert await store.second_factors.take_challenge(session.id, "proof", 1) == "", "it was used up"


async def test_all_second_factors_are_forgotten_together(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    await store.second_factors.set_totp(ann.uid, SECRET, ROOT, recovery=["d1"])
    await added(store, ann)
    await store.sessions.create(ann.uid, "x", FAR, "", "", strong=True)
    forgotten = await store.second_factors.forget(ann.uid, ROOT)
    assert isinstance(forgotten, User)
    assert not forgotten.has_second_factor
    assert await store.second_factors.count_recovery_codes(ann.uid) == 0
    assert not await store.sessions.find("x", 1)
    assert await store.second_factors.forget("nobody", ROOT) == NotFound("user")
    trail = (await store.audit.page(AuditFilter(), limit=1)).rows
    assert trail[0].sample[2:] == ("removed", "1 security keys")


async def test_keys_go_with_their_user_and_tenant(store: Store) -> None:
    tenant = await new_tenant(store)
    ann = await new_analyst(store, "ann")
    bob = await store.users.create("bob", "analyst", tenant.uid, "hash", ROOT)
    assert isinstance(bob, User)
    await added(store, ann, 1)
    await added(store, bob, 2)
    await store.users.delete(ann.uid, ROOT)
    await store.tenants.delete(tenant.uid, ROOT)
    assert await store.second_factors.security_key_uses() == {}
