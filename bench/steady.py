"""Memory over many messages on the path without analysis, and what a message costs from the first to the last of them.

The whole path but the analysis, as in `fronts`, with one front process. After a warm-up, memory (PSS of all processes)
is read at equal distances; the slope is that of a straight line through the second half of the readings. The record of
each message is on disk, and the page cache of the database is no memory of the service.
"""

import os
import tempfile
from pathlib import Path

import psutil

from bench.fronts import Service
from bench.scanning import pss

MESSAGES = int(os.environ.get("BENCH_STEADY_MESSAGES", "100000"))
READINGS = 20
CONNECTIONS = 20


def run() -> str:
    """Send the messages and read the memory in between."""
    step = MESSAGES // READINGS
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "1", 1)
        try:
            process = psutil.Process(service.process.pid)
            service.measure(CONNECTIONS, min(step, 2000))
            memory, costs = [pss(process)], []
            for _ in range(READINGS):
                costs.append(service.measure(CONNECTIONS, step)[0])
                memory.append(pss(process))
        finally:
            service.stop()
    return _table(step, memory, costs)


def slope(values: list[float]) -> float:
    """Return by how much values at equal distances grow from one to the next: the least-squares line through them."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(len(values)))


def _table(step: int, memory: list[float], costs: list[float]) -> str:
    grown = slope(memory[len(memory) // 2 :]) / step * 1000 * 1024
    shown = range(0, len(memory), max(1, len(memory) // 5))
    lines = ["| After messages | memory MB (PSS) | CPU ms a message |", "|---:|---:|---:|"]
    lines += [
        f"| {place * step:,} | {memory[place]:.1f} | {f'{costs[place - 1]:.2f}' if place else ''} |" for place in shown
    ]
    remark = (
        f"{MESSAGES:,} messages of 8 KB, {CONNECTIONS} connections. Slope over the second half: {grown:.2f} KB for "
        "each 1,000 messages."
    )
    return "\n".join([*lines, "", remark])
