"""On PostgreSQL, results lie in partitions by day: made when they are needed, left out where a time says so, dropped
whole."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.store import message_records, messages, open_store, paging, postgres, postgres_days
from gatepost.store.engine import DAY_MILLISECONDS, Read, now
from gatepost.store.message_days import day_of
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sql import Sql
from gatepost.store.store import Store

TODAY = day_of(now())
LEAVES = """SELECT leaf.relname FROM pg_inherits JOIN pg_class AS leaf ON leaf.oid = inhrelid
JOIN pg_class AS parent ON parent.oid = inhparent WHERE parent.relname = 'messages'"""


@pytest.fixture
def storage_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def connection(loop_runner: asyncio.Runner, store: Store, storage_url: str) -> Iterator[Any]:
    """A connection of the test's own beside that of the store."""
    connection = loop_runner.run(asyncpg.connect(storage_url, server_settings=postgres._PLANNING))
    yield connection
    loop_runner.run(connection.close())


def at(record: MessageRecord, completed: int, tenant: str | None = None) -> MessageRecord:
    """A record with an id and times of that moment."""
    ggrid = new_id((completed - 1_000) * 1_000_000)
    envelope = msgspec.structs.replace(record.envelope, tenant=tenant)
    return msgspec.structs.replace(
        record, ggrid=ggrid, created=completed - 1_000, completed=completed, envelope=envelope
    )


def noon(day: int) -> int:
    return day * DAY_MILLISECONDS + DAY_MILLISECONDS // 2


async def leaves(connection: Any) -> set[str]:
    return {row[0] for row in await connection.fetch(LEAVES)}


async def counts(connection: Any) -> list[int]:
    return [await connection.fetchval(f"SELECT count(*) FROM {table}") for table in postgres_days.TABLES]


async def test_days_are_made_ahead_and_when_a_message_needs_one(
    store: Store, connection: Any, new_record: NewRecord
) -> None:
    ahead = {f"messages_d{day}" for day in range(TODAY, TODAY + 8)}
    assert await leaves(connection) == {"messages_before", *ahead}
    # Far ahead, long ago, and at the very end of what a column holds.
    for time in (noon(TODAY), noon(TODAY + 400), noon(TODAY - 400), 5):
        record = at(new_record(), max(time, 1_000))
        assert await store.messages.record(record) == record
        assert await store.messages.find(record.ggrid) == record
    assert await leaves(connection) == {"messages_before", *ahead, f"messages_d{TODAY + 400}"}
    assert (await store.messages.count(MessageFilter())).messages == 4


def test_many_processes_need_the_same_day(postgres_url: str, tmp_path: Path, new_record: NewRecord) -> None:
    async def scenario() -> None:
        stores = [open_store(postgres_url, tmp_path) for _ in range(6)]
        records = [at(new_record(), noon(TODAY + 50) + number) for number in range(60)]
        try:
            stored = await asyncio.gather(
                *(stores[number % 6].messages.record(record) for number, record in enumerate(records))
            )
            assert stored == records
            assert (await stores[0].messages.count(MessageFilter(since=noon(TODAY + 50)))).messages == 60
        finally:
            for store in stores:
                await store.close()

    asyncio.run(scenario())


async def test_a_day_that_nobody_keeps_is_dropped(store: Store, connection: Any, new_record: NewRecord) -> None:
    days = range(TODAY + 1, TODAY + 5)
    records = {day: [at(new_record(), noon(day) + number) for number in range(3)] for day in days}
    for record in (each for some in records.values() for each in some):
        await store.messages.record(record)
        await store.messages.record_deliveries([Delivery(record.ggrid, 1, "mx", 250, "ok", f"q{record.completed}")])
    # Half of the third day is past: its results stay, and so does their partition.
    assert await store.messages.purge(noon(TODAY + 3) + 1) == 6
    there = await leaves(connection)
    assert not there & {"messages_before", *(f"messages_d{TODAY + past}" for past in range(3))}
    assert f"messages_d{TODAY + 3}" in there
    assert await counts(connection) == [6, 12, 6, 6]
    assert await store.messages.find(records[TODAY + 1][0].ggrid) is None
    assert await store.messages.find(records[TODAY + 3][0].ggrid) == records[TODAY + 3][0]
    late = at(new_record(), noon(TODAY + 1))
    assert await store.messages.record(late) == late, "a dropped day is made anew"
    assert await store.messages.purge(noon(TODAY + 3) + 1) == 1


