"""Every scope has the usual lists; custom ones of the same kinds come and go."""

from typing import get_args

import msgspec
import pytest
from tests.store.accounts import new_scope

from gatepost.lists.catalogue import (
    BY_NAME,
    KINDS,
    LISTS,
    SMALL,
    ListDefinition,
    define_custom_list,
    list_categories,
    make_custom_list,
)
from gatepost.lists.entries import Category, ListRefusal
from gatepost.lists.rulings import Ruling, Subject, collect_keys, rule_on
from gatepost.store import list_rows, lists
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull, NameTaken, NotFound, TooManyLists
from gatepost.store.lists import ListState, NewEntry
from gatepost.store.store import Store

ANN = Actor("key", "ann")
MINE = msgspec.structs.replace(
    BY_NAME["blocked-urls"], name="mine", display_name="Mine", description="My own", max_size=7, custom=True
)


async def test_the_usual_lists_are_there_from_the_start(store: Store) -> None:
    tenant = await new_scope(store, "t")
    for scope in (None, tenant):
        assert await store.lists.all(scope) == tuple(ListState(definition, 0) for definition in LISTS)
    await store.lists.add(tenant, BY_NAME["own-domains"], [NewEntry("a.example", "a.example")], ANN)
    assert {state.definition.name: state.size for state in await store.lists.all(tenant) if state.size} == {
        "own-domains": 1
    }
    assert not any(state.size for state in await store.lists.all(None))
    assert await store.lists.definition(tenant, "own-domains") == BY_NAME["own-domains"]


async def test_custom_lists(store: Store) -> None:
    tenant = await new_scope(store, "t")
    assert await store.lists.definition(None, "mine") is None
    assert await store.lists.create(None, MINE, ANN) == MINE
    assert await store.lists.definition(None, "mine") == MINE
    assert await store.lists.definition(tenant, "mine") is None
    assert await store.lists.create(None, MINE, ANN) == NameTaken("mine")
    usual = msgspec.structs.replace(BY_NAME["blocked-urls"], custom=True)
    assert await store.lists.create(tenant, usual, ANN) == NameTaken("blocked-urls")
    assert await store.lists.create("0198a000-0000-7000-8000-000000000001", MINE, ANN) == NotFound("tenant")
    await store.lists.add(None, MINE, [NewEntry("a", "a"), NewEntry("b", "b")], ANN)
    assert (await store.lists.all(None))[-1] == ListState(MINE, 2)
    assert await store.lists.delete(None, "blocked-urls", ANN) == NotFound("list")
    assert await store.lists.delete(tenant, "mine", ANN) == NotFound("list")
    assert await store.lists.delete(None, "mine", ANN) == 2
    assert await store.lists.delete(None, "mine", ANN) == NotFound("list")
    assert await store.lists.create(None, MINE, ANN) == MINE
    assert (await store.lists.all(None))[-1] == ListState(MINE, 0), "the old entries are gone"
    assert await store.lists.find(None, "mine", ["a"]) == ()


async def test_names_are_those_of_one_scope(store: Store) -> None:
    """A tenant's list does not keep the deployment from one of that name, and each hit counts as its own list does."""
    one, two = await new_scope(store, "one"), await new_scope(store, "two")
    allow = make_custom_list("mine", "url", "allow", "Mine", "My own", 7)
    assert await store.lists.create(one, MINE, ANN) == MINE
    assert await store.lists.create(two, allow, ANN) == allow, "tenants do not see each other"
    assert await store.lists.create(None, MINE, ANN) == MINE, "nor does the deployment see them"
    assert await store.lists.create(None, allow, ANN) == NameTaken("mine")
    assert (await store.list_lookup.unkeyed(one)).custom == {
        "global:mine": "blocked-urls",
        "tenant:mine": "blocked-urls",
    }
    unkeyed = await store.list_lookup.unkeyed(two)
    assert unkeyed.custom == {"global:mine": "blocked-urls", "tenant:mine": "allowed-urls"}
    await store.lists.add(two, allow, [NewEntry("evil.example/x", "evil.example/x")], ANN)
    hits = await store.list_lookup.find(two, collect_keys(SUBJECTS, KINDS))
    ruling = rule_on(hits, SUBJECTS, authenticated=True, custom=unkeyed.custom)
    assert [(match.hit.list, match.hit.scope) for match in ruling.cleared] == [("mine", "tenant")]
    assert ruling.blocks == ()
    await store.lists.add(None, MINE, [NewEntry("evil.example/x", "evil.example/x")], ANN)
    hits = await store.list_lookup.find(one, collect_keys(SUBJECTS, KINDS))
    ruling = rule_on(hits, SUBJECTS, authenticated=True, custom=unkeyed.custom)
    assert [(match.hit.list, match.hit.scope) for match in ruling.blocks] == [("mine", "global")]


