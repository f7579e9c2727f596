"""One tenant floods, another scans: how much slower is the other, and what held the event loop?

Tenant B scans real mail, 20 messages a second over four connections, alone and beside floods of tenant A, in turns.
With `BENCH_FAIRNESS_RATE=0` it sends as fast as it is answered: then B fills the machine by itself, so that half of the
machine for each doubles its times. A's flood comes from a process of its own at a lower priority (clients are other
machines, as a rule): scans over 24 connections, which are more than there are slots, additions to `blocked-phrases`,
each of which makes a new snapshot for the workers, exports of a long list, searches of messages, trials of a policy and
dry runs of list changes. The third flood is the worst that A's people can send: policies with expressions that never
end, searches for texts that are everywhere, files of blank lines and of letters that unfold to import, calls of 8 MiB
of empty arrays, and mail that is made for A's own lists. The fourth is six connections with mail that spends its whole
account of CPU. Beside A's scans alone and beside the worst B's p99 at most doubles, beside everything at once it is at
most three times that of a quiet service, beside costly mail B's worst answer takes a second at most, `/healthz` answers
within 0.3 s, and no callback holds the event loop for 20 ms of CPU: that is the aim. Memory is compared after one flood
of everything, which fills caches, and after all others. `BENCH_FAIRNESS_FLOODS=worst` runs that flood alone, and
`costly` the last one.
"""

import contextlib
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import httpx
import psutil

from bench import corpus, load
from bench.gateway import NoSuchName
from bench.nasty import CUSTOM_PAIRS, PAIRS, RULE_PAIRS
from bench.ports import free_ports
from bench.processes import await_output
from bench.sample import MAILS
from bench.scanning import TOKEN, configure, pss

SCANS = int(os.environ.get("BENCH_FAIRNESS_SCANS", "300"))
ROUNDS = int(os.environ.get("BENCH_FAIRNESS_ROUNDS", "3"))
CONNECTIONS, FLOOD = 4, 24
RATE = float(os.environ.get("BENCH_FAIRNESS_RATE", "20")) or None
ENTRIES = 20_000
PASSWORD = "six words for a small test"
BASE = "/api/public/lists/v1"
SETTLE_SECONDS = 8.0
MOST_LOOP_SECONDS = 0.020
ALONE, SCANS_ALONE, EVERYTHING, WORST = "alone", "beside A's scans", "beside everything", "beside the worst"
COSTLY = "beside six costly mails"
_FLOODS = {"scans": SCANS_ALONE, "everything": EVERYTHING, "worst": WORST, "costly": COSTLY}
_CHOSEN = [_FLOODS[name] for name in os.environ.get("BENCH_FAIRNESS_FLOODS", ",".join(_FLOODS)).split(",")]
_MOST = {SCANS_ALONE: 2.0, EVERYTHING: 3.0, WORST: 2.0, COSTLY: math.inf}
MOST_RATIO = {flood: most for flood, most in _MOST.items() if flood in _CHOSEN}
MOST_HEALTH_SECONDS = 0.3
MOST_BESIDE_COSTLY = 1_000


@dataclass(frozen=True)
class Place:
    """Where the service is, and who A is to it."""

    url: str
    tenant: str
    key: str


@dataclass(frozen=True)
class Round:
    """B's latencies in one run, in milliseconds, `most` the worst, and the longest that `/healthz` took meanwhile."""

    p50: float
    p99: float
    most: float
    errors: int
    health: float


