"""Lists of customers and mail that are made for each other: the CPU time that the list adds to the message.

    python -m bench.pairs

A list that no key finds is compiled by each worker once, and every message of its tenant is compared with it. Both are
measured apart: the first message after a change pays for the compilation as well. Neither may take 0.5 s.
"""

import gc
import time

from bench.nasty import PAIRS
from gatepost.analysis import analyse
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists, UnkeyedLists, compile_lists, pack_lists
from gatepost.report import Report
from gatepost.stages import Context
from gatepost.workers import warmup

MOST_SECONDS = 0.5


def pack(entries: dict[str, list[str]]) -> bytes:
    """Return the snapshot of these lists, as workers get it."""
    found = {name: tuple(UnkeyedEntry(name, "tenant", each, each) for each in shown) for name, shown in entries.items()}
    return pack_lists(UnkeyedLists("1", found))


def report_on(raw: bytes, lists: CompiledLists) -> Report:
    """Analyse one message with these lists."""
    analysis = analyse(raw, warmup.ENVELOPE, Context(now=warmup.NOW, lists=lists))
    try:
        questions = next(analysis)
        while True:
            questions = analysis.send(warmup.answers_to(questions))
    except StopIteration as stop:
        report: Report = stop.value
        return report


def _time(raw: bytes, lists: CompiledLists) -> float:
    before = time.process_time()
    report_on(raw, lists)
    return time.process_time() - before


def run() -> str:
    """Measure every pair at its limits."""
    gc.set_threshold(20_000, 10, 10)  # as in a worker
    lines = [
        "| Pair | compiled, s | first message, s | next message, s | without the list, s |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, make in PAIRS.items():
        entries, raw = make(1.0)
        data = pack(entries)
        before = time.process_time()
        lists = compile_lists(data)
        compiled = time.process_time() - before
        plain = min(_time(raw, NO_LISTS) for _ in range(2))
        first, again = _time(raw, lists) - plain, min(_time(raw, lists) for _ in range(2)) - plain
        late = " **over**" if max(compiled, first, again) > MOST_SECONDS else ""
        lines.append(f"| {name}{late} | {compiled:.2f} | {first:.2f} | {again:.2f} | {plain:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(run())
