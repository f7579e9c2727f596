"""A storage of the previous schema, with data in it, is brought to this one when it is opened, on both engines."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.store import message_index, message_records, open_store, sqlite, upgrading
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.store.held_search import HeldFilter
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.tenants import Tenant

pytestmark = pytest.mark.usefixtures("own_schema")

TENANTS = [(new_id(), name, 5) for name in ("one", "twice", "twice", "twice")]
RECORD = MessageRecord(new_id(), 1, 2, Envelope("a@b.example"), 3, "", Report("clean", "deliver", (), 0, "nothing"))


def _previous_sqlite(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(upgrading.schema_files()[0][1])
    connection.pragma("application_id", sqlite.APPLICATION_ID)
    connection.execute("INSERT INTO meta VALUES ('schema', '1')")
    connection.executemany("INSERT INTO tenants VALUES (?, ?, ?)", TENANTS)
    _insert_sqlite(connection, [RECORD])
    connection.close()


# What records had before header sections were kept with them.
COLUMNS = [column for column in message_records.COLUMNS if column != "header"]


def _row(record: MessageRecord) -> list[Any]:
    return [
        value
        for column, value in zip(message_records.COLUMNS, message_records.prepare_row(record).values, strict=True)
        if column in COLUMNS
    ]


def _insert_sqlite(connection: apsw.Connection, records: list[MessageRecord]) -> None:
    places = ", ".join("?" * len(COLUMNS))
    statement = f"INSERT INTO messages ({', '.join(COLUMNS)}) VALUES ({places})"
    connection.executemany(statement, map(_row, records))


async def _previous_postgres(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(upgrading.schema_files("postgres")[0][1])
    await connection.execute("INSERT INTO meta VALUES ('schema', '1')")
    await connection.executemany("INSERT INTO tenants VALUES ($1, $2, $3)", TENANTS)
    await _insert_postgres(connection, [RECORD])
    await connection.close()


async def _insert_postgres(connection: Any, records: list[MessageRecord]) -> None:
    places = ", ".join(f"${place}" for place in range(1, len(COLUMNS) + 1))
    statement = f"INSERT INTO messages ({', '.join(COLUMNS)}) VALUES ({places})"
    await connection.executemany(statement, map(_row, records))


def test_the_previous_schema_with_data_in_it(empty_storage_url: str, tmp_path: Path) -> None:
    if empty_storage_url.startswith("sqlite:"):
        _previous_sqlite(tmp_path / "g.db")
    else:
        asyncio.run(_previous_postgres(empty_storage_url))

    async def run() -> None:
        for _ in range(2):
            store = open_store(empty_storage_url, tmp_path)
            assert await store.messages.find(RECORD.ggrid) == RECORD
            tenants = await store.tenants.all()
            assert {tenant.uid for tenant in tenants} == {uid for uid, _, _ in TENANTS}
            oldest = min(uid for uid, name, _ in TENANTS if name == "twice")
            later = sorted(uid for uid, name, _ in TENANTS if name == "twice" and uid != oldest)
            assert [tenant.name for tenant in tenants] == ["one", "twice", *(f"twice ({uid})" for uid in later)]
            assert await store.tenants.find(oldest) == Tenant(oldest, "twice", 5)
            assert await store.lists.add(oldest, BY_NAME["blocked-urls"], [NewEntry("a", "a")], CLI) == 1
            await store.close()

    asyncio.run(run())


# The last schema in which messages could not be searched.
UNSEARCHED = 4
HELD = """INSERT INTO held (ggrid, created, completed, kept, tenant, verdict, sender, sender_domain, size, sha256,
detail, state, holder, lease) SELECT ggrid, created, completed, completed, tenant, verdict, sender, '', size, sha256,
detail, 'held', '', 0 FROM messages"""


def _unsearched(url: str, path: Path, records: list[MessageRecord]) -> None:
    engine = "sqlite" if url.startswith("sqlite:") else "postgres"
    schema = "".join(statements for number, statements in upgrading.schema_files(engine) if number <= UNSEARCHED)
    version = f"INSERT INTO meta VALUES ('schema', '{UNSEARCHED}')"
    if engine == "sqlite":
        connection = apsw.Connection(str(path))
        connection.execute(f"{schema}; {version}")
        connection.pragma("application_id", sqlite.APPLICATION_ID)
        _insert_sqlite(connection, records)
        connection.execute(HELD)
        connection.close()
        return

    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(f"{schema}; {version}")
        await _insert_postgres(connection, records)
        await connection.execute(HELD)
        await connection.close()

    asyncio.run(run())


def test_messages_from_before_there_was_a_search_are_found_afterwards(
    empty_storage_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the newest on, in small steps; one that was kept before the upgrade is counted once."""
    monkeypatch.setattr(message_index, "STEP", 10)
    tenant = new_id()

    def made(n: int) -> MessageRecord:
        report = Report("spam", "quarantine", ("url:x",), n, "", subject=f"GRÜSSE {n}")
        return MessageRecord(
            new_id(), n, n + 5, Envelope("A@X.example", ("B@y.example",), tenant=tenant), 3, "", report
        )

    old = [made(n) for n in range(35)]
    _unsearched(empty_storage_url, tmp_path / "g.db", old)

    async def run() -> None:
        store = open_store(empty_storage_url, tmp_path)
        new = made(100)
        await store.messages.record(new)
        assert [row.ggrid for row in (await store.messages.search(MessageFilter())).rows] == [new.ggrid]
        assert await store.messages.find(old[0].ggrid) == old[0]
        await store.messages.purge(-300_000)
        everything = [new.ggrid, *(record.ggrid for record in reversed(old))]
        for wanted in (
            MessageFilter(),
            MessageFilter(tenant=tenant, verdict="spam"),
            MessageFilter(sender="x.example", subject="grüße"),
            MessageFilter(recipient="b@y.example", tag="url:x"),
        ):
            assert [row.ggrid for row in (await store.messages.search(wanted)).rows] == everything, wanted
        for whose in (None, tenant):
            (bucket,) = await store.traffic.buckets(whose, 0, 300_000, 300_000)
            assert (bucket.messages, bucket.bytes, bucket.verdicts) == (36, 108, {"spam": 36})
        held = await store.quarantine.search(HeldFilter(subject="34", score=34))
        assert [mail.record.ggrid for mail in held.rows] == [old[34].ggrid]
        assert await store.messages.purge(6) == 1
        await store.close()

    asyncio.run(run())