def run() -> str:
    """Both in turns, on one service."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.closing(NoSuchName()) as dns,
        _service(Path(name), dns.address) as (place, other, process),
    ):
        return _measured(place, other, process)


@contextlib.contextmanager
def _service(folder: Path, nameserver: str) -> Iterator[tuple[Place, str, psutil.Process]]:
    port, core = free_ports(2)
    configure(folder, port, core, nameserver)
    arguments = [sys.executable, "-m", "bench.loop_watchdog", "serve", "--data", str(folder)]
    output = folder / "output"
    with output.open("wb") as sink:
        process = subprocess.Popen(arguments, stdout=sink, stderr=sink)
    try:
        await_output(process, output, "https://")

        def command(*words: str, stdin: str = "") -> str:
            done = subprocess.run(
                [sys.executable, "-m", "gatepost", *words, "--data", str(folder)],
                check=True,
                capture_output=True,
                text=True,
                input=stdin,
            )
            return done.stdout.strip()

        flooding, other = command("tenant", "create", "a"), command("tenant", "create", "b")
        key = command("apikey", "create", "a", "--tenant", flooding)
        command("user", "create", "flood", "--role", "analyst", "--final", "--tenant", flooding, stdin=PASSWORD)
        yield Place(f"https://127.0.0.1:{port}", flooding, key), other, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(90)


def _measured(place: Place, other: str, process: psutil.Process) -> str:
    requests = [load.upload(raw, envelope, TOKEN, tenant=other) for raw, envelope in _mail(SCANS)]
    _fill(place)
    load.send(place.url, requests[: SCANS // 2], CONNECTIONS)
    rounds: dict[str, list[tuple[Round, Round]]] = {}
    flooded: Counter[str] = Counter()
    for flood in MOST_RATIO:
        with _flood(place, flood):
            time.sleep(SETTLE_SECONDS)
        time.sleep(SETTLE_SECONDS)
        before, memory = _figures(place.url), pss(process)
        for _ in range(ROUNDS):
            # What the flood before has begun comes to its end: then B is alone.
            time.sleep(SETTLE_SECONDS)
            alone = _round(place.url, requests)
            with _flood(place, flood) as counts:
                rounds.setdefault(flood, []).append((alone, _round(place.url, requests)))
            flooded.update(counts)
    figures = _figures(place.url)
    time.sleep(SETTLE_SECONDS)
    return _told(rounds, before, figures, flooded, (memory, pss(process)))


@cache
def _mail(count: int) -> list[tuple[bytes, dict[str, object]]]:
    try:
        return [(mail.raw, mail.envelope) for mail in corpus.mail(count, max_bytes=60_000)]
    except corpus.NotPresentError:
        envelope: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["r@example.org"]}
        texts = [f"From: {mail.sender}\r\nSubject: {mail.subject}\r\n\r\n{mail.text}".encode() for mail in MAILS]
        return [(texts[number % len(texts)], envelope) for number in range(count)]


def _round(url: str, requests: list[bytes]) -> Round:
    with _health_asked(url) as taken:
        result = load.send(url, requests, CONNECTIONS, rate=RATE)
    wrong = sum(b" 200 " not in answer.split(b"\n", 1)[0] + b" " for answer in result.answers)
    p50, p99, most = result.percentile(0.5), result.percentile(0.99), 1000 * max(result.latencies)
    return Round(p50, p99, most, result.errors + wrong, 1000 * max(taken))


@contextlib.contextmanager
def _health_asked(url: str) -> Iterator[list[float]]:
    """Ask for `/healthz` ten times a second; how long each answer took, in seconds."""
    taken, over = list[float](), threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, verify=False, trust_env=False, timeout=60) as client:
            while not over.wait(0.1):
                before = time.monotonic()
                client.get("/healthz")
                taken.append(time.monotonic() - before)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def _figures(url: str) -> dict[str, float]:
    lines = httpx.get(f"{url}/metrics", verify=False, trust_env=False, timeout=60).text.splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def _client(place: Place, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=place.url, verify=False, trust_env=False, timeout=120, headers=headers)


def _fill(place: Place) -> None:
    """A long list of A's, to be exported."""
    with _client(place, Authorization=f"apikey {place.key}") as client:
        for start in range(0, ENTRIES, 500):
            entries = [{"entry": f"h{number}.example", "comment": "x" * 40} for number in range(start, start + 500)]
            body = {"listName": "blocked-urls", "tenantUid": place.tenant, "entries": entries}
            client.post(f"{BASE}/addEntries", json=body).raise_for_status()


