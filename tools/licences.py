"""List the licences of the packages that Gatepost needs.

Run it as `python -m tools.licences requirements/run.txt docs/licences.md`.
"""

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_SHORT = 60


def read_pins(lock: str) -> list[str]:
    """Return the names of the packages in a lock file, sorted."""
    return sorted(set(_PINNED.findall(lock)), key=str.lower)


def render_page(lock: str) -> str:
    """Return the Markdown page: a table of every package that is installed with the service."""
    rows = [f"| {name} | {find_licence(name)} |" for name in read_pins(lock)]
    head = [
        "# Third-party licences",
        "",
        "This table lists the packages that are installed with Gatepost, and the licence that each of them states.",
        "None of them is part of this repository.",
        "",
        "| Package | Licence |",
        "|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def find_licence(name: str) -> str:
    """Return what an installed package states as its licence."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return "not needed on this platform"
    return _read_licence(found)


def _read_licence(found: Distribution) -> str:
    """Return the SPDX expression of a package, else its classifiers, else the first line of its free text."""
    fields = found.metadata.get_all
    if expression := fields("License-Expression"):
        return str(expression[0])
    classified = [
        value.rpartition(" :: ")[2]
        for value in fields("Classifier") or ()
        if value.startswith("License ::") and value != "License :: OSI Approved"
    ]
    # Some packages state nothing and bring the text, whose first line is its name.
    text = found.read_text("licenses/LICENSE") or "not stated"
    text = ", ".join(classified) or (fields("License") or [text])[0].strip().splitlines()[0]
    return text if len(text) <= _SHORT else text[:_SHORT] + "…"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(render_page(Path(sys.argv[1]).read_text("utf-8")), "utf-8")
