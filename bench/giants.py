"""Hostile giants through the whole analysis: CPU time and memory of each, in a process of its own.

    python -m bench.giants [NAME … | account]

A giant may take 2 s of CPU and 300 MB above the idle process, the message itself included. Machines are shared: a loop
of fixed work is timed before and after each giant, and the time is scaled to the fastest loop of the run. `account`
measures mail that reads in several ways, each with scripts to run, without and with the account of CPU of a message.
"""

import base64
import gzip
import io
import os
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from bench.nasty import GIANTS, HEAD, MIB, MIXED
from bench.texts import HOSTILE
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.mail.message import Envelope
from gatepost.process.cpu_account import CpuAccount, start_timer
from gatepost.questions import Dns, DnsAnswer, LookupAnswer

MOST_SECONDS, MOST_MEMORY = 2.0, 300
MESSAGE_LIMIT = 50 * MIB
ATTACHED = 36 * MIB  # in base64 it fills a message


def _attach(name: str, make: Callable[[], bytes]) -> Callable[[], bytes]:
    def message() -> bytes:
        body = base64.encodebytes(make()[:ATTACHED]).replace(b"\n", b"\r\n")
        kind = f'Content-Type: application/octet-stream; name="{name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
        return HEAD + kind.encode() + body

    return message