async def test_tenants_keep_shorter_and_longer(store: Store, connection: Any, new_record: NewRecord) -> None:
    long, short = new_id(), new_id()
    days = range(TODAY + 1, TODAY + 7)
    for day in days:
        for tenant in (None, long, short):
            await store.messages.record(at(new_record(), noon(day), tenant))
    limits = {long: noon(TODAY + 2), short: noon(TODAY + 6) + 1}
    # All of the first day; all but the tenant's of the two after it; then, the short one's.
    assert await store.messages.purge((TODAY + 4) * DAY_MILLISECONDS, limits) == 3 + 2 + 2 + 3
    found = (await store.messages.search(MessageFilter())).rows
    kept = sorted((day_of(row.completed) - TODAY, row.tenant == long, row.tenant is None) for row in found)
    assert kept == [
        *((2, True, False), (3, True, False)),
        *((4, False, True), (4, True, False)),
        *((5, False, True), (5, True, False), (6, False, True), (6, True, False)),
    ]
    there = await leaves(connection)
    assert {f"messages_d{TODAY + day}" in there for day in range(2, 7)} == {True}
    assert f"messages_d{TODAY + 1}" not in there
    # Once the tenant keeps it no longer, the partition goes with what is left in it.
    assert await store.messages.purge((TODAY + 4) * DAY_MILLISECONDS, {**limits, long: noon(TODAY + 3) + 1}) == 2
    assert f"messages_d{TODAY + 2}" not in await leaves(connection)
    assert (await counts(connection))[2:] == [6, 6]


