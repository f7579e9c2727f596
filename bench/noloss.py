"""No message is lost: a next hop that fails at random, and a guard that is killed again and again.

Senders behave as mail servers do: what is not answered with 2xx or 5xx comes again. Every message must end with the
next hop, in the quarantine, or refused with a 5xx that the sender saw. A message may be there twice only if a kill cut
off the reply to it (RFC 1047).
"""

import contextlib
import os
import queue
import smtplib
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway import Gateway, Sink, held_mail

MESSAGES = int(os.environ.get("BENCH_NOLOSS_MESSAGES", "4000"))
CONNECTIONS = 20
KILLS = int(os.environ.get("BENCH_NOLOSS_KILLS", "100"))
FAILING = 0.08
# One in so many carries EICAR's test string and is to be held.
HELD_EVERY = 10
# One in so many of all is so large that its bytes are a file; those of others that are held lie in the database.
LARGE_EVERY = 40
_END = b"\r\nThe end.\r\n"
_EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


@dataclass
class Account:
    """What became of every message, as the senders saw it; `cut` counts replies that a broken connection cut off."""

    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    cut: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Result:
    """The account against what the next hop and the quarantine have."""

    messages: int
    lost: set[str]
    refused: int
    duplicates: dict[str, int]
    unexplained: set[str]
    held: int
    account: Account
    failures: Counter[str]
    seconds: float


def trial(messages: int, connections: int, kills: int, folder: Path, failing: float = FAILING) -> Result:
    """Send so many messages and kill guard so often in between."""
    sink = Sink(failing, stall=3.0)
    sink.keep = False
    gateway = Gateway(folder, sink.port, timeout=400, smtp=", maxConnections: 100")
    with contextlib.closing(sink), gateway:
        return _send_and_kill(messages, connections, kills, gateway, sink)


def _send_and_kill(messages: int, connections: int, kills: int, gateway: Gateway, sink: Sink) -> Result:
    started, account = time.monotonic(), Account()
    names = [f"m{number}@noloss.example" for number in range(messages)]
    todo: queue.Queue[str] = queue.Queue()
    for name in names:
        todo.put(name)
    done = threading.Event()
    senders = [threading.Thread(target=_send, args=(gateway.port, todo, account, done)) for _ in range(connections)]
    for sender in senders:
        sender.start()
    try:
        _kill_in_between(gateway, account, messages, kills)
        while len(account.accepted | account.refused) < messages:
            time.sleep(0.05)
    finally:
        done.set()
    for sender in senders:
        sender.join(60)
    seconds = time.monotonic() - started
    return _judged(names, account, sink, _held(gateway.folder), seconds)


def _judged(names: list[str], account: Account, sink: Sink, held: Counter[str], seconds: float) -> Result:
    there = sink.taken + held
    lost = {name for name in account.accepted if not there[name]} | (set(names) - account.accepted - account.refused)
    duplicates = {name: count - 1 for name, count in there.items() if count > 1}
    unexplained = {name for name, extra in duplicates.items() if extra > account.cut[name]}
    # Refused and there all the same: only if an earlier reply was cut off.
    unexplained |= {name for name in account.refused - account.accepted if there[name] > account.cut[name]}
    return Result(
        len(names),
        lost,
        len(account.refused),
        duplicates,
        unexplained,
        sum(held.values()),
        account,
        sink.failures,
        seconds,
    )


def _kill_in_between(gateway: Gateway, account: Account, messages: int, kills: int) -> None:
    for number in range(1, kills + 1):
        while len(account.accepted | account.refused) < messages * number // (kills + 1):
            time.sleep(0.002)
        gateway.kill()
        account.kills += 1
        gateway.start()


def _send(port: int, todo: "queue.Queue[str]", account: Account, done: threading.Event) -> None:
    client: smtplib.SMTP | None = None
    while not done.is_set():
        try:
            name = todo.get(timeout=0.1)
        except queue.Empty:
            continue
        try:
            client = client or smtplib.SMTP("127.0.0.1", port, timeout=60)
            client.ehlo_or_helo_if_needed()
            again = _attempt(client, name, account)
        except (OSError, smtplib.SMTPException):
            client, again = None, True
        if again:
            time.sleep(0.02)
            todo.put(name)
    if client:
        client.close()


def _attempt(client: smtplib.SMTP, name: str, account: Account) -> bool:
    """One transaction; true if it has to come again."""
    account.attempts += 1
    for command in ("MAIL FROM:<a@example.org>", "RCPT TO:<b@example.com>", "DATA"):
        code, _ = client.docmd(command)
        if code >= 400:
            return _over(client, name, code, account)
    client.send(_message(name))
    try:
        code, _ = client.getreply()
    except (OSError, smtplib.SMTPException):
        with account.lock:
            account.cut[name] += 1
        raise
    return _over(client, name, code, account)


def _over(client: smtplib.SMTP, name: str, code: int, account: Account) -> bool:
    with account.lock:
        if code < 400:
            account.accepted.add(name)
        elif code >= 500:
            account.refused.add(name)
    if code >= 400:
        client.rset()
    return 400 <= code < 500


def _message(name: str) -> bytes:
    number = int(name[1 : name.index("@")])
    body = "Hello Bob, the minutes of Tuesday are on the drive. " * 20
    if number % HELD_EVERY == 0:
        body = _EICAR + "\r\nLonger than what the database keeps." * 2_000 * (number % LARGE_EVERY == 0)
    return (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: Minutes {number}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{name}>\r\n\r\n{body}\r\nThe end.\r\n.\r\n"
    ).encode()


def _held(folder: Path) -> Counter[str]:
    """What the quarantine has, by Message-ID, read from the raw bytes that it kept; what is not whole does not
    count."""
    whole = (raw for raw in held_mail(folder).values() if raw.endswith(_END))
    return Counter(found for raw in whole if (found := _id_in(raw)))


def _id_in(raw: bytes) -> str:
    _, _, rest = raw.partition(b"Message-ID: <")
    return rest.partition(b">")[0].decode("ascii", "replace")


def report(result: Result) -> str:
    account = result.account
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(result.failures.items()))
    return (
        f"{result.messages} messages over {CONNECTIONS} connections, {account.kills} kills (-9), "
        f"{account.attempts} attempts in {result.seconds:.0f} s: **{len(result.lost)} lost**, "
        f"{len(account.accepted)} accepted, {result.refused} refused with 5xx, {result.held} held. "
        f"{sum(account.cut.values())} replies were cut off by kills; {sum(result.duplicates.values())} duplicates, "
        f"of which {len(result.unexplained)} not explained by those.\n\nThe next hop failed so: {failures}."
    )


def run() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return report(trial(MESSAGES, CONNECTIONS, KILLS, Path(folder)))


if __name__ == "__main__":
    print(run())
