"""Attached pages that run: what comes out of attacks, what is held, what honest pages cost, and the memory of a worker.

The pages are those of `tests/pages`: a payload in each of many tricks, pages that act without a file, pictures and XML,
and honest ones. CPU time is that of opening the page as a file (`walk.find_files`), the interpreter included, the least
of three runs. The page with 8,000 scripts is measured with the reading of its message. Memory is that of a process like
a worker, before and after it has run pages.
"""

import gc
import time
from collections.abc import Iterable
from pathlib import Path

from tests.pages import further_pages, xml_pages
from tests.pages.honest_pages import HONEST, HonestPage
from tests.pages.smuggling_pages import PAYLOADS, TRICKS
from tests.pages.test_pages import ACTING, judge, make_message, open_page

from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.reader import read
from gatepost.process.sandbox import give_back_memory
from gatepost.workers.warmup import warm_up

ROUNDS = 3
Pages = dict[str, tuple[str, str, bytes]]  # by name: the name of the file, its content, the payload


def run() -> str:
    """Return a table of all groups, and the figures that stand alone."""
    warm_up()
    before = _measure_memory()
    tricks: Pages = {
        f"{trick} {name}": ("a.html", make_page(payload), payload)
        for trick, make_page in TRICKS.items()
        for name, payload in PAYLOADS.items()
    }
    acting: Pages = {name: ("a.html", html, b"") for name, html in ACTING.items()}
    further: Pages = {name: ("a.html", html, b"") for name, html in further_pages.HELD.items()}
    stalling: Pages = {name: acting.pop(name) for name in [*acting] if name.startswith("STALLING")}
    drawn: Pages = {name: (file, text, PAYLOADS["setup.exe"]) for name, (file, text) in xml_pages.SMUGGLING.items()}
    drawn |= {f"acting {name}": (file, text, b"") for name, (file, text) in xml_pages.ACTING.items()}
    honest: Pages = {name: (page.name, page.content, b"") for name, page in HONEST.items()}
    lines = ["| Pages | Number | Payload out | Held | CPU, mean | CPU, most |", "|---|---|---|---|---|---|"]
    for label, pages in (
        (f"{len(TRICKS)} tricks to carry a file", tricks),
        ("pages that act without one", acting),
        ("pages that work against the limits", stalling),
        ("pages that act in further ways", further),
        ("pictures and XML", drawn),
        ("honest pages", honest),
    ):
        lines.append(_measure_group(label, pages))
    least = min(_measure_scripts() for _ in range(ROUNDS))
    lines += ["", f"A page with 8,000 scripts: {least:.2f} s of CPU with the reading of its message.", ""]
    lines.append(f"Mail without scripts: {_count_pages()} pages run of {len(_PLAIN)} that have none.")
    lines += ["", f"Memory: {before} MiB before, {_measure_memory()} MiB after all of these pages.", ""]
    return "\n".join(lines)


def _measure_group(label: str, pages: Pages) -> str:
    spent, out, held = [], 0, 0
    for file, text, payload in pages.values():
        least = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time()
            contents = open_page(text, name=file or "a.html")
            least = min(least, time.process_time() - begin)
        spent.append(least)
        out += bool(payload) and any(payload in content for content in contents[1:])
        kind = "image/svg+xml" if file.endswith("svg") else "application/octet-stream"
        honest = next((page for page in HONEST.values() if page.content == text), None)
        held += judge(honest or HonestPage(text, file, kind)).decision == "quarantine"
    carrying = sum(bool(payload) for _, _, payload in pages.values())
    mean, most = sum(spent) / len(spent) * 1e3, max(spent) * 1e3
    return f"| {label} | {len(pages)} | {out} of {carrying} | {held} | {mean:.0f} ms | {most:.0f} ms |"


def _measure_scripts() -> float:
    body = "x=a+b*c(d)[e];" * 60
    html = "".join(f"<script>var a{number}=1;{body}</script>" for number in range(8_000))
    raw = make_message(HonestPage(f"<html>{html}"))
    begin = time.process_time()
    find_files(read(raw))
    return time.process_time() - begin


_PLAIN = (
    "<p>Description of your subscription</p>",
    "<table><tr><td style='font:1px'><a href='https://a.example/?on=1'>one</a></td></tr></table>",
    "<html><head><style>p{color:red}</style></head><body><img src='https://a.example/1.png'></body></html>",
)


def _count_pages(plain: Iterable[str] = _PLAIN) -> int:
    budget = UnpackBudget()
    for html in plain:
        find_files(read(make_message(HonestPage(html, ""))), budget)
    return budget.script_time.pages


def _measure_memory() -> int:
    gc.collect()
    give_back_memory()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4 >> 10


if __name__ == "__main__":
    print(run())
