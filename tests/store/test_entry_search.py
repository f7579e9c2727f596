"""Leafing through a list and looking for a part of an entry, on both engines."""

import random

import pytest
from tests.store.accounts import new_tenant

from gatepost.lists.catalogue import BY_NAME
from gatepost.store import paging
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry, _next_text
from gatepost.store.paging import Page
from gatepost.store.store import Store

URLS, PEOPLE = BY_NAME["blocked-urls"], BY_NAME["protected-people"]


async def all_of(store: Store, name: str, limit: int, **wanted: str) -> list[str]:
    shown: list[str] = []
    after = None
    for _ in range(500):
        page = await store.lists.page(None, name, after=after, limit=limit, **wanted)
        shown += [entry.shown for entry in page.rows]
        after = page.next
        if after is None:
            return shown
    raise AssertionError("it does not end")


@pytest.mark.parametrize("seed", range(2))
async def test_every_entry_once_and_in_order(store: Store, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", 6)
    chance = random.Random(seed)
    keys = sorted({"".join(chance.choices("abü\U0001f600", k=chance.randrange(1, 6))) for _ in range(60)})

    await store.lists.add(None, URLS, [NewEntry(key, key) for key in chance.sample(keys, len(keys))], CLI)
    await store.lists.add(None, PEOPLE, [NewEntry(key, key[::-1].upper()) for key in keys], CLI)
    assert await all_of(store, URLS.name, 7) == keys
    people = sorted((key[::-1].upper(), key) for key in keys)
    assert await all_of(store, PEOPLE.name, 7) == [shown for shown, _ in people]
    for part in ("a", "ba", "ü", "\U0001f600b", "no such"):
        fitting = [key for key in keys if part in key]
        assert await all_of(store, URLS.name, 3, part=part.upper() if part.isascii() else part) == fitting
        assert await all_of(store, URLS.name, 3, prefix=part) == [key for key in keys if key.startswith(part)]
        both = [key for key in keys if key.startswith("a") and part in key]
        assert await all_of(store, URLS.name, 2, prefix="a", part=part) == both


async def test_a_part_of_the_comment_or_of_what_is_shown(store: Store) -> None:
    await store.lists.add(None, URLS, [NewEntry("x.example", "x.example", "Seen in May"), NewEntry("y", "y")], CLI)
    await store.lists.add(None, PEOPLE, [NewEntry("ann", "Dr. Ann")], CLI)
    assert await all_of(store, URLS.name, 5, part="seen IN") == ["x.example"]
    assert await all_of(store, PEOPLE.name, 5, part="dr. a") == ["Dr. Ann"]
    assert await all_of(store, PEOPLE.name, 5, prefix="Dr") == ["Dr. Ann"]
    assert await all_of(store, PEOPLE.name, 5, part="%") == []


async def test_it_says_how_far_it_looked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", 10)

    await store.lists.add(None, URLS, [NewEntry(f"{n:03}", f"{n:03}") for n in range(25)], CLI)
    first = await store.lists.page(None, URLS.name, part="24")
    assert (first.rows, first.reached) == ((), "009")
    second = await store.lists.page(None, URLS.name, part="24", after=first.next)
    third = await store.lists.page(None, URLS.name, part="24", after=second.next)
    assert ([entry.key for entry in third.rows], third.next, third.reached) == (["024"], None, None)
    for cursor in ("nonsense", "[]", '["a"]', "{", "\0"):
        assert (await store.lists.page(None, URLS.name, after=cursor, limit=1)).rows[0].key == "000"


async def test_scopes_are_apart(store: Store) -> None:
    tenant = await new_tenant(store)
    await store.lists.add(tenant.uid, URLS, [NewEntry("mine", "mine")], CLI)
    assert [entry.key for entry in (await store.lists.page(tenant.uid.upper(), URLS.name)).rows] == ["mine"]
    assert await store.lists.page(None, URLS.name) == Page(())
    assert await store.lists.page(None, "no such list") == Page(())


@pytest.mark.parametrize(
    ("prefix", "following"),
    [("a", "b"), ("az", "a{"), ("a\U0010ffff", "b"), ("\U0010ffff", ""), ("\ud7ff", "\ue000")],
)
def test_the_text_after_a_prefix(prefix: str, following: str) -> None:
    assert _next_text(prefix) == following
