"""`make bench`: run the benchmarks one after another and write what they saw to bench/RESULTS.md.

python -m bench               all of them
python -m bench scanning      only that one; its section is replaced, the others stay
"""

import argparse
import importlib
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
BENCHMARKS = (
    "scanning",
    "parsing",
    "texts",
    "giants",
    "dkim",
    "lists",
    "listapi",
    "sender_history",
    "reputation",
    "startup",
    "fronts",
    "catch",
    "smtp",
    "large",
    "noloss",
    "cores",
    "web",
    "model",
    "evasion",
    "poisoning",
    "learning",
    "bogofilter",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(BENCHMARKS))
    names = parser.parse_args().names or BENCHMARKS
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}")
        module = importlib.import_module(f"bench.{name}")
        teaching = (module.__doc__ or "").strip()
        print(f"== {name}: {teaching.splitlines()[0]}", flush=True)
        section = module.run()
        print(section, flush=True)
        write(name, teaching, section)


def write(name: str, teaching: str, section: str) -> None:
    """Put the section in its place among the others."""
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else "# Benchmark results\n"
    head, *parts = re.split(r"(?m)^(?=## )", text)
    sections = {part.split("\n", 1)[0].removeprefix("## ").strip(): part for part in parts}
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}"
    sections[name] = f"## {name}\n\n{teaching}\n\n`python -m bench {name}` ({stamp}):\n\n{section.strip()}\n\n"
    order = [*BENCHMARKS, *(other for other in sections if other not in BENCHMARKS)]
    body = "".join(sections[other].rstrip() + "\n\n" for other in order if other in sections)
    RESULTS.write_text(head.rstrip() + "\n\n" + body.rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
