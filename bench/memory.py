"""Memory of each process of the service by the number of messages that it has analysed, with real mail.

USS is what a process has to itself and what its end would free; PSS has its part of what it shares as well. Both have
the pages of files that it has mapped, such as those of the database that it has read, which the system takes back when
it needs them; "own" is its part of the memory that no file has, and only that can leak. Processes are told apart: the
one that serves, the loader, and the workers. Between the readings, real messages are sent over eight connections, over
and over; before each reading the service is left alone for a while. `--messages 100000 --readings 20` shows whether
anything grows over many messages: readings are then at equal distances, and the slope is that of a line through the
second half of them. `--mails 20000` sends so many different messages in place of 2,000, which fills what is kept by
name, host and text. USS, PSS and own memory of the first process are written to standard error at each reading.
"""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import corpus, load
from bench.gateway import NoSuchName
from bench.ports import free_port
from bench.scanning import TOKEN, await_port, configure, family
from bench.steady import slope

READINGS = (0, 2_000, 10_000)
MAILS = 2_000
CONNECTIONS = 8
REST_SECONDS = 25.0
MEGABYTE = 1024


class Reading(NamedTuple):
    """Memory of one process, in KB."""

    name: str
    uss: int
    pss: int
    own: int


def run() -> str:
    """Measure with the numbers of the report."""
    return _measure(READINGS, MAILS)


def _measure(readings: Sequence[int], mails: int) -> str:
    mail = corpus.mail(mails)
    requests = [load.upload(each.raw, each.envelope, TOKEN) for each in mail]
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(NoSuchName()) as names:
        port, core = free_port(), free_port()
        configure(Path(folder), port, core, names.address)
        command = [sys.executable, "-m", "gatepost", "serve", "--data", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_port(port)
            found: dict[int, list[Reading]] = {}
            sent = 0
            for reading in readings:
                while sent < reading:
                    first = sent % len(requests)
                    some = requests[first : first + reading - sent]
                    load.send(f"https://127.0.0.1:{port}", some, CONNECTIONS, None)
                    sent += len(some)
                time.sleep(REST_SECONDS)
                found[reading] = read_memory(psutil.Process(process.pid))
                main = next(each for each in found[reading] if each.name == "main")
                print(f"after {reading:,} messages: main {_cell([main])} MB", file=sys.stderr, flush=True)
        finally:
            process.terminate()
            process.wait()
    return _table(found)


def read_memory(process: psutil.Process) -> list[Reading]:
    """What each process of a service has, the largest first among those of a kind."""
    found = []
    for member in family(process):
        try:
            rollup = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
            uss = _sum(rollup, "Private_Clean", "Private_Dirty")
            found.append(Reading(_name(member, process), uss, _sum(rollup, "Pss"), _sum(rollup, "Pss_Anon")))
        except (psutil.Error, OSError):
            continue
    return sorted(found, key=lambda each: (each.name, -each.uss))


def _name(member: psutil.Process, first: psutil.Process) -> str:
    if member.pid == first.pid:
        return "main"
    if "gatepost.workers.loader" not in member.cmdline():
        return member.name()
    parent = member.parent()
    return "worker" if parent and "gatepost.workers.loader" in parent.cmdline() else "loader"


def _sum(rollup: str, *names: str) -> int:
    return sum(int(size) for name in names for size in re.findall(rf"^{name}:\s+(\d+)", rollup, re.MULTILINE))


def _table(found: dict[int, list[Reading]]) -> str:
    kinds = list(dict.fromkeys(each.name for readings in found.values() for each in readings))
    lines = ["| MB | " + " | ".join(f"{kind} USS, PSS, own" for kind in kinds) + " | all PSS |"]
    lines.append("|---|" + "---:|" * (len(kinds) + 1))
    for count, readings in found.items():
        cells = [_cell([each for each in readings if each.name == kind]) for kind in kinds]
        whole = sum(each.pss for each in readings) / MEGABYTE
        lines.append(f"| after {count:,} messages | " + " | ".join(cells) + f" | {whole:.0f} |")
    if len(found) > len(READINGS):
        lines += ["", *_describe_growth(kinds, found)]
    return "\n".join(lines)


def _cell(readings: list[Reading]) -> str:
    return " / ".join(", ".join(f"{size / MEGABYTE:.1f}" for size in each[1:]) for each in readings)


def _describe_growth(kinds: list[str], found: dict[int, list[Reading]]) -> list[str]:
    """Say how the own memory of each kind grows over the second half of the readings."""
    counts = list(found)
    step = (counts[-1] - counts[0]) / (len(counts) - 1)
    half = counts[len(counts) // 2 :]
    said = []
    for kind in kinds:
        sizes = [float(sum(each.own for each in found[count] if each.name == kind)) for count in half]
        said.append(f"{kind}: {slope(sizes) / step * 1000:.1f} KB for each 1,000 messages")
    return ["Growth of own memory over the second half: " + ", ".join(said) + "."]


def main() -> None:
    """Measure with other numbers than `run`."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory")
    parser.add_argument("--messages", type=int, default=READINGS[-1])
    parser.add_argument("--readings", type=int, default=0, help="at equal distances; by default those of the report")
    parser.add_argument("--mails", type=int, default=MAILS, help="different messages that are sent, over and over")
    stated = parser.parse_args()
    readings: Sequence[int] = READINGS
    if stated.readings:
        readings = [stated.messages * place // stated.readings for place in range(stated.readings + 1)]
    elif stated.messages != READINGS[-1]:
        readings = [count for count in READINGS if count < stated.messages] + [stated.messages]
    print(_measure(readings, stated.mails), flush=True)


if __name__ == "__main__":
    main()
