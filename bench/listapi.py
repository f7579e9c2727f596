"""The List API over HTTPS: adding and streaming beside the bare driver in one run, and scans beside a long list.

Adding goes through a running `gatepost serve` in calls of 500, one client, and takes turns with a loop over raw apsw
with the same statement, pragmas and batch size. `BENCH_LIST_ENTRIES` sets how many are added (a million), and
`BENCH_LONG_LIST` how many entries `blocked-urls` has when scans are compared with a list of 1,000 (as many).
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean

import msgspec
import psutil

from bench import corpus, load
from bench.lists import CALL, SELECT, TURN, UPSERT, batches, rows
from bench.scanning import TOKEN, await_port, configure, cpu, free_port, pss
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import database, open_store
from gatepost.store.interface import CLI, NewEntry

ENTRIES = int(os.environ.get("BENCH_LIST_ENTRIES", "1000000"))
LONG = int(os.environ.get("BENCH_LONG_LIST", str(ENTRIES)))
SHORT = 1_000
SCANS = 800
ROUNDS = 4
BASE = "/api/public/lists/v1"


def run() -> str:
    """Both parts as markdown."""
    lines = _lists()
    try:
        lines += ["", *_scans()]
    except corpus.NotPresentError as absence:
        lines += ["", f"Scans not run: {absence}"]
    return "\n".join(lines)


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A service on this folder, and its address."""
    port, core = free_port(), free_port()
    configure(folder, port, core)
    arguments = [sys.executable, "-m", "gatepost", "serve", "--data", str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port)
            yield psutil.Process(process.pid), f"https://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _lists() -> list[str]:
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as (process, url):
        folder = Path(name)
        command = [sys.executable, "-m", "gatepost", "apikey", "create", "bench", "--data", name]
        key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        connection = load.Connection(url)
        idle = pss(process)
        raw_seconds, api_seconds = _adding(folder / "raw.db", connection, key)
        raw_stream = _raw_stream(folder / "raw.db")
        first, api_stream, count, peak = _api_stream(url, key, process)
        connection.close()
    added = f"{ENTRIES / raw_seconds:,.0f}/s | {ENTRIES / api_seconds:,.0f}/s | {raw_seconds / api_seconds:.0%}"
    streamed = f"{count / raw_stream:,.0f}/s | {count / api_stream:,.0f}/s | {raw_stream / api_stream:.0%}"
    memory = f"{idle:.0f} MB idle, at most {peak:.0f} MB while streaming"
    return [
        "| SQLite | raw apsw | List API | of raw |",
        "|---|---:|---:|---:|",
        f"| add {ENTRIES:,}, {CALL} a call | {added} |",
        f"| stream {count:,} | {streamed} |",
        "",
        f"First byte of the stream after {first * 1000:.1f} ms. Memory of the service (PSS): {memory}.",
    ]


def _adding(raw_file: Path, connection: load.Connection, key: str) -> tuple[float, float]:
    """Seconds of each, in turns over the same calls."""
    raw = database.create(raw_file)
    spent = [0.0, 0.0]
    source = batches(ENTRIES)
    while calls := list(islice(source, TURN)):
        started = time.perf_counter()
        for keys in calls:
            raw.execute("BEGIN IMMEDIATE")
            raw.executemany(UPSERT, rows(keys))
            raw.execute("COMMIT")
        spent[0] += time.perf_counter() - started
        requests = [_request("addEntries", key, _addition(keys)) for keys in calls]
        started = time.perf_counter()
        for request in requests:
            answer = connection.exchange(request)
            assert b" 200 " in answer.split(b"\n", 1)[0] + b" ", answer
        spent[1] += time.perf_counter() - started
    raw.close()
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


def _raw_stream(file: Path) -> float:
    """Every row read and encoded, nothing sent."""
    encode = msgspec.json.Encoder().encode
    connection = database.connect_reader(file)
    started = time.perf_counter()
    cursor = connection.execute(SELECT)
    while rows := list(islice(cursor, 2_000)):
        b"\n".join(map(encode, rows))
    connection.close()
    return time.perf_counter() - started


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
        lines += data.count(b'{"entry"')
        tail = (tail + data)[-16:]
        if now - looked > 0.25:
            looked, peak = now, max(peak, pss(process))
    seconds = time.perf_counter() - started
    stream.close()
    return first, seconds, lines, max(peak, pss(process))


def _scans() -> list[str]:
    """The same scans beside a short and a long `blocked-urls`, in turns."""
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
        for _ in range(ROUNDS):
            for size, (process, url) in servers.items():
                before = cpu(process)
                rates[size].append(load.send(url, requests, 8).rate)
                spent[size].append((cpu(process) - before) / SCANS * 1000)
    rate, cost = mean(rates[LONG]) / mean(rates[SHORT]), mean(spent[LONG]) / mean(spent[SHORT])
    return [
        "| Scans with entries in `blocked-urls` | msg/s | server CPU ms/msg |",
        "|---|---:|---:|",
        *(f"| {size:,} | {mean(rates[size]):.0f} | {mean(spent[size]):.2f} |" for size in (SHORT, LONG)),
        "",
        f"The long list: {rate:.2f} of the rate, {cost:.2f} of the CPU of the short one.",
    ]


async def _filled(folder: Path, size: int) -> None:
    store = open_store("sqlite:gatepost.db", folder)
    for keys in batches(size):
        await store.add_entries(None, BY_NAME["blocked-urls"], [NewEntry(key, key) for key in keys], CLI)
    await store.close()
