"""Fuzzing the reader: mutations of real messages and a grammar of nasty MIME, for a given time.

    python -m bench.fuzz [--seconds 1800] [--seed N]

Prints executions, exceptions, the slowest message and the growth of memory; exits with 1 if anything raised, took
longer than `SLOW` seconds, or if memory grew without end. A message that failed is kept for the next person.
"""

import argparse
import gc
import random
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.corpus import NotPresentError, mail
from bench.nasty import message, mutation
from gatepost.mail.reader import read

SLOW = 2.0
GROWTH = 64 << 20
_SETTLING = 0.2


@dataclass
class Tally:
    """What a run has seen so far."""

    runs: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_bytes: bytes = b""
    settled: int = 0
    grown: int = 0


def fuzz(seconds: float, seed: int) -> Tally:
    """Read hostile messages until the time is over."""
    dice = random.Random(seed)
    tally, process = Tally(), psutil.Process()
    seeds = _seeds()
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        raw = mutation(dice.choice(seeds), dice) if seeds and dice.random() < 0.6 else message(dice)
        _try(raw, tally)
        if tally.runs % 1000 == 0:
            gc.collect()
            now = process.memory_info().rss
            if elapsed < seconds * _SETTLING or not tally.settled:
                tally.settled = max(tally.settled, now)
            tally.grown = max(tally.grown, now - tally.settled)
    return tally


def _seeds() -> list[bytes]:
    try:
        return [one.raw for one in mail(4_000, max_bytes=60_000)]
    except NotPresentError:
        print("real mail is not present: the grammar alone")
        return []


def _try(raw: bytes, tally: Tally) -> None:
    tally.runs += 1
    begin = time.process_time()
    try:
        read(raw)
    except Exception:  # noqa: BLE001  whatever it is, it is what we look for
        tally.failures.append(f"{_kept(raw, 'raised')}\n{traceback.format_exc(limit=-4)}")
    spent = time.process_time() - begin
    if spent > tally.slowest:
        tally.slowest, tally.slowest_bytes = spent, raw


def _kept(raw: bytes, why: str) -> Path:
    with tempfile.NamedTemporaryFile(prefix=f"gatepost-fuzz-{why}-", suffix=".eml", delete=False) as file:
        file.write(raw)
    return Path(file.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    tally = fuzz(options.seconds, options.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"seed {options.seed}: {tally.runs} messages in {options.seconds:.0f} s")
    print(f"exceptions {len(tally.failures)}, slowest {tally.slowest * 1000:.1f} ms ({len(tally.slowest_bytes)} bytes)")
    print(f"memory grew {tally.grown / (1 << 20):.1f} MiB after the first fifth, peak {peak:.0f} MiB")
    for failure in tally.failures[:10]:
        print(failure)
    if tally.slowest > SLOW:
        print(f"too slow: {_kept(tally.slowest_bytes, 'slow')}")
    sys.exit(1 if tally.failures or tally.slowest > SLOW or tally.grown > GROWTH else 0)


if __name__ == "__main__":
    main()
