"""Every page of the web interface, and searches of every facet, with a million messages, a hundred thousand held ones
and a million list entries stored, beside a static file.

50,000 results of the sample in `bench/sample.py` are put on record over thirty days with seven pairs of verdict and
decision, and multiplied within the database with other times and ids; 10,000 held ones in the same way; the entries
are hosts in `blocked-urls`. The service has cleaned up once, as it does every hour. Each page is asked for in turns
with the style sheet, over the same TLS connection, after one round that is not counted, of which the slowest page is
named below. The CPU time is that of the process that answers, and of the PostgreSQL server where there is one; on a
busy machine the clock shows what others do as well. Rows marked as tried are dry runs: what a change would have done to
the last messages, which is computation and not a look-up. Every page of the registry that can be looked at is among the
rows, or the benchmark fails. `BENCH_WEB_MESSAGES` and `BENCH_WEB_ENTRIES` set how many there are, `BENCH_WEB_DATA`
names a folder that is filled once and copied; with `BENCH_WEB_STORAGE=postgresql` all is copied into a PostgreSQL of
its own first.
"""

import asyncio
import contextlib
import html
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from urllib.parse import quote_plus

import apsw
import httpx
import psutil

from bench.cluster import Cluster
from bench.sample import MAILS, address
from bench.scanning import pss
from bench.visiting import PASSWORD, Service
from gatepost.analysis.report import Line, Report
from gatepost.findings.kinds import AUTH_DMARC_FAIL, TEXT_BARE_LINK, TEXT_URGENCY, URL_TEXT_MISMATCH
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Decision, Verdict
from gatepost.store import message_records, open_store, sqlite
from gatepost.store.audit import CLI
from gatepost.store.copy import copy
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import Holding, MessageRecord
from gatepost.store.record_packing import pack
from gatepost.store.search_conditions import MessageFilter
from gatepost.web.registry import PAGES

POSTGRES = os.environ.get("BENCH_WEB_STORAGE", "") == "postgresql"
MESSAGES = int(os.environ.get("BENCH_WEB_MESSAGES", "1000000"))
ENTRIES = int(os.environ.get("BENCH_WEB_ENTRIES", "1000000"))
KEPT_DATA = os.environ.get("BENCH_WEB_DATA", "")
SEED, HELD_SEED, HELD_COPIES = 50_000, 10_000, 10
ROUNDS = 9
SPAN = 30 * 86_400_000
TRANSACTION = 5_000
WITHIN = 300.0
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
    if KEPT_DATA and (Path(KEPT_DATA) / "gatepost.db").exists():
        shutil.copy(Path(KEPT_DATA) / "gatepost.db", data)
    else:
        fill(data, MESSAGES)
        if KEPT_DATA:
            Path(KEPT_DATA).mkdir(exist_ok=True)
            shutil.copy(data / "gatepost.db", KEPT_DATA)
    ggrid = asyncio.run(_finish(data))
    size = sum(file.stat().st_size for file in data.glob("gatepost.db*"))
    print(f"   stored in {time.perf_counter() - started:.0f} s, {size / 1e9:.2f} GB", flush=True)
    return ggrid


