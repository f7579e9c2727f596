"""Entries that were stored under older normal forms are found, merged and deletable after an upgrade."""

import asyncio
from pathlib import Path

import apsw
import asyncpg
import pytest

from gatepost.lists.catalogue import BY_NAME
from gatepost.store import open_store, upgrading
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store

URLS, SENDERS, NETWORKS, PHRASES = (
    BY_NAME[name] for name in ("blocked-urls", "blocked-senders", "blocked-ips", "blocked-phrases")
)
FOREVER = 9_000_000_000_000


def plain(*keys: str) -> list[NewEntry]:
    return [NewEntry(key, key, f"about {key}") for key in keys]


def forget_forms(url: str, folder: Path) -> None:
    """Make a storage as an older program left it."""
    if url.startswith("sqlite:"):
        connection = apsw.Connection(str(folder / "g.db"))
        connection.execute("DELETE FROM meta WHERE key = 'normal_forms'")
        connection.close()
    else:
        asyncio.run(_execute(url, "DELETE FROM meta WHERE key = 'normal_forms'"))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def fill(url: str, folder: Path) -> None:
    async def run() -> None:
        store = open_store(url, folder)
        await store.lists.add(None, URLS, plain("a.example/%6cogin", "a.example/caf%c3%a9", "untouched.example"), CLI)
        await store.lists.add(None, URLS, [NewEntry("a.example//login", "a.example//login", "second", FOREVER)], CLI)
        await store.lists.add(None, URLS, [NewEntry("a.example/login", "a.example/login", "gone", 5)], CLI)
        await store.lists.add(None, URLS, plain("a.example/x*y"), CLI)
        await store.lists.add(None, SENDERS, plain("bob<ann@b.example", "foo@@bar.example", "192.0.2.1"), CLI)
        await store.lists.add(None, NETWORKS, plain("fe80::1%eth0"), CLI)
        await store.lists.add(None, PHRASES, plain("acmeTM money", "wire money"), CLI)
        await store.close()

    asyncio.run(run())
    forget_forms(url, folder)


async def shown(store: Store, name: str) -> list[str]:
    page = await store.lists.page(None, name)
    return [entry.shown for entry in page.rows]


def test_stored_entries_get_the_forms_of_today(storage_url: str, tmp_path: Path) -> None:
    fill(storage_url, tmp_path)

    async def run() -> None:
        for _ in range(2):
            store = open_store(storage_url, tmp_path)
            assert await shown(store, "blocked-urls") == [
                *("a.example/caf%C3%A9", "a.example/login", "a.example/x*y", "untouched.example")
            ]
            (merged,) = await store.lists.find(None, "blocked-urls", ["a.example/login"])
            assert (merged.comment, merged.expires) == ("second", FOREVER)
            sizes = {state.definition.name: state.size for state in await store.lists.all(None)}
            assert (sizes["blocked-urls"], sizes["blocked-senders"]) == (4, 3)
            trail = (await store.audit.page(AuditFilter(action="entries.normalise"))).rows
            assert {(each.actor.kind, each.list, each.count) for each in trail} == {
                *(("system", "blocked-urls", 3), ("system", "blocked-phrases", 1))
            }
            assert await shown(store, "blocked-phrases") == ["acmetm money", "wire money"]
            await store.close()

    asyncio.run(run())


def test_what_is_refused_today_stays_readable_and_deletable(storage_url: str, tmp_path: Path) -> None:
    fill(storage_url, tmp_path)

    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        for definition in (URLS, SENDERS, NETWORKS):
            there = await shown(store, definition.name)
            keys = [definition.key(text) for text in there]
            assert await store.lists.remove(None, definition.name, keys, Actor("cli")) == len(there) > 0
            assert await shown(store, definition.name) == []
        await store.close()

    asyncio.run(run())


def test_many_entries_are_renewed_in_batches(storage_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading, "BATCH", 7)
    old = [f"a.example/{number:03d}%7{digit}" for number in range(40) for digit in "eE"]

    async def add() -> None:
        store = open_store(storage_url, tmp_path)
        await store.lists.add(None, URLS, plain(*old), CLI)
        await store.close()

    async def check() -> None:
        store = open_store(storage_url, tmp_path)
        assert await shown(store, "blocked-urls") == [f"a.example/{number:03d}~" for number in range(40)]
        (state,) = [each for each in await store.lists.all(None) if each.definition.name == "blocked-urls"]
        assert state.size == 40
        await store.close()

    asyncio.run(add())
    forget_forms(storage_url, tmp_path)
    asyncio.run(check())
