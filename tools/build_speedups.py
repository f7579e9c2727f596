"""Build `src/gatepost/_speedups.c` and what it includes, where a C compiler and Python's headers are at hand.

    python tools/build_speedups.py [--sanitize]

It is built into the package's folder in a second or two. Where it cannot be built, one line says why, and Gatepost runs
on the Python twins of its functions. It reads hostile mail, so it is hardened as the compiler can: stacks and copies
are checked, tables of addresses are read-only once it is loaded, and jumps land where they may. A compiler that does
not know an option builds without that one. `--sanitize` builds it with the address and undefined-behaviour sanitizers,
for `make fuzz`.
"""

import argparse
import os
import platform
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
OPTIMIZED = ("-O2", "-DNDEBUG")
HARDENED = (
    "-fstack-protector-strong",
    "-fstack-clash-protection",
    # Distributions define it, too, and a second definition would be a warning.
    "-Wp,-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=3",
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
)
# No path of the machine that builds is in the library, so that two machines build the same.
REPRODUCIBLE = (f"-ffile-prefix-map={PACKAGE}=gatepost",)
# Jumps and returns, by the name of the processor.
HARDENED_JUMPS = {"x86_64": "-fcf-protection=full", "aarch64": "-mbranch-protection=standard"}


def list_hardening(machine: str = "") -> tuple[str, ...]:
    """Return the options that harden the module on this processor."""
    jumps = HARDENED_JUMPS.get(machine or platform.machine())
    return (*HARDENED, *REPRODUCIBLE, *((jumps,) if jumps else ()))


def find_accepted(compiler: str, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the options that a compiler takes."""

    def is_accepted(option: str) -> bool:
        command = [compiler, "-shared", "-fPIC", "-O2", "-Werror", option, "-x", "c", "-", "-o", os.devnull]
        tried = subprocess.run(
            command, input="int f(void) { return 0; }\n", capture_output=True, text=True, check=False
        )
        return not tried.returncode

    return tuple(filter(is_accepted, options))


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
    hardening = () if sanitize else list_hardening()

    def compile_with(options: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        chosen = SANITIZERS if sanitize else (*OPTIMIZED, *options)
        command = [compiler, "-shared", "-fPIC", *chosen, *WARNINGS, f"-I{headers}", str(SOURCE), "-o", str(fresh)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = compile_with(hardening)
    if done.returncode and hardening:
        done = compile_with(find_accepted(compiler, hardening))
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "error" in line), lines[0] if lines else "it said nothing")
        raise OSError(f"the C compiler failed: {reason}")
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