def fill(data: Path, messages: int) -> None:
    """Put so many messages on record, and a hundred thousand into the quarantine: some are stored, and the others
    copied within the database."""
    asyncio.run(open_store("sqlite:gatepost.db", data).close())
    connection = sqlite.open_file(data / "gatepost.db")
    made = records(SEED)
    while some := list(islice(made, TRANSACTION)):
        connection.execute("BEGIN IMMEDIATE")
        message_records.insert_all(connection, some)
        connection.execute("COMMIT")
    # Each copy lies one millisecond behind the one before, so that all lie in the same thirty days.
    for copied in range(1, messages // SEED):
        for table in ("messages", "message_search", "message_recipients"):
            _copy_messages(connection, table, copied)
    held = records(HELD_SEED)
    while some := list(islice(held, TRANSACTION)):
        rows = [message_records.prepare_held(each, pack(each.detail), Holding()) for each in some]
        connection.execute("BEGIN IMMEDIATE")
        message_records.insert_held_in_sqlite(connection, rows)
        connection.execute("COMMIT")
    connection.execute(f"CREATE TEMP TABLE made AS SELECT ggrid AS old, {_ID} AS new FROM held LIMIT 0")
    for copied in range(1, HELD_COPIES):
        connection.execute("DELETE FROM made")
        connection.execute(f"INSERT INTO made SELECT ggrid, {_ID} FROM held WHERE rowid <= {HELD_SEED}")
        for table in ("held", "held_search", "held_recipients"):
            columns = _columns(connection, table)
            moved = {"ggrid": "made.new", "kept": f"was.kept + {copied}"}
            chosen = ", ".join(moved.get(name, f"was.{name}") for name in columns)
            source = f"made JOIN {table} AS was ON was.ggrid = made.old"
            connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {source}")
    connection.close()


_ID = (
    "lower(hex(randomblob(4))||'-'||hex(randomblob(2))||'-7'||substr(hex(randomblob(2)), 2)||'-8'"
    "||substr(hex(randomblob(2)), 2)||'-'||hex(randomblob(6)))"
)


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _copy_messages(connection: apsw.Connection, table: str, copied: int) -> None:
    columns = _columns(connection, table)
    moved = {"id": f"id + {copied * SEED}", "ggrid": _ID}
    moved |= {name: f"{name} + {copied}" for name in ("created", "completed")}
    chosen = ", ".join(moved.get(name, name) for name in columns)
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table} WHERE id <= {SEED}")


async def _finish(data: Path) -> str:
    """Add the entries and clean up; the ggrid of a message that is on record and held."""
    store = open_store("sqlite:gatepost.db", data)
    entries = (
        NewEntry(f"host{number:07d}.example", f"host{number:07d}.example", "a feed") for number in range(ENTRIES)
    )
    while some := list(islice(entries, TRANSACTION)):
        await store.lists.add(None, URLS, some, CLI)
    (line,) = (await store.messages.search(MessageFilter(verdict="phishing"), None, 1)).rows
    found = await store.messages.find(line.ggrid)
    assert found
    await store.quarantine.hold(found)
    await store.messages.purge(0)
    await store.close()
    return found.ggrid


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


LIST = "/lists/global/blocked-urls"
# Every page, with the id of a message and a day to be filled in.
MEASURED = (
    ("overview, 24 hours", "/"),
    ("overview, 30 days", "/?span=month"),
    ("overview, live part", "/overview/live"),
    ("messages, newest", "/messages"),
    ("messages of a day", "/messages?since={day}"),
    ("messages, the newest thousand by score", "/messages?sort=score"),
    ("mail as it comes in", "/messages/live"),
    ("its live part", "/messages/live/rows"),
    ("completion of a search", "/searches/hint?path=/messages&q=verdict:ph&at=10"),
    ("a message", "/messages/{ggrid}"),
    ("two compared", "/messages/{ggrid}/compare?with={ggrid}"),
    ("its source", "/messages/{ggrid}/source"),
    ("its campaign", "/messages?q=campaign:{ggrid}"),
    ("its sender, to be blocked (tried)", "/messages/{ggrid}/entry?list=blocked-senders&entry=cheap-ads.example"),
    ("judged again", "/messages/{ggrid}/replay"),
    ("quarantine", "/quarantine"),
    ("quarantine in campaigns", "/quarantine?group=1"),
    ("quarantine by score", "/quarantine?sort=score"),
    ("requests", "/requests"),
    ("scan", "/scan"),
    ("lists", "/lists"),
    ("a list of a million", LIST),
    ("its entries that begin so", f"{LIST}?q=host05"),
    ("its entries that contain so", f"{LIST}?q=99999&how=contains"),
    ("one entry", f"{LIST}/entry?key=host0000077.example"),
    ("messages of an entry (tried)", f"{LIST}/hits?entry=news.example"),
    ("its history", f"{LIST}/history"),
    ("what was delivered before", f"{LIST}/look-back"),
    ("two entries (tried)", f"{LIST}/preview"),
    ("import form", f"{LIST}/import"),
    ("keys", "/keys"),
    ("tokens", "/tokens"),
    ("policy", "/policy"),
    ("policy, to be edited", "/policy?edit=1"),
    ("a finding", "/policy/text:urgency"),
    ("a policy on the last 1,000 messages (tried)", "/policy#tried"),
    ("rules", "/rules"),
    ("a rule", "/rules/edit?scope=global"),
    ("feeds", "/feeds"),
    ("a feed", "/feeds/edit"),
    ("learning", "/learning"),
    ("digests", "/digests"),
    ("digests of a scope", "/digests/global"),
    ("alerts", "/alerts"),
    ("an alert", "/alerts/edit?q=verdict:phishing"),
    ("tenants", "/tenants"),
    ("users", "/users"),
    ("audit trail", "/audit"),
    ("audit trail of an action", "/audit?action=entries."),
    ("a record of it", "/audit/1"),
    ("configuration", "/configuration"),
    ("routes", "/configuration/routes"),
    ("recipients", "/configuration/recipients"),
    ("limits", "/configuration/limits"),
    ("policy texts", "/configuration/policies"),
    ("the draft", "/configuration/draft"),
    ("versions", "/configuration/versions"),
    ("nodes", "/nodes"),
    ("system", "/system"),
    ("account", "/account"),
)


