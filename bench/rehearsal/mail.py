"""The mail of a company's day: what is sent in which part of it, by senders who send again what was not accepted."""

import random
import smtplib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.sample import EICAR

MAILBOXES = 20_000
SENDERS = 6
HOST = "rehearsal.example"
# Part of the day: its share of the time, and how many times the mean rate it has.
DAY = {
    "night": (0.15, 0.2),
    "morning rush": (0.20, 1.4),
    "busiest minute": (0.10, 2.6),
    "newsletter": (0.10, 0.8),
    "campaign": (0.15, 1.2),
    "flood of a tenant": (0.15, 1.4),
    "evening": (0.15, 0.5),
}
# One newsletter goes to everybody, in transactions of so many recipients.
RECIPIENTS = 100
HELD_EVERY, LARGE_EVERY = 10, 40
WORDS = (
    "kitchen garden station library harbour museum office bakery theatre market school bridge workshop tower hotel "
    "ladder bread drawings tickets keys camera soup chairs violin letters plants map boots paint lamp curtains books"
).split()


@dataclass
class Letter:
    """One message that is sent once, to one or more recipients."""

    name: str
    part: str
    recipients: tuple[str, ...]
    raw: bytes
    seconds: float


@dataclass
class Sent:
    """What the senders saw: the part of the day of each pair of Message-ID and recipient that was accepted."""

    accepted: dict[tuple[str, str], str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    cut: set[str] = field(default_factory=set)
    messages: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def letters(rate: float, seconds: float, seed: int = 5) -> Iterator[Letter]:
    """Every message of the day, in the order of time."""
    dice, number, began = random.Random(seed), 0, 0.0
    for part, (share, factor) in DAY.items():
        lasts = share * seconds
        extra = _newsletter(part, began, lasts) if part == "newsletter" else []
        count = max(1, round(rate * factor * lasts))
        for place in range(count):
            at = began + lasts * place / count
            while extra and extra[0].seconds <= at:
                yield extra.pop(0)
            number += 1
            yield _letter(f"m{number}", part, at, dice, number)
        yield from extra
        began += lasts


def _letter(name: str, part: str, at: float, dice: random.Random, number: int) -> Letter:
    domain = "flood.example" if part == "flood of a tenant" and number % 4 else "example.com"
    body = " ".join(dice.choices(WORDS, k=60))
    if part == "campaign" and number % 3:
        body = f"{EICAR}\r\nYour parcel waits, see the file. {body}"
    elif number % LARGE_EVERY == 0:
        body = f"{EICAR}\r\n" + "A file that is longer than a page. " * 4_000
    elif number % HELD_EVERY == 0:
        body = EICAR
    return _make(name, part, (f"u{dice.randrange(MAILBOXES)}@{domain}",), body, at)


def _newsletter(part: str, began: float, lasts: float) -> list[Letter]:
    """The letters of a newsletter to every mailbox: one Message-ID."""
    groups = range(0, MAILBOXES, RECIPIENTS)
    return [
        _make(
            "news", part, tuple(f"u{each}@example.com" for each in range(first, first + RECIPIENTS)),
            "The canteen opens at eleven from Monday on. " * 20, began + lasts * place / len(groups),
        )
        for place, first in enumerate(groups)
    ]  # fmt: skip


def _make(name: str, part: str, recipients: tuple[str, ...], body: str, at: float) -> Letter:
    raw = (
        f"From: Ann <ann@example.org>\r\nTo: {recipients[0]}\r\nSubject: {part} {name}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{name}@{HOST}>\r\n\r\n{body}\r\n"
    )
    return Letter(f"{name}@{HOST}", part, recipients, raw.encode(), at)


class Senders:
    """Threads that send the letters of a day to the Postfix in front, each when it is due."""

    def __init__(self, port: int, day: Iterator[Letter]) -> None:
        self._port, self._day = port, day
        self.sent = Sent()
        self._began = time.monotonic()
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(SENDERS)]

    def start(self) -> None:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def finish(self, seconds: float) -> bool:
        """Wait until all is sent; returns whether it is."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Begin nothing new."""
        self._over.set()

    def _work(self) -> None:
        client: smtplib.SMTP | None = None
        while not self._over.is_set():
            with self._turn:
                letter = next(self._day, None)
            if letter is None:
                break
            self._over.wait(max(0.0, self._began + letter.seconds - time.monotonic()))
            while not self._over.is_set():
                try:
                    client = client or smtplib.SMTP("127.0.0.1", self._port, timeout=120)
                    client.ehlo_or_helo_if_needed()
                    if self._send(client, letter):
                        break
                except (OSError, smtplib.SMTPException) as fault:
                    client = None
                    self.sent.again[type(fault).__name__] += 1
                self._over.wait(0.2)
        if client:
            client.close()

    def _send(self, client: smtplib.SMTP, letter: Letter) -> bool:
        """One transaction; whether the message was accepted or refused for good."""
        commands = ["MAIL FROM:<ann@example.org>", *(f"RCPT TO:<{each}>" for each in letter.recipients), "DATA"]
        for command in commands:
            code, _ = client.docmd(command)
            if code >= 400:
                client.rset()
                return self._note(letter, code)
        client.send(letter.raw.replace(b"\n.", b"\n..") + b".\r\n")
        try:
            code, _ = client.getreply()
        except (OSError, smtplib.SMTPException):
            self.sent.cut.add(letter.name)
            raise
        return self._note(letter, code)

    def _note(self, letter: Letter, code: int) -> bool:
        with self.sent.lock:
            if code < 400:
                self.sent.messages[letter.part] += 1
                self.sent.accepted |= {(letter.name, each): letter.part for each in letter.recipients}
            elif code >= 500:
                self.sent.refused[letter.part] += 1
            else:
                self.sent.again[str(code)] += 1
        return code < 400 or code >= 500


def count_parts(pairs: dict[tuple[str, str], str]) -> dict[str, int]:
    """How many pairs each part of the day has."""
    found: dict[str, int] = defaultdict(int)
    for part in pairs.values():
        found[part] += 1
    return found
