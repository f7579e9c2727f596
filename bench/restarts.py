"""Changes of the settings under load: one service with SQLite that starts again and again while mail comes.

Clients send messages by the Email Scanning API, on kept and on new connections, and by SMTP, each in a session of its
own, while the settings change 20 times; each change is a SIGHUP after the one before was taken over. A message is
refused if its connection is, or if the answer is a 5xx of SMTP or another status than 200. It is sent again after a
4xx of SMTP, or where a connection ended without an answer. It is lost if it was accepted and is neither with the next
hop nor on record, and doubled if it is there twice. The wait is that of a client from its first connection to its
answer, repetitions included. An idle restart is the longest wait of one client that asks for `/healthz` all the time
while nothing else is asked.
"""

import os
import signal
import smtplib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Self
from urllib.request import urlopen

import httpx

from bench.deployment import PARAMETERS, TOKEN
from bench.gateway import Sink
from bench.ports import free_ports
from bench.processes import await_output
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

MESSAGES = int(os.environ.get("BENCH_RESTARTS_MESSAGES", "5000"))
RESTARTS = int(os.environ.get("BENCH_RESTARTS", "20"))
IDLE_RESTARTS = 5
CLIENTS = 3
TAKEN = '"configuration taken over"'
GUARD_YML = """
mainWorkerCount: {slots}
scanSources: {{restApi: {{port: {guard}}}, smtp: {{port: {smtp}}}}}
delivery: {{nextHop: "smtp://127.0.0.1:{hop}", tls: "off"}}
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
log: {{format: json}}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {abby}}}
tls: "off"
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}
staticApiTokens: [{{name: test, token: "{token}"}}]
"""


class Service:
    """A running `gatepost serve` whose settings change."""

    def __init__(self, folder: Path, hop: int) -> None:
        self.folder, self._hop = folder, hop
        self.abby, self._guard, self.smtp = free_ports(3)
        self.write(20)
        self.output = folder / "output"
        command = [sys.executable, "-m", "gatepost", "serve", "--config", folder, "--data", folder / "data"]
        with self.output.open("wb") as sink:
            self._process = subprocess.Popen(list(map(str, command)), stdout=sink, stderr=sink)
        await_output(self._process, self.output, '"service listening"')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(120)

    def write(self, slots: int) -> None:
        """Write the settings, with so many slots."""
        values = {"slots": slots, "guard": self._guard, "smtp": self.smtp, "hop": self._hop}
        for file, text in ((GUARD_FILE, GUARD_YML), (ABBY_FILE, ABBY_YML)):
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(text.format(**values, abby=self.abby, token=TOKEN))

    def count(self, words: str) -> int:
        return self.output.read_text("utf-8", "replace").count(words)

    def change(self, slots: int) -> None:
        """Change the settings, and wait until they are taken over."""
        before = self.count(TAKEN)
        self.write(slots)
        self._process.send_signal(signal.SIGHUP)
        self._await(TAKEN, before)

    def change_idle(self, slots: int) -> float:
        """The same while one client asks all the time; returns how many seconds it waited for an answer at most."""
        longest, ended = 0.0, threading.Event()

        def ask() -> None:
            nonlocal longest
            while not ended.is_set():
                start = time.monotonic()
                with urlopen(f"http://127.0.0.1:{self.abby}/healthz", timeout=600) as answer:
                    answer.read()
                longest = max(longest, time.monotonic() - start)
                time.sleep(0.05)

        asking = threading.Thread(target=ask)
        asking.start()
        self.change(slots)
        ended.set()
        asking.join()
        return longest

    def _await(self, words: str, before: int) -> None:
        deadline = time.monotonic() + 240
        while self.count(words) <= before:
            assert self._process.poll() is None, self.output.read_text("utf-8", "replace")
            assert time.monotonic() < deadline, f"{words} was not logged"
            time.sleep(0.005)