def _pages(ggrid: str) -> Sequence[tuple[str, str]]:
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 15 * 86_400))
    return (
        *(
            (f"{'messages' if path == '/messages' else 'quarantine'}: {text}", f"{path}?q={quote_plus(text)}")
            for text in SEARCHES
            for path in ("/messages", "/quarantine")
        ),
        *((name, path.format(ggrid=ggrid, day=day)) for name, path in MEASURED),
    )


# What people search for: every facet, alone and together.
SEARCHES = (
    *("from:cheap-ads.example", "to:user77@example.com", "domain:cheap-ads.example", "host:news.example"),
    *("host:never.example", "url:news.example/a", "file:never.pdf", f"sha256:{'ab' * 32}", "subject:payslip"),
    *("subject:never", "tag:text:urgency", "verdict:spam", "decision:quarantine", "score>4", "ip:192.0.2.25"),
    *("after:7d", "before:7d", "payslip", "never seen", "user77@example.com"),
    *("(verdict:phishing OR score>8) NOT subject:payslip", "subject:never OR host:never.example OR from:nobody"),
)
# Pages that are files, steps of signing in, or need something that this storage does not have.
NOT_SHOWN = {
    *("/account/setup", "/audit/export", "/messages/export", "/quarantine/export", "/lists/{scope}/{name}/export"),
    *("/lists/{scope}/{name}/remove", "/messages/{ggrid}/html", "/messages/{ggrid}/picture/{index}"),
    *(
        "/sign-in",
        "/sign-in/openid",
        "/sign-in/openid/callback",
        "/sign-in/openid/sign-out",
        "/digest/{link}",
        "/tenants/{uid}",
    ),
    *("/quarantine/work/{id}", "/quarantine/work/{id}/live", "/learning/{version}"),
    "/configuration/versions/{published}",
}


def _find_unmeasured(paths: Iterable[str]) -> set[str]:
    """Pages of the registry that none of these paths leads to."""
    shown = [path.partition("?")[0] for path in paths]
    wanted = {row.path for row in PAGES if row.method == "GET"} - NOT_SHOWN
    patterns = {path: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))) for path in wanted}
    return {path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, shown))}


def _measured(service: Service, ggrid: str, cluster: Cluster | None) -> str:
    service.user("bench", "administrator")
    client = service.client
    client.headers["Accept"] = "text/html"
    assert client.post("/sign-in", data={"name": "bench", "password": PASSWORD}).status_code == 303
    page = client.get("/account").text
    static = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    csrf = html.unescape(page.partition('name="csrf" value="')[2].partition('"')[0])
    pages = _pages(ggrid)
    assert not (missing := _find_unmeasured(path for _, path in pages)), f"not measured: {sorted(missing)}"
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
    stored = f"{MESSAGES:,} messages, {HELD_SEED * HELD_COPIES:,} held, {ENTRIES:,} entries, {engine}"
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
    return path in FORMS or "/entry?list=" in path or "/hits?" in path


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
