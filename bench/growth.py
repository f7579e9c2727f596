"""Time by the size of a message, from 1 KB to 50 MiB, and what small mail waits beside a stream of large messages.

The whole service, with its analysis, over one connection: a letter with one attachment of random bytes in Base64. The
exponent is that of the growth from each size to the next but one: 1 is linear. Then small real mail over four
connections, alone and while one more connection sends messages of 20 MiB, one after the other, in turns.
"""

import base64
import math
import os
import random
import threading
import time
from statistics import median

import psutil

from bench import corpus, load
from bench.gateway import NoSuchName
from bench.scanning import TOKEN, gatepost

SIZES = (1 << 10, 32 << 10, 1 << 20, 8 << 20, 50 << 20)
# Of the largest request, what is no message.
MARGIN = 4096
SMALL_MESSAGES = int(os.environ.get("BENCH_GROWTH_MESSAGES", "400"))
ROUNDS = int(os.environ.get("BENCH_GROWTH_ROUNDS", "3"))
LARGE = 20 << 20
CONNECTIONS = 4
PATIENT = "analysisTimeout: 180000\nstageLimit: 60000\n"
ENVELOPE: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["bob@example.com"]}
HEAD = (
    b"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: the plans\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="mixed"\r\n\r\n--mixed\r\nContent-Type: text/plain\r\n\r\n'
    b"Bob,\r\n\r\nthe plans are attached.\r\n\r\nAnn\r\n--mixed\r\nContent-Type: application/octet-stream\r\n"
    b'Content-Disposition: attachment; filename="plans.bin"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
)
END = b"--mixed--\r\n"


def run() -> str:
    """Measure both with one service."""
    try:
        mails = [mail for mail in corpus.mail(SMALL_MESSAGES * 2) if len(mail.raw) < 50_000][:SMALL_MESSAGES]
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    names = NoSuchName()
    try:
        with gatepost(mails, names.address, PATIENT) as server:
            load.send(server.url, server.requests[:100], CONNECTIONS)
            grown = {size: time_of(server.url, size) for size in SIZES}
            alone, beside = [], []
            for _ in range(ROUNDS):
                alone.append(load.send(server.url, server.requests, CONNECTIONS))
                beside.append(send_beside_large(server.url, server.requests))
    finally:
        names.close()
    return "\n".join([*growth_table(grown), "", *waiting_table(alone, beside)])


def message(size: int) -> bytes:
    """A letter of this size in all."""
    room = max(0, min(size, (50 << 20) - MARGIN) - len(HEAD) - len(END))
    lines = base64.encodebytes(random.Random(size).randbytes(room * 57 // 78)).replace(b"\n", b"\r\n")
    return HEAD + lines + END


def time_of(url: str, size: int) -> float:
    """Return the milliseconds that a message of this size takes, from its first byte to the answer."""
    request = load.upload(message(size), ENVELOPE, TOKEN)
    result = load.send(url, [request] * (9 if size <= 1 << 20 else 3), 1)
    assert not result.errors, result.errors
    assert all(b" 200 " in answer[:20] for answer in result.answers), result.answers[0][:300]
    return median(result.latencies) * 1000


def send_beside_large(url: str, requests: list[bytes]) -> load.Result:
    """Send small mail while one connection sends large messages."""
    ended, large = threading.Event(), load.upload(message(LARGE), ENVELOPE, TOKEN)

    def stream() -> None:
        connection = load.Connection(url)
        while not ended.is_set():
            connection.exchange(large)
        connection.close()

    thread = threading.Thread(target=stream)
    thread.start()
    time.sleep(0.5)
    try:
        return load.send(url, requests, CONNECTIONS)
    finally:
        ended.set()
        thread.join()


def growth_table(grown: dict[int, float]) -> list[str]:
    lines = ["| Size | ms | ms a MiB | exponent |", "|---:|---:|---:|---:|"]
    sizes = list(grown)
    for place, size in enumerate(sizes):
        before = sizes[place - 2] if place > 1 else 0
        exponent = math.log(grown[size] / grown[before]) / math.log(size / before) if before else None
        shown = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KB"
        each = f"{grown[size] / (size / (1 << 20)):.0f}" if size >= 1 << 20 else ""
        lines.append(f"| {shown} | {grown[size]:.1f} | {each} | {'' if exponent is None else f'{exponent:.2f}'} |")
    return lines


def waiting_table(alone: list[load.Result], beside: list[load.Result]) -> list[str]:
    lines = ["| Small mail | msg/s | p50 ms | p99 ms | errors |", "|---|---:|---:|---:|---:|"]
    for name, runs in (("alone", alone), ("beside messages of 20 MiB", beside)):
        figures = [median(run.rate for run in runs), *(median(run.percentile(p) for run in runs) for p in (0.5, 0.99))]
        lines.append(
            f"| {name} | {figures[0]:.0f} | {figures[1]:.1f} | {figures[2]:.1f} | {sum(run.errors for run in runs)} |"
        )
    ratio = median(run.percentile(0.99) for run in beside) / median(run.percentile(0.99) for run in alone)
    remark = (
        f"p99 beside large messages is {ratio:.2f} times that alone (aim: at most 2). {len(alone[0].latencies)} "
        f"messages, {CONNECTIONS} connections, median of {len(alone)} rounds in turns, {psutil.cpu_count()} cores "
        "shared with the client."
    )
    return [*lines, "", remark]
