"""Start-up time and memory of commands and of each service: what an import too many costs.

Commands run from start to exit; abby alone and guard alone run until they listen. Each row is the best of seven runs
after one that is not counted. The first row is `python -c pass`, and CPU is also given as a multiple of what that
takes, which says more than milliseconds do where the machine is busy or another one. The first command in a data folder
reads and checks the configuration and creates the database; those after it know that the files are sound. CPU and peak
memory are those of the main process without its workers; modules are all that it loads, those of `gatepost` among them,
and those of these that belong to checks, parsers or text models. Run it with `python -m bench.startup --python PATH` to
measure the Gatepost of another environment.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.ports import free_ports

ROUNDS = 7
SECONDS = 120
GUARD_YML = "workerProcesses: 1\nscanSources: {{restApi: {{host: 127.0.0.1, port: {core}}}}}\n"
ABBY_YML = (
    'listen: {{host: 127.0.0.1, port: {port}}}\nserviceProviders: {{core: {{hosts: ["https://127.0.0.1:{core}"]}}}}\n'
)
COMMANDS = (
    ("--version",),
    ("tenant", "list"),
    ("apikey", "list", "--json"),
    ("audit",),
    ("policy", "show"),
    ("config", "check"),
    ("tenant", "list", "--help"),
)
_LOADED = re.compile(r"^import time:.*\| +(\S+)$", re.MULTILINE)
_DETECTION = re.compile(r"gatepost\.(?:checks|files|textmodel|analysis|mail\.(?!message$))")


class Run(NamedTuple):
    """One start: wall-clock and CPU seconds, and peak memory in bytes."""

    seconds: float
    cpu: float
    peak: int


def run() -> str:
    """Measure the Gatepost of this environment."""
    return measure(sys.executable)


def measure(python: str) -> str:
    """Return a table of the starts with an interpreter that has Gatepost installed."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        _configure(data)
        bare = min(_finish([python, "-c", "pass"])[0].cpu for _ in range(3 * ROUNDS))
        rows = [_row("`python -c pass`", bare, lambda *more: _finish([python, *more, "-c", "pass"]))]
        first = partial(_start_in_new_folder, python)
        rows.append(_row("`gatepost tenant list`, the first in its folder", bare, first))
        rows += [_row(f"`gatepost {' '.join(words)}`", bare, _starter(python, data, words)) for words in COMMANDS]
        for name, words in (("`gatepost abby`", "abby"), ("`gatepost guard`, main process", "guard")):
            rows.append(_row(name, bare, lambda *more, words=words: _serve(_command(python, data, words, *more))))
    head = [
        "| Command | Time | CPU | CPU, of a bare start | Peak memory | Modules | of Gatepost | of detection |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*head, *rows])


def _starter(python: str, data: Path, words: tuple[str, ...]) -> Callable[..., tuple[Run, str]]:
    return lambda *more: _finish(_command(python, data, *words, *more))


def _start_in_new_folder(python: str, *more: str) -> tuple[Run, str]:
    with tempfile.TemporaryDirectory() as folder:
        _configure(Path(folder))
        return _finish(_command(python, Path(folder), "tenant", "list", *more))


def _configure(data: Path) -> None:
    port, core = free_ports(2)
    for name, text in (("guard/core/guard.yml", GUARD_YML), ("abby/abby/abby.yml", ABBY_YML)):
        (data / name).parent.mkdir(parents=True)
        (data / name).write_text(text.format(port=port, core=core))


def _command(python: str, data: Path, *words: str) -> list[str]:
    options = [word for word in words if word.startswith("-X")]
    place = [] if words[0] == "--version" else ["--data", str(data)]
    return [python, *options, "-m", "gatepost", *(word for word in words if word not in options), *place]


def _row(name: str, bare: float, start: Callable[..., tuple[Run, str]]) -> str:
    start()
    _, output = start("-Ximporttime")
    loaded = set(_LOADED.findall(output))
    own = [module for module in loaded if module.partition(".")[0] == "gatepost"]
    detection = [module for module in own if _DETECTION.match(module)]
    runs = [start()[0] for _ in range(ROUNDS)]
    best = Run(min(each.seconds for each in runs), min(each.cpu for each in runs), min(each.peak for each in runs))
    times = f"{best.seconds * 1000:.0f} ms | {best.cpu * 1000:.0f} ms | {best.cpu / bare:.0f} ×"
    return f"| {name} | {times} | {best.peak / (1 << 20):.0f} MiB | {len(loaded)} | {len(own)} | {len(detection)} |"


def _finish(command: list[str]) -> tuple[Run, str]:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    assert process.returncode == 0, text
    return Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024), text


def _serve(command: list[str]) -> tuple[Run, str]:
    """Run a service until it listens, and stop it."""
    with tempfile.NamedTemporaryFile() as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while "service listening" not in Path(output.name).read_text():
                assert process.poll() is None, Path(output.name).read_text()
                assert time.monotonic() < started + SECONDS, "it does not listen"
                time.sleep(0.002)
            seconds = time.monotonic() - started
            found = Run(seconds, _cpu(process.pid), _peak(process.pid))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)
        return found, Path(output.name).read_text()


def _cpu(pid: int) -> float:
    """CPU seconds of a process without its children (proc(5), fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found.group(1)) * 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment to measure")
    print(measure(parser.parse_args().python))
