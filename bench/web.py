"""Every page of the web interface with a million messages and a million list entries stored, beside a static file.

The messages are results of the sample in `bench/sample.py`, put on record over thirty days with seven pairs of verdict
and decision; the entries are hosts in `blocked-urls`; 20,000 messages are held. The service has cleaned up once, as it
does every hour. Each page is asked for in turns with the style sheet, over the same TLS connection, after one round
that is not counted, of which the slowest page is named below. The CPU time is that of the process that answers, and of
the PostgreSQL server where there is one; on a busy machine the clock shows what others do as well. Three rows are dry
runs: what a change would have done to the last messages, which is computation and not a look-up. `BENCH_WEB_MESSAGES`
and `BENCH_WEB_ENTRIES` set how many there are; with `BENCH_WEB_STORAGE=postgresql` all is copied into a PostgreSQL of
its own first.
"""

import asyncio
import contextlib
import html
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

import httpx
import psutil

from bench.cluster import Cluster
from bench.sample import MAILS, address
from bench.scanning import pss
from bench.visiting import PASSWORD, Service
from gatepost.ids import new_id
from gatepost.kinds import AUTH_DMARC_FAIL, TEXT_BARE_LINK, TEXT_URGENCY, URL_TEXT_MISMATCH
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Decision, Verdict
from gatepost.report import Line, Report
from gatepost.store import message_records, open_store, sqlite
from gatepost.store.audit import CLI
from gatepost.store.copy import copy
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord

POSTGRES = os.environ.get("BENCH_WEB_STORAGE", "") == "postgresql"
MESSAGES = int(os.environ.get("BENCH_WEB_MESSAGES", "1000000"))
ENTRIES = int(os.environ.get("BENCH_WEB_ENTRIES", "1000000"))
HELD = 20_000
ROUNDS = 15
SPAN = 30 * 86_400_000
TRANSACTION, STATEMENT = 5_000, 500
WITHIN = 200.0
URLS = BY_NAME["blocked-urls"]


def run() -> str:
    """The table as markdown."""
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        data.mkdir()
        ggrid = _stored(data)
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster(Path(name) / "cluster")) if POSTGRES else None
            if cluster:
                _copy(data, cluster)
            service = Service(data, "smtp://127.0.0.1:9", cluster.url if cluster else "")
            stack.callback(service.stop)
            return _measured(service, ggrid, cluster)


def _copy(data: Path, cluster: Cluster) -> None:
    started = time.perf_counter()
    rows = asyncio.run(copy("sqlite:gatepost.db", cluster.url, data, lambda _done, _all: None))
    cluster.run("VACUUM ANALYZE")
    size = cluster.query("SELECT pg_database_size(current_database())")
    print(f"   copied {rows:,} rows in {time.perf_counter() - started:.0f} s, {int(size) / 1e9:.2f} GB", flush=True)


def _stored(data: Path) -> str:
    """Fill the storage; the ggrid of a message that is held."""
    started = time.perf_counter()
    asyncio.run(open_store("sqlite:gatepost.db", data).close())
    connection = sqlite.open_file(data / "gatepost.db")
    made = records(MESSAGES)
    last: MessageRecord | None = None
    while some := list(islice(made, TRANSACTION)):
        connection.execute("BEGIN IMMEDIATE")
        for place in range(0, len(some), STATEMENT):
            message_records.insert_all(connection, some[place : place + STATEMENT])
        connection.execute("COMMIT")
        last = some[-1]
    connection.close()
    assert last is not None
    asyncio.run(_filled(data, last))
    size = sum(file.stat().st_size for file in data.glob("gatepost.db*"))
    print(f"   stored in {time.perf_counter() - started:.0f} s, {size / 1e9:.2f} GB", flush=True)
    return last.ggrid


async def _filled(data: Path, last: MessageRecord) -> None:
    store = open_store("sqlite:gatepost.db", data)
    entries = (
        NewEntry(f"host{number:07d}.example", f"host{number:07d}.example", "a feed") for number in range(ENTRIES)
    )
    while some := list(islice(entries, TRANSACTION)):
        await store.lists.add(None, URLS, some, CLI)
    held = [last, *islice(records(HELD * 4), HELD)]
    for place in range(0, len(held), 500):
        await asyncio.gather(*map(store.quarantine.hold, held[place : place + 500]))
    await store.messages.purge(0)
    await store.close()


