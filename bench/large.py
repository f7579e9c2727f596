"""The largest message over SMTP: what it costs in memory while it comes in, and until it is with the next hop."""

import base64
import contextlib
import random
import re
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from bench.gateway import Gateway, Sink

SIZE = 50 << 20
CHUNK = 1 << 20
# A machine that does other things as well must not make this a measurement of its patience.
PATIENT = "analysisTimeout: 180000\nstageLimit: 60000\nworkerProcesses: 1\n"


@dataclass(frozen=True)
class Passage:
    """One message through the gateway; memory in bytes above what was there before it."""

    reply: bytes
    whole: bool
    receiving: int
    guard: int
    workers: int
    seconds: float


def message(name: str, size: int = SIZE) -> bytes:
    """A message of exactly so many bytes: a picture that nobody can draw, in whole lines of base64."""
    head = (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: Scan\r\nMessage-ID: <{name}>\r\n"
        "MIME-Version: 1.0\r\nContent-Type: image/x-raw\r\nContent-Transfer-Encoding: base64\r\nX-Fill: "
    ).encode()
    line = base64.b64encode(random.Random(1).randbytes(57)) + b"\r\n"
    count, rest = divmod(size - len(head) - len(b"\r\n\r\n"), len(line))
    return head + b"a" * rest + b"\r\n\r\n" + line * count


def passed(gateway: Gateway, sink: Sink, *, chunked: bool) -> Passage:
    """Send one, by BDAT or after DATA, and see what it took."""
    assert gateway.process is not None
    guard = psutil.Process(gateway.process.pid)
    raw = message(f"large-{chunked}@x")
    before, peaks = guard.memory_info().rss, _peaks(guard)
    arriving: list[int] = []
    started = time.perf_counter()
    reply = _sent(gateway.port, raw, chunked, lambda: arriving.append(guard.memory_info().rss - before))
    after = _peaks(guard)
    grown = {pid: peak - peaks.get(pid, 0) for pid, peak in after.items()}
    own = grown.pop(guard.pid)
    whole = bool(sink.messages) and sink.messages[-1].endswith(raw)
    return Passage(reply, whole, max(arriving), own, max(grown.values(), default=0), time.perf_counter() - started)


def _sent(port: int, raw: bytes, chunked: bool, looked: Callable[[], None]) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection, connection.makefile("rb") as lines:
        _reply(lines)
        for line in (b"EHLO c", b"MAIL FROM:<ann@example.org> SIZE=%d" % len(raw), b"RCPT TO:<bob@example.com>"):
            connection.sendall(line + b"\r\n")
            _reply(lines)
        return (_chunks if chunked else _data)(connection, lines, raw, looked)


def _data(connection: socket.socket, lines: BinaryIO, raw: bytes, looked: Callable[[], None]) -> bytes:
    connection.sendall(b"DATA\r\n")
    _reply(lines)
    for start in range(0, len(raw), CHUNK):
        connection.sendall(raw[start : start + CHUNK])
        looked()
    connection.sendall(b".\r\n")
    return _reply(lines)


def _chunks(connection: socket.socket, lines: BinaryIO, raw: bytes, looked: Callable[[], None]) -> bytes:
    said = b""
    for start in range(0, len(raw), CHUNK):
        part = raw[start : start + CHUNK]
        last = b" LAST" if start + CHUNK >= len(raw) else b""
        looked()
        connection.sendall(b"BDAT %d%b\r\n" % (len(part), last) + part)
        said = _reply(lines)
    return said


def _reply(lines: BinaryIO) -> bytes:
    while (line := lines.readline())[3:4] == b"-":
        pass
    return line


def _peaks(guard: psutil.Process) -> dict[int, int]:
    """The most memory that each process has ever had."""
    found = {}
    for process in [guard, *guard.children(recursive=True)]:
        with contextlib.suppress(OSError, psutil.Error):
            match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            found[process.pid] = int(match[1]) << 10 if match else 0
    return found


def run() -> str:
    """Both ways, each through a gateway of its own."""
    lines = []
    for chunked in (False, True):
        sink = Sink()
        with (
            tempfile.TemporaryDirectory() as folder,
            Gateway(Path(folder), sink.port, more=PATIENT) as gateway,
        ):
            each = passed(gateway, sink, chunked=chunked)
        sink.close()
        lines.append(
            f"- {'BDAT' if chunked else 'DATA'}: {each.seconds:.1f} s, "
            f"{'delivered byte for byte' if each.whole else each.reply.decode()}; memory above idle: guard "
            f"{each.receiving / 2**20:.0f} MiB while it came in, {each.guard / 2**20:.0f} MiB at most; "
            f"its worker {each.workers / 2**20:.0f} MiB at most."
        )
    return f"A message of {SIZE >> 20} MiB:\n\n" + "\n".join(lines)
