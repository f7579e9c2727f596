"""The List API over HTTPS: adding and streaming beside the bare driver in one run, and scans beside a long list.

Adding goes through a running `gatepost serve` in calls of 500, one client, and takes turns with a loop over the raw
driver with the same statement, pragmas and batch size; streams take turns with a loop that reads the same rows in the
same batches, encodes each as it is, and sends nothing. `BENCH_LIST_ENTRIES` sets how many SQLite gets (a million;
PostgreSQL gets a fifth), and `BENCH_LONG_LIST` how many entries `blocked-urls` has when scans are compared with a list
of 1,000 (as many as were added).
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from operator import truediv
from pathlib import Path
from statistics import mean, median

import asyncpg
import msgspec
import psutil

from bench import corpus, load
from bench.lists import CALL, SELECT, TURN, UPSERT, UPSERT_ALL, batches, made, postgres_server, rows
from bench.ports import free_port
from bench.scanning import TOKEN, await_port, configure, cpu, pss
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import open_store, sqlite
from gatepost.store.audit import CLI
from gatepost.store.lists import BATCH, NewEntry

ENTRIES = int(os.environ.get("BENCH_LIST_ENTRIES", "1000000"))
LONG = int(os.environ.get("BENCH_LONG_LIST", str(ENTRIES)))
SHORT = 1_000
SCANS = 800
ROUNDS = 6
STREAMS = 5
BASE = "/api/public/lists/v1"

Add = Callable[[list[list[str]]], None]


def run() -> str:
    """All parts as markdown."""
    with tempfile.TemporaryDirectory() as name:
        lines = _sqlite(Path(name))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, postgres_server(Path(name)) as uri:
        lines += ["", *_postgres(Path(name), uri, max(CALL, ENTRIES // 5))]
    try:
        lines += ["", *_scans()]
    except corpus.NotPresentError as absence:
        lines += ["", f"Scans not run: {absence}"]
    return "\n".join(lines)


@contextlib.contextmanager
def service(folder: Path, storage: str = "") -> Iterator[tuple[psutil.Process, str]]:
    """A service on this folder, and its address."""
    port, core = free_port(), free_port()
    configure(folder, port, core)
    if storage:
        for file in folder.glob("*/*/*.yml"):
            file.write_text(f'{file.read_text()}storage: {{url: "{storage}"}}\n')
    arguments = [sys.executable, "-m", "gatepost", "serve", "--data", str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port)
            yield psutil.Process(process.pid), f"https://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _sqlite(folder: Path) -> list[str]:
    raw = sqlite.open_file(folder / "raw.db")

    def add(calls: list[list[str]]) -> None:
        for keys in calls:
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(UPSERT, rows(keys))
            raw.execute("COMMIT")

    def stream() -> None:
        encode = msgspec.json.Encoder().encode
        connection = sqlite.open_reader(folder / "raw.db")
        cursor = connection.execute(SELECT)
        while found := list(islice(cursor, BATCH)):
            b"\n".join(map(encode, found))
        connection.close()

    with service(folder) as running:
        lines = _compared("SQLite", "raw apsw", folder, running, ENTRIES, add, stream)
    raw.close()
    return lines


def _postgres(folder: Path, uri: str, count: int) -> list[str]:
    """The same beside raw asyncpg, on one server."""
    loop = asyncio.new_event_loop()
    wait = loop.run_until_complete
    ours, other = wait(made(uri, "ours")), wait(made(uri, "raw"))
    wait(open_store(other, folder).close())
    raw = wait(asyncpg.connect(other))

    def add(calls: list[list[str]]) -> None:
        for keys in calls:
            wait(raw.execute(UPSERT_ALL, *map(list, zip(*rows(keys), strict=True))))

    async def stream() -> None:
        encode = msgspec.json.Encoder().encode
        async with raw.transaction():
            cursor = await raw.cursor(SELECT)
            while found := await cursor.fetch(BATCH):
                b"\n".join(map(encode, map(tuple, found)))

    with service(folder, ours) as running:
        lines = _compared("PostgreSQL", "raw asyncpg", folder, running, count, add, lambda: wait(stream()))
    wait(raw.close())
    loop.close()
    return lines


def _compared(
    engine: str,
    driver: str,
    folder: Path,
    running: tuple[psutil.Process, str],
    count: int,
    raw_add: Add,
    raw_stream: Callable[[], None],
) -> list[str]:
    process, url = running
    command = [sys.executable, "-m", "gatepost", "apikey", "create", "bench", "--data", str(folder)]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    idle = pss(process)
    added = _adding(count, raw_add, url, key)
    raws, streams = [], []
    for _ in range(STREAMS):
        started = time.perf_counter()
        raw_stream()
        raws.append(time.perf_counter() - started)
        streams.append(_api_stream(url, key, process))
    firsts, seconds, lines, peaks = zip(*streams, strict=True)
    memory = f"{idle:.0f} MB idle, at most {max(peaks):.0f} MB while streaming"
    return [
        f"| {engine} | {driver} | List API | of raw |",
        "|---|---:|---:|---:|",
        _row(f"add {count:,}, {CALL} a call", count, *added),
        _row(f"stream {lines[0]:,}, best of {STREAMS}", lines[0], min(raws), min(seconds)),
        "",
        f"First byte of the stream after {max(firsts) * 1000:.1f} ms at most. Memory of the service (PSS): {memory}.",
    ]


def _row(what: str, count: int, raw: float, ours: float) -> str:
    return f"| {what} | {count / raw:,.0f}/s | {count / ours:,.0f}/s | {raw / ours:.0%} |"


def _adding(count: int, raw_add: Add, url: str, key: str) -> tuple[float, float]:
    """Seconds of each, in turns over the same calls."""
    connection = load.Connection(url)
    spent = [0.0, 0.0]
    source = batches(count)
    while calls := list(islice(source, TURN)):
        started = time.perf_counter()
        raw_add(calls)
        spent[0] += time.perf_counter() - started
        requests = [_request("addEntries", key, _addition(keys)) for keys in calls]
        started = time.perf_counter()
        for request in requests:
            answer = connection.exchange(request)
            assert b" 200 " in answer.split(b"\n", 1)[0] + b" ", answer
        spent[1] += time.perf_counter() - started
    connection.close()
    return spent[0], spent[1]


def _addition(keys: list[str]) -> dict[str, object]:
    return {"listName": "blocked-urls", "entries": [{"entry": key, "comment": "a comment"} for key in keys]}


def _request(operation: str, key: str, body: dict[str, object]) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {BASE}/{operation} HTTP/1.1\r\nHost: x\r\nAuthorization: apikey {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _api_stream(url: str, key: str, process: psutil.Process) -> tuple[float, float, int, float]:
    """Seconds to the first byte and to the last, lines, and the most memory seen meanwhile."""
    connection = load.Connection(url)
    stream = connection.connect()
    started = time.perf_counter()
    stream.sendall(_request("listEntries", key, {"listName": "blocked-urls"}))
    first, lines, peak, looked = 0.0, 0, 0.0, started
    tail = b""
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        data = stream.recv(1 << 20)
        assert data, "the stream was cut"
        now = time.perf_counter()
        first = first or now - started
        lines += data.count(b"{")
        tail = (tail + data)[-16:]
        if now - looked > 0.25:
            looked, peak = now, max(peak, pss(process))
    seconds = time.perf_counter() - started
    stream.close()
    return first, seconds, lines, max(peak, pss(process))


def _scans() -> list[str]:
    """The same scans beside a short and a long `blocked-urls`, in turns, each of them first in every other round."""
    messages = corpus.mail(SCANS)
    requests = [load.upload(mail.raw, mail.envelope, TOKEN) for mail in messages]
    rates: dict[int, list[float]] = {SHORT: [], LONG: []}
    spent: dict[int, list[float]] = {SHORT: [], LONG: []}
    with contextlib.ExitStack() as stack:
        servers = {}
        for size in (SHORT, LONG):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            asyncio.run(_filled(folder, size))
            servers[size] = stack.enter_context(service(folder))
        for _, url in servers.values():
            load.send(url, requests, 8)
        turns = list(servers.items())
        for _ in range(ROUNDS):
            turns.reverse()
            for size, (process, url) in turns:
                before = cpu(process)
                rates[size].append(load.send(url, requests, 8).rate)
                spent[size].append((cpu(process) - before) / SCANS * 1000)
    rate, cost = (median(map(truediv, each[LONG], each[SHORT])) for each in (rates, spent))
    return [
        "| Scans with entries in `blocked-urls` | msg/s | server CPU ms/msg |",
        "|---|---:|---:|",
        *(f"| {size:,} | {mean(rates[size]):.0f} | {mean(spent[size]):.2f} |" for size in (SHORT, LONG)),
        "",
        f"The long list: {rate:.2f} of the rate, {cost:.2f} of the CPU of the short one (median of {ROUNDS} rounds).",
    ]


async def _filled(folder: Path, size: int) -> None:
    store = open_store("sqlite:gatepost.db", folder)
    for keys in batches(size):
        await store.lists.add(None, BY_NAME["blocked-urls"], [NewEntry(key, key) for key in keys], CLI)
    await store.close()