@contextlib.contextmanager
def _flood(place: Place, flood: str) -> Iterator[dict[str, int]]:
    """A's scans, or everything that A can do, from a process of its own; afterwards what was answered, by kind and
    status."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_flood_until_told, args=(place, flood, theirs))
    process.start()
    assert ours.poll(180), "the flood does not begin"
    ours.recv()
    time.sleep(2)
    counts: dict[str, int] = {}
    try:
        yield counts
    finally:
        ours.send("stop")
        if ours.poll(120):
            counts.update(ours.recv())
        process.join(30)
        process.kill()


def _flood_until_told(place: Place, flood: str, told: "multiprocessing.connection.Connection[object, object]") -> None:
    os.nice(5)
    over, counts, lock = threading.Event(), Counter[str](), threading.Lock()

    def repeat(name: str, act: Callable[[], int]) -> None:
        while not over.is_set():
            try:
                status = act()
            except (OSError, httpx.HTTPError):
                status = 0
            with lock:
                counts[f"{name} {status}"] += 1

    kinds = _MADE_UP.get(flood) or [kind for kind in _KINDS if flood == EVERYTHING or kind[0] == "scan"]
    works = [(name, act) for name, many, make in kinds for act in (make(place) for _ in range(many))]
    threads = [threading.Thread(target=repeat, args=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    told.send("begun")
    told.recv()
    over.set()
    for thread in threads:
        thread.join(10)
    told.send(dict(counts))


def _scanning(place: Place) -> Callable[[], int]:
    connection = load.Connection(place.url)
    requests = [load.upload(raw, envelope, TOKEN, tenant=place.tenant) for raw, envelope in _mail(50)]
    numbers = iter(range(10**9))

    def act() -> int:
        answer = connection.exchange(requests[next(numbers) % len(requests)])
        return int(answer.split(b" ", 2)[1])

    return act


def _changing(place: Place) -> Callable[[], int]:
    client = _client(place, Authorization=f"apikey {place.key}")
    numbers = iter(range(10**9))

    def act() -> int:
        entries = [
            {"entry": f"words {os.getpid()} {next(numbers)} of a flood", "comment": "y" * 500} for _ in range(20)
        ]
        body = {"listName": "blocked-phrases", "tenantUid": place.tenant, "entries": entries}
        return client.post(f"{BASE}/addEntries", json=body).status_code

    return act


def _exporting(place: Place) -> Callable[[], int]:
    client = _client(place, Authorization=f"apikey {place.key}")
    body = {"listName": "blocked-urls", "tenantUid": place.tenant}
    return lambda: client.post(f"{BASE}/listEntries", json=body).status_code


def _searching(place: Place) -> Callable[[], int]:
    client = _client(place, Authorization=f"Bearer {TOKEN}")
    stated = {"tenantUid": place.tenant, "linkHost": "nowhere.example"}
    return lambda: client.post("/v1/messages/search", json=stated).status_code


def _trying(path: str, form: dict[str, str]) -> Callable[[Place], Callable[[], int]]:
    """A page that computes what a change would do, as A's analyst."""

    def make(place: Place) -> Callable[[], int]:
        client, csrf = _visiting(place)
        return lambda: client.post(path.format(tenant=place.tenant), data={"csrf": csrf, **form}).status_code

    return make


_KINDS: tuple[tuple[str, int, Callable[[Place], Callable[[], int]]], ...] = (
    ("scan", FLOOD, _scanning),
    ("list change", 2, _changing),
    ("export", 3, _exporting),
    ("search", 2, _searching),
    ("policy trial", 1, _trying("/policy", {"text": '[verdicts.clean]\ndecision = "quarantine"\n'})),
    ("dry run", 1, _trying("/lists/{tenant}/blocked-urls/preview", {"entries": "new.example\n"})),
)


