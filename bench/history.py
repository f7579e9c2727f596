"""Ten million messages on PostgreSQL: searches, charts, new mail and retention; and what a record of real mail takes.

100,000 results like those of `bench/web.py` are stored, copied into a PostgreSQL server of its own, and multiplied
there with other times and ids, so that all lie in thirty days. Then the server is restarted with the settings of a
usual one (fsync, WAL for replicas), and what the service does is timed through its own store: the clock of one call
after the other, and the CPU time of client and server. Retention drops the oldest days as the service does every
hour. `BENCH_HISTORY_MESSAGES` sets how many there are.

Sizes are those of both engines after results of real mail with one recipient each were stored, with and without header
sections (`history.headers`).
"""

import asyncio
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec

from bench import web
from bench.cluster import Cluster
from bench.corpus import NotPresentError, mail
from bench.equal import judge
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store import message_records, open_store, sqlite
from gatepost.store.copy import copy
from gatepost.store.engine import DAY_MILLISECONDS
from gatepost.store.message_days import day_of
from gatepost.store.message_index import COLUMNS as SEARCHED
from gatepost.store.message_records import MessageRecord
from gatepost.store.postgres import upgrade_schema
from gatepost.store.postgres_days import TABLES
from gatepost.store.record_packing import HEAD_BYTES, cut_header
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store
from gatepost.store.traffic import BUCKET_MILLISECONDS
from gatepost.store.traffic import COLUMNS as COUNTED

