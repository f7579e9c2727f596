"""Audit the packages that are installed with the service: bill of materials, licences, known vulnerabilities.

Run it as `make audit`, or `python -m tools.audit requirements/run.txt --tools FOLDER --output build/sbom.cdx.json`,
where FOLDER has the programs of the lock file `requirements/audit.txt`.

The bill of materials is CycloneDX 1.6 in JSON, with the version, the hashes and the licence of every package in the
lock file. A licence must be in `ALLOWED`. pip-audit looks for known vulnerabilities in PyPI's advisory database. Where
that cannot be reached, the check is reported as not run; with `--strict` that counts as a failure.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tools.licences import find_licence, read_pins

# Licences under which a package may be installed with the service: those that ask for a notice, and two that ask for
# changes to the package itself to stay open (MPL). Names as SPDX has them, or as older packages write them.
ALLOWED = frozenset(
    {
        "0BSD", "Apache 2.0", "Apache Software License", "Apache-2.0", "BSD License", "BSD-2-Clause", "BSD-3-Clause",
        "CC0-1.0", "ISC License (ISCL)", "MIT", "MIT License", "MIT-0", "MIT-CMU", "MPL-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)", "PSF-2.0", "Zlib",
    }
)  # fmt: skip
# Packages whose statement is not a name of a licence, with what their files say.
STATED = {
    "apsw": "Zlib",  # or any other that the Open Source Initiative has approved
    "fido2": "BSD-2-Clause AND Apache-2.0 AND MPL-2.0",  # its copy of the public suffix list is the last of these
    "pypdfium2": "BSD-3-Clause AND Apache-2.0",
}
ABSENT = "not needed on this platform"
_JOINED = re.compile(r"\s+AND\s+|,\s+")
TIMEOUT = 300


class Advisories(msgspec.Struct, frozen=True):
    """What the advisory database says: `checked` packages of `count`, and the vulnerabilities by package."""

    count: int
    checked: int
    found: dict[str, list[str]]
    fault: str = ""


def is_allowed(licence: str) -> bool:
    """Return whether a licence, or each of several that hold together, is allowed; of alternatives one must be."""
    return all(
        any({choice.strip(), choice.strip(" ()")} & ALLOWED for choice in part.split(" OR "))
        for part in _JOINED.split(licence)
    )


def check_licences(lock: str) -> dict[str, str]:
    """Return the licences that are not allowed, by package."""
    stated = {name: STATED.get(name, find_licence(name)) for name in read_pins(lock)}
    return {name: licence for name, licence in stated.items() if licence != ABSENT and not is_allowed(licence)}


def write_bill(lock: Path, tools: Path, output: Path) -> int:
    """Write the bill of materials, and return how many packages it lists."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [tools / "cyclonedx-py", "requirements", lock, "--pyproject", "pyproject.toml", "--of", "JSON"]
    subprocess.run(
        [*map(str, command), "--sv", "1.6", "--output-reproducible", "-o", str(output)],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    bill: dict[str, Any] = json.loads(output.read_text("utf-8"))
    for component in bill["components"]:
        component.pop("description", None)  # the line of the lock file once more
        licence = STATED.get(component["name"], find_licence(component["name"]))
        if licence != ABSENT:
            component["licenses"] = [{"license": {"name": licence}}]
    output.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
    return len(bill["components"])


def ask_advisories(lock: Path, tools: Path) -> Advisories:
    """Ask for the known vulnerabilities of every package in the lock file."""
    command = [tools / "pip-audit", "-r", lock, "--disable-pip", "--require-hashes", "--format", "json"]
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as fault:
        return Advisories(0, 0, {}, type(fault).__name__)
    return read_advisories(done.stdout, done.stderr)


def read_advisories(out: str, error: str = "") -> Advisories:
    """Read the answer of pip-audit. A package that it could not look up is no package without vulnerabilities."""
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError):
        return Advisories(0, 0, {}, " ".join(error.split())[-200:] or "no answer")
    checked = [each for each in packages if "vulns" in each]
    found = {each["name"]: [one["id"] for one in each["vulns"]] for each in checked if each["vulns"]}
    return Advisories(len(packages), len(checked), found)


def describe(advisories: Advisories) -> str:
    """Return one line about the advisories."""
    if advisories.found:
        listed = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in advisories.found.items())
        return f"advisories: known vulnerabilities in {listed}"
    if advisories.fault or not advisories.checked:
        return f"advisories: not run, the database could not be reached ({advisories.fault or 'no package was found'})"
    if advisories.checked < advisories.count:
        return f"advisories: {advisories.checked} of {advisories.count} packages looked up, no known vulnerability"
    return f"advisories: {advisories.count} packages looked up, no known vulnerability"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--strict", action="store_true", help="fail where the advisories could not all be looked up")
    options = parser.parse_args()
    count = write_bill(options.lock, options.tools, options.output)
    print(f"bill of materials: {count} packages in {options.output}")
    refused = check_licences(options.lock.read_text("utf-8"))
    for name, licence in refused.items():
        print(f"licences: {name} has {licence}, which tools/audit.py does not allow")
    if not refused:
        print("licences: all allowed")
    advisories = ask_advisories(options.lock, options.tools)
    print(describe(advisories))
    is_complete = bool(advisories.checked) and advisories.checked == advisories.count
    sys.exit(1 if refused or advisories.found or (options.strict and not is_complete) else 0)


if __name__ == "__main__":
    main()