def _scanning_worst(place: Place) -> Callable[[], int]:
    """Mail that is made for A's own lists, and mail with thousands of links."""
    connection = load.Connection(place.url)
    envelope: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["r@example.org"]}
    raws = [PAIRS[name](0.3)[1] for name in ("phrases of one first word", "phrases inside each other", "people")]
    raws += [CUSTOM_PAIRS["custom lists and links"](1.0)[1], RULE_PAIRS["rules with lists in lists"](1.0)[1]]
    requests = [load.upload(raw, envelope, TOKEN, tenant=place.tenant) for raw in raws]
    numbers = iter(range(10**9))
    return lambda: int(connection.exchange(requests[next(numbers) % len(requests)]).split(b" ", 2)[1])


def _changing_worst(place: Place) -> Callable[[], int]:
    """Phrases of letters that unfold to eighteen each, and inside each other."""
    client = _client(place, Authorization=f"apikey {place.key}")
    numbers = iter(range(10**9))

    def act() -> int:
        number = next(numbers)
        entries = [{"entry": f"{number} {each} " + "\ufdfa" * 900} for each in range(498)]
        entries += [{"entry": "the " * (1 + number % 200) + "b"}, {"entry": f"the b{number}"}]
        body = {"listName": "blocked-phrases", "tenantUid": place.tenant, "entries": entries, "dryRun": number % 4 > 0}
        return client.post(f"{BASE}/addEntries", json=body).status_code

    return act


def _calling_worst(place: Place) -> Callable[[], int]:
    """Calls of 8 MiB that consist of empty arrays."""
    client = _client(place, Authorization=f"apikey {place.key}")
    body = b'{"listName": "blocked-urls", "x": [' + b"[]," * 2_700_000 + b"1]}"
    headers = {"Content-Type": "application/json"}
    return lambda: client.post(f"{BASE}/addEntries", content=body, headers=headers).status_code


def _visiting(place: Place) -> tuple[httpx.Client, str]:
    """A's analyst at a browser, and the token of the session."""
    client = _client(place, Accept="text/html")
    client.post("/sign-in", data={"name": "flood", "password": PASSWORD})
    return client, client.get("/account").text.partition('name="csrf" value="')[2].partition('"')[0]


def _importing_worst(place: Place) -> Callable[[], int]:
    client, csrf = _visiting(place)
    contents = (b"\n" * (16 << 20), ("\ufdfa" * 900 + "\n").encode() * 2_000, b'"' + b"a,\n" * (2 << 20))
    numbers = iter(range(10**9))

    def act() -> int:
        number = next(numbers)
        file = ("x.csv" if number % 3 == 2 else "x.txt", contents[number % 3])
        path = f"/lists/{place.tenant}/blocked-phrases/import"
        return client.post(path, data={"csrf": csrf}, files={"file": file}).status_code

    return act


def _searching_worst(place: Place) -> Callable[[], int]:
    client, _ = _visiting(place)
    queries = ("q=" + "e%20" * 40, "subject=a", "q=" + "a" * 250, "q=%25_%25_%25")
    numbers = iter(range(10**9))
    return lambda: client.get(f"/messages?{queries[next(numbers) % len(queries)]}").status_code


def _write_worst_policy() -> str:
    """Rules that an estimate refuses, and those that it lets pass."""
    conditions = (r'spf.matches("[\\p{L}\\]]{300}") || dkim.matches("[\\p{L}\\]]{300}")', 'subject.matches(".{700}")')
    return "".join(
        f"[rules.r{number}]\nwhen = '''{conditions[number % 2]}'''\ntitle = \"x\"\nverdict = \"spam\"\n"
        for number in range(190)
    )


