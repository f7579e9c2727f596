"""Searches by the language over a million messages on record and a hundred thousand held ones, on SQLite: a page of
rows, and the chart with the most frequent values above them.

The messages are those of `bench/web.py`: 50,000 are stored, and multiplied within the database with other times and
ids; 10,000 held ones in the same way. Each call is made after one that is not counted. CPU is that of the process with
all its threads, which is what the clock would say on a quiet machine, since one thread works at a time.
`BENCH_SEARCHES_MESSAGES` sets how many there are, and `BENCH_SEARCHES_DATA` names a folder that is kept for the next
run.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from statistics import median

import apsw

from bench import web
from gatepost.store import message_records, open_store, sqlite
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import Holding
from gatepost.store.record_packing import pack
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import SearchFault, SearchPlace, parse_search
from gatepost.store.store import Store

MESSAGES = int(os.environ.get("BENCH_SEARCHES_MESSAGES", "1000000"))
SEED, HELD_SEED, HELD_COPIES = 50_000, 10_000, 10
ROUNDS = 5
SEARCHES = (
    "",
    "verdict:spam tag:text:urgency",
    "to:user77@example.com",
    "host:news.example",
    "host:never.example",
    "from:cheap-ads.example",
    "payslip",
    "never seen",
    "(verdict:phishing OR score>8) NOT subject:payslip",
    "subject:never OR host:never.example OR from:nobody",
    "after:7d verdict:malware",
    "url:news.example/a",
    "ip:192.0.2.25 NOT verdict:clean",
)
_ID = (
    "lower(hex(randomblob(4))||'-'||hex(randomblob(2))||'-7'||substr(hex(randomblob(2)), 2)||'-8'"
    "||substr(hex(randomblob(2)), 2)||'-'||hex(randomblob(6)))"
)


def run() -> str:
    """The table as markdown."""
    kept = os.environ.get("BENCH_SEARCHES_DATA")
    with tempfile.TemporaryDirectory() as name:
        data = Path(kept or name)
        if not (data / "gatepost.db").exists():
            _fill(data)
        return asyncio.run(_measure(data))


def _fill(data: Path) -> None:
    asyncio.run(open_store("sqlite:gatepost.db", data).close())
    connection = sqlite.open_file(data / "gatepost.db")
    made = web.records(SEED)
    while some := list(islice(made, 5_000)):
        connection.execute("BEGIN IMMEDIATE")
        message_records.insert_all(connection, some)
        connection.execute("COMMIT")
    # Each copy lies one millisecond behind the one before, so that all lie in the same thirty days.
    for copy in range(1, MESSAGES // SEED):
        _copy(connection, "messages", f"id + {copy * SEED}", copy)
        _copy(connection, "message_search", f"id + {copy * SEED}", copy)
        _copy(connection, "message_recipients", f"id + {copy * SEED}", copy)
    held = web.records(HELD_SEED)
    while some := list(islice(held, 5_000)):
        rows = [message_records.prepare_held(each, pack(each.detail), Holding()) for each in some]
        connection.execute("BEGIN IMMEDIATE")
        message_records.insert_held_in_sqlite(connection, rows)
        connection.execute("COMMIT")
    connection.execute(f"CREATE TEMP TABLE made AS SELECT ggrid AS old, {_ID} AS new FROM held LIMIT 0")
    for copy in range(1, HELD_COPIES):
        connection.execute("DELETE FROM made")
        connection.execute(f"INSERT INTO made SELECT ggrid, {_ID} FROM held WHERE rowid <= {HELD_SEED}")
        for table in ("held", "held_search", "held_recipients"):
            columns = _columns(connection, table)
            moved = {"ggrid": "made.new", "kept": f"was.kept + {copy}"}
            chosen = ", ".join(moved.get(name, f"was.{name}") for name in columns)
            source = f"made JOIN {table} AS was ON was.ggrid = made.old"
            connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {source}")
    connection.close()


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _copy(connection: apsw.Connection, table: str, moved_id: str, copy: int) -> None:
    columns = _columns(connection, table)
    moved = {"id": moved_id, "ggrid": _ID, "created": f"created + {copy}", "completed": f"completed + {copy}"}
    chosen = ", ".join(moved.get(name, name) for name in columns)
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table} WHERE id <= {SEED}")


async def _measure(data: Path) -> str:
    store = open_store("sqlite:gatepost.db", data)
    lines = [
        "| Search | messages: page | and values | quarantine: page | and values |",
        "|---|---:|---:|---:|---:|",
    ]
    place = SearchPlace(int(time.time() * 1000))
    worst = 0.0
    for text in SEARCHES:
        query = parse_search(text, place)
        assert not isinstance(query, SearchFault)
        on_record, held = MessageFilter(query=query), HeldFilter(query=query)
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda wanted=on_record: store.messages.search(wanted),  # type: ignore[misc]
            lambda wanted=on_record: store.messages.explore(wanted),  # type: ignore[misc]
            lambda wanted=held: store.quarantine.search(wanted, None, 50),  # type: ignore[misc]
            lambda wanted=held: store.quarantine.explore(wanted),  # type: ignore[misc]
        )
        spent = [await _time(call) for call in calls]
        # Where a page has no rows, values are not counted.
        found = bool((await store.messages.search(on_record, None, 1)).rows)
        has_held = bool((await store.quarantine.search(held, None, 1)).rows)
        worst = max(worst, spent[0] + spent[1] * found, spent[2] + spent[3] * has_held)
        lines.append(f"| `{text or '(all)'}` | " + " | ".join(f"{each:.0f}" for each in spent) + " |")
    lines += [
        "",
        f"CPU in ms, median of {ROUNDS}. The costliest list with its values takes {worst:.0f} ms.",
        "",
        await _count(store),
    ]
    await store.close()
    return "\n".join(lines)


async def _count(store: Store) -> str:
    (row,) = (await store.messages.search(MessageFilter(), None, 1)).rows
    seed = await store.messages.find(row.ggrid)
    assert seed
    campaign = await store.messages.campaign(seed)
    spent = await _time(lambda: store.messages.campaign(seed))
    totals = await store.quarantine.totals()
    said = f"The campaign page of a message with {len(campaign.members)} copies near it takes {spent:.0f} ms."
    return (
        f"{said} {MESSAGES:,} messages, {totals[0]:,} held. Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    )


async def _time(call: Callable[[], Awaitable[object]]) -> float:
    spent = []
    for _ in range(ROUNDS + 1):
        before = time.process_time()
        await call()
        spent.append((time.process_time() - before) * 1000)
    return median(spent[1:])
