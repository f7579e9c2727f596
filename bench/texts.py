"""Visible text, HTML and links: messages per second on real mail, and the cost of hostile pages.

    python -m bench.texts [messages]

The parts are read before the clock starts; what is timed is `read_texts` alone, in CPU time, the best of nine rounds.
For comparison, the table shows the bare parse of the same HTML by lexbor, which is the lower bound.
"""

import gc
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from selectolax.lexbor import LexborHTMLParser

from bench.corpus import NotPresentError, mail
from gatepost import names
from gatepost.mail import links, text
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.message import Part
from gatepost.mail.reader import MessageParts

Item = TypeVar("Item")

ROUNDS = 9
BATCH = 10

HOSTILE: dict[str, Callable[[], Part]] = {
    "10 MB of <div>": lambda: _html("<div>" * 2_000_000),
    "1M links, HTML": lambda: _html("".join(f"<a href=http://x{n}.test/>y</a>" for n in range(1_000_000))),
    "1M links, text": lambda: _plain("".join(f"http://x{n}.test/ " for n in range(1_000_000))),
    "open formatting elements": lambda: _html(
        "<p>" + "".join(f"<b a={n}>" for n in range(5_000)) + "</p>" + "<p>x</p>" * 500_000
    ),
    "100,000 attributes": lambda: _html("<a " + " ".join(f"a{n}=1" for n in range(100_000)) + ">"),
    "100,000 styles": lambda: _html("".join(f"<p style='color:#{n:06x}'>x" for n in range(100_000))),
    "5 MB style sheet": lambda: _html("<style>" + ".a{color:#fff}" * 350_000 + "</style>"),
    "10 MB comment starts": lambda: _html("<!--" * 2_500_000),
    "10 MB of a.": lambda: _plain("a." * 5_000_000),
    "10 MB of (": lambda: _plain("http://x" + ")" * 10_000_000),
}


def _html(content: str) -> Part:
    return Part("1", content_type="text/html", content=content.encode())


def _plain(content: str) -> Part:
    return Part("1", content_type="text/plain", content=content.encode())


def run(count: int = 2_000) -> str:
    """The two tables."""
    try:
        real = _real(count)
    except NotPresentError as error:
        real = f"Real mail: not run: {error}"
    rows = "\n".join(_hostile(name) for name in HOSTILE)
    return f"{real}\n\n| Hostile text | CPU s | peak MB above idle | limits told |\n|---|---|---|---|\n{rows}"


def _real(count: int) -> str:
    names.preload_suffixes()
    links.preload_wrappers()
    messages = [MessageParts(message.raw, ReadBudget()).flat for message in mail(count)]
    pages = [
        decode_charset(part.content, part.charset)[0]
        for parts in messages
        for part in parts
        if part.content_type == "text/html" and not part.children
    ]
    gc.collect()
    gc.freeze()  # as the workers do after loading
    whole = _best(text.read_texts, messages)
    bare = _best(LexborHTMLParser, pages)
    return (
        "| | messages/s | ms a message |\n|---|---|---|\n"
        f"| text, HTML and links | {len(messages) / whole:,.0f} | {whole / len(messages) * 1e3:.3f} |\n"
        f"| lexbor's parse alone | {len(messages) / bare:,.0f} | {bare / len(messages) * 1e3:.3f} |"
    )


def _best(work: Callable[[Item], object], items: list[Item]) -> float:
    total = 0.0
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        total += min(_timed(work, batch) for _ in range(ROUNDS))
    return total


def _timed(work: Callable[[Item], object], items: list[Item]) -> float:
    start = time.process_time()
    for item in items:
        work(item)
    return time.process_time() - start


def _hostile(name: str) -> str:
    """Measured in a process of its own, so that the peak is this page's."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (name,))


def _measured(name: str) -> str:
    names.preload_suffixes()
    links.preload_wrappers()
    part = HOSTILE[name]()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the page
    before = _peak()
    start = time.process_time()
    defects = text.read_texts((part,))[2]
    spent = time.process_time() - start
    peak = (_peak() - before) >> 10
    limits = ", ".join(sorted({defect.kind for defect in defects if defect.kind.startswith("limit:")}))
    return f"| {name} | {spent:.2f} | {peak} | {limits} |"


def _peak() -> int:
    """The largest resident size so far, in KiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
