"""Make the environment that `make` works in, with uv in it, on the fastest suitable Python.

    python3 tools/new_environment.py .venv requirements/uv.txt [--this]

A Python that was built without profile-guided optimisation (pyenv builds such ones unless told otherwise) takes about
a third more CPU for each message than those of Debian, Fedora or python.org. So where `python3` is such a one, is too
old or newer than the libraries, and an optimised and supported Python stands in a usual place, the environment is made
on that one, and a line says so. `--this` takes the Python that runs this file, whatever it is; `make PYTHON=…` passes
it. A Python without its C headers is not chosen where the other one has them, since the native speedups are worth more.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

LEAST = (3, 11)
NEWEST = (3, 14)  # cel-expr-python 0.1.3 has no wheel for 3.15
# Optimised builds of 3.11 to 3.14 take the same CPU for a message, within 1.2 % (bench/RESULTS.md, "pythons"): only the
# kind of build decides. So `python3` comes first, since its headers and security updates are those that the system
# installs by itself, then the newest, which has them for longest.
PLACES = (
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    *(f"/usr/bin/python3.{minor}" for minor in range(NEWEST[1], LEAST[1] - 1, -1)),
)
# Debian and Ubuntu build with these optimisations, but their Python does not record it; its install schemes name it.
QUESTION = """
import json, os, sys, sysconfig
options = str(sysconfig.get_config_var("CONFIG_ARGS"))
print(json.dumps({
    "path": sys.executable,
    "version": list(sys.version_info[:3]),
    "optimised": "--enable-optimizations" in options or "deb_system" in sysconfig.get_scheme_names(),
    "headers": os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
}))
"""


class Interpreter(NamedTuple):
    """A Python of this machine, and what counts for its speed."""

    path: str
    version: tuple[int, int, int]
    optimised: bool
    headers: bool


def describe_interpreter(path: str) -> Interpreter | None:
    """Ask a Python about itself; None where there is none."""
    try:
        said = subprocess.run([path, "-I", "-c", QUESTION], capture_output=True, check=True, timeout=60)
        found = json.loads(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(found["path"], tuple(found["version"]), found["optimised"], found["headers"])


def choose(given: Interpreter, others: list[Interpreter]) -> Interpreter | None:
    """Return the Python to use: the given one unless another one is faster and lacks nothing; None if all are old.

    One that is newer than the supported ones is the last resort: its libraries may exist by now."""
    new = [each for each in (given, *others) if each.version[:2] >= LEAST]
    supported = [each for each in new if each.version[:2] <= NEWEST] or new
    best = [each for each in supported if each.optimised and (each.headers or not given.headers)]
    return next(iter(best or supported), None)


def explain(given: Interpreter, chosen: Interpreter) -> str:
    """Return what is said about the choice; nothing where it is the given one, and supported."""
    version = ".".join(map(str, chosen.version))
    if chosen.version[:2] > NEWEST:
        return (
            f"Gatepost was not tested on Python {version}, and libraries may be missing; set PYTHON=… to another one."
        )
    if chosen == given:
        return ""
    reason = "was built without optimisation"
    if not LEAST <= given.version[:2] <= NEWEST:
        reason = "is too old" if given.version[:2] < LEAST else "is newer than its libraries"
    return f"Using {chosen.path} ({version}), since {given.path} {reason}."


def make_environment(folder: Path, lock: Path, chosen: str) -> None:
    """Make the environment on a Python and install uv into it, with the hashes of the lock file."""
    # Debian's Python may lack ensurepip, so uv is fetched by the Python that runs this, then makes the environment.
    first = folder if chosen == sys.executable else folder / "first"
    _run(sys.executable, "-m", "venv", first)
    _run(first / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *_locked(lock))
    if first == folder:
        return
    _run(first / "bin/uv", "venv", "-q", "--allow-existing", "-p", chosen, folder)
    _run(first / "bin/uv", "pip", "install", "-q", "-p", folder / "bin/python", *_locked(lock))
    shutil.rmtree(first)


def _locked(lock: Path) -> tuple[str, ...]:
    return ("--require-hashes", "-r", str(lock))


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


def main(arguments: list[str] | None = None) -> int | str:
    """Make it, or return what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--this", action="store_true", help="use the Python that runs this")
    asked = parser.parse_args(arguments)
    given = describe_interpreter(sys.executable)
    if given is None:
        return f"{sys.executable} does not answer."
    chosen = choose(given, [each for each in map(describe_interpreter, () if asked.this else PLACES) if each])
    if chosen is None:
        return "Gatepost needs Python 3.11 or newer; set PYTHON=… to one."
    if said := explain(given, chosen):
        print(said)
    try:
        make_environment(asked.folder, asked.lock, chosen.path)
    except subprocess.CalledProcessError as fault:
        return f"The environment could not be made: {' '.join(fault.cmd)} ended with {fault.returncode}."
    return 0


if __name__ == "__main__":
    sys.exit(main())
