"""`make bench`: run the benchmarks one after another and write what they saw to bench/RESULTS.md.

python -m bench               all of them
python -m bench scanning      only that one; its section is replaced, the others stay
python -m bench soak --minutes 120    hours of load with faults; never a part of all of them
python -m bench rehearsal --minutes 12 --rate 4 --before WORKTREE    a day of a company
"""

import argparse
import importlib
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("RESULTS.md")
BENCHMARKS = (
    "scanning",
    "parsing",
    "texts",
    "giants",
    "pairs",
    "pages",
    "dkim",
    "lists",
    "listapi",
    "recording",
    "sender_history",
    "reputation",
    "startup",
    "steady",
    "memory",
    "growth",
    "catch",
    "smtp",
    "large",
    "noloss",
    "cores",
    "instances",
    "restarts",
    "fairness",
    "sources",
    "web",
    "tasks",
    "searches",
    "model",
    "evasion",
    "poisoning",
    "learning",
    "bogofilter",
    "spamassassin",
)
# Only where they are named: they take long, or many gigabytes.
LONG = ("soak", "history", "rehearsal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join((*BENCHMARKS, *LONG)))
    parser.add_argument("--minutes", type=float, help="how long the soak or the rehearsal lasts")
    parser.add_argument("--rate", type=float, help="messages a second of the rehearsal")
    parser.add_argument("--before", type=Path, help="worktree of the version with which the rehearsal begins")
    parser.add_argument("--sqlite", action="store_true", help="soak a node on SQLite")
    arguments = parser.parse_args()
    for name in arguments.names or BENCHMARKS:
        if name not in (*BENCHMARKS, *LONG):
            parser.error(f"there is no benchmark {name!r}")
        module = importlib.import_module(f"bench.{name}")
        teaching = (module.__doc__ or "").strip()
        print(f"== {name}: {teaching.splitlines()[0]}", flush=True)
        section = module.run(**_options(name, arguments))
        print(section, flush=True)
        write(name, teaching, section)


def _options(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a benchmark is told of the options that were given."""
    wanted = {"soak": ("minutes", "sqlite"), "rehearsal": ("minutes", "rate", "before")}.get(name, ())
    return {each: value for each in wanted if (value := getattr(arguments, each)) is not None}


def write(name: str, teaching: str, section: str) -> None:
    """Put the section in its place among the others."""
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else "# Benchmark results\n"
    head, *parts = re.split(r"(?m)^(?=## )", text)
    sections = {part.split("\n", 1)[0].removeprefix("## ").strip(): part for part in parts}
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}"
    sections[name] = f"## {name}\n\n{teaching}\n\n`python -m bench {name}` ({stamp}):\n\n{section.strip()}\n\n"
    known = (*BENCHMARKS, *LONG)
    order = [*known, *(other for other in sections if other not in known)]
    body = "".join(sections[other].rstrip() + "\n\n" for other in order if other in sections)
    RESULTS.write_text(head.rstrip() + "\n\n" + body.rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
