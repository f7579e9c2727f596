"""The trail says who changed what, only ever grows, and is read in pages."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import asyncpg
import pytest

from gatepost.lists.catalogue import BY_NAME
from gatepost.store.interface import Actor, AuditRecord, CountingStore, NewEntry, Tenant

Use = Callable[[Callable[[CountingStore], Awaitable[None]]], None]

ANN = Actor("key", "ann", "0198a000-0000-7000-8000-000000000001")
URLS = BY_NAME["blocked-urls"]


def test_who_what_where_how_many(use: Use) -> None:
    async def scenario(store: CountingStore) -> None:
        tenant = await store.create_tenant("t", Actor("user", "bob"))
        assert isinstance(tenant, Tenant)
        await store.add_entries(tenant.uid, URLS, [NewEntry(f"{n}", f"{n}") for n in range(9)], ANN)
        await store.delete_entries(tenant.uid, URLS.name, ["3", "4", "x"], ANN)
        deleted, added, created = await store.audit()
        assert deleted.id > added.id > created.id
        assert (added.actor, added.action, added.scope, added.list, added.count) == (
            *(ANN, "entries.add", tenant.uid),
            *("blocked-urls", 9),
        )
        assert len(added.sample) == 5
        assert (deleted.count, deleted.sample) == (2, ("3", "4"))
        assert (created.actor, created.action, created.sample) == (Actor("user", "bob"), "tenant.create", ("t",))

    use(scenario)


def test_pages_and_times(use: Use) -> None:
    async def scenario(store: CountingStore) -> None:
        one, two = await store.create_tenant("one"), await store.create_tenant("two")
        assert isinstance(one, Tenant)
        assert isinstance(two, Tenant)
        for number in range(7):
            scope = (None, one.uid, two.uid)[number % 3]
            await store.add_entries(scope, URLS, [NewEntry(str(number), str(number))], ANN)
            await asyncio.sleep(0.002)
        everything = await store.audit()
        assert [record.sample for record in everything[:3]] == [("6",), ("5",), ("4",)]
        pages: list[AuditRecord] = []
        while page := await store.audit(limit=4, before=pages[-1].id if pages else None):
            assert len(page) <= 4
            pages += page
        assert tuple(pages) == everything
        assert [record.sample[0] for record in await store.audit(tenant=one.uid)] == ["4", "1", "one"]
        middle = everything[3].time
        assert await store.audit(since=middle) == everything[:4]
        assert await store.audit(until=middle) == everything[4:]
        assert await store.audit(since=middle, until=middle + 1) == everything[3:4]
        assert await store.audit(limit=0) == ()

    use(scenario)


def test_it_only_grows(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def scenario(store: CountingStore) -> None:
        await store.create_tenant("t")

    async def on_postgres(statement: str) -> None:
        connection = await asyncpg.connect(storage_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def tamper(statement: str) -> None:
        if storage_url.startswith("sqlite:"):
            apsw.Connection(str(tmp_path / "g.db")).execute(statement)
        else:
            asyncio.run(on_postgres(statement))

    use(scenario)
    for statement in ("DELETE FROM audit", "UPDATE audit SET actor_name = 'x'"):
        with pytest.raises((apsw.ConstraintError, asyncpg.RaiseError), match="only grows"):
            tamper(statement)