@pytest.mark.parametrize("step", range(1, 8))
async def test_a_purge_that_is_killed_between_goes_on(
    store: Store, connection: Any, new_record: NewRecord, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = at(new_record(), noon(TODAY + 1))
    await store.messages.record(record)
    done = 0
    execute = postgres_days._execute

    async def ended(connection: Any, statement: str) -> None:
        nonlocal done
        done += 1
        if done == step:
            raise RuntimeError("killed")
        await execute(connection, statement)

    monkeypatch.setattr(postgres_days, "_execute", ended)
    with pytest.raises(RuntimeError, match="killed"):
        await store.messages.purge(noon(TODAY + 2))
    monkeypatch.setattr(postgres_days, "_execute", execute)
    await store.messages.purge(noon(TODAY + 2))
    assert await counts(connection) == [0, 0, 0, 0]
    left = "SELECT count(*) FROM pg_class WHERE relname ~ '_d[0-9]+$' AND relname LIKE ANY($1)"
    assert await connection.fetchval(left, [f"%_d{TODAY}", f"%_d{TODAY + 1}"]) == 0


async def test_a_reader_keeps_neither_mail_nor_a_later_purge_from_their_work(
    store: Store, connection: Any, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who reads results for long: the partition is out of the way of new statements, and goes afterwards."""
    monkeypatch.setattr(postgres_days, "DROP_SECONDS", 0.5)

    for day in (TODAY + 1, TODAY + 3):
        await store.messages.record(at(new_record(), noon(day)))
    async with connection.transaction():
        assert await connection.fetchval("SELECT count(*) FROM messages") == 2
        purging = asyncio.create_task(store.messages.purge(noon(TODAY + 2)))
        for number in range(20):
            record = at(new_record(), noon(TODAY + 3) + number)
            assert await asyncio.wait_for(store.messages.record(record), 60) == record
            assert await asyncio.wait_for(store.messages.find(record.ggrid), 60) == record
        await purging
    await store.messages.purge(noon(TODAY + 2))
    assert f"messages_d{TODAY + 1}" not in await leaves(connection)
    assert (await counts(connection))[2:] == [21, 21]


async def test_two_analyses_of_one_id_over_midnight(store: Store, connection: Any, new_record: NewRecord) -> None:
    midnight = (TODAY + 1) * DAY_MILLISECONDS
    first = at(new_record(subject="first"), midnight - 1)
    later = msgspec.structs.replace(first, completed=midnight + 1, report=new_record(subject="later").report)
    other = at(new_record(), midnight + 5)
    assert await store.messages.record(first) == first
    assert await asyncio.gather(*map(store.messages.record, (later, other))) == [first, other]
    assert await store.messages.record(later) == first
    assert (await counts(connection))[2:] == [2, 2]


# Statements for messages whose days are known, with parameters that name one day, and how many partitions each table
# may be read of: the day, and for an id the one after it.
ID, UIDS = new_id(noon(TODAY) * 1_000_000), [1, 2, 3]
DAY = (noon(TODAY), noon(TODAY) + 5)
SPAN = (noon(TODAY) - 3_600_000, noon(TODAY) + DAY_MILLISECONDS)
KNOWN = [
    *((message_records._SELECT, (ID, *SPAN), 2), (message_records._SELECT_LINES, ([ID], *SPAN), 2)),
    *((message_records._SELECT_KEYS, ([ID], *SPAN), 2), (message_records._DELETE_BY_ID, (UIDS, *DAY), 1)),
    *((messages._SELECT_HEADER, (ID, *SPAN), 2), (messages._SELECT_IDS, (UIDS, *DAY), 1)),
    *((messages._SELECT_DETAILS, (UIDS, *DAY), 1), (messages._SELECT_PACKED, ([ID], *SPAN), 2)),
    *((messages._SELECT_GGRID, (ID, *SPAN), 2), (messages._SELECT_GGRID_OF, (1, noon(TODAY)), 1)),
    *((messages._DELIVERED_AS, (UIDS, *DAY, "q"), 1), (messages._SELECT_ATTEMPTS, (UIDS, *DAY), 1)),
    (message_records._SELECT_DELIVERIES, (noon(TODAY), 1, 5), 1),
]


@pytest.mark.parametrize(("statement", "parameters", "most"), KNOWN)
async def test_a_statement_reads_the_days_that_are_known(
    connection: Any, statement: Sql, parameters: tuple[Any, ...], most: int
) -> None:
    for table, read in (await read_partitions(connection, statement, parameters)).items():
        assert 0 < len(read) <= most, (table, read)


@pytest.mark.parametrize(
    "wanted",
    [
        MessageFilter(),
        MessageFilter(tenant="t"),
        MessageFilter(verdict="spam"),
        MessageFilter(sender="a@b.example"),
        MessageFilter(recipient="a@b.example"),
        MessageFilter(recipient="a@b.example", verdict="spam"),
        MessageFilter(next_hop_id="4XyZ", verdict="spam"),
        MessageFilter(tenant="t", subject="words"),
    ],
)
async def test_a_search_of_a_day_reads_that_day(connection: Any, wanted: MessageFilter) -> None:
    bounded = msgspec.structs.replace(wanted, since=noon(TODAY), until=noon(TODAY) + 1_000)
    for plan in messages.plan_search(bounded, None, None):
        step = next(paging.find_page(plan, 10))
        assert isinstance(step, Read)
        read = await read_partitions(connection, step.statement, step.parameters)
        assert {leaf for leaves in read.values() for leaf in leaves} <= {f"d{TODAY}"}


async def read_partitions(connection: Any, statement: Sql, parameters: tuple[Any, ...]) -> dict[str, set[str]]:
    """The partitions that the generic plan of a statement reads, by table."""
    values = ", ".join(map(_literal, parameters))
    await connection.execute(f"PREPARE looked AS {statement.postgres}")
    try:
        rows = await connection.fetch(f"EXPLAIN EXECUTE looked ({values})")
    finally:
        await connection.execute("DEALLOCATE looked")
    read: dict[str, set[str]] = {}
    # Before PostgreSQL 18, a change names all partitions that it could change, whichever it reads.
    for table, leaf in re.findall(r"Scan.* on (\w+)_(before|d\d+)", "\n".join(row[0] for row in rows)):
        read.setdefault(table, set()).add(leaf)
    assert read, rows
    assert "Seq Scan" not in str(rows)
    return read


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    return str(value) if isinstance(value, int) else "'\\x'" if isinstance(value, bytes) else f"'{value}'"
