"""Look-ups: both scopes, only what can match, and a change of anybody's holds for the next one."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from tests.store.accounts import new_scope

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.lists.entries import UnkeyedEntry, list_network_keys
from gatepost.questions import Hit
from gatepost.store import list_lookup, open_store
from gatepost.store.audit import CLI, Actor
from gatepost.store.engine import Read, Work
from gatepost.store.list_rows import prefix_length
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store

ANN = Actor("key", "ann")
HOUR = 3_600_000


def new(*keys: str, comment: str = "", expires: int | None = None) -> list[NewEntry]:
    return [NewEntry(key, key, comment, expires) for key in keys]


def now() -> int:
    return time.time_ns() // 1_000_000


async def test_both_scopes_all_kinds_in_one_question(store: Store) -> None:
    one, two = await new_scope(store, "one"), await new_scope(store, "two")
    await store.lists.add(None, BY_NAME["blocked-senders"], new("*.evil.example", comment="g"), ANN)
    await store.lists.add(one, BY_NAME["allowed-senders"], new("*.evil.example", comment="1"), ANN)
    await store.lists.add(two, BY_NAME["blocked-urls"], new("evil.example/x"), ANN)
    await store.lists.add(None, BY_NAME["blocked-files"], new("ab" * 32), ANN)
    await store.lists.add(None, BY_NAME["blocked-file-types"], new("exe"), ANN)
    await store.lists.add(None, BY_NAME["blocked-ips"], new("192.0.2.0/24"), ANN)
    # Trust is no hit: it is handed out whole.
    await store.lists.add(None, BY_NAME["trusted-relays"], new("192.0.2.7"), ANN)
    asked = (
        ("sender", ("a@evil.example", "evil.example", "*.evil.example")),
        ("network", list_network_keys("192.0.2.7")),
        ("url", ("evil.example", "evil.example/x")),
        ("sha256", ("ab" * 32, "cd" * 32)),
        ("file-type", ("exe",)),
        ("unheard-of", ("exe",)),
    )
    everywhere = {
        Hit("blocked-senders", "global", "*.evil.example", "g"),
        Hit("blocked-files", "global", "ab" * 32),
        Hit("blocked-file-types", "global", "exe"),
        Hit("blocked-ips", "global", "192.0.2.0/24"),
    }
    assert set(await store.list_lookup.find(None, asked)) == everywhere
    assert set(await store.list_lookup.find(one, asked)) == {
        *everywhere,
        Hit("allowed-senders", "tenant", "*.evil.example", "1"),
    }
    assert set(await store.list_lookup.find(two.upper(), asked)) == {
        *everywhere,
        Hit("blocked-urls", "tenant", "evil.example/x"),
    }
    assert await store.list_lookup.find(one, ()) == ()
    assert await store.list_lookup.find(one, (("url", ()),)) == ()


async def test_what_has_expired_does_not_match(store: Store) -> None:
    await store.lists.add(None, BY_NAME["blocked-urls"], new("old", expires=now() - 1), ANN)
    await store.lists.add(None, BY_NAME["blocked-urls"], new("soon", expires=now() + HOUR), ANN)
    assert [hit.key for hit in await store.list_lookup.find(None, (("url", ("old", "soon")),))] == ["soon"]


def test_a_change_made_elsewhere_holds_for_the_next_message(storage_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        here, there = open_store(storage_url, tmp_path), open_store(storage_url, tmp_path)
        asked = (("network", list_network_keys("192.0.2.7")), ("url", ("a", "b")))

        async def found() -> list[str]:
            return [hit.key for hit in await here.list_lookup.find(None, asked)]

        ips, urls = BY_NAME["blocked-ips"], BY_NAME["blocked-urls"]
        assert await found() == []
        await there.lists.add(None, urls, new("a"), ANN)
        assert await found() == ["a"]
        await there.lists.add(None, urls, new("b"), ANN)
        assert await found() == ["a", "b"]
        await there.lists.add(None, ips, new("192.0.2.0/24"), ANN)
        assert await found() == ["192.0.2.0/24", "a", "b"]
        await there.lists.add(None, ips, new("192.0.0.0/16"), ANN)
        assert await found() == ["192.0.0.0/16", "192.0.2.0/24", "a", "b"]
        await there.lists.remove(None, ips.name, ["192.0.2.0/24"], ANN)
        await there.lists.remove(None, urls.name, ["a", "b"], ANN)
        assert await found() == ["192.0.0.0/16"]
        custom = msgspec.structs.replace(urls, name="my-urls", custom=True)
        await there.lists.create(None, custom, ANN)
        await there.lists.add(None, custom, new("b"), ANN)
        assert await here.list_lookup.find(None, asked[1:]) == (Hit("my-urls", "global", "b"),)
        await there.lists.delete(None, "my-urls", ANN)
        await there.lists.create(None, custom, ANN)
        assert await here.list_lookup.find(None, asked[1:]) == (), (
            "a new list of the same name has none of the old entries"
        )
        await here.close()
        await there.close()

    asyncio.run(run())


def _drive(
    work: Work[tuple[tuple[Hit, ...], bool]], answers: list[list[tuple[object, ...]]]
) -> tuple[list[Read], tuple[tuple[Hit, ...], bool]]:
    """Do a look-up by hand: what it asks, when it is answered so."""
    asked: list[Read] = []
    try:
        step = next(work)
        while True:
            assert isinstance(step, Read)
            asked.append(step)
            step = work.send(answers[len(asked) - 1])
    except StopIteration as stop:
        return asked, stop.value


def test_the_usual_look_up_is_one_statement_and_asks_only_for_what_can_be_there() -> None:
    row = (5, "", "blocked-ips", "network", "block", "", "", 10, 0, 2)
    empty = (6, "", "blocked-urls", "url", "block", "", "", 10, 0, 0)
    known: list_lookup.Directories = {}
    keys = (("network", list_network_keys("192.0.2.7")), ("url", ("a",)), ("sha256", ("b",)))
    first: list[list[tuple[object, ...]]] = [[(33,)], [(5, "4/24")], [row, empty], [], [(0, "", "", 33)]]
    assert len(_drive(list_lookup.find_hits(known, None, keys, 1), first)[0]) == 5, "learns which lists there are"
    again: list[list[tuple[object, ...]]] = [[(0, "", "", 33), (5, "192.0.2.0/24", "c", 0)]]
    asked, (hits, is_whole) = _drive(list_lookup.find_hits(known, None, keys, 1), again)
    assert is_whole
    assert hits == (Hit("blocked-ips", "global", "192.0.2.0/24", "c"),)
    scopes, moment, places, wanted = asked[0].parameters
    assert (scopes.values, moment, places.values) == (("",), 1, (5,))
    assert wanted.values == ("192.0.2.0/24",), "of 33 networks only the length that occurs"


def test_a_look_up_that_never_meets_the_same_version_ends() -> None:
    changing: list[list[tuple[object, ...]]] = [[(1,)], [], [], []]
    for number in range(list_lookup.ATTEMPTS):
        changing += [[(0, "", "", 100 + number)], [(1,)], [], [], []]
    asked, (hits, _) = _drive(list_lookup.find_hits({}, None, (("url", ("a",)),), 1), changing)
    assert hits == ()
    assert len(asked) == 4 + 5 * list_lookup.ATTEMPTS


async def test_a_look_up_for_mail_has_a_budget_of_lists_times_keys(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred lists of one kind and a message with thousands of links are a product: the first keys count then, kinds
    with few keys before others, and the answer says that it is not whole."""
    monkeypatch.setattr(list_lookup, "MAX_PROBES", 100)

    tenant = await new_scope(store, "one")
    for number in range(10):
        made = make_custom_list(f"own-{number}", "url", "block", "", "", 10)
        await store.lists.create(tenant, made, CLI)
        await store.lists.add(tenant, made, [NewEntry(f"k{number}", f"k{number}")], CLI)
    senders = BY_NAME["blocked-senders"]
    await store.lists.add(tenant, senders, [NewEntry("a@b.example", "a@b.example")], CLI)
    links = ("url", tuple(f"k{number}" for number in range(12)))
    asked = (links, ("sender", ("a@b.example",)))
    hits, is_whole = await store.list_lookup.find_for_mail(tenant, asked)
    assert not is_whole
    assert [hit.key for hit in hits] == ["a@b.example", *(f"k{number}" for number in range(9))]
    assert len(await store.list_lookup.find(tenant, asked)) == 11
    few = (("url", links[1][:9]), asked[1])
    assert (await store.list_lookup.find_for_mail(tenant, few))[1]


