"""CPU time a byte of a page with a link in every line, by its size: reading the part, and the whole analysis.

python -m bench.page_sizes
"""

import time
from collections.abc import Callable

from bench.fuzz.readers import analyse_message, read_part

SIZES = (100, 300, 900)
ROUNDS = 5
HEAD = b"From: a@b.example\r\nTo: c@d.example\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
LINE = (
    '<p>Line {0} of the list: <a href="https://www.example.com/item/{0}?x={0}">item number {0}</a> and more<br></p>\n'
)


def make_page(size: int) -> bytes:
    """A page of about so many bytes."""
    lines = "".join(LINE.format(number) for number in range(size // len(LINE)))
    return f"<html><head><title>x</title></head><body>{lines}</body></html>".encode()


def measure(run: Callable[[], object], size: int) -> float:
    """Return nanoseconds of CPU a byte: the least of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        before = time.thread_time()
        run()
        spent.append(time.thread_time() - before)
    return min(spent) * 1e9 / size


def describe() -> str:
    lines = ["| KB | `<` | reading, ns a byte | analysis, ns a byte |", "|---:|---:|---:|---:|"]
    for size in SIZES:
        page = make_page(size * 1_000)
        reading = measure(lambda page=page: read_part(page, "text/html"), len(page))  # type: ignore[misc]
        analysis = measure(lambda page=page: analyse_message(HEAD + page), len(page))  # type: ignore[misc]
        lines.append(f"| {size} | {page.count(b'<'):,} | {reading:.0f} | {analysis:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe())