def test_both_engines_have_the_same_schema_numbers() -> None:
    assert [number for number, _ in upgrading.schema_files()] == [
        number for number, _ in upgrading.schema_files("postgres")
    ]


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def test_a_newer_schema_is_refused(empty_postgres_url: str, tmp_path: Path) -> None:
    newest = upgrading.schema_files("postgres")[-1][0]
    open_store(empty_postgres_url, tmp_path)
    asyncio.run(_execute(empty_postgres_url, f"UPDATE meta SET value = '{newest + 1}' WHERE key <> 'normal_forms'"))
    with pytest.raises(StorageError, match=rf"newer Gatepost \(schema {newest + 1}, this one knows {newest}\)"):
        open_store(empty_postgres_url, tmp_path)
    asyncio.run(_execute(empty_postgres_url, f"UPDATE meta SET value = '{newest}' WHERE key <> 'normal_forms'"))
    open_store(empty_postgres_url, tmp_path)  # nothing was changed by the attempt


def test_tables_of_another_program_are_refused(empty_postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(_execute(empty_postgres_url, "CREATE TABLE bookmarks (x int)"))
    with pytest.raises(StorageError, match="another program"):
        open_store(empty_postgres_url, tmp_path)


def test_stores_that_open_at_the_same_time_apply_it_once(empty_postgres_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        opened = await asyncio.gather(*(asyncio.to_thread(open_store, empty_postgres_url, tmp_path) for _ in range(4)))
        assert [await store.tenants.all() for store in opened] == [()] * 4
        for store in opened:
            await store.close()

    asyncio.run(run())


def _make_sqlite(path: Path, number: int) -> None:
    """A storage as a build of that schema left it, with a tenant and a message in it."""
    connection = apsw.Connection(str(path))
    for each, statements in upgrading.schema_files():
        if each <= number:
            connection.execute(statements)
    connection.pragma("application_id", sqlite.APPLICATION_ID)
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(number),))
    connection.execute("INSERT INTO tenants (uid, name, created) VALUES (?, 'one', 5)", (TENANTS[0][0],))
    _insert_sqlite(connection, [RECORD])
    connection.close()


async def _make_postgres(url: str, number: int) -> None:
    connection = await asyncpg.connect(url)
    for each, statements in upgrading.schema_files("postgres"):
        if each <= number:
            await connection.execute(statements)
    await connection.execute(f"INSERT INTO meta VALUES ('schema', '{number}')")
    await connection.execute("INSERT INTO tenants (uid, name, created) VALUES ($1, 'one', 5)", TENANTS[0][0])
    await _insert_postgres(connection, [RECORD])
    await connection.close()


async def _read_upgraded(url: str, folder: Path) -> tuple[list[str], MessageRecord | None]:
    store = open_store(url, folder)
    try:
        return [tenant.name for tenant in await store.tenants.all()], await store.messages.find(RECORD.ggrid)
    finally:
        await store.close()


# The schemas that builds had which called themselves 0.1.0.
OLD_SCHEMAS = range(1, 28)


@pytest.mark.parametrize("number", OLD_SCHEMAS)
def test_every_schema_of_0_1_0_is_upgraded(number: int, tmp_path: Path) -> None:
    _make_sqlite(tmp_path / "old.db", number)
    assert asyncio.run(_read_upgraded("sqlite:old.db", tmp_path)) == (["one"], RECORD)
    connection = apsw.Connection(str(tmp_path / "old.db"))
    assert connection.execute("SELECT value FROM meta WHERE key = 'schema'").get == str(upgrading.schema_files()[-1][0])
    connection.close()


@pytest.mark.parametrize(
    "number", [number if number == 22 else pytest.param(number, marks=pytest.mark.variant) for number in OLD_SCHEMAS]
)
def test_every_schema_of_0_1_0_is_upgraded_on_postgresql(number: int, empty_postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(_make_postgres(empty_postgres_url, number))
    assert asyncio.run(_read_upgraded(empty_postgres_url, tmp_path)) == (["one"], RECORD)
    newest = upgrading.schema_files("postgres")[-1][0]
    assert asyncio.run(_fetch(empty_postgres_url, "SELECT value FROM meta WHERE key = 'schema'")) == str(newest)


async def _fetch(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()
