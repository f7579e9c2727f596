"""The sum of bytes of the lists that are handed out whole: kept with every change, for what the change costs."""

import random
from functools import partial

import pytest
from tests.store.accounts import new_scope

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.store import list_rows
from gatepost.store.audit import Actor
from gatepost.store.engine import Many, Read, Work, Write, now
from gatepost.store.errors import ListFull
from gatepost.store.list_rows import find_lists
from gatepost.store.lists import NewEntry
from gatepost.store.sql import compose
from gatepost.store.store import Store
from gatepost.store.upgrading import renew_normal_forms

ANN = Actor("user", "ann")
PHRASES, PEOPLE = BY_NAME["blocked-phrases"], BY_NAME["protected-people"]
CUSTOM = make_custom_list("own", "phrase", "block", "", "", 100)


async def sums(store: Store, scope: str) -> tuple[int | None, int]:
    """The sum that is believed (None where it would not be), and that of all entries."""

    def read() -> Work[tuple[int | None, int]]:
        believed = yield Read(list_rows._COUNTED, (scope,))
        lists = tuple(row.id for row in (yield from find_lists(scope)) if not row.definition.keyed)
        ((counted,),) = yield Read(list_rows._ALL, (Many(lists),))
        return believed[0][0] if believed else None, counted

    return await store._engine.query_once(read)


async def test_it_is_right_after_any_changes(store: Store) -> None:
    chance = random.Random(20261116)

    def some_entries() -> list[NewEntry]:
        keys = [f"ä{chance.randrange(30)}" * chance.randrange(1, 4) for _ in range(chance.randrange(1, 6))]
        ends = [None, None, now() - 1_000, now() + 3_600_000]
        return [NewEntry(key, key if chance.random() < 0.5 else f"{key} ö", "c", chance.choice(ends)) for key in keys]

    tenant = await new_scope(store)
    await store.lists.create(tenant, CUSTOM, ANN)
    await store.lists.add(tenant, PHRASES, some_entries(), ANN)
    for step in range(60):
        definition = chance.choice((PHRASES, PEOPLE, CUSTOM))
        if chance.random() < 0.6:
            assert not isinstance(await store.lists.add(tenant, definition, some_entries(), ANN), ListFull)
        else:
            await store.lists.remove(tenant, definition.name, [each.key for each in some_entries()], ANN)
        if step % 20 == 19:
            await store.lists.purge_expired(now())
            await store.lists.delete(tenant, "own", ANN)
            await store.lists.create(tenant, CUSTOM, ANN)
        believed, counted = await sums(store, tenant)
        assert believed == counted, step


async def test_a_change_does_not_read_all_entries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await new_scope(store)
    # The first call gives the scope its row, the second counts.
    for number in range(2):
        assert await store.lists.add(tenant, PHRASES, [NewEntry(f"p{number}", f"p{number}")], ANN) == 1
    monkeypatch.setattr(list_rows, "_ALL", "SELECT 1 FROM counted_all WHERE $1")
    monkeypatch.setattr(list_rows, "MAX_UNKEYED_BYTES", 300)
    one, many = [NewEntry("p2", "p2")], [NewEntry("x" * 400, "x" * 400)]
    assert await store.lists.add(tenant, PHRASES, one, ANN) == 1
    assert isinstance(await store.lists.add(tenant, PHRASES, many, ANN), ListFull)
    assert await store.lists.remove(tenant, PHRASES.name, ["p0"], ANN) == 1
    assert await store.lists.bytes_left(tenant, PEOPLE, one) is None


async def test_a_sum_of_another_version_is_not_believed(store: Store) -> None:
    """As after a change by a program that does not know it, and after a change of all normal forms."""
    tenant = await new_scope(store)
    for number in range(2):
        await store.lists.add(tenant, PHRASES, [NewEntry(f"p{number}", f"p{number}")], ANN)
    assert (await sums(store, tenant))[0]
    await store._engine.change(partial(raise_alone, tenant))
    assert (await sums(store, tenant))[0] is None
    await store.lists.remove(tenant, PHRASES.name, ["p0"], ANN)
    assert (await sums(store, tenant))[0] is None
    await store.lists.add(tenant, PHRASES, [NewEntry("p3", "p3")], ANN)
    believed, counted = await sums(store, tenant)
    assert believed == counted
    await store._engine.change(forget_forms)
    await store._engine.change(renew_normal_forms)
    assert (await sums(store, tenant))[0] is None


def raise_alone(scope: str) -> Work[None]:
    yield Write(compose("UPDATE scopes SET unkeyed = unkeyed + 1 WHERE scope = $1"), (scope,))


def forget_forms() -> Work[None]:
    yield Write(compose("DELETE FROM meta WHERE key = 'normal_forms'"))


async def test_expired_entries_give_their_place(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_rows, "MAX_UNKEYED_BYTES", 300)

    tenant = await new_scope(store)
    gone, new = NewEntry("g" * 200, "g" * 200, "", now() - 1), NewEntry("n" * 200, "n" * 200)
    assert await store.lists.add(tenant, PEOPLE, [gone], ANN) == 1
    assert await store.lists.add(tenant, PHRASES, [new], ANN) == 1
    assert isinstance(await store.lists.add(tenant, PHRASES, [NewEntry("m" * 90, "m" * 90)], ANN), ListFull)