def records(count: int) -> Iterator[MessageRecord]:
    """Results over the last thirty days, the oldest first."""
    chance = random.Random(5)
    samples = MAILS
    now = int(time.time() * 1000)
    for number in range(count):
        mail = samples[chance.randrange(len(samples))]
        then = now - SPAN + number * SPAN // count
        sender = f"{chance.randrange(50_000)}.{address(mail)}"
        envelope = Envelope(sender, (f"user{chance.randrange(10_000)}@example.com",), "192.0.2.25")
        report = _report(f"{mail.subject} {number}", sender, *chance.choices(JUDGED, SHARES)[0])
        yield MessageRecord(new_id(then * 1_000_000), then - 60, then, envelope, 4_000, f"{number:064x}", report)


# Verdicts and decisions, and how many of a hundred messages have them.
JUDGED: tuple[tuple[Verdict, Decision], ...] = (
    *(("clean", "deliver"), ("bulk", "deliver"), ("spam", "quarantine"), ("spam", "deliver")),
    *(("phishing", "quarantine"), ("malware", "quarantine"), ("unscannable", "quarantine")),
)
SHARES = (70, 14, 8, 4, 2, 1, 1)


def _report(subject: str, sender: str, verdict: Verdict, decision: Decision) -> Report:
    lines = tuple(
        Line(kind.id, kind.title, "1.1", {"words": "at once"}, 120, 120, "spam")
        for kind in (TEXT_URGENCY, TEXT_BARE_LINK, URL_TEXT_MISMATCH, AUTH_DMARC_FAIL)
    )
    subjects = (Subject("from", sender, "From"), Subject("link", "https://news.example/a", "1.1"))
    return Report(
        verdict,
        decision,
        tuple(line.kind for line in lines),
        480,
        "The score is 4.8, and bulk begins at 4",
        lines=lines,
        subject=subject,
        senders=(sender,),
        subjects=subjects,
    )


# Forms that change nothing: what would happen.
FORMS = {
    "/lists/global/blocked-urls/preview": {"entries": "new.example\nhost0000007.example\n"},
    "/policy#tried": {"text": '[verdicts.clean]\ndecision = "quarantine"\n'},
}


def _pages(ggrid: str) -> Sequence[tuple[str, str]]:
    lists = "/lists/global/blocked-urls"
    return (
        ("overview, 24 hours", "/"),
        ("overview, 30 days", "/?span=month"),
        ("overview, live part", "/overview/live"),
        ("messages, newest", "/messages"),
        ("messages of a sender", "/messages?sender=deals@cheap-ads.example"),
        ("messages of a sender's domain", "/messages?sender=cheap-ads.example"),
        ("messages to a recipient", "/messages?recipient=user77@example.com"),
        ("messages by words of the subject", "/messages?subject=payslip+november"),
        ("messages by words that no subject has", "/messages?subject=never+seen"),
        ("messages by verdict and tag", "/messages?verdict=spam&tag=text:urgency"),
        ("messages of a day", f"/messages?since={time.strftime('%Y-%m-%d', time.gmtime(time.time() - 15 * 86_400))}"),
        ("messages by one address anywhere", "/messages?q=user77@example.com"),
        ("messages by a word anywhere", "/messages?q=payslip"),
        ("messages by a link host", "/messages?link=news.example"),
        ("messages by the From header", "/messages?from=cheap-ads.example"),
        ("messages, the newest thousand by score", "/messages?sort=score"),
        ("a message", f"/messages/{ggrid}"),
        ("its source", f"/messages/{ggrid}/source"),
        ("its sender, to be blocked", f"/messages/{ggrid}/entry?list=blocked-senders&entry=cheap-ads.example"),
        ("judged again", f"/messages/{ggrid}/replay"),
        ("quarantine", "/quarantine"),
        ("quarantine by subject", "/quarantine?subject=payslip"),
        ("quarantine in campaigns", "/quarantine?group=1"),
        ("scan", "/scan"),
        ("lists", "/lists"),
        ("a list of a million", lists),
        ("its entries that begin so", f"{lists}?q=host05"),
        ("its entries that contain so", f"{lists}?q=99999&how=contains"),
        ("one entry", f"{lists}/entry?key=host0000077.example"),
        ("its history", f"{lists}/history"),
        ("two entries, tried on the last messages", f"{lists}/preview"),
        ("import form", f"{lists}/import"),
        ("keys", "/keys"),
        ("policy", "/policy"),
        ("a policy, tried on the last 1,000 messages", "/policy#tried"),
        ("tenants", "/tenants"),
        ("users", "/users"),
        ("audit trail", "/audit"),
        ("audit trail of an action", "/audit?action=entries."),
        ("system", "/system"),
        ("account", "/account"),
    )