async def test_a_custom_list_keeps_its_name_where_a_built_in_list_gets_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program goes on adding what it always did, and nothing of it becomes an entry of another kind."""
    own = make_custom_list("blocked-file-names", "file-type", "policy", "Mine", "", 10)
    with monkeypatch.context() as before:
        before.delitem(BY_NAME, "blocked-file-names")
        assert await store.lists.create(None, own, ANN) == own
    assert await store.lists.definition(None, "blocked-file-names") == own
    tenant = await new_scope(store, "other")
    assert await store.lists.definition(tenant, "blocked-file-names") == BY_NAME["blocked-file-names"]
    await store.lists.add(None, own, [NewEntry("exe", "exe")], ANN)
    states = {state.definition.name: state for state in await store.lists.all(None)}
    assert states["blocked-file-names"] == ListState(own, 1)
    assert len(states) == len(await store.lists.all(None)) == len(LISTS)
    unkeyed = await store.list_lookup.unkeyed(None)
    ruling = rule_on(
        await store.list_lookup.find(None, [("file-type", ("exe",))]),
        SUBJECTS,
        authenticated=True,
        custom=unkeyed.custom,
    )
    assert [match.hit.key for match in ruling.blocks] == ["exe"]
    assert await store.lists.create(tenant, own, ANN) == NameTaken("blocked-file-names")
    await store.lists.delete(None, "blocked-file-names", ANN)
    assert await store.lists.definition(None, "blocked-file-names") == BY_NAME["blocked-file-names"]


async def test_a_scope_has_so_many_custom_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MAX_CUSTOM_LISTS", 2)

    tenant = await new_scope(store, "one")
    for name in ("a", "b"):
        assert isinstance(
            await store.lists.create(tenant, msgspec.structs.replace(MINE, name=name), ANN), ListDefinition
        )
    assert await store.lists.create(tenant, MINE, ANN) == TooManyLists(2)
    assert await store.lists.create(None, MINE, ANN) == MINE, "another scope has its own"
    await store.lists.delete(tenant, "a", ANN)
    assert await store.lists.create(tenant, MINE, ANN) == MINE


async def test_a_list_that_travels_to_workers_stays_small(store: Store) -> None:
    """Whatever its maker says, and also where an older version has stored a larger one."""
    large = make_custom_list("large", "phrase", "policy", "Large", "", 100_000_000)
    made = await store.lists.create(None, large, ANN)
    assert isinstance(made, ListDefinition)
    assert made.max_size == SMALL
    found = await store.lists.definition(None, "large")
    assert found
    assert found.max_size == SMALL
    relays = make_custom_list("relays", "network", "trust", "", "", SMALL + 1)
    assert isinstance(define_custom_list("relays", "network", "trust", "", "", SMALL + 1), ListRefusal)
    made = await store.lists.create(None, relays, ANN)
    assert isinstance(made, ListDefinition)
    assert made.max_size == SMALL


async def test_the_bytes_of_a_scope_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all lists that travel to workers together, by bytes and not by characters, whatever the comments are."""
    monkeypatch.setattr(list_rows, "MAX_UNKEYED_BYTES", 1_000)

    one, two = await new_scope(store, "one"), await new_scope(store, "two")
    phrases, people = BY_NAME["blocked-phrases"], BY_NAME["protected-people"]
    entry = NewEntry("ä" * 184, "ä" * 184, comment="c" * 1_000)
    assert await store.lists.add(one, phrases, [entry], ANN) == 1
    person = NewEntry("x" * 260, "y" * 260)
    assert await store.lists.add(one, people, [person], ANN) == 1
    version = await store.list_lookup.unkeyed_version(one)
    other = NewEntry("abc", "abc")
    full = ListFull(400 + 552, 1_000, "bytes")
    for definition in (phrases, people, BY_NAME["own-domains"], BY_NAME["trusted-relays"]):
        assert await store.lists.add(one, definition, [other, NewEntry("x" * 14, "x" * 14)], ANN) == full
        assert await store.lists.bytes_left(one, definition, [other, NewEntry("x" * 14, "x" * 14)]) == full
    assert await store.list_lookup.unkeyed_version(one) == version, "nothing was applied"
    # What is looked up by key is not counted, another scope has its own bytes, and an update counts once.
    assert await store.lists.add(one, BY_NAME["blocked-senders"], [NewEntry("x" * 900, "x" * 900)], ANN) == 1
    assert await store.lists.add(two, phrases, [entry], ANN) == 1
    assert await store.lists.add(one, phrases, [entry], ANN) == 1
    assert await store.lists.bytes_left(one, phrases, [entry]) is None
    assert await store.lists.remove(one, "protected-people", [person.key], ANN) == 1
    assert await store.lists.add(one, phrases, [other], ANN) == 1


