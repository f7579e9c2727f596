"""The process that executes targets: `python -m bench.fuzz.worker guided|plain`, with a task in JSON on each line.

It imports the package once, which takes long with counters at each branch, and forks for each target. It writes a line
of JSON about once a second, one with the results, and one with the status of the process that ran the target. Before
each execution the input is copied to a file that is mapped into memory: where native code kills the process, it is
still there.

`guided` is atheris, libFuzzer for Python: inputs that reach new branches are kept in CORPUS and changed further.
`plain` changes the seeds, and what a guided run has kept, at twice the speed. Both use the changes of `mutation`.
"""

import base64
import json
import mmap
import os
import random
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fuzz.mutation import mutate

if TYPE_CHECKING:  # what imports the package is imported under the eyes of the engine
    from bench.fuzz.checks import Checker
    from bench.fuzz.target import Target

MAX_FAILURES = 5
HEAD = struct.Struct("<I")
INPUT_ROOM = 1 << 20


class _Reports:
    """Lines for the process that waits; standard output belongs to them alone."""

    def __init__(self, executions: int) -> None:
        self._file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._executions = executions
        self._next = 0.0

    def tell(self, checker: "Checker", *, is_last: bool = False) -> None:
        if not is_last and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1
        tally = checker.tally
        checker.watch_growth(tally.runs / self._executions)
        line: dict[str, object] = {"runs": tally.runs, "failures": len(tally.failures)}
        if is_last:
            line |= {
                "slowest": tally.slowest,
                "cpu": tally.cpu,
                "grown": tally.grown,
                "found": [
                    {"reason": each.reason, "detail": each.detail, "data": base64.b64encode(each.data).decode()}
                    for each in tally.failures.values()
                ],
            }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def main() -> None:
    if sys.argv[1] == "guided":
        import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

        # Everything that is imported inside gets a counter at each branch.
        with atheris.instrument_imports(include=["gatepost"]):
            from bench.fuzz import targets
    else:
        from bench.fuzz import targets
    known = {each.name: each for each in targets.TARGETS}
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if not child:
            try:
                _run(known[task["target"]], task, is_guided=sys.argv[1] == "guided")
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


def _run(target: "Target", task: dict[str, Any], *, is_guided: bool) -> None:
    from bench.fuzz.checks import Checker

    checker, reports = Checker(target.run), _Reports(task["executions"])
    with Path(task["input"]).open("r+b") as file, mmap.mmap(file.fileno(), INPUT_ROOM) as current:
        execution = _Execution(checker, reports, current, task["executions"])
        run = _run_guided if is_guided else _run_plain
        run(target, execution, task["executions"], task["seed"], task["corpus"])


class _Execution:
    """One execution after the other; the last one ends the process with its report."""

    def __init__(self, checker: "Checker", reports: _Reports, current: mmap.mmap, executions: int) -> None:
        self._checker = checker
        self._reports = reports
        self._current = current
        self._executions = executions

    def __call__(self, data: bytes) -> None:
        room = data[: INPUT_ROOM - HEAD.size]
        self._current[: HEAD.size + len(room)] = HEAD.pack(len(room)) + room
        self._checker.execute(data)
        tally = self._checker.tally
        if tally.runs % 64 == 0:
            self._reports.tell(self._checker)
        if tally.runs >= self._executions or len(tally.failures) >= MAX_FAILURES:
            self._checker.finish()
            self._reports.tell(self._checker, is_last=True)
            os._exit(0)  # libFuzzer would go on to its own end


def _run_plain(target: "Target", execute: _Execution, executions: int, seed: int, corpus: str) -> None:
    dice = random.Random(f"{target.name}:{seed}")
    inputs = [*target.seeds(), *(path.read_bytes() for path in sorted(Path(corpus).glob("*")))]
    for data in inputs[:executions]:
        execute(data)
    while True:
        execute(mutate(dice.choice(inputs), inputs, dice, target.most))


def _run_guided(target: "Target", execute: _Execution, executions: int, seed: int, corpus: str) -> None:
    import atheris

    seeds = target.seeds()

    def change(data: bytes, most: int, number: int) -> bytes:
        dice = random.Random(number)
        if dice.random() < 0.5:
            changed: bytes = atheris.Mutate(data, most)
            return changed
        return mutate(data, seeds, dice, most)

    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(seeds):
            Path(folder, f"{number}").write_bytes(data)
        options = [f"-runs={executions + len(seeds)}", f"-seed={seed % (1 << 31) or 1}", f"-max_len={target.most}"]
        options += ["-verbosity=0", "-rss_limit_mb=0", "-timeout=600", "-handle_segv=0", "-handle_abrt=0"]
        atheris.Setup([target.name, *options, corpus, folder], execute, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
