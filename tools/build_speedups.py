"""Build `src/gatepost/_speedups.c` and what it includes, where a C compiler and Python's headers are at hand.

    python tools/build_speedups.py [--sanitize]

It is built into the package's folder in a second or two. Where it cannot be built, one line says why, and Gatepost runs
on the Python twins of its functions. `--sanitize` builds it with the address and undefined-behaviour sanitizers, for
`make fuzz`.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "gatepost"
SOURCE = PACKAGE / "_speedups.c"
WARNINGS = ("-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Wno-cast-function-type")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")


def target_name() -> str:
    """Return the name of the built module for this Python."""
    return "_speedups" + str(sysconfig.get_config_var("EXT_SUFFIX"))


def build(folder: Path = PACKAGE, *, sanitize: bool = False) -> Path:
    """Build the module into a folder and return its path. Raises OSError with the reason where that is not possible."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    compiler = shutil.which(compiler) or shutil.which("cc") or ""
    headers = Path(sysconfig.get_paths()["include"])
    if not compiler:
        raise OSError("there is no C compiler")
    if not (headers / "Python.h").exists():
        raise OSError("Python's headers are not installed")
    target = folder / target_name()
    # Written beside it and then renamed: a process that has the old one open goes on with it.
    fresh = target.with_suffix(".new")
    options = SANITIZERS if sanitize else ("-O2", "-DNDEBUG")
    command = [compiler, "-shared", "-fPIC", *options, *WARNINGS, f"-I{headers}", str(SOURCE), "-o", str(fresh)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"the C compiler failed: {done.stderr.strip().splitlines()[:1]}")
    fresh.replace(target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the native speedups.")
    parser.add_argument("--sanitize", action="store_true", help="with the address and undefined-behaviour sanitizers")
    arguments = parser.parse_args()
    try:
        build(sanitize=arguments.sanitize)
    except OSError as fault:
        print(f"The native speedups were not built: {fault}. Gatepost runs without them, slower.", file=sys.stderr)
    else:
        print("The native speedups were built.")


if __name__ == "__main__":
    main()
