"""Audit the packages that are installed with the service: bill of materials, licences, known vulnerabilities.

Run it as `make audit`, or `python -m tools.audit requirements/run.txt --also requirements/uv.txt --tools FOLDER
--output build/sbom.cdx.json`, where FOLDER has the programs of the lock file `requirements/audit.txt`. Without
`--tools` only the bill of materials is written and the licences are checked, for which no network is needed: that is
what goes with a release. `--also` names lock files of programs that an installation runs and the service does not have.

The bill of materials is CycloneDX 1.6 in JSON, with the version, the hashes and the licence of every package in the
lock file; the same lock file makes the same bytes. A licence must be in `ALLOWED`. pip-audit looks for known
vulnerabilities in PyPI's advisory database, or by `--osv URL` in one that speaks OSV's protocol. It would leave out
what a lock file pins for other versions of Python than its own, so it is asked for names and versions alone. Where the
database cannot be reached, the check is reported as not run; with `--strict` that counts as a failure.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

from gatepost import __version__
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
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")
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


def read_lock(lock: str) -> list[tuple[str, str, list[str]]]:
    """Return the packages of a lock file by name: the name, the version, and the SHA-256 of each of its files."""
    found: list[tuple[str, str, list[str]]] = []
    for line in lock.splitlines():
        if pinned := _PINNED.match(line):
            found.append((pinned[1], pinned[2], []))
        for digest in _DIGEST.findall(line) if found else ():
            found[-1][2].append(digest)
    return sorted(found)


def build_bill(lock: str, version: str) -> dict[str, Any]:
    """Return the bill of materials (CycloneDX 1.6) of a version whose packages a lock file pins."""
    packages = read_lock(lock)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"gatepost {version} {hashlib.sha256(lock.encode()).hexdigest()}")
    own = f"pkg:pypi/gatepost@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": own, "name": "gatepost", "version": version, "purl": own}
        },
        "components": [_describe_package(*package) for package in packages],
        "dependencies": [
            {"ref": own, "dependsOn": [_name_package(name, pinned) for name, pinned, _ in packages]},
            *({"ref": _name_package(name, pinned)} for name, pinned, _ in packages),
        ],
    }


def _name_package(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"


def _describe_package(name: str, version: str, digests: list[str]) -> dict[str, Any]:
    purl = _name_package(name, version)
    hashes = [{"alg": "SHA-256", "content": digest} for digest in sorted(digests)]
    source = {"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": hashes}
    described: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    licence = STATED.get(name, find_licence(name))
    if licence != ABSENT:
        described["licenses"] = [{"license": {"name": licence}}]
    return {**described, "externalReferences": [source]}


def write_bill(lock: Path, output: Path) -> int:
    """Write the bill of materials, and return how many packages it lists."""
    output.parent.mkdir(parents=True, exist_ok=True)
    bill = build_bill(lock.read_text("utf-8"), __version__)
    output.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
    return len(bill["components"])


def divide_pins(locks: Iterable[str]) -> list[dict[str, str]]:
    """Return all packages of these lock files with their versions; one that is pinned twice stands in two parts."""
    parts: list[dict[str, str]] = []
    for name, version in sorted({(name, version) for lock in locks for name, version, _ in read_lock(lock)}):
        part = next((each for each in parts if name not in each), None)
        if part is None:
            parts.append(part := {})
        part[name] = version
    return parts


def ask_advisories(locks: Iterable[Path], tools: Path, osv: str = "") -> Advisories:
    """Ask for the known vulnerabilities of every package in the lock files."""
    parts = divide_pins(lock.read_text("utf-8") for lock in locks)
    whole = Advisories(sum(map(len, parts)), 0, {})
    command = [str(tools / "pip-audit"), "--disable-pip", "--no-deps", "--format", "json"]
    command += ["--vulnerability-service", "osv", "--osv-url", osv] if osv else []
    for part in parts:
        with NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{name}=={version}\n" for name, version in part.items())
            file.flush()
            try:
                asked = [*command, "-r", file.name]
                done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=TIMEOUT)
            except (OSError, subprocess.TimeoutExpired) as fault:
                return msgspec.structs.replace(whole, fault=type(fault).__name__)
        seen = read_advisories(done.stdout, done.stderr)
        found, checked = whole.found | seen.found, whole.checked + seen.checked
        whole = Advisories(whole.count, checked, found, whole.fault or seen.fault)
    return whole


def read_advisories(out: str, error: str = "") -> Advisories:
    """Read the answer of pip-audit. A package that it could not look up is no package without vulnerabilities."""
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError):
        return Advisories(0, 0, {}, " ".join(error.split())[-200:] or "no answer")
    checked = [each for each in packages if "vulns" in each]
    found = {f"{each['name']} {each['version']}": [one["id"] for one in each["vulns"]] for each in checked}
    return Advisories(len(packages), len(checked), {name: ids for name, ids in found.items() if ids})


def describe(advisories: Advisories) -> str:
    """Return one line about the advisories."""
    if advisories.found:
        listed = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in advisories.found.items())
        return f"advisories: known vulnerabilities in {listed}"
    if not advisories.checked:
        return f"advisories: not run, the database could not be reached ({advisories.fault or 'no package was found'})"
    if advisories.checked < advisories.count:
        return f"advisories: {advisories.checked} of {advisories.count} packages looked up, no known vulnerability"
    return f"advisories: {advisories.count} packages looked up, no known vulnerability"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--also", type=Path, nargs="*", default=[])
    parser.add_argument("--tools", type=Path)
    parser.add_argument(
        "--osv", default="", help="a database other than that of PyPI, such as a mirror in your network"
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--strict", action="store_true", help="fail where the advisories could not all be looked up")
    options = parser.parse_args()
    count = write_bill(options.lock, options.output)
    print(f"bill of materials: {count} packages in {options.output}")
    refused = check_licences(options.lock.read_text("utf-8"))
    for name, licence in refused.items():
        print(f"licences: {name} has {licence}, which tools/audit.py does not allow")
    if not refused:
        print("licences: all allowed")
    if options.tools is None:
        sys.exit(1 if refused else 0)
    advisories = ask_advisories([options.lock, *options.also], options.tools, options.osv)
    print(describe(advisories))
    is_complete = bool(advisories.checked) and advisories.checked == advisories.count and not advisories.fault
    sys.exit(1 if refused or advisories.found or (options.strict and not is_complete) else 0)


if __name__ == "__main__":
    main()
