"""Whose work Gatepost stands on: `python -m gatepost.cli.licences requirements/run.txt docs/licences.md`."""

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_SHORT = 60


def pinned(lock: str) -> list[str]:
    """The names in a lock file."""
    return sorted(set(_PINNED.findall(lock)), key=str.lower)


def page(lock: str) -> str:
    """A table of every package that is installed with the service."""
    rows = [f"| {name} | {_licence(name)} |" for name in pinned(lock)]
    head = [
        "# Third-party licences",
        "",
        "What is installed together with Gatepost, as each package states it. None of it is part of this repository.",
        "",
        "| Package | Licence |",
        "|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _licence(name: str) -> str:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return "not needed on this platform"
    return _stated(found)


def _stated(found: Distribution) -> str:
    """The SPDX expression, else the classifiers, else the first line of the free text."""
    stated = found.metadata.get_all
    if expression := stated("License-Expression"):
        return str(expression[0])
    classified = [
        value.rpartition(" :: ")[2]
        for value in stated("Classifier") or ()
        if value.startswith("License ::") and value != "License :: OSI Approved"
    ]
    text = ", ".join(classified) or (stated("License") or ["not stated"])[0].strip().splitlines()[0]
    return text if len(text) <= _SHORT else text[:_SHORT] + "…"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1]).read_text("utf-8")), "utf-8")
