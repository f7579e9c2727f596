"""A storage of the previous schema, with data in it, is brought to this one when it is opened, on both engines."""

import asyncio
from pathlib import Path

import apsw
import asyncpg
import pytest

from gatepost.analysis import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.store import StorageError, database, messages, open_store
from gatepost.store.interface import CLI, MessageRecord, NewEntry, Tenant

TENANTS = [(new_id(), name, 5) for name in ("one", "twice", "twice", "twice")]
RECORD = MessageRecord(new_id(), 1, 2, Envelope("a@b.example"), 3, "", Report("clean", "deliver", (), 0, "nothing"))


def _previous_sqlite(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(database.schema_files()[0][1])
    connection.pragma("application_id", database.APPLICATION_ID)
    connection.execute("INSERT INTO meta VALUES ('schema', '1')")
    connection.executemany("INSERT INTO tenants VALUES (?, ?, ?)", TENANTS)
    messages.insert(connection, [RECORD])
    connection.close()


async def _previous_postgres(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(database.schema_files("postgres")[0][1])
    await connection.execute("INSERT INTO meta VALUES ('schema', '1')")
    await connection.executemany("INSERT INTO tenants VALUES ($1, $2, $3)", TENANTS)
    columns = ", ".join(messages.COLUMNS)
    places = ", ".join(f"${place}" for place in range(1, len(messages.COLUMNS) + 1))
    await connection.execute(f"INSERT INTO messages ({columns}) VALUES ({places})", *messages._row(RECORD))
    await connection.close()


def test_the_previous_schema_with_data_in_it(storage_url: str, tmp_path: Path) -> None:
    if storage_url.startswith("sqlite:"):
        _previous_sqlite(tmp_path / "g.db")
    else:
        asyncio.run(_previous_postgres(storage_url))

    async def run() -> None:
        for _ in range(2):
            store = open_store(storage_url, tmp_path)
            assert await store.message(RECORD.ggrid) == RECORD
            tenants = await store.tenants()
            assert {tenant.uid for tenant in tenants} == {uid for uid, _, _ in TENANTS}
            oldest = min(uid for uid, name, _ in TENANTS if name == "twice")
            later = sorted(uid for uid, name, _ in TENANTS if name == "twice" and uid != oldest)
            assert [tenant.name for tenant in tenants] == ["one", "twice", *(f"twice ({uid})" for uid in later)]
            assert await store.tenant(oldest) == Tenant(oldest, "twice", 5)
            assert await store.add_entries(oldest, BY_NAME["blocked-urls"], [NewEntry("a", "a")], CLI) == 1
            await store.close()

    asyncio.run(run())


def test_both_engines_have_the_same_schema_numbers() -> None:
    assert [number for number, _ in database.schema_files()] == [
        number for number, _ in database.schema_files("postgres")
    ]


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def test_a_newer_schema_is_refused(postgres_url: str, tmp_path: Path) -> None:
    newest = database.schema_files("postgres")[-1][0]
    open_store(postgres_url, tmp_path)
    asyncio.run(_execute(postgres_url, f"UPDATE meta SET value = '{newest + 1}' WHERE key = 'schema'"))
    with pytest.raises(StorageError, match=rf"newer Gatepost \(schema {newest + 1}, this one knows {newest}\)"):
        open_store(postgres_url, tmp_path)


def test_tables_of_another_program_are_refused(postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(_execute(postgres_url, "CREATE TABLE bookmarks (x int)"))
    with pytest.raises(StorageError, match="another program"):
        open_store(postgres_url, tmp_path)


def test_stores_that_open_at_the_same_time_apply_it_once(postgres_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        opened = await asyncio.gather(*(asyncio.to_thread(open_store, postgres_url, tmp_path) for _ in range(4)))
        assert [await store.tenants() for store in opened] == [()] * 4
        for store in opened:
            await store.close()

    asyncio.run(run())