def test_prefix_lengths() -> None:
    cases = {"192.0.2.1": "4/32", "10.0.0.0/8": "4/8", "2001:db8::1": "6/128", "2001:db8::/32": "6/32", "::/0": "6/0"}
    assert {key: prefix_length(key) for key in cases} == cases


async def test_unkeyed_lists_by_version(store: Store) -> None:
    one, two = await new_scope(store, "one"), await new_scope(store, "two")
    empty = await store.list_lookup.unkeyed(one)
    assert (empty.entries, empty.custom) == ({}, {})
    assert empty.version == await store.list_lookup.unkeyed_version(one)
    await store.lists.add(None, BY_NAME["blocked-phrases"], new("wire now", comment="c"), ANN)
    await store.lists.add(one, BY_NAME["own-domains"], new("own.example"), ANN)
    await store.lists.add(one, BY_NAME["partner-domains"], new("bank.example"), ANN)
    await store.lists.add(one, BY_NAME["trusted-relays"], new("192.0.2.0/24"), ANN)
    person = NewEntry("ann <a@own.example>", "Ann <a@own.example>")
    await store.lists.add(one, BY_NAME["protected-people"], [person], ANN)
    snapshot = await store.list_lookup.unkeyed(one)
    assert snapshot.version == await store.list_lookup.unkeyed_version(one) != empty.version
    assert snapshot.entries["blocked-phrases"] == (UnkeyedEntry("blocked-phrases", "global", "wire now", "wire now"),)
    assert [entry.key for entry in snapshot.entries["own-domains"]] == ["own.example"]
    assert [entry.key for entry in snapshot.entries["partner-domains"]] == ["bank.example"]
    assert [entry.key for entry in snapshot.entries["trusted-relays"]] == ["192.0.2.0/24"]
    assert [entry.shown for entry in snapshot.entries["protected-people"]] == ["Ann <a@own.example>"]
    other = await store.list_lookup.unkeyed(two)
    assert other.entries["blocked-phrases"] == snapshot.entries["blocked-phrases"]
    assert "protected-people" not in other.entries
    # The first entry that is looked up by key is news, further ones are not.
    assert snapshot.keyed == ()
    await store.lists.add(one, BY_NAME["blocked-urls"], new("a"), ANN)
    before = await store.list_lookup.unkeyed_version(one)
    assert before != snapshot.version
    assert (await store.list_lookup.unkeyed(one)).keyed == ("url",)
    await store.lists.add(one, BY_NAME["blocked-urls"], new("b", "c"), ANN)
    assert await store.list_lookup.unkeyed_version(one) == before
    await store.lists.add(None, BY_NAME["blocked-phrases"], new("wire now", comment="other"), ANN)
    assert await store.list_lookup.unkeyed_version(one) != before, "a new comment is another snapshot"
    changed = await store.list_lookup.unkeyed_version(one)
    await store.lists.remove(one, "own-domains", ["own.example"], ANN)
    assert await store.list_lookup.unkeyed_version(one) != changed


