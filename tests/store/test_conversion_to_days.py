"""A PostgreSQL database without partitions is converted as it is, and a kill at any moment loses nothing."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.store.conftest import NewRecord

from gatepost.store import open_store, read_schema_state, upgrade_storage, upgrading
from gatepost.store.engine import DAY_MILLISECONDS, now
from gatepost.store.message_days import day_of
from gatepost.store.search_conditions import MessageFilter

WITHOUT_DAYS = 22
ROWS = 20_000
TABLES = ("messages", "message_search", "message_recipients", "deliveries")
# Results of the last twenty days, and one of a clock that was years ahead.
TIME = "CASE WHEN n = 7 THEN $1::bigint + 86400000 * 3000::bigint ELSE $1::bigint - 86400 * n END"
FILL = [
    f"""INSERT INTO messages (ggrid, created, completed, tenant, verdict, decision, score, tags, sender, recipients,
    subject, size, sha256, detail) SELECT lpad(n::text, 36, '0'), 1, {TIME}, NULL, 'spam', 'quarantine', 1, '[]',
    'a@b.example', '["c@d.example"]', 's', 9, '', repeat('x', 500)::bytea
    FROM generate_series(1, $2::bigint) AS n""",
    """INSERT INTO message_search (completed, id, tenant, verdict, decision, sender_domain, sender, subject, recipients,
    tags) SELECT completed, id, tenant, verdict, decision, 'b.example', sender, subject, '', '' FROM messages""",
    "INSERT INTO message_recipients SELECT 'c@d.example', completed, id FROM messages",
    "INSERT INTO deliveries SELECT completed, id, 1, 'q' || id, '', 250, '', '', 0 FROM messages",
]


async def _make(url: str, rows: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        for number, statements in upgrading.schema_files("postgres"):
            if number <= WITHOUT_DAYS:
                await connection.execute(statements)
        facts = {"schema": WITHOUT_DAYS, "usable_from": 21, "normal_forms": upgrading.NORMAL_FORMS}
        await connection.executemany("INSERT INTO meta VALUES ($1, $2)", [(key, str(facts[key])) for key in facts])
        await connection.execute(FILL[0], now(), rows) if rows else None
        for statement in FILL[1:]:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _look(url: str) -> tuple[str, list[int], bool]:
    """The schema, the rows of each table, and whether the records are partitioned."""
    connection = await asyncpg.connect(url)
    try:
        schema = await connection.fetchval("SELECT value FROM meta WHERE key = 'schema'")
        counts = [await connection.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES]
        kinds = await connection.fetch("SELECT relkind FROM pg_class WHERE relname = ANY($1)", list(TABLES))
        assert len({row[0] for row in kinds}) == 1, "all tables or none"
        return str(schema), counts, kinds[0][0] == b"p"
    finally:
        await connection.close()


async def _fetch(url: str, statement: str, *values: Any) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


def _start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    code = (
        "import sys; from pathlib import Path; from gatepost.store import upgrade_storage; print('ready', flush=True);"
        "upgrade_storage(sys.argv[1], Path(sys.argv[2]), lambda done, total: None)"
    )
    started = subprocess.Popen([sys.executable, "-c", code, url, str(folder)], stdout=subprocess.PIPE)
    assert started.stdout
    assert started.stdout.readline() == b"ready\n"
    return started


@pytest.mark.variant
def test_a_kill_at_any_moment(empty_postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(_make(empty_postgres_url, ROWS))
    begun = time.monotonic()
    pause, killed = 0.0, 0
    # Each run goes on a little longer than the one before, until one is done before it is killed.
    while True:
        running = _start(empty_postgres_url, tmp_path)
        try:
            code = running.wait(pause)
        except subprocess.TimeoutExpired:
            running.kill()
            code = running.wait()
            killed += 1
        # What the server had been told goes on until it notices; then nothing of it is left.
        if running.stdout:
            running.stdout.close()
        schema, counts, is_partitioned = asyncio.run(_look(empty_postgres_url))
        assert counts == [ROWS] * 4
        assert is_partitioned == (schema != str(WITHOUT_DAYS))
        if code == 0 or is_partitioned:
            break
        pause += max(0.04, pause / 4)
        assert time.monotonic() - begun < 500
    assert killed >= 3
    upgrade_storage(empty_postgres_url, tmp_path, lambda _done, _total: None)
    schema, counts, is_partitioned = asyncio.run(_look(empty_postgres_url))
    assert (int(schema), counts, is_partitioned) == (upgrading.schema_files("postgres")[-1][0], [ROWS] * 4, True)


def test_what_was_stored_stays_as_it_is(empty_postgres_url: str, tmp_path: Path, new_record: NewRecord) -> None:
    asyncio.run(_make(empty_postgres_url, ROWS))
    state = read_schema_state(empty_postgres_url, tmp_path)
    assert state.needs_upgrade
    assert not state.is_additive
    told: list[tuple[int, int]] = []
    upgrade_storage(empty_postgres_url, tmp_path, lambda done, total: told.append((done, total)))
    assert len(told) == 4
    assert told == sorted(told)
    assert 0 < told[-1][0] <= told[-1][1]

    async def run() -> None:
        store = open_store(empty_postgres_url, tmp_path)
        try:
            newest = await store.messages.search(MessageFilter(), limit=3)
            assert newest.rows[0].ggrid == f"{7:036}", "the clock that was ahead"
            assert (await store.messages.search(MessageFilter(ggrid=f"{7:036}"))).rows == ()
            assert (await store.messages.lines([f"{9:036}"]))[0].subject == "s"
            assert (await store.messages.search(MessageFilter(recipient="c@d.example"))).rows
            record = new_record(completed=now())
            await store.messages.record(record)
            newest_row = "SELECT id, tableoid::regclass::text FROM messages ORDER BY id DESC LIMIT 1"
            # Ids go on; the first partition has all of today.
            assert tuple((await _fetch(empty_postgres_url, newest_row))[0]) == (ROWS + 1, "messages_before")
            moved = "SELECT tableoid::regclass::text FROM messages WHERE ggrid = $1"
            assert (await _fetch(empty_postgres_url, moved, f"{7:036}"))[0][0] == f"messages_d{day_of(now()) + 3000}"
            # Until its last day is past, single results go, exactly as old as they are.
            before = now() - 10 * DAY_MILLISECONDS
            old = await _fetch(empty_postgres_url, "SELECT count(*) FROM messages WHERE completed < $1", before)
            assert await store.messages.purge(before) == old[0][0] > 0
            assert await store.messages.purge(now() + 3 * DAY_MILLISECONDS) == ROWS + 1 - old[0][0] - 1
        finally:
            await store.close()

    asyncio.run(run())
    left = asyncio.run(_fetch(empty_postgres_url, "SELECT relname FROM pg_class WHERE relname LIKE '%\\_before%'"))
    assert left == []


def test_an_empty_database_has_its_first_day_at_once(empty_postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(_make(empty_postgres_url, 0))
    upgrade_storage(empty_postgres_url, tmp_path, lambda _done, _total: None)
    found = asyncio.run(_fetch(empty_postgres_url, "SELECT relname FROM pg_class WHERE relname LIKE 'messages\\_d%'"))
    assert f"messages_d{day_of(now())}" in {row[0] for row in found}
