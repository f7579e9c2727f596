"""How much work a call does: CPU time, and instructions, where valgrind is installed, for what that leaves in doubt.

Events of Python do not see what the interpreter's own functions do: taking one label after the other off a name is a
linear number of calls, each of which copies the rest. Instructions are all there is, and the same in every run. They
cost fifty times the time, so that looks at CPU time come first: one at all cells, and two patient ones at those that
are steep. The last decides where instructions cannot be counted.
"""

import gc
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

SOURCE = Path(__file__).with_name("counter.c")
TRIES = 5
LOOK, AGAIN, EXACT = "look", "again", "exact"


class Counter(Protocol):
    """`sizes` are those of the inputs, in characters; from one to the next the work may grow by `steep`, and one that
    is not patient leaves the larger ones out where it did not. Below `least` work is nothing. A cell that takes
    `longest` seconds of CPU is one that does not return."""

    name: str
    sizes: tuple[int, ...]
    steep: float
    is_patient: bool
    least: int
    longest: float

    def count(self, run: Callable[[], object]) -> int: ...


class InstructionCounter(Counter):
    """Counts under callgrind, which writes a file for each count."""

    name, sizes, steep, is_patient = "instructions", (8_000, 16_000, 32_000, 64_000, 128_000), 2.6, True
    least, longest = 500_000, 600.0

    def __init__(self, module: Any, path: Path) -> None:
        self._module, self._path, self._files = module, path, 0
        module.start()

    def count(self, run: Callable[[], object]) -> int:
        self._module.clear()
        run()
        self._module.write_count()
        self._files += 1
        file = self._path.with_name(f"{self._path.name}.{self._files}")
        totals = next(line for line in reversed(file.read_text().splitlines()) if line.startswith("totals:"))
        file.unlink()
        return int(totals.split()[1])


class TimeCounter(Counter):
    """Measures the CPU time of the thread, in nanoseconds, of one call: whatever disturbs it makes work look larger, so
    that what seems steep is looked at again."""

    name, sizes, steep, is_patient = "CPU time", (16_000, 64_000, 256_000), 6.0, False
    least, longest = 500_000, 60.0

    def count(self, run: Callable[[], object]) -> int:
        return _measure(run)


class PatientTimeCounter(TimeCounter):
    """The same for few cells: the least of several calls, and all sizes."""

    name, is_patient = "CPU time, patiently", True

    def count(self, run: Callable[[], object]) -> int:
        return min(_measure(run) for _ in range(TRIES))


def _measure(run: Callable[[], object]) -> int:
    before = time.thread_time_ns()
    run()
    return time.thread_time_ns() - before


def build(folder: Path) -> Path | None:
    """Build the module that speaks with callgrind; None where valgrind or a compiler is not at hand."""
    compiler = shutil.which(shlex.split(sysconfig.get_config_var("CC") or "cc")[0]) or shutil.which("cc")
    if not compiler or not shutil.which("valgrind"):
        return None
    target = folder / f"instruction_counter{sysconfig.get_config_var('EXT_SUFFIX')}"
    headers = sysconfig.get_paths()["include"]
    command = [compiler, "-shared", "-fPIC", "-O1", f"-I{headers}", str(SOURCE), "-o", str(target)]
    return None if subprocess.run(command, capture_output=True, check=False).returncode else target


def make_environment() -> dict[str, str]:
    """Return an environment in which sets are walked in the same order by each run."""
    return os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(__file__).parents[2])}


def list_commands(folder: Path) -> list[list[str]]:
    """Return the commands that measure cells, the cheap ones first; each gets those that the one before found steep."""
    *looks, exact = (
        [sys.executable, "-m", "tests.growth.measure", str(folder), each] for each in (LOOK, AGAIN, AGAIN, EXACT)
    )
    if not build(folder):
        return looks
    options = ("-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / 'counted'}")
    return [*looks, ["valgrind", *options, *exact]]


def find_counter(folder: Path, kind: str) -> Counter:
    """Return what this process measures with: a look at many cells or at fewer, or the exact count of very few."""
    gc.disable()
    if kind != EXACT:
        return TimeCounter() if kind == LOOK else PatientTimeCounter()
    sys.path.insert(0, str(folder))
    import instruction_counter  # type: ignore[import-not-found]

    return InstructionCounter(instruction_counter, folder / "counted")