async def test_custom_lists_among_their_kind(store: Store) -> None:
    phrases = msgspec.structs.replace(BY_NAME["blocked-phrases"], name="my-phrases", custom=True)
    partners = msgspec.structs.replace(BY_NAME["partner-domains"], name="my-banks", custom=True)
    urls = msgspec.structs.replace(BY_NAME["allowed-urls"], name="my-urls", custom=True)
    for custom in (phrases, partners, urls):
        await store.lists.create(None, custom, ANN)
    await store.lists.add(None, phrases, new("buy now"), ANN)
    await store.lists.add(None, partners, new("bank.example"), ANN)
    snapshot = await store.list_lookup.unkeyed(None)
    assert [(entry.list, entry.key) for entry in snapshot.entries["blocked-phrases"]] == [("my-phrases", "buy now")]
    assert [(entry.list, entry.key) for entry in snapshot.entries["partner-domains"]] == [("my-banks", "bank.example")]
    assert snapshot.custom == {
        "global:my-phrases": "blocked-phrases",
        "global:my-banks": "partner-domains",
        "global:my-urls": "allowed-urls",
    }


async def test_an_unkeyed_entry_that_expires_is_another_version_without_any_change(store: Store) -> None:
    for milliseconds in (150, 2_000, 10_000):  # more where the machine is too busy to look before it has passed
        soon = now() + milliseconds
        await store.lists.add(None, BY_NAME["blocked-phrases"], new("wire now", expires=soon), ANN)
        first = await store.list_lookup.unkeyed(None)
        if now() < soon:
            break
    assert [entry.expires for entry in first.entries["blocked-phrases"]] == [soon]
    while now() <= soon:  # noqa: ASYNC110  nobody tells when a moment has passed
        await asyncio.sleep(0.01)
    assert await store.list_lookup.unkeyed_version(None) != first.version
    assert (await store.list_lookup.unkeyed(None)).entries == {}
