"""Entries: a call is all or nothing, counts are exact, the last of the same key wins, on both engines."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.accounts import new_tenant
from tests.store.conftest import Use

from gatepost.lists.catalogue import BY_NAME, ListDefinition
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.list_lookup import HitCount
from gatepost.store.lists import ListEntry, NewEntry
from gatepost.store.store import Store

URLS = BY_NAME["blocked-urls"]
IPS = BY_NAME["blocked-ips"]
PEOPLE = BY_NAME["protected-people"]
ANN = Actor("key", "ann", "1")
BOB = Actor("user", "bob", "2")
LATER = 4_000_000_000_000


def new(*keys: str, comment: str = "", expires: int | None = None) -> list[NewEntry]:
    return [NewEntry(key, key, comment, expires) for key in keys]


async def all_of(store: Store, list_name: str, scope: str | None = None) -> list[ListEntry]:
    async with aclosing(store.lists.stream(scope, list_name)) as batches:
        return [entry async for batch in batches for entry in batch]


async def size(store: Store, list_name: str, scope: str | None = None) -> int:
    return next(state.size for state in await store.lists.all(scope) if state.definition.name == list_name)


def small(definition: ListDefinition, most: int) -> ListDefinition:
    return msgspec.structs.replace(definition, name="custom-small", custom=True, max_size=most)


async def test_adding_updating_and_what_stays(store: Store) -> None:
    assert await store.lists.add(None, URLS, new("b.example", "a.example", comment="one", expires=LATER), ANN) == 2
    first = await all_of(store, "blocked-urls")
    assert [(e.key, e.shown, e.comment, e.expires, e.modified_by) for e in first] == [
        ("a.example", "a.example", "one", LATER, "key:ann"),
        ("b.example", "b.example", "one", LATER, "key:ann"),
    ]
    assert first[0].created == first[0].modified
    assert (first[0].hits, first[0].last_hit) == (0, None)
    await store.list_lookup.record_hits([HitCount(None, "blocked-urls", "a.example", 3, 77)])
    await asyncio.sleep(0.002)
    assert await store.lists.add(None, URLS, new("a.example", "c.example", comment="two"), BOB) == 2
    second = await all_of(store, "blocked-urls")
    assert [entry.key for entry in second] == ["a.example", "b.example", "c.example"]
    assert (second[0].comment, second[0].expires, second[0].modified_by) == ("two", None, "user:bob")
    assert second[0].created == first[0].created
    assert second[0].modified > first[0].modified
    assert (second[0].hits, second[0].last_hit) == (3, 77)
    assert second[1] == first[1]
    assert await size(store, "blocked-urls") == 3


async def test_of_the_same_key_the_last_wins_and_counts_once(store: Store) -> None:
    twice = [*new("a.example", comment="first"), *new("b.example"), *new("a.example", comment="last")]
    assert await store.lists.add(None, URLS, twice, ANN) == 2
    assert [(e.key, e.comment) for e in await all_of(store, "blocked-urls")] == [
        ("a.example", "last"),
        ("b.example", ""),
    ]
    assert await store.lists.remove(None, "blocked-urls", ["a.example", "a.example", "x"], ANN) == 1
    assert await size(store, "blocked-urls") == 1


async def test_nothing_in_nothing_out(store: Store) -> None:
    assert await store.lists.add(None, URLS, [], ANN) == 0
    assert await store.lists.remove(None, "blocked-urls", [], ANN) == 0
    assert await store.lists.remove(None, "blocked-urls", ["a"], ANN) == 0
    assert await store.lists.remove(None, "no-such", ["a"], ANN) == 0
    assert await all_of(store, "blocked-urls") == []
    assert await all_of(store, "no-such") == []
    assert await store.lists.find(None, "blocked-urls", ["a"]) == ()
    await store.list_lookup.record_hits([])
    await store.list_lookup.record_hits([HitCount(None, "blocked-urls", "a", 1, 1)])
    assert (await store.audit.page(AuditFilter())).rows == (), "nothing was changed"


async def test_a_full_list_takes_nothing_of_a_call(store: Store) -> None:
    few = small(URLS, 3)
    assert await store.lists.create(None, few, ANN) == few
    assert await store.lists.add(None, few, new("a", "b"), ANN) == 2
    assert await store.lists.add(None, few, new("a", "c", "d", comment="no"), ANN) == ListFull(2, 3)
    assert [(e.key, e.comment) for e in await all_of(store, few.name)] == [("a", ""), ("b", "")]
    assert await store.lists.add(None, few, new("b", "c", "c", comment="yes"), ANN) == 2, "exactly full"
    assert await store.lists.add(None, few, new("a", "b", "c", comment="still"), ANN) == 3, "updates fit"
    assert await store.lists.add(None, few, new("d"), ANN) == ListFull(3, 3)
    assert await store.lists.remove(None, few.name, ["a"], ANN) == 1
    assert await store.lists.add(None, few, new("d"), ANN) == 1
    assert await size(store, few.name) == 3


async def test_scopes_are_apart(store: Store) -> None:
    one, two = await new_tenant(store, "one"), await new_tenant(store, "two")
    for scope, comment in ((None, "g"), (one.uid, "1"), (two.uid.upper(), "2")):
        assert await store.lists.add(scope, URLS, new("a", comment=comment), ANN) == 1
    assert [e.comment for e in await all_of(store, "blocked-urls", one.uid)] == ["1"]
    assert await store.lists.remove(one.uid, "blocked-urls", ["a"], ANN) == 1
    assert [e.comment for e in await all_of(store, "blocked-urls")] == ["g"]
    assert [e.comment for e in await all_of(store, "blocked-urls", two.uid)] == ["2"]
    assert await store.lists.add("0198a000-0000-7000-8000-000000000001", URLS, new("a"), ANN) == NotFound("tenant")


async def test_a_list_that_is_gone(store: Store) -> None:
    few = small(URLS, 3)
    assert await store.lists.add(None, few, new("a"), ANN) == NotFound("list")
    await store.lists.create(None, few, ANN)
    other = msgspec.structs.replace(few, kind="phrase", category="policy")
    assert await store.lists.add(None, other, new("a"), ANN) == NotFound("list"), "made anew, of another kind"


async def test_a_stream_is_one_moment_ordered_by_code_points(store: Store) -> None:
    keys = ["Z", "a", "a-b", "a.b", "ab", "\u00e4", "\uffee", "\U0001f600", *(f"k{n:05}" for n in range(5_000))]

    for start in range(0, len(keys), 500):
        await store.lists.add(None, URLS, new(*reversed(keys[start : start + 500])), ANN)
    sizes: list[int] = []
    found: list[ListEntry] = []
    async with aclosing(store.lists.stream(None, "blocked-urls")) as batches:
        async for batch in batches:
            if not sizes:
                await store.lists.add(None, URLS, new("zzz", "k00001", comment="later"), ANN)
                await store.lists.remove(None, "blocked-urls", ["k04999"], ANN)
            sizes.append(len(batch))
            found += batch
    assert [entry.key for entry in found] == sorted(keys)
    assert {entry.comment for entry in found} == {""}, "what changed meanwhile is not in it"
    assert sizes[0] <= 100, "the first leaves at once"
    assert max(sizes) <= 5_000
    assert await size(store, "blocked-urls") == len(keys)


async def test_a_stream_that_is_given_up_holds_nothing(store: Store) -> None:
    await store.lists.add(None, URLS, new(*(f"k{n}" for n in range(500))), ANN)
    for _ in range(70):
        async with aclosing(store.lists.stream(None, "blocked-urls")) as batches:
            async for batch in batches:
                assert batch
                break
    assert len(await all_of(store, "blocked-urls")) == 500


async def test_people_are_ordered_as_they_are_shown(store: Store) -> None:
    people = [
        NewEntry("bea <b@x.example>", "Bea <b@x.example>"),
        NewEntry("ann <a@x.example>", "ann <a@x.example>"),
    ]
    assert await store.lists.add(None, PEOPLE, people, ANN) == 2
    assert [entry.shown for entry in await all_of(store, PEOPLE.name)] == ["Bea <b@x.example>", "ann <a@x.example>"]
    again = [NewEntry("bea <b@x.example>", "BEA <b@x.example>")]
    assert await store.lists.add(None, PEOPLE, again, ANN) == 1
    assert (await store.lists.find(None, PEOPLE.name, ["bea <b@x.example>"]))[0].shown == "BEA <b@x.example>"


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udc00\ud800x", "\U0010ffff", "ä\0", ""])
async def test_any_text_is_kept_and_found_again(store: Store, text: str) -> None:
    assert await store.lists.add(None, URLS, new(text, comment=text), ANN) == 1
    (kept,) = await all_of(store, "blocked-urls")
    assert kept.key == kept.comment == kept.shown
    assert [entry.key for entry in await store.lists.find(None, "blocked-urls", [text])] == [kept.key]
    assert len(await store.list_lookup.find(None, (("url", (text,)),))) == 1
    assert await store.lists.remove(None, "blocked-urls", [text], ANN) == 1


async def test_some_entries_in_the_order_asked_for(store: Store) -> None:
    await store.lists.add(None, URLS, new("a", "b", "c"), ANN)
    found = await store.lists.find(None, "blocked-urls", ["c", "x", "a", "c"])
    assert [entry.key for entry in found] == ["c", "a"]


async def test_hits_add_up(store: Store) -> None:
    tenant = await new_tenant(store)
    await store.lists.add(None, URLS, new("a", "b"), ANN)
    await store.lists.add(tenant.uid, IPS, new("192.0.2.1"), ANN)
    counts = [
        HitCount(None, "blocked-urls", "a", 2, 50),
        HitCount(None, "blocked-urls", "a", 1, 40),
        HitCount(None, "blocked-urls", "gone", 1, 40),
        HitCount(None, "no-such", "a", 1, 40),
        HitCount(tenant.uid, "blocked-ips", "192.0.2.1", 1, 60),
    ]
    await store.list_lookup.record_hits(counts)
    await store.list_lookup.record_hits([HitCount(None, "blocked-urls", "a", 1, 45)])
    assert [(e.key, e.hits, e.last_hit) for e in await all_of(store, "blocked-urls")] == [
        ("a", 4, 50),
        ("b", 0, None),
    ]
    assert [(e.hits, e.last_hit) for e in await all_of(store, "blocked-ips", tenant.uid)] == [(1, 60)]


async def test_what_has_expired_is_purged_with_its_count(store: Store) -> None:
    await store.lists.add(None, URLS, new(*(f"old{n}" for n in range(1_100)), expires=LATER), ANN)
    await store.lists.add(None, URLS, new("later", expires=LATER + 100), ANN)
    await store.lists.add(None, URLS, new("for-ever"), ANN)
    await store.lists.add(None, IPS, new("192.0.2.0/24", expires=LATER), ANN)
    assert await store.lists.purge_expired(LATER - 1) == 0
    assert await store.lists.purge_expired(LATER) == 1_101
    assert [entry.key for entry in await all_of(store, "blocked-urls")] == ["for-ever", "later"]
    assert (await size(store, "blocked-urls"), await size(store, "blocked-ips")) == (2, 0)
    assert {record.action for record in (await store.audit.page(AuditFilter(), limit=4)).rows} == {"entries.expire"}
    assert await store.lists.purge_expired(LATER) == 0


async def test_what_has_expired_is_gone_before_it_is_purged(store: Store) -> None:
    """It is not shown, not counted, not deleted twice, and comes back as a new one."""
    await store.lists.add(None, URLS, [*new("a", "b", "c", expires=1), *new("d")], ANN)
    await store.list_lookup.record_hits([HitCount(None, "blocked-urls", "a", 3, 77)])
    assert [entry.key for entry in await all_of(store, "blocked-urls")] == ["d"]
    assert await size(store, "blocked-urls") == 1
    assert await store.lists.find(None, "blocked-urls", ["a", "d"]) == await store.lists.find(
        None, "blocked-urls", ["d"]
    )
    assert await store.lists.remove(None, "blocked-urls", ["b", "d"], ANN) == 1
    assert [(record.action, record.sample) for record in (await store.audit.page(AuditFilter(), limit=2)).rows] == [
        ("entries.delete", ("d",)),
        ("entries.expire", ("b",)),
    ]
    assert await store.lists.add(None, URLS, new("a"), BOB) == 1
    (again,) = await all_of(store, "blocked-urls")
    assert (again.key, again.hits, again.last_hit, again.modified_by) == ("a", 0, None, "user:bob")
    assert again.created == again.modified
    assert await size(store, "blocked-urls") == 1
    assert await store.lists.purge_expired(100) == 1, "only c was left"
    assert await size(store, "blocked-urls") == 1


async def test_what_has_expired_takes_no_room(store: Store) -> None:
    few = small(URLS, 4)
    await store.lists.create(None, few, ANN)
    await store.lists.add(None, few, [*new("old1", "old2", expires=1), *new("a", "b")], ANN)
    assert await size(store, few.name) == 2
    assert await store.lists.add(None, few, new("c", "d", "e"), ANN) == ListFull(2, 4)
    assert await store.lists.add(None, few, new("a", "c"), ANN) == 2, "one old one makes room"
    assert await store.lists.add(None, few, new("d"), ANN) == 1
    assert [entry.key for entry in await all_of(store, few.name)] == ["a", "b", "c", "d"]
    assert await store.lists.add(None, few, new("e"), ANN) == ListFull(4, 4)
    assert await store.lists.purge_expired(100) == 0
    assert await size(store, few.name) == 4


async def test_networks_that_expire_take_their_prefix_lengths_with_them(store: Store) -> None:
    await store.lists.add(None, IPS, [*new("192.0.2.0/24", expires=1), *new("192.0.2.7")], ANN)
    asked = (("network", ("192.0.2.7", "192.0.2.0/24")),)
    assert await store.lists.add(None, IPS, new("192.0.2.0/24"), ANN) == 1
    assert [hit.key for hit in await store.list_lookup.find(None, asked)] == ["192.0.2.0/24", "192.0.2.7"]
    assert await store.lists.remove(None, IPS.name, ["192.0.2.0/24"], ANN) == 1
    assert [hit.key for hit in await store.list_lookup.find(None, asked)] == ["192.0.2.7"]
    assert await size(store, IPS.name) == 1


Call = tuple[str, list[str]]
CALLS = st.lists(st.tuples(st.sampled_from(["add", "delete"]), st.lists(st.sampled_from("abcdef"), max_size=8)))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_any_calls_do_what_a_dictionary_does(use: Use, calls: Sequence[Call]) -> None:
    async def scenario(store: Store) -> None:
        await store.lists.remove(None, IPS.name, [f"192.0.2.{ord(key)}" for key in "abcdef"], ANN)
        model: dict[str, str] = {}
        for number, (action, names) in enumerate(calls):
            keys = [f"192.0.2.{ord(name)}" for name in names]
            if action == "add":
                assert await store.lists.add(None, IPS, new(*keys, comment=str(number)), ANN) == len(set(keys))
                model.update(dict.fromkeys(keys, str(number)))
            else:
                assert await store.lists.remove(None, IPS.name, keys, ANN) == len(model.keys() & set(keys))
                model = {key: comment for key, comment in model.items() if key not in keys}
            assert await size(store, IPS.name) == len(model)
        assert {entry.key: entry.comment for entry in await all_of(store, IPS.name)} == model
        asked = [f"192.0.2.{ord(key)}" for key in "abcdef"]
        assert {hit.key for hit in await store.list_lookup.find(None, (("network", asked),))} == set(model)

    use(scenario)
