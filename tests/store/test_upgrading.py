"""A storage of schema 31, with data in it, becomes the same as a new one when it is opened, on both engines."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from tests.store.old_schema import engine_of, make_old_storage, read_rows, run_statements

from gatepost import SCHEMA
from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.store import message_index, open_store, upgrading
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.engine import Read
from gatepost.store.errors import StorageError
from gatepost.store.held_search import HeldFilter
from gatepost.store.jobs import Job
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sql import Sql

pytestmark = pytest.mark.usefixtures("own_schema")

# Everything that a SQLite file says of its tables; a primary key without a name of its own has a different one in each.
_SQLITE_CATALOGUE = """SELECT t.name, t.wr, t.strict, c.name, c.type, c."notnull", c.dflt_value, c.pk
FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%'
ORDER BY t.name, c.cid"""
_SQLITE_INDEXES = """SELECT t.name, i.name, i."unique", i.origin, i.partial, x.seqno, x.name, x."desc", x.coll, x.key,
(SELECT sql FROM sqlite_schema WHERE name = i.name AND type = 'index')
FROM pragma_table_list AS t, pragma_index_list(t.name) AS i, pragma_index_xinfo(i.name) AS x
WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, i.name, x.seqno"""
_SQLITE_REST = "SELECT name, sql LIKE '%AUTOINCREMENT%', type = 'trigger' AND sql FROM sqlite_schema ORDER BY name"
# Partitions are those of the days on which a database was made and used, and of all days before.
_POSTGRES_CATALOGUE = (
    """SELECT t.relname, t.relkind::text, pg_get_partkeydef(t.oid), a.attname, format_type(a.atttypid, a.atttypmod),
    a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attstorage::text,
    a.attcollation::regcollation::text
    FROM pg_class AS t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = t.oid AND d.adnum = a.attnum
    WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
    ORDER BY t.relname, a.attnum""",
    """SELECT i.relname, pg_get_indexdef(i.oid) FROM pg_class AS i JOIN pg_index AS x ON x.indexrelid = i.oid
    JOIN pg_class AS t ON t.oid = x.indrelid WHERE i.relnamespace = 'public'::regnamespace AND NOT t.relispartition
    ORDER BY i.relname""",
    r"""SELECT leaf.relname, regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \w+ ON', 'INDEX ON')
    FROM pg_class AS leaf JOIN pg_index ON indrelid = leaf.oid
    WHERE leaf.relispartition AND leaf.relname LIKE '%\_before' ORDER BY 1, 2""",
    """SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(c.oid) FROM pg_constraint AS c
    JOIN pg_class AS t ON t.oid = conrelid AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace
    WHERE contype <> 'n' ORDER BY 1, 2""",
    """SELECT tgrelid::regclass::text, pg_get_triggerdef(g.oid) FROM pg_trigger AS g WHERE NOT tgisinternal
    ORDER BY 1, 2""",
    r"""SELECT proname, regexp_replace(regexp_replace(prosrc, '--[^\n]*', '', 'g'), '\s+', ' ', 'g'),
    pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace ORDER BY proname""",
    "SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace ORDER BY relname",
)


def read_catalogue(url: str, folder: Path) -> list[list[tuple[Any, ...]]]:
    """All that a storage says of its own tables, columns, indexes, triggers and functions."""
    if engine_of(url) == "sqlite":
        with closing(apsw.Connection(str(folder / url.removeprefix("sqlite:")))) as file:
            return [list(file.execute(sql)) for sql in (_SQLITE_CATALOGUE, _SQLITE_INDEXES, _SQLITE_REST)]
    return [[tuple(row) for row in _fetch(url, sql)] for sql in _POSTGRES_CATALOGUE]


def _fetch(url: str, statement: str) -> list[Any]:
    async def run() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    return asyncio.run(run())


def _use(url: str, folder: Path, scenario: Callable[[Any], Any]) -> None:
    async def run() -> None:
        store = open_store(url, folder)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


def _upgrade(url: str, folder: Path) -> list[list[tuple[Any, ...]]]:
    asyncio.run(open_store(url, folder).close())
    return read_catalogue(url, folder)


def _make_new(url: str, folder: Path) -> list[list[tuple[Any, ...]]]:
    """The catalogue of a new storage of the same engine; what a database had is gone."""
    if engine_of(url) == "sqlite":
        return _upgrade("sqlite:new.db", folder)
    run_statements(url, folder, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return _upgrade(url, folder)


def test_a_storage_of_schema_31_becomes_the_same_as_a_new_one(empty_storage_url: str, tmp_path: Path) -> None:
    make_old_storage(empty_storage_url, tmp_path, filled=True)
    upgraded = _upgrade(empty_storage_url, tmp_path)
    for old_part, new_part in zip(upgraded, _make_new(empty_storage_url, tmp_path), strict=True):
        assert old_part == new_part
        assert new_part


def test_data_of_schema_31_are_read(empty_storage_url: str, tmp_path: Path) -> None:
    make_old_storage(empty_storage_url, tmp_path, filled=True)
    rows = {
        table: [dict(zip(columns, row, strict=True)) for row in rows] for table, (columns, *rows) in read_rows().items()
    }

    async def scenario(store: Any) -> None:
        (tenant,) = await store.tenants.all()
        assert (tenant.name, tenant.domains) == ("t", ("t.example",))
        (entry,) = await store.lists.find(tenant.uid, "mine", ["a"])
        assert (entry.comment, entry.hits) == ("ä", 3)
        assert len(await store.list_lookup.find(None, (("network", ("192.0.2.0/24",)),))) == 1
        assert (await store.list_lookup.unkeyed(None)).entries
        found = await store.messages.search(MessageFilter())
        assert {row.ggrid for row in found.rows} == {row["ggrid"] for row in rows["messages"]}
        record = await store.messages.find(found.rows[-1].ggrid)
        assert record
        assert (record.report.verdict, record.envelope.sender) == ("spam", "a@sender.example")
        held = await store.quarantine.search(HeldFilter())
        kept = [row["ggrid"] for row in rows["held"] if row["gone"] == 0]
        assert sorted(mail.record.ggrid for mail in held.rows) == sorted(kept)
        first = rows["held_bytes"][0]
        if engine_of(empty_storage_url) == "sqlite":
            assert await store.quarantine.content(first["ggrid"]) == first["content"]
        assert {user.name for user in await store.users.all()} == {row["name"] for row in rows["users"]}
        assert [(key.name, key.tenant) for key in await store.api_keys.all()] == [("k", tenant.uid)]
        assert len((await store.audit.page(AuditFilter(), limit=100)).rows) == len(rows["audit"])
        assert await store.sent_reports.rows(1, "x") == (("{}", 1),)
        (sent,) = await store.sent_reports.listed(0)
        assert (sent.domain, sent.state, sent.destinations) == ("example.org", "failed", "ann@example.org")
        # When jobs are due, what came of them and how far digests were planned goes on; leases do not.
        assert await store.jobs.find("feed", "x") == Job("feed", "x", next_run=1)
        assert await store.jobs.find("learning", "x") == Job("learning", "x", next_run=1, finished=1, outcome="x")
        (run,) = rows["digest_runs"]
        assert await store.jobs.find("digest") == Job("digest", "", next_run=run["next_run"])
        read = lambda: (yield Read(Sql("SELECT planned_until, after_kept, after_ggrid FROM digest_runs")))  # noqa: E731
        (planned,) = await store._engine.query(read)
        assert tuple(planned) == (run["planned_until"], run["after_kept"], run["after_ggrid"])
        # New rows have numbers that are free.
        assert await store.lists.add(tenant.uid, BY_NAME["blocked-urls"], [NewEntry("b", "b")], CLI) == 1
        await store.messages.record(RECORD)
        assert await store.messages.find(RECORD.ggrid) == RECORD

    async def look_again(store: Any) -> None:
        assert await store.messages.find(RECORD.ggrid) == RECORD

    _use(empty_storage_url, tmp_path, scenario)
    _use(empty_storage_url, tmp_path, look_again)


RECORD = MessageRecord(new_id(), 1, 2, Envelope("a@b.example"), 3, "", Report("clean", "deliver", (), 0, "nothing"))


def test_an_upgrade_that_fails_changes_nothing(
    empty_storage_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_storage(empty_storage_url, tmp_path, filled=True)
    before = read_catalogue(empty_storage_url, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(upgrading, "FROM_31", (*upgrading.FROM_31, "DROP TABLE audit", "DROP TABLE not_there"))
        with pytest.raises((apsw.SQLError, asyncpg.UndefinedTableError)):
            open_store(empty_storage_url, tmp_path)
    assert read_catalogue(empty_storage_url, tmp_path) == before
    asyncio.run(open_store(empty_storage_url, tmp_path).close())


def test_a_table_that_is_new_is_made_with_its_indexes(
    empty_storage_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_storage(empty_storage_url, tmp_path)
    run_statements(empty_storage_url, tmp_path, "DROP TABLE entries", "DROP TABLE users")
    monkeypatch.setattr(upgrading, "NEW_TABLES", (*upgrading.NEW_TABLES, "entries", "users"))
    upgraded = _upgrade(empty_storage_url, tmp_path)
    assert upgraded == _make_new(empty_storage_url, tmp_path)


@pytest.mark.parametrize("schema", [1, 30])
def test_an_older_schema_has_to_pass_through_0_1_0(schema: int, empty_storage_url: str, tmp_path: Path) -> None:
    make_old_storage(empty_storage_url, tmp_path, schema)
    before = read_catalogue(empty_storage_url, tmp_path)
    words = rf"older Gatepost \(schema {schema}, this one upgrades 31 and later\); upgrade to version 0\.1\.0 first"
    with pytest.raises(StorageError, match=words):
        open_store(empty_storage_url, tmp_path)
    assert read_catalogue(empty_storage_url, tmp_path) == before


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"database": "west 1"}, r"is the database west of several, and not that of storage\.url"),
        (
            {"database": "first 0", "database.east": "2", "database.west": "1"},
            r"is the first of several databases \(also east, west\)",
        ),
        (
            {"database": "first 0", "move.0197a2b4-6f3e-7c1d-9a58-2b6c4d8e0f13": "{}"},
            "is the first of several databases",
        ),
        ({"database": "first 0"}, ""),
    ],
)
def test_one_of_several_databases_is_refused(
    notes: dict[str, str], words: str, empty_storage_url: str, tmp_path: Path
) -> None:
    make_old_storage(empty_storage_url, tmp_path)
    rows = ", ".join(f"('{key}', '{value}')" for key, value in notes.items())
    run_statements(empty_storage_url, tmp_path, f"INSERT INTO meta VALUES {rows}")
    before = read_catalogue(empty_storage_url, tmp_path)
    if not words:
        asyncio.run(open_store(empty_storage_url, tmp_path).close())
        return
    with pytest.raises(StorageError, match=rf"{words}; .*`gatepost tenant move UID first` of version 0\.1\.0"):
        open_store(empty_storage_url, tmp_path)
    assert read_catalogue(empty_storage_url, tmp_path) == before
    run_statements(empty_storage_url, tmp_path, "DELETE FROM meta WHERE key LIKE 'database%' OR key LIKE 'move.%'")
    asyncio.run(open_store(empty_storage_url, tmp_path).close())


def test_ids_of_messages_from_another_database_go_on(empty_storage_url: str, tmp_path: Path) -> None:
    """Version 0.1.0 gave messages of another database numbers from 2^48 on, and they kept them when they came back."""
    make_old_storage(empty_storage_url, tmp_path, filled=True)
    tables = ("messages", "message_search", "message_recipients", "deliveries")
    moved = [f"UPDATE {table} SET id = id + {1 << 48}" for table in tables]
    run_statements(empty_storage_url, tmp_path, *moved)

    async def scenario() -> None:
        store = open_store(empty_storage_url, tmp_path)
        try:
            old = (await store.messages.search(MessageFilter())).rows
            assert old
            report = Report("spam", "quarantine", (), 730, "it adds up")
            record = MessageRecord(
                new_id(), 1, old[0].completed, Envelope("a@x.example", ("b@y.example",)), 1, "", report
            )
            await store.messages.record(record)
            found: list[str] = []
            cursor: str | None = None
            while not found or cursor:
                page = await store.messages.search(MessageFilter(), cursor, 1)
                found += [row.ggrid for row in page.rows]
                cursor = page.next
            assert sorted(found) == sorted([record.ggrid, *(row.ggrid for row in old)])
            assert all([await store.messages.find(ggrid) for ggrid in found])
        finally:
            await store.close()

    asyncio.run(scenario())


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

    async def fill(store: Any) -> None:
        for record in old:
            await store.messages.record(record)

    _use(empty_storage_url, tmp_path, fill)
    forget = [f"DELETE FROM {table}" for table in ("message_search", "message_recipients", "traffic")]
    run_statements(empty_storage_url, tmp_path, *forget, "INSERT INTO unsearched SELECT max(id) FROM messages")

    async def scenario(store: Any) -> None:
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
        assert await store.messages.purge(6) == 1

    _use(empty_storage_url, tmp_path, scenario)


def test_a_newer_schema_is_refused(empty_postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(empty_postgres_url, tmp_path).close())
    change = "UPDATE meta SET value = '{}' WHERE key <> 'normal_forms'"
    run_statements(empty_postgres_url, tmp_path, change.format(SCHEMA + 1))
    with pytest.raises(StorageError, match=rf"newer Gatepost \(schema {SCHEMA + 1}, this one knows {SCHEMA}\)"):
        open_store(empty_postgres_url, tmp_path)
    run_statements(empty_postgres_url, tmp_path, change.format(SCHEMA))
    asyncio.run(open_store(empty_postgres_url, tmp_path).close())  # nothing was changed by the attempt


def test_tables_of_another_program_are_refused(empty_postgres_url: str, tmp_path: Path) -> None:
    run_statements(empty_postgres_url, tmp_path, "CREATE TABLE bookmarks (x int)")
    with pytest.raises(StorageError, match="another program"):
        open_store(empty_postgres_url, tmp_path)


def test_stores_that_open_at_the_same_time_apply_it_once(empty_postgres_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        opened = await asyncio.gather(*(asyncio.to_thread(open_store, empty_postgres_url, tmp_path) for _ in range(4)))
        assert [await store.tenants.all() for store in opened] == [()] * 4
        for store in opened:
            await store.close()

    asyncio.run(run())