ENTRIES = {
    "sender": "ann@evil.example",
    "network": "192.0.2.7",
    "url": "evil.example/x",
    "sha256": "ab" * 32,
    "file-type": "exe",
    "file-name": "invoice*.iso",
    "phrase": "wire now",
    "domain": "bank.example",
    "person": "ann <ann@bank.example>",
    "name": "nordlicht energie",
    "recipient": "ann@house.example",
}
SUBJECTS = (
    Subject("from", "ann@evil.example", "From"),
    Subject("host", "192.0.2.7", "sending host"),
    Subject("link", "https://evil.example/x", "1"),
    Subject("file", "ab" * 32, "2"),
    Subject("type", "exe", "2"),
)


async def test_every_list_that_can_be_made_has_an_effect(store: Store) -> None:
    """Each kind with each category: refused, or an entry of it is asked for and does something."""

    async def does_something(store: Store, custom: ListDefinition) -> bool:
        unkeyed = await store.list_lookup.unkeyed(None)
        hits = await store.list_lookup.find(None, collect_keys(SUBJECTS, unkeyed.keyed))
        ruling = rule_on(hits, SUBJECTS, authenticated=True, custom=unkeyed.custom)
        handed_out = unkeyed.entries.get(custom.counts_as, ())
        if custom.kind == "recipient":  # no message asks it, but SMTP does
            return bool(await store.list_lookup.knows_recipient(None, [ENTRIES["recipient"]]))
        return ruling != Ruling() or any(entry.list == custom.name for entry in handed_out)

    for kind in KINDS:
        for category in get_args(Category):
            custom = make_custom_list("mine", kind, category, "Mine", "", 10)
            made = await store.lists.create(None, custom, ANN)
            if category not in list_categories(kind):
                assert isinstance(made, ListRefusal)
                assert await store.lists.definition(None, "mine") is None
                continue
            assert made == custom
            assert not await does_something(store, custom)
            await store.lists.add(None, custom, [NewEntry(ENTRIES[kind], ENTRIES[kind])], ANN)
            assert await does_something(store, custom), (kind, category)
            await store.lists.delete(None, "mine", ANN)