def _zip(count: int, content: bytes = b"x", comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(count):
            entry = zipfile.ZipInfo(f"{number}.txt")
            entry.comment = comment
            archive.writestr(entry, content)
    return out.getvalue()


def _document(part: str, text: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(part, text)
    return out.getvalue()


def _page(text: str) -> bytes:
    return f"<html>{text}</html>".encode()


def _compound(name: str, piece: bytes, count: int) -> bytes:
    from tests.files.compound_files import make_compound

    return make_compound({name: (piece * count)[: 6 * MIB]})


def _workbook() -> bytes:
    string = struct.pack("<HB", 20, 0) + b"a cell with words in"
    table = struct.pack("<HH", 0xFC, 8 + 340 * 23) + bytes(8) + string * 340
    more = struct.pack("<HH", 0x3C, 340 * 23) + string * 340
    return _compound("Workbook", table + more * 700, 1)


_SAVED = "var b=new Blob([atob('{}')]);URL.createObjectURL(b);a.download='x'"
_LINES = b"A letter with words, and https://x%d.example/login?a=1 is a link in it.\r\n"
_LETTER = b"--b\r\nContent-Type: application/octet-stream; name=a%d.txt\r\n\r\n"
_ACTION = b"%d 0 obj<</S/URI/URI(http://a)>>endobj\n"
_RUN = b"<w:p><w:r><w:t>a b</w:t></w:r></w:p>"
_FIELD = b"<w:instrText>HYPERLINK https://a</w:instrText>"
_SECTION = bytes.fromhex("e4525c7b8cd8a74daeb15378d02996d3")
_BOXED = b"From a@b Tue Nov 10 09:12:00 2026\nFrom: a@b\nTo: b@c\n\nhello\n\n"
_ATOM = struct.pack("<HHI", 0, 0xFA8, 4) + b"word"
_HTML = HEAD + b"Content-Type: text/html\r\n\r\n<p>"
FILES: dict[str, Callable[[], bytes]] = {
    "page, 15 MB literal": _attach("a.html", lambda: _page(f"<script>{_SAVED.format('QUJD' * 4_000_000)}</script>")),
    "page, 15 MB literal, numbers": _attach(
        "a.html", lambda: _page(f"<script>new Uint8Array([{'65,' * 5_000_000}])</script>")
    ),
    "page, 15 MB literal, percent": _attach(
        "a.html", lambda: _page(f"<script>document.write(unescape('{'%41' * 5_000_000}'))</script>")
    ),
    "page, 1M concatenations": _attach("a.html", lambda: _page("<script>a=" + "'x'+" * 1_000_000 + "'';</script>")),
    "page, 1M calls": _attach("a.html", lambda: _page("<script>" + 'eval(atob("YQ=="));' * 500_000 + "</script>")),
    "page, 1M variables": _attach(
        "a.html", lambda: _page(f"<script>{''.join(f'a{n}=a{n - 1}+1;' for n in range(500_000))}</script>")
    ),
    "page, deep CSS": _attach("a.html", lambda: _page(f"<style>{'@media all{a{' * 500_000}</style>")),
    "page, wide CSS": _attach("a.html", lambda: _page(f"<style>{'a,b>c{color:red}' * 600_000}</style>")),
    "page, 1M tiny links": _attach("a.html", lambda: _page("".join(f"<a href=//x{n}.test>" for n in range(1_000_000)))),
    "page, 1M entities": _attach("a.html", lambda: _page("<script>" + "&#100;" * 2_000_000)),
    "page, 200,000 pictures": _attach(
        "a.html", lambda: _page(("<img src=data:image/png;base64," + "A" * 300 + ">") * 50_000)
    ),
    "drawing, 2 MB of paths": _attach("a.svg", lambda: b"<svg>" + b"<path d='M1 1h5v5z'/>" * 95_000 + b"</svg>"),
    "text, 15 MB on one line": _attach("a.txt", lambda: b"word " * 3_000_000),
    "text, 15 MB of links": _attach("a.txt", lambda: b"".join(_LINES % n for n in range(200_000))),
    "table, 15 MB of formulas": _attach("a.csv", lambda: b"=HYPERLINK(\"https://x.example\"),=a|'b'!c\n" * 350_000),
    "calendar, 15 MB": _attach(
        "a.ics", lambda: b"BEGIN:VCALENDAR\r\n" + b"DESCRIPTION:https://a.example\r\n" * 450_000
    ),
    "card, 15 MB folded": _attach("a.vcf", lambda: b"BEGIN:VCARD\r\nNOTE:" + b"a\r\n " * 4_000_000),
    "rich text, groups": _attach("a.rtf", lambda: b"{\\rtf1" + b"{\\b a}" * 3_000_000),
    "rich text, depth": _attach("a.rtf", lambda: b"{\\rtf1" + b"{" * 15_000_000),
    "rich text, numbers": _attach("a.rtf", lambda: b"{\\rtf1" + b"\\u228?" * 2_500_000),
    "rich text, objects": _attach("a.rtf", lambda: b"{\\rtf1" + b"{\\object\\objdata 0105" * 700_000),
    "rich text, fields": _attach("a.rtf", lambda: b"{\\rtf1" + b"{\\*\\fldinst HYPERLINK x" * 700_000),
    "PDF, 1M objects": _attach("a.pdf", lambda: b"%PDF-1.4\n" + b"".join(_ACTION % n for n in range(700_000))),
    "PDF, 1M strings": _attach("a.pdf", lambda: b"%PDF-1.4\n1 0 obj<</URI[" + b"(a)" * 5_000_000 + b"]>>endobj"),
    "PDF, depth": _attach("a.pdf", lambda: b"%PDF-1.4\n1 0 obj<</URI" + b"[" * 15_000_000 + b">>endobj"),
    "zip, 65,000 entries": _attach("a.zip", lambda: _zip(65_000)),
    "zip, 2,000 letters": _attach("a.zip", lambda: _zip(2_000, (_LINES % 1) * 100)),
    "zip, comments": _attach("a.zip", lambda: _zip(500, comment=b"https://a.example " * 3_000)),
    "gzip, a gigabyte": _attach("a.gz", lambda: gzip.compress(bytes(1 << 20)) * 1_000),
    "Word, 36 MB of runs": _attach("a.docx", lambda: _document("word/document.xml", b"<?xml?>" + _RUN * 900_000)),
    "Word, fields": _attach("a.docx", lambda: _document("word/document.xml", b"<?xml?>" + _FIELD * 600_000)),
    "Word, elements": _attach(
        "a.docx", lambda: _document("word/document.xml", b"<?xml?><Relationship " + b"a='b' " * 5_000_000)
    ),
    "OneNote, 15 MB of text": _attach("a.one", lambda: _SECTION + b"w\0o\0r\0d\0 \0" * 1_500_000),
    "OneNote, dots": _attach("a.one", lambda: _SECTION + b".\0a\0" * 4_000_000),
    "mailbox, 100,000 messages": _attach("a.mbox", lambda: _BOXED * 100_000),
    "saved message, 100,000 parts": _attach("a.mht", GIANTS["100,000 parts"]),
    "saved message, 15 MB body": _attach("a.mht", lambda: _HTML + b"word <b>" * 2_000_000),
    "workbook, 8 MB of strings": _attach("a.xls", _workbook),
    "presentation, 1M records": _attach("a.ppt", lambda: _compound("PowerPoint Document", _ATOM, 1_000_000)),
    "compound file, macros": _attach("a.doc", lambda: _compound("VBA/dir", b"\x01" + b"\0" * 100, 100_000)),
    "2,000 attached letters": lambda: MIXED + b"".join(_LETTER % n + _LINES % n * 200 for n in range(1_900)),
}


def _of_part(name: str) -> Callable[[], bytes]:
    def message() -> bytes:
        part = HOSTILE[name]()
        return HEAD + f"Content-Type: {part.content_type}\r\n\r\n".encode() + part.content

    return message


ALL: dict[str, Callable[[], bytes]] = GIANTS | {name: _of_part(name) for name in HOSTILE} | FILES


def make_readings(kilobytes: int) -> bytes:
    """Quoted-printable that is broken in every line, around scripts."""
    head = HEAD.partition(b"\r\n")[0] + b"\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n"
    line = b"<script>a=1</script>=ZZ text =\r\n"
    return head + b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + line * (kilobytes * 1024 // len(line))


def judge(raw: bytes, cpu: CpuAccount | None = None) -> Report:
    """Analyse one message, without anything that DNS or lists could say."""
    context = Context(now=1_794_302_520.0, cpu=cpu or CpuAccount())
    context.cpu.resume()
    asking = analyse(raw, Envelope("a@example.org", ("b@example.net",)), context)
    try:
        questions = next(asking)
        while True:
            questions = asking.send(
                tuple(DnsAnswer("no-name") if isinstance(each, Dns) else LookupAnswer() for each in questions)
            )
    except StopIteration as stop:
        report: Report = stop.value
        return report


def measure(name: str) -> tuple[float, int, str, str]:
    """Return CPU seconds, MB above the idle process, verdict and limits, from a process of its own."""
    ours, theirs = Pipe()
    child = os.fork()
    if not child:
        try:
            _measure_here(name, theirs)
        finally:
            os._exit(0)
    theirs.close()
    try:
        found: tuple[float, int, str, str] = ours.recv()
    except EOFError:
        found = (float("inf"), 0, "died", "")
    os.waitpid(child, 0)
    return found


def _measure_here(name: str, answers: Connection) -> None:
    idle = _peak()
    raw = ALL[name]()[:MESSAGE_LIMIT]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the message
    start = time.process_time()
    report = judge(raw)
    seconds = time.process_time() - start
    limits = ", ".join(tag for tag in report.tags if tag.startswith("limit:"))
    answers.send((seconds, (_peak() - idle) >> 10, report.decision, limits))


def _peak() -> int:
    """The largest resident size so far, in KiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def _time_loop() -> float:
    start = time.process_time()
    total = 0
    for number in range(400_000):
        total += number % 7
    return time.process_time() - start


def run(names: tuple[str, ...] = ()) -> str:
    """The table, slowest first."""
    judge(b"From: a@example.org\r\n\r\nhello")
    rows: list[tuple[float, int, str, str, str]] = []
    loops: list[float] = []
    for name in names or ALL:
        before = _time_loop()
        seconds, memory, decision, limits = measure(name)
        loops.append((before + _time_loop()) / 2)
        rows.append((seconds, memory, name, decision, limits))
        print(f"{name}: {seconds:.2f} s (loop {loops[-1] * 1e3:.0f} ms), {memory} MB, {decision} {limits}", flush=True)
    quiet = min(loops)
    scaled = [(row[0] * quiet / loop, *row[1:]) for row, loop in zip(rows, loops, strict=True)]
    over = [row for row in scaled if row[0] > MOST_SECONDS or row[1] > MOST_MEMORY]
    lines = [f"{len(scaled)} giants, {len(over)} over 2 s of CPU or 300 MB:", ""]
    lines += ["| giant | CPU s | MB | decision | limits named |", "|---|---:|---:|---|---|"]
    lines += [f"| {row[2]} | {row[0]:.2f} | {row[1]} | {row[3]} | {row[4]} |" for row in sorted(scaled, reverse=True)]
    return "\n".join(lines)


def run_account() -> str:
    """The table of the account, each size without and with it, in one process."""
    start_timer()
    judge(make_readings(1))
    lines = ["| KB | CPU s without | with an account | verdict without | with it |", "|---|---:|---:|---|---|"]
    for kilobytes in (120, 240, 480, 960):
        raw = make_readings(kilobytes)
        runs = []
        for cpu in (CpuAccount(), CpuAccount(max(1.0, len(raw) / MIB))):
            start = time.process_time()
            runs.append((judge(raw, cpu).verdict, time.process_time() - start))
        (plain, without), (bounded, within) = runs
        lines.append(f"| {kilobytes} | {without:.2f} | {within:.2f} | {plain} | {bounded} |")
    signal.setitimer(signal.ITIMER_PROF, 0)
    return "\n".join(lines)


if __name__ == "__main__":
    print(run_account() if sys.argv[1:] == ["account"] else run(tuple(sys.argv[1:])))
