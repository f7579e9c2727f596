"""Looks back are kept for their list, the last ones only, and go with it; feeds own what they changed last."""

from pathlib import Path

from tests.store.conftest import NewRecord

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.store import feeds
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.learning import ModelLookBack
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import MAX_HITS, MAX_KEPT, LookBack
from gatepost.store.sqlite import open_file
from gatepost.store.store import Store
from gatepost.times import now

FEED, OTHER = Actor("feed", "a"), Actor("feed", "ab")
NETWORKS = BY_NAME["blocked-ips"]


async def test_the_last_ones_are_kept_and_go_with_their_list(store: Store) -> None:
    definition = make_custom_list("own-feed", "url", "block", "", "", 10)
    await store.lists.create(None, definition, CLI)
    hits = tuple((f"ggrid-{number}", "e\0ntry") for number in range(MAX_HITS + 5))
    made = LookBack(5, "cli", 1, 7, 100, MAX_HITS + 5, hits, 3)
    numbers = [await store.look_backs.record(None, "own-feed", made) for _ in range(MAX_KEPT + 2)]
    kept = await store.look_backs.of_list(None, "own-feed")
    assert [each.id for each in kept] == numbers[:1:-1]
    assert (kept[0].found, len(kept[0].hits), kept[0].reached) == (MAX_HITS + 5, MAX_HITS, 3)
    assert await store.look_backs.record(None, "absent", made) is None
    await store.lists.delete(None, "own-feed", CLI)
    await store.lists.create(None, definition, CLI)
    assert await store.look_backs.of_list(None, "own-feed") == ()


async def test_what_was_found_is_told_with_its_recipients(store: Store, new_record: NewRecord) -> None:
    record = new_record()
    await store.messages.record(record)
    made = LookBack(5, "feed:urlhaus", 1, 7, 100, 2, ((record.ggrid, "x"), ("gone", "x")))
    await store.lists.add(None, NETWORKS, [NewEntry("192.0.2.1", "192.0.2.1", "x")], CLI)
    await store.look_backs.record(None, "blocked-ips", made)
    version = await store.learning.keep_model(None, b"{}", b"model", CLI)
    await store.look_backs.record_of_model(version, ModelLookBack(7, 100, 1, (record.ggrid,)))
    await store.look_backs.record_of_model(version, ModelLookBack(7, 100, 0))
    of_model, of_list = (await store.audit.page(AuditFilter(action="lookBack.found"))).rows
    line = "\n".join((record.ggrid, *record.envelope.recipients))
    assert (of_list.actor.label, of_list.list, of_list.count) == ("feed:urlhaus", "blocked-ips", 2)
    assert of_list.sample == ("", line)
    assert (of_model.actor.label, of_model.count, of_model.sample) == ("system", 1, (str(version), line))


def test_entries_of_a_feed_are_found_by_their_index(tmp_path: Path) -> None:
    connection = open_file(tmp_path / "g.db")
    plan = connection.execute(f"EXPLAIN QUERY PLAN {feeds._OWN.sqlite}", (1, "feed:a", "", 10)).fetchall()
    assert "entries_by_feed (list_id=? AND (modified_by,key)>(?,?))" in str(plan[0][3])
    connection.close()


async def test_a_feed_changes_its_own_entries_only(store: Store) -> None:
    def new(*keys: str) -> list[NewEntry]:
        return [NewEntry(key, key, "x") for key in keys]

    await store.lists.add(None, NETWORKS, new("192.0.2.1"), CLI)
    assert await store.feeds.put_entries(None, NETWORKS, new("192.0.2.1", "192.0.2.2", "192.0.2.0/24"), FEED) == 2
    assert await store.feeds.put_entries(None, NETWORKS, new("192.0.2.2", "192.0.2.3"), OTHER) == 1
    assert await store.feeds.put_entries(None, NETWORKS, new("192.0.2.1"), FEED) == 0
    assert await store.feeds.entries(None, "blocked-ips", FEED) == (("192.0.2.0/24", None), ("192.0.2.2", None))
    assert await store.feeds.entries(None, "blocked-ips", FEED, "192.0.2.0/24") == (("192.0.2.2", None),)
    every = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.0/24")
    later = now() + 1_000_000
    assert await store.feeds.expire_entries(None, "blocked-ips", every, OTHER, later) == 1
    assert await store.feeds.expire_entries(None, "blocked-ips", every, OTHER, later + 1) == 0
    assert await store.feeds.delete_entries(None, "blocked-ips", every, FEED) == 2
    assert await store.feeds.delete_entries(None, "blocked-ips", every, FEED) == 0
    assert await store.feeds.delete_entries(None, "absent", every, FEED) == 0
    left = {entry.key: entry.expires for entry in (await store.lists.page(None, "blocked-ips")).rows}
    assert left == {"192.0.2.1": None, "192.0.2.3": later}
    (state,) = [each for each in await store.lists.all(None) if each.definition is NETWORKS]
    assert state.size == 2