def _measured(service: Service, ggrid: str, cluster: Cluster | None) -> str:
    service.user("bench", "administrator")
    client = service.client
    client.headers["Accept"] = "text/html"
    assert client.post("/sign-in", data={"name": "bench", "password": PASSWORD}).status_code == 303
    page = client.get("/account").text
    static = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    csrf = html.unescape(page.partition('name="csrf" value="')[2].partition('"')[0])
    pages = _pages(ggrid)
    first = max((_timed(client, path, csrf), what) for what, path in pages if not _is_trial(path))
    for _, path in pages:
        _timed(client, path, csrf)
    process = psutil.Process(service.pid)
    before = pss(process)
    rows, slowest, costliest = [], 0.0, 0.0
    for what, path in pages:
        pairs = [(_timed(client, static), _timed(client, path, csrf)) for _ in range(ROUNDS)]
        plain, ours = (median(each) for each in zip(*pairs, strict=True))
        spent = _cpu(process, cluster)
        for _ in range(ROUNDS):
            _timed(client, path, csrf)
        spent = (_cpu(process, cluster) - spent) / ROUNDS * 1000
        if not _is_trial(path):
            slowest, costliest = max(slowest, ours), max(costliest, spent)
        most = max(pair[1] for pair in pairs)
        rows.append(f"| {what} | {ours:.1f} | {most:.1f} | {ours / plain:.1f} | {spent:.0f} |")
    grown = pss(process) - before
    held = "within" if slowest <= WITHIN else "NOT within"
    engine = "PostgreSQL" if cluster else "SQLite"
    stored = f"{MESSAGES:,} messages, {ENTRIES:,} entries, {engine}"
    said = f"The slowest page takes {slowest:.0f} ms ({held} {WITHIN:.0f} ms), the costliest {costliest:.0f} ms of CPU"
    return "\n".join(
        (
            f"| {stored} | median, ms | slowest, ms | times the static file | CPU, ms |",
            "|---|---:|---:|---:|---:|",
            *rows,
            "",
            f"{said}, trials apart. The first time, the slowest was {first[1]!r} with {first[0]:.0f} ms.",
            f"{_memory(before, grown)} Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
        )
    )


def _is_trial(path: str) -> bool:
    return path in FORMS or "/entry?list=" in path


def _cpu(process: psutil.Process, cluster: Cluster | None) -> float:
    """CPU seconds of the processes that answer so far; for server processes that ended, their parent has them."""
    server = [cluster.process] if cluster else []
    several = [process, *server, *(child for each in server for child in each.children())]
    times = [each.cpu_times() for each in several]
    return sum(each.user + each.system for each in times) + sum(
        each.children_user + each.children_system for each in times[1 : 1 + len(server)]
    )


def _memory(before: float, grown: float) -> str:
    return f"Memory of the service (PSS): {before:.0f} MB before the counted pages, {grown:+.1f} MB after them."


def _timed(client: httpx.Client, path: str, csrf: str = "") -> float:
    form = FORMS.get(path)
    started = time.perf_counter()
    answer = client.post(path, data={"csrf": csrf, **form}) if form else client.get(path)
    spent = (time.perf_counter() - started) * 1000
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:300])
    return spent
