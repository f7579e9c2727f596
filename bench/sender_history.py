"""The cost of the sender history: CPU of guard and SQLite for each message, and the size of a row.

Every message asks for its sender and four sites, and is delivered; sightings are written every 500 messages. "Known" is
mail of 500 senders that wrote on the day before; "new" has another sender and other sites each time; "young" is a
history that records and is too short to be asked. CPU is that of the process with all its threads; the worker's part,
making the question and reading the answer, is included. The time of a look-up is wall-clock time, on a machine with
other load.
"""

import asyncio
import random
import tempfile
import time
from pathlib import Path

from gatepost.analysis.report import Report
from gatepost.auth.results import Authentication, Dmarc
from gatepost.guard.answers.sender_history import DAY_SECONDS, SenderHistories
from gatepost.mail.sender_history import Facets, make_history_question, read_history
from gatepost.settings.keys import SenderHistorySettings
from gatepost.store import open_store
from gatepost.store.sightings import SightingBatch
from gatepost.store.store import Store

MESSAGES = 10_000
GROUP = 500
ROWS = 1_000_000
DAYS = 50
LOOKS = 2_000
_DELIVERED = Report("clean", "deliver", (), 0, "", authentication=Authentication(dmarc=Dmarc("pass", spf_aligned=True)))


def run() -> str:
    """Measure on a new SQLite file."""
    lines = ["| Mail | CPU per message | Storage read | Keys written |", "|---|---|---|---|"]
    lines += [asyncio.run(_measured(mail)) for mail in ("known", "new", "young")]
    return "\n".join([*lines, "", asyncio.run(_large())])


async def _measured(mail: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store("sqlite:bench.db", Path(folder))
        day = 20_000
        memory = SenderHistories(
            store.sightings, SenderHistorySettings(min_days=1, min_messages=1), lambda: day * DAY_SECONDS
        )
        chance = random.Random(1)
        every = [_facets(500 if mail == "known" else MESSAGES, number, chance) for number in range(MESSAGES)]
        if mail != "young":
            await _passed(memory, every[:2_000])
            day += 1
        before, started = memory.counters(), time.process_time()
        await _passed(memory, every)
        cpu, after = (time.process_time() - started) / MESSAGES * 1000, memory.counters()
        await store.close()
    looked = (after.looked_up - before.looked_up) / MESSAGES
    return f"| {mail} | {cpu:.3f} ms | for {looked:.0%} of messages | {after.written - before.written:,} |"


def _facets(senders: int, number: int, chance: random.Random) -> Facets:
    """A message's facets, of so many senders and sites in all."""
    who = chance.randrange(senders) if senders < MESSAGES else number
    sites = [chance.randrange(senders) if senders < MESSAGES else 4 * number + each for each in range(4)]
    return Facets(f"a@d{who}.example", f"d{who}.example", False, tuple(f"s{site}.example" for site in sites))


async def _passed(memory: SenderHistories, every: list[Facets]) -> None:
    for number, facets in enumerate(every, 1):
        read_history(facets, await memory.answer("g", None, make_history_question(facets)))
        memory.learn("g", _DELIVERED)
        if not number % GROUP:
            await memory.flush()
    await memory.flush()


async def _large() -> str:
    chance = random.Random(2)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store("sqlite:bench.db", Path(folder))
        for day in range(DAYS):
            await store.sightings.record([SightingBatch(None, day, dict.fromkeys(_keys(chance, ROWS // DAYS), 1))])
        times = sorted([await _looked(store, chance) for _ in range(LOOKS)])
        await store.close()
        size = (Path(folder) / "bench.db").stat().st_size / ROWS
    median, late = times[LOOKS // 2] * 1e6, times[LOOKS * 99 // 100] * 1e6
    return f"With {ROWS:,} keys: {size:.0f} bytes a key on disk; looking up 8 takes {median:.0f} µs, p99 {late:.0f} µs."


async def _looked(store: Store, chance: random.Random) -> float:
    keys, started = _keys(chance, 8), time.perf_counter()
    await store.sightings.find(None, keys)
    return time.perf_counter() - started


def _keys(chance: random.Random, count: int) -> list[int]:
    return [chance.getrandbits(59) << 4 | 6 for _ in range(count)]
