"""Everything moves from one storage to another, as of one moment, or nothing does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import asyncpg
import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.store import open_store, sqlite
from gatepost.store.api_keys import ApiKey
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.copy import copy, list_tables
from gatepost.store.errors import StorageError
from gatepost.store.list_lookup import HitCount
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store
from gatepost.store.users import User

ANN = Actor("key", "ann")
CUSTOM = make_custom_list("mine", "url", "block", "Mine", "", 10)


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Store]:
    store = open_store(url, folder)
    try:
        yield store
    finally:
        await store.close()


async def fill(store: Store, records: list[MessageRecord]) -> str:
    """One of everything; returns the secret of a key."""
    tenant = await new_tenant(store)
    await store.tenants.set_domains(tenant.uid, ["t.example"])
    await store.lists.create(tenant.uid, CUSTOM, ANN)
    await store.lists.add(tenant.uid, CUSTOM, [NewEntry("a", "a", "ä", 2**47)], ANN)
    await store.lists.add(None, BY_NAME["blocked-ips"], [NewEntry("192.0.2.0/24", "192.0.2.0/24")], ANN)
    await store.lists.add(None, BY_NAME["protected-people"], [NewEntry("ann <a@b>", "Ann <a@b>")], ANN)
    await store.list_lookup.record_hits([HitCount(tenant.uid, "mine", "a", 3, 7)])
    for record in records:
        await store.messages.record(record)
    user = await store.users.create("ann", "administrator", None, "hash", ANN)
    assert isinstance(user, User)
    await store.second_factors.set_totp(user.uid, "SECRET", ANN)
    await store.sessions.create(user.uid, "digest", 2**47, "192.0.2.1", "Browser")
    secret, _ = await store.api_keys.create("k", tenant.uid, True, None)  # type: ignore[misc]
    assert isinstance(await store.api_keys.authenticate(secret), ApiKey)
    async with asyncio.timeout(180):
        while not (await store.api_keys.all())[0].last_used:  # noqa: ASYNC110  written down while the request goes on
            await asyncio.sleep(0.005)
    return secret


async def content(store: Store, records: list[MessageRecord], secret: str) -> list[object]:
    """All that a storage answers."""
    (tenant,) = await store.tenants.all()
    return [
        tenant,
        await store.lists.all(tenant.uid),
        await store.lists.find(tenant.uid, "mine", ["a"]),
        await store.list_lookup.find(tenant.uid, (("url", ("a",)), ("network", ("192.0.2.0/24",)))),
        await store.list_lookup.unkeyed(tenant.uid),
        await store.api_keys.all(),
        (await store.audit.page(AuditFilter())).rows,
        await store.users.credentials("ANN"),
        await store.sessions.of_user((await store.users.all())[0].uid, 0),
        await store.messages.search(MessageFilter(recipient="b@rcpt.example", subject="hello")),
        await store.traffic.buckets(None, 0, 1, 1),
        [await store.messages.find(record.ggrid) for record in records],
        type(await store.api_keys.authenticate(secret)),
    ]


@pytest.mark.parametrize("backward", [False, True], ids=["sqlite-postgresql", "postgresql-sqlite"])
def test_a_deployment_moves_and_goes_on(
    tmp_path: Path, postgres_url: str, new_record: NewRecord, backward: bool
) -> None:
    urls = [f"sqlite:{tmp_path / 'g.db'}", postgres_url]
    source_url, target_url = reversed(urls) if backward else urls
    records = [new_record(subject="a\0b"), new_record()]

    async def run() -> None:
        async with opened(source_url, tmp_path) as source:
            secret = await fill(source, records)
            seen: list[tuple[int, int]] = []
            await copy(source_url, target_url, tmp_path, lambda done, total: seen.append((done, total)))
            assert seen[-1][0] == seen[-1][1] > 10
        async with opened(source_url, tmp_path) as source, opened(target_url, tmp_path) as target:
            before = await content(source, records, secret)
            assert await content(target, records, secret) == before
            # New numbers do not meet those that came along.
            assert await target.lists.add(None, BY_NAME["blocked-urls"], [NewEntry("new", "new")], ANN) == 1
            assert [record.sample for record in (await target.audit.page(AuditFilter(), limit=1)).rows] == [("new",)]
            record = new_record()
            assert await target.messages.record(record) == record

    asyncio.run(run())


def test_a_filled_target_is_refused_or_replaced(storage_url: str, tmp_path: Path, new_record: NewRecord) -> None:
    async def run() -> None:
        async with opened("sqlite:source.db", tmp_path) as source, opened(storage_url, tmp_path) as target:
            await source.tenants.create("from source")
            await fill(target, [new_record()])
            with pytest.raises(StorageError, match="not empty"):
                await copy("sqlite:source.db", storage_url, tmp_path, _quiet)
            assert [tenant.name for tenant in await target.tenants.all()] == ["t"]
            assert len(await target.list_lookup.find(None, (("network", ("192.0.2.0/24",)),))) == 1
            await copy("sqlite:source.db", storage_url, tmp_path, _quiet, force=True)
            assert [tenant.name for tenant in await target.tenants.all()] == ["from source"], (
                "seen by whoever has it open"
            )
            assert await target.list_lookup.find(None, (("network", ("192.0.2.0/24",)),)) == ()
            assert len((await target.audit.page(AuditFilter())).rows) == 1

    asyncio.run(run())


def test_a_copy_that_fails_leaves_the_target_as_it_was(storage_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        source = open_store("sqlite:source.db", tmp_path)
        for name in "abc":
            await source.tenants.create(name)
        await source.close()

        def full(_done: int, _total: int) -> None:
            raise StorageError("the disk is full")

        with pytest.raises(StorageError, match="disk is full"):
            await copy("sqlite:source.db", storage_url, tmp_path, full)
        target = open_store(storage_url, tmp_path)
        assert await target.tenants.all() == ()
        await target.close()

    asyncio.run(run())


def test_addresses_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        asyncio.run(copy("sqlite:absent.db", "sqlite:g.db", tmp_path, _quiet))
    with pytest.raises(StorageError, match="must be sqlite"):
        asyncio.run(copy("mysql://h/db", "sqlite:g.db", tmp_path, _quiet))
    assert not (tmp_path / "absent.db").exists()


def test_every_table_and_column_is_copied(storage_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(storage_url, tmp_path).close())
    found: dict[str, set[str]] = {}
    for table, column in asyncio.run(_list_columns(storage_url)):
        found.setdefault(table, set()).add(column)
    assert {table: set(columns) for table, columns in list_tables().items()} == found


async def _list_columns(url: str) -> list[tuple[str, str]]:
    """Tables and columns as the engine itself names them."""
    if url.startswith("sqlite"):
        with closing(sqlite.open_file(Path(url.removeprefix("sqlite:")))) as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return [
                (table, column)
                for table in tables
                if table != "meta" and not table.startswith("sqlite_")
                for (column,) in file.execute("SELECT name FROM pragma_table_info(?)", (table,))
            ]
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name <> 'meta'"
            # Partitions of a table are no tables of their own.
            " AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(quote_ident(table_name)))"
        )
        return [(row[0], row[1]) for row in rows]
    finally:
        await connection.close()


def _quiet(_done: int, _total: int) -> None:
    return None
