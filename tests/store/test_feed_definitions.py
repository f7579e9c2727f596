"""Feeds of the web interface in storage: changes, bounds, audit; and how they join those of the files."""

from pathlib import Path

import pytest

from gatepost.service.schedules import load_web_feeds
from gatepost.settings.feeds import WebFeed
from gatepost.store import feeds
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.feeds import FeedDefinition
from gatepost.store.store import Store

ANN = Actor("user", "ann")
FEED = WebFeed(list_name="blocked-urls", url="https://feeds.example/list.txt", format="csv", look_back=0)


async def test_definitions_are_changed_and_audited(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(feeds, "MAX_FEEDS", 2)

    first = await store.feeds.put_definition("a", FEED, 0, ANN, paused=True)
    assert isinstance(first, FeedDefinition)
    assert await store.feeds.put_definition("a", FEED, 0, ANN, paused=False) == "changed"
    second = await store.feeds.put_definition("a", FEED, first.modified, ANN, paused=False)
    assert isinstance(second, FeedDefinition)
    assert second.modified > first.modified
    broken = WebFeed(list_name="blocked-urls", url="https://feeds.example/", credentials_file="absent")
    assert isinstance(await store.feeds.put_definition("b", broken, 0, ANN, paused=False), FeedDefinition)
    assert await store.feeds.put_definition("c", FEED, 0, ANN, paused=False) == "full"
    assert [(each.name, each.feed, each.paused) for each in await store.feeds.definitions()] == [
        ("a", FEED, False),
        ("b", broken, False),
    ]
    # The file wins, and a feed that cannot be run is said.
    found, faults = await load_web_feeds(store, {"a"}, tmp_path)
    assert found == []
    assert "no such file" in faults["b"]
    (feed,), _ = await load_web_feeds(store, set(), tmp_path)
    assert (feed.name, feed.url, feed.private_network, feed.is_scheduled) == ("a", FEED.url, False, True)
    # Somebody asks for a run: the feed is due at once.
    await store.feeds.request_run("a", None, "blocked-urls", ANN)
    assert (await store.feeds.state("a")).next_run == 0
    assert isinstance(await store.feeds.delete_definition("b", ANN), FeedDefinition)
    assert await store.feeds.delete_definition("b", ANN) == "unknown"
    trail = (await store.audit.page(AuditFilter(action="feed."))).rows
    actions = ["feed.delete", "feed.requested", "feed.create", "feed.change", "feed.create"]
    assert [record.action for record in trail] == actions
    assert trail[3].sample[1].endswith(", paused")
    assert not trail[3].sample[2].endswith(", paused")


async def test_paused_feeds_are_not_run(store: Store, tmp_path: Path) -> None:
    await store.feeds.put_definition("a", FEED, 0, ANN, paused=True)
    assert await load_web_feeds(store, set(), tmp_path) == ([], {})
    (feed,), _ = await load_web_feeds(store, set(), tmp_path, paused=True)
    assert feed.name == "a"
