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
from pathlib import Path
from statistics import median

from bench import web
from gatepost.store import open_store
from gatepost.store.held_search import HeldFilter
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import SearchFault, SearchPlace, parse_search
from gatepost.store.store import Store

MESSAGES = int(os.environ.get("BENCH_SEARCHES_MESSAGES", "1000000"))
ROUNDS = 5
SEARCHES = (
    "",
    "verdict:spam tag:text:urgency",
    "to:user77@example.com",
    "host:news.example",
    "host:never.example",
    "from:cheap-ads.example",
    "payslip",
    "user77@example.com",
    "never seen",
    "(verdict:phishing OR score>8) NOT subject:payslip",
    "subject:never OR host:never.example OR from:nobody",
    "after:7d verdict:malware",
    "url:news.example/a",
    "ip:192.0.2.25 NOT verdict:clean",
)


def run() -> str:
    """The table as markdown."""
    kept = os.environ.get("BENCH_SEARCHES_DATA")
    with tempfile.TemporaryDirectory() as name:
        data = Path(kept or name)
        if not (data / "gatepost.db").exists():
            web.fill(data, MESSAGES)
        return asyncio.run(_measure(data))


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
    totals = await store.quarantine.totals()
    return f"{MESSAGES:,} messages, {totals[0]:,} held. Load of the machine at the end: {os.getloadavg()[0]:.1f}."


async def _time(call: Callable[[], Awaitable[object]]) -> float:
    spent = []
    for _ in range(ROUNDS + 1):
        before = time.process_time()
        await call()
        spent.append((time.process_time() - before) * 1000)
    return median(spent[1:])