MESSAGES = int(os.environ.get("BENCH_HISTORY_MESSAGES", "10000000"))
SEED = 100_000
REAL = 1_500
ROUNDS = 7
COPIES = max(1, MESSAGES // SEED)
# As much of thirty days as the seed covers, in whole buckets of traffic.
STEP = web.SPAN // COPIES // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS
# New messages, and days that retention drops.
NEW, DROPPED = 2_000, 3
LOADING = (
    *("fsync = off", "full_page_writes = off", "wal_level = minimal", "max_wal_senders = 0"),
    *("max_wal_size = '16GB'", "maintenance_work_mem = '768MB'", "shared_buffers = '1GB'", "autovacuum = off"),
)
SERVING = ("shared_buffers = '1GB'", "max_wal_size = '4GB'", "effective_cache_size = '3GB'")
# An id as new ones are: its time first, then what is random.
GGRID = """(SELECT substr(t, 1, 8) || '-' || substr(t, 9, 4) || '-7' || substr(r, 1, 3) || '-8' || substr(r, 4, 3)
|| '-' || substr(r, 7, 12) FROM (SELECT lpad(to_hex(completed + {}), 12, '0') AS t, md5(ggrid || '{}') AS r) AS made)"""
# Of the partitioned tables, and so of all their partitions.
INDEXES = """SELECT indexname, replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes
WHERE tablename IN ('message_search', 'message_recipients') AND indexname NOT LIKE '%_pkey'"""
SIZES = "SELECT sum({}(relid)) FROM pg_partition_tree('{}')"


def run() -> str:
    """The tables as markdown."""
    with tempfile.TemporaryDirectory() as name:
        sizes = _measure_sizes(Path(name))
        return f"{_measure_history(Path(name))}\n\n{sizes}"


def _measure_history(folder: Path) -> str:
    data = folder / "data"
    data.mkdir()
    _store_seed(data)
    with Cluster(folder / "big") as cluster:
        cluster.configure(LOADING)
        upgrade_schema(cluster.url)
        # All that is stored lies in days, as after months of service.
        cluster.run(*(f"DROP TABLE {table}_before" for table in TABLES))
        days = f"generate_series({day_of(int(time.time() * 1000)) - 31}, {day_of(int(time.time() * 1000))})"
        cluster.run(f"SELECT make_message_day(day) FROM {days} AS day")
        asyncio.run(copy("sqlite:gatepost.db", cluster.url, data, lambda _done, _all: None))
        shutil.rmtree(data)
        data.mkdir()
        seconds = _multiply(cluster)
        cluster.configure(SERVING)
        rows = [_describe_sizes(cluster, seconds)]
        rows += asyncio.run(_time_calls(cluster, data))
    return "\n".join(rows)


def _store_seed(data: Path) -> None:
    asyncio.run(open_store("sqlite:gatepost.db", data).close())
    connection = sqlite.open_file(data / "gatepost.db")
    now = int(time.time() * 1000)
    # The oldest of them; the copies are younger.
    first = (now - STEP * COPIES) // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS
    made = (_moved(record, first + number * STEP // SEED) for number, record in enumerate(web.records(SEED)))
    while some := list(islice(made, 5_000)):
        connection.execute("BEGIN IMMEDIATE")
        for place in range(0, len(some), 500):
            message_records.insert_all(connection, some[place : place + 500])
        connection.execute("COMMIT")
    connection.close()


def _moved(record: MessageRecord, completed: int) -> MessageRecord:
    ggrid = new_id(completed * 1_000_000)
    return msgspec.structs.replace(record, ggrid=ggrid, created=completed - 60, completed=completed)


def _multiply(cluster: Cluster) -> float:
    """Copy the seed again and again, without indexes, and build them at the end; how many seconds that took."""
    started = time.perf_counter()
    indexes = cluster.rows(INDEXES)
    keys = {
        # Each day has its own, which stay.
        "messages": (),
        "message_search": ("message_search_pkey PRIMARY KEY (completed, id)",),
        "message_recipients": ("message_recipients_pkey PRIMARY KEY (address, completed, id)",),
    }
    cluster.run(*(f"DROP INDEX {name}" for name, _ in indexes))
    for table, constraints in keys.items():
        cluster.run(*(f"ALTER TABLE {table} DROP CONSTRAINT {each.split()[0]}" for each in constraints))
        # Emptied and filled in one transaction, so that none of it has to be in the WAL.
        cluster.run(f"CREATE TABLE seed AS SELECT * FROM {table}")
        cluster.run(f"BEGIN; TRUNCATE {table}; {_fill(table)}; COMMIT")
        cluster.run("DROP TABLE seed", *(f"ALTER TABLE {table} ADD CONSTRAINT {each}" for each in constraints))
        print(f"   {table} at {time.perf_counter() - started:.0f} s", flush=True)
    cluster.run(*(definition for _, definition in indexes))
    cluster.run("CREATE TABLE seed AS SELECT * FROM traffic", "TRUNCATE traffic", _fill("traffic"), "DROP TABLE seed")
    cluster.run("SELECT setval(pg_get_serial_sequence('messages', 'id'), max(id) + 1) FROM messages", "VACUUM ANALYZE")
    print(f"   all at {time.perf_counter() - started:.0f} s", flush=True)
    return time.perf_counter() - started


def _fill(table: str) -> str:
    """Statements that put all copies of the seed into a table, the oldest first."""
    columns = {
        "messages": ("id", *message_records.COLUMNS),
        "message_search": SEARCHED,
        "message_recipients": ("address", "completed", "id"),
        "traffic": COUNTED,
    }[table]
    statements = []
    for number in range(COPIES):
        later = number * STEP
        moved = {"id": f"id + {number * SEED}", "ggrid": GGRID.format(later, number)}
        moved |= {name: f"{name} + {later}" for name in ("created", "completed", "bucket")}
        chosen = ", ".join(moved.get(name, name) for name in columns)
        statements.append(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM seed")
    return "; ".join(statements)


def _describe_sizes(cluster: Cluster, seconds: float) -> str:
    lines = [f"{MESSAGES:,} messages, built in {seconds:.0f} s.", "", "| Table | Bytes a message | Of them indexes |"]
    lines += ["|---|---:|---:|"]
    for table in ("messages", "message_search", "message_recipients"):
        whole = int(cluster.query(SIZES.format("pg_total_relation_size", table)))
        index = int(cluster.query(SIZES.format("pg_indexes_size", table)))
        lines.append(f"| {table} | {whole / MESSAGES:,.0f} | {index / MESSAGES:,.0f} |")
    total = int(cluster.query("SELECT pg_database_size(current_database())"))
    return "\n".join([*lines, f"| the database | {total / MESSAGES:,.0f} ({total / 1e9:.1f} GB) | |", ""])


async def _time_calls(cluster: Cluster, data: Path) -> list[str]:
    store = open_store(cluster.url, data)
    # As the service does every hour.
    await store.messages.purge(0)
    now = int(time.time() * 1000)
    day = 86_400_000
    (newest,) = (await store.messages.search(MessageFilter(), None, 1)).rows
    searches: dict[str, MessageFilter] = {
        "newest": MessageFilter(),
        "to a recipient": MessageFilter(recipient="user77@example.com"),
        "of a sender's domain": MessageFilter(sender="cheap-ads.example"),
        "with a verdict and a tag": MessageFilter(verdict="spam", tag="text:urgency"),
        "of a day": MessageFilter(since=now - 15 * day, until=now - 14 * day),
        "by words of the subject": MessageFilter(subject="payslip november"),
        "by words that no subject has": MessageFilter(subject="never seen"),
        "by an address anywhere": MessageFilter(anywhere="user77@example.com"),
    }
    calls: dict[str, Callable[[], Awaitable[object]]] = {"one message": lambda: store.messages.find(newest.ggrid)}
    for what, wanted in searches.items():
        calls[f"messages {what}"] = lambda wanted=wanted: store.messages.search(wanted)  # type: ignore[misc]
        calls[f"messages {what}, counted"] = lambda wanted=wanted: store.messages.count(wanted)  # type: ignore[misc]
    calls["charts of 30 days"] = lambda: store.traffic.buckets(None, now - 30 * day, now, day // 2)
    calls["most frequent values of 30 days"] = lambda: store.traffic.top_values(None, now - 30 * day, now)
    lines = ["| Call | median, ms | first, ms | CPU of client and server, ms |", "|---|---:|---:|---:|"]
    for what, call in calls.items():
        lines.append(await _time_call(cluster, what, call))
    lines += ["", *(await _time_changes(cluster, store))]
    await store.close()
    return lines


async def _time_call(cluster: Cluster, what: str, call: Callable[[], Awaitable[object]]) -> str:
    times, before = [], 0.0
    for number in range(ROUNDS + 1):
        if number == 1:
            before = _cpu(cluster)
        started = time.perf_counter()
        await call()
        times.append((time.perf_counter() - started) * 1000)
    spent = (_cpu(cluster) - before) / ROUNDS * 1000
    return f"| {what} | {median(times[1:]):.1f} | {times[0]:.1f} | {spent:.0f} |"


def _cpu(cluster: Cluster) -> float:
    """CPU seconds of this process and of the server so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    several = [cluster.process, *cluster.process.children()]
    times = [each.cpu_times() for each in several]
    server = sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system
    return own.ru_utime + own.ru_stime + server


async def _time_changes(cluster: Cluster, store: Store) -> list[str]:
    """New mail, and retention with new mail beside it."""
    lines = []
    alone = await _record(store, NEW)
    lines.append(f"New messages, 16 at a time: {NEW / alone:,.0f} a second.")
    oldest = int(await asyncio.to_thread(cluster.query, "SELECT min(completed) FROM message_search"))
    before, started = _cpu(cluster), time.perf_counter()
    purge = asyncio.create_task(store.messages.purge((day_of(oldest) + DROPPED) * DAY_MILLISECONDS))
    beside, waits = 0, [0.0]
    while not purge.done():
        waits.append(await _record(store, 16))
        beside += 16
    deleted = await purge
    seconds, spent = time.perf_counter() - started, _cpu(cluster) - before
    lines += [
        f"Retention dropped {deleted:,} messages of {DROPPED} days in {seconds:.1f} s.",
        f"Meanwhile {beside:,} new ones were stored, and the slowest 16 of those took {max(waits) * 1000:.0f} ms.",
        f"CPU of client and server: {spent:.1f} s.",
    ]
    return lines


async def _record(store: Store, count: int) -> float:
    """Store so many new results, 16 at a time; how many seconds that takes."""
    now = int(time.time() * 1000)
    made = [_moved(record, now) for record in web.records(count)]
    started = time.perf_counter()
    for place in range(0, count, 16):
        await asyncio.gather(*map(store.messages.record, made[place : place + 16]))
    return time.perf_counter() - started


def _measure_sizes(folder: Path) -> str:
    try:
        records = _read_real_mail()
    except NotPresentError as fault:
        return f"Sizes of real mail: not run ({fault})."
    lines = [f"| {len(records):,} messages of real mail, one recipient each | bytes a message |", "|---|---:|"]
    with Cluster(folder / "small") as cluster:
        for what, kept in (("", records), (", without header sections", _without_headers(records))):
            lines.append(f"| SQLite{what} | {_size_in_sqlite(folder / f'lite{len(lines)}', kept):,.0f} |")
            asyncio.run(_store_all(cluster.url, folder, kept))
            cluster.run("VACUUM FULL")
            size = sum(
                int(cluster.query(SIZES.format("pg_total_relation_size", table)))
                for table in ("messages", "message_search", "message_recipients", "traffic")
            )
            lines.append(f"| PostgreSQL{what} | {size / len(kept):,.0f} |")
            cluster.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    held = sum(record.size for record in records) / len(records)
    return "\n".join([*lines, f"| raw bytes, as the quarantine holds them | {held:,.0f} |"])


def _read_real_mail() -> list[MessageRecord]:
    now = int(time.time() * 1000)
    made = []
    for number, message in enumerate(mail(REAL)):
        envelope = Envelope(str(message.envelope["envelopeFrom"]), ("r@example.org",), "192.0.2.25", "mx.example")
        header = cut_header(message.raw[:HEAD_BYTES])
        completed = now - (REAL - number) * 1_000
        made.append(
            MessageRecord(
                new_id(completed * 1_000_000), completed - 60, completed, envelope, len(message.raw), f"{number:064x}",
                judge(message), source="smtp", header=header,
            )
        )  # fmt: skip
    return made


def _without_headers(records: Sequence[MessageRecord]) -> list[MessageRecord]:
    return [msgspec.structs.replace(record, header=None) for record in records]


def _size_in_sqlite(folder: Path, records: Sequence[MessageRecord]) -> float:
    folder.mkdir()
    asyncio.run(open_store("sqlite:gatepost.db", folder).close())
    connection = sqlite.open_file(folder / "gatepost.db")

    def size() -> int:
        return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))

    before = size()
    connection.execute("BEGIN IMMEDIATE")
    for place in range(0, len(records), 500):
        message_records.insert_all(connection, records[place : place + 500])
    connection.execute("COMMIT")
    grown = size() - before
    connection.close()
    return grown / len(records)


async def _store_all(url: str, folder: Path, records: Sequence[MessageRecord]) -> None:
    store = open_store(url, folder)
    for place in range(0, len(records), 16):
        await asyncio.gather(*map(store.messages.record, records[place : place + 16]))
    await store.close()