class Load:
    """Clients that send until they are told to end, and at least so many messages."""

    def __init__(self, service: Service, least: int) -> None:
        self._service, self._least = service, least
        self._ended, self._lock = threading.Event(), threading.Lock()
        self.sent = 0
        self.accepted: dict[str, set[str]] = {"rest": set(), "smtp": set()}
        self.refused: list[object] = []
        self.again: Counter[str] = Counter()
        self.longest: dict[str, float] = {"rest": 0.0, "smtp": 0.0}
        ways = [self._scan_kept, self._scan_new, self._deliver]
        self._threads = [threading.Thread(target=way) for way in ways for _ in range(CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(600)

    def _next(self) -> int | None:
        with self._lock:
            if self._ended.is_set() and self.sent >= self._least:
                return None
            self.sent += 1
            return self.sent

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self._service.abby}", trust_env=False, timeout=600)

    def _scan_kept(self) -> None:
        with self._client() as client:
            while number := self._next():
                self._scan(client, f"rest-{number}")

    def _scan_new(self) -> None:
        while number := self._next():
            with self._client() as client:
                self._scan(client, f"rest-{number}")

    def _scan(self, client: httpx.Client, name: str) -> None:
        message = "e", _write(name), "message/rfc822"
        files = {"parameters": ("p", PARAMETERS.encode(), "application/json"), "email": message}
        headers, start = {"Authorization": f"Bearer {TOKEN}"}, time.monotonic()
        while True:
            try:
                answer = client.post("/v1/messageQueue/submitEmail", files=files, headers=headers)
            except httpx.ConnectError as fault:
                self.refused.append((name, fault))
                return
            except httpx.TransportError as fault:
                self._note_again(type(fault).__name__)
                continue
            break
        self._note("rest", name, start, refusal=None if answer.status_code == 200 else answer.text)

    def _deliver(self) -> None:
        while number := self._next():
            name, start = f"smtp-{number}", time.monotonic()
            while (refusal := self._try(name)) is None:
                time.sleep(0.1)
            self._note("smtp", name, start, refusal=refusal or None)

    def _try(self, name: str) -> str | None:
        """Send a message; returns why it is refused, "" if it is not, None if it has to come again."""
        accepted = False
        try:
            with smtplib.SMTP("127.0.0.1", self._service.smtp, timeout=600) as client:
                client.sendmail("ann@example.org", ["bob@example.com"], _write(name))
                accepted = True
        except smtplib.SMTPRecipientsRefused as fault:
            return self._judge(next(iter(fault.recipients.values()))[0])
        except smtplib.SMTPResponseException as fault:
            return "" if accepted else self._judge(fault.smtp_code)  # 421 instead of 221, if it was
        except ConnectionRefusedError:
            return "the connection is refused"
        except (smtplib.SMTPException, OSError) as fault:
            self._note_again(type(fault).__name__)
            return None
        return ""

    def _judge(self, code: int) -> str | None:
        if code >= 500:
            return str(code)
        self._note_again(str(code))
        return None

    def _note_again(self, why: str) -> None:
        with self._lock:
            self.again[why] += 1

    def _note(self, way: str, name: str, start: float, refusal: str | None) -> None:
        with self._lock:
            self.longest[way] = max(self.longest[way], time.monotonic() - start)
            if refusal:
                self.refused.append((name, refusal))
            else:
                self.accepted[way].add(name)


def _write(name: str) -> bytes:
    return (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: {name}\r\n"
        f"Message-ID: <{name}@bench.example>\r\nDate: Tue, 10 Nov 2026 09:12:00 +0000\r\n\r\nHello Bob\r\n"
    ).encode()


def run() -> str:
    """Return the section of the results."""
    sink = Sink()
    try:
        with tempfile.TemporaryDirectory() as name, Service(Path(name), sink.port) as service:
            with Load(service, MESSAGES) as load:
                for number in range(RESTARTS):
                    service.change(21 + number % 2)
            idle = sorted(service.change_idle(23 + number % 2) for number in range(IDLE_RESTARTS))
            return _tell(service, load, sink, idle)
    finally:
        sink.close()


def _tell(service: Service, load: Load, sink: Sink, idle: list[float]) -> str:
    with sqlite3.connect(service.folder / "data/gatepost.db") as database:
        recorded = Counter(subject for (subject,) in database.execute("SELECT subject FROM messages"))
    taken = {name.partition("@")[0]: count for name, count in sink.taken.items()}
    found = {"rest": recorded, "smtp": Counter(taken)}
    rows = ["| Messages | by | accepted | lost | doubled | longest wait, s |", "|---:|---|---:|---:|---:|---:|"]
    for way, accepted in load.accepted.items():
        lost = sum(not found[way][name] for name in accepted)
        doubled = sum(found[way][name] > 1 for name in accepted)
        sent = len(accepted) + sum(str(each).startswith(f"('{way}-") for each in load.refused)
        rows.append(f"| {sent:,} | {way} | {len(accepted):,} | {lost} | {doubled} | {load.longest[way]:.2f} |")
    again = ", ".join(f"{count} × {what}" for what, count in sorted(load.again.items())) or "none"
    rows += ["", f"{RESTARTS} restarts under load; refused: {len(load.refused)}; sent again: {again}.", ""]
    median = f"{idle[0]:.2f} s at least, {idle[len(idle) // 2]:.2f} s in the median, {idle[-1]:.2f} s at most"
    return "\n".join([*rows, f"Idle restart, of {IDLE_RESTARTS}: {median}."])