def _scanning_costly(place: Place) -> Callable[[], int]:
    """Mail that spends its whole account of CPU: broken quoted-printable, whose readings all have scripts to run."""
    connection = load.Connection(place.url)
    envelope: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["r@example.org"]}
    head = b"From: ann@example.org\r\nSubject: a page\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n"
    head += b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    line = b"<script>a=1</script>=ZZ text =\r\n"
    raws = [head + line * (kilobytes * 1024 // len(line)) for kilobytes in (120, 240, 480, 960)]
    requests = [load.upload(raw, envelope, TOKEN, tenant=place.tenant) for raw in raws]
    numbers = iter(range(10**9))
    return lambda: int(connection.exchange(requests[next(numbers) % len(requests)]).split(b" ", 2)[1])


_Kinds = tuple[tuple[str, int, Callable[[Place], Callable[[], int]]], ...]
_WORST: _Kinds = (
    ("mail", FLOOD // 2, _scanning_worst),
    ("list change", 2, _changing_worst),
    ("call", 2, _calling_worst),
    ("import", 2, _importing_worst),
    ("search", 4, _searching_worst),
    ("policy trial", 2, _trying("/policy", {"text": _write_worst_policy()})),
)
_MADE_UP: dict[str, _Kinds] = {WORST: _WORST, COSTLY: (("costly mail", 6, _scanning_costly),)}


def _told(
    rounds: dict[str, list[tuple[Round, Round]]],
    before: dict[str, float],
    after: dict[str, float],
    flooded: Counter[str],
    memory: tuple[float, float],
) -> str:
    worst = after.get("gatepost_loop_blocked_worst_seconds", 0.0)
    blocked = after.get("gatepost_loop_blocked_total", 0.0) - before.get("gatepost_loop_blocked_total", 0.0)
    kills = sum(
        value - before.get(name, 0) for name, value in after.items() if name.startswith("gatepost_worker_kills")
    )
    lines = [
        "| Tenant B | p50 ms | p99 ms | worst ms | failed | `/healthz` at most, ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for flood, pairs in rounds.items():
        for name, runs in (ALONE, [pair[0] for pair in pairs]), (flood, [pair[1] for pair in pairs]):
            p50, p99 = median(each.p50 for each in runs), median(each.p99 for each in runs)
            health = max(each.health for each in runs)
            most, failed = max(each.most for each in runs), sum(each.errors for each in runs)
            lines.append(f"| {name} | {p50:.0f} | {p99:.0f} | {most:.0f} | {failed} | {health:.0f} |")
    counts = ", ".join(f"{count:,} × {what}" for what, count in sorted(flooded.items()))
    loop = "within" if worst <= MOST_LOOP_SECONDS else "NOT within"
    share = (
        f"B's p99 {', '.join(_ratio(rounds, flood) for flood in rounds)} "
        f"(median of {ROUNDS} rounds of {SCANS} scans). Longest callback on the event loop: "
        f"{worst * 1000:.0f} ms of CPU ({loop} {MOST_LOOP_SECONDS * 1000:.0f} ms), {blocked:.0f} over 5 ms; "
        f"{kills:.0f} workers lost."
    )
    held = (
        f"Memory of all processes of the service (PSS): {memory[0]:.0f} MB after a first flood, {memory[1]:.0f} MB "
        f"{SETTLE_SECONDS:.0f} s after {ROUNDS} more ({memory[1] / memory[0] - 1:+.0%})."
    )
    slowest = max(each.health for pairs in rounds.values() for pair in pairs for each in pair)
    answered = "within" if slowest <= 1000 * MOST_HEALTH_SECONDS else "NOT within"
    held += f" `/healthz` took {slowest:.0f} ms at most ({answered} {1000 * MOST_HEALTH_SECONDS:.0f} ms)."
    flood = f"A's flood, by status: {counts}. Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    return "\n".join((*lines, "", share, "", held, "", flood))


def _ratio(rounds: dict[str, list[tuple[Round, Round]]], flood: str) -> str:
    ratio = median(beside.p99 / alone.p99 for alone, beside in rounds[flood])
    if flood == COSTLY:
        most = max(beside.most for _, beside in rounds[flood])
        held = "within" if most <= MOST_BESIDE_COSTLY else "NOT within"
        return f"{flood} is {ratio:.2f} times that alone, its worst answer {most:.0f} ms ({held} {MOST_BESIDE_COSTLY})"
    held = "within" if ratio <= MOST_RATIO[flood] else "NOT within"
    return f"{flood} is {ratio:.2f} times that alone ({held} {MOST_RATIO[flood]:.0f})"
