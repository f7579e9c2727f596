"""Write the skeleton of everything that a new check needs: `make check NAME=area/trick`.

    python tools/new_check.py links/data_link --title "A link carries a page" --strength

The area is the folder of the check; the trick names its module, and its kind (`url:data-link`). Nothing is written
where a name is bad or taken. What was written fails its tests until the trick is filled in.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The folder of a check, the prefix of its kinds, and the group of the policy that its points count with.
AREAS = {
    "sender": ("sender", "sender"),
    "headers": ("header", "header"),
    "links": ("url", "links"),
    "text": ("text", "content"),
    "files": ("file", "files"),
}
VERDICTS = ("malware", "phishing", "fraud", "spoofing", "suspicious", "spam", "bulk")
NAMELESS = frozenset({"check", "checks", "common", "helpers", "misc", "new", "registry", "tools", "utils"})
_TRICK = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

KINDS = Path("src/gatepost/kinds.py")
REGISTRY = Path("src/gatepost/checks/registry.py")
POLICY = Path("src/gatepost/policy.toml")
STRENGTHS = Path("src/gatepost/strengths.toml")


class RefusedError(Exception):
    """A check of this name cannot be added; the text says why."""


@dataclass(frozen=True)
class NewCheck:
    """A check that is to be added, and what the policy shall make of it."""

    area: str
    trick: str
    title: str
    verdict: str = "suspicious"
    weight: float = 1.0
    strength: bool = False

    @property
    def kind(self) -> str:
        return f"{AREAS[self.area][0]}:{self.trick.replace('_', '-')}"

    @property
    def group(self) -> str:
        return AREAS[self.area][1]

    @property
    def constant(self) -> str:
        return self.kind.replace(":", "_").replace("-", "_").upper()

    @property
    def module(self) -> Path:
        return Path("src/gatepost/checks") / self.area / f"{self.trick}.py"

    @property
    def test(self) -> Path:
        return Path("tests/checks") / self.area / f"test_{self.trick}.py"

    @property
    def attack(self) -> Path:
        return Path("tests/golden/attacks") / f"{self.kind.replace(':', '-')}.eml"

    @property
    def twin(self) -> Path:
        return Path("tests/golden/twins") / f"innocent-{self.trick.replace('_', '-')}.eml"


def parse_name(name: str) -> tuple[str, str]:
    """Split `area/trick`; a bad name is refused with the reason."""
    area, slash, trick = name.partition("/")
    if not slash or area not in AREAS:
        raise RefusedError(f"{name!r} is not area/trick, where area is one of {', '.join(AREAS)}.")
    if not _TRICK.fullmatch(trick):
        raise RefusedError(f"{trick!r} is no module name: use small letters, digits and single underscores.")
    if trick in NAMELESS:
        raise RefusedError(f"{trick!r} says nothing: name the module after the trick that it finds.")
    return area, trick


def plan(check: NewCheck, root: Path) -> dict[Path, str]:
    """Return every file with its new text; refuse where something of the same name is there already."""
    _refuse_taken(check, root)
    texts = {path: (root / path).read_text("utf-8") for path in (KINDS, REGISTRY, POLICY, STRENGTHS)}
    planned = {
        check.module: _module(check),
        KINDS: _add_kind(texts[KINDS], check),
        REGISTRY: _add_to_registry(texts[REGISTRY], check),
        POLICY: _add_rule(texts[POLICY], check),
        check.test: _test(check),
        check.attack: _message(check, check.attack, "What the attacker writes."),
        check.twin: _message(check, check.twin, "What an honest sender writes who does nearly the same."),
    }
    if check.strength:
        planned[STRENGTHS] = _add_strength(texts[STRENGTHS], check)
    return planned


def _refuse_taken(check: NewCheck, root: Path) -> None:
    for path in (root / "src/gatepost/checks").rglob(f"{check.trick}.py"):
        raise RefusedError(f"There is a check called {check.trick} already: {path.relative_to(root)}.")
    for path in (KINDS, POLICY, STRENGTHS):
        if f'"{check.kind}"' in (root / path).read_text("utf-8"):
            raise RefusedError(f"There is a kind {check.kind} already, in {path}.")
    for path in (check.test, check.attack, check.twin):
        if (root / path).exists():
            raise RefusedError(f"There is a file {path} already.")


def _add_kind(text: str, check: NewCheck) -> str:
    """Add the constant among those of its area, in the order of the alphabet."""
    line = f'{check.constant} = Kind("{check.kind}", "{check.title}")'
    if len(line) > 120:
        line = f'{check.constant} = Kind(\n    "{check.kind}", "{check.title}"\n)'
    return _insert(text, line, re.compile(rf"({AREAS[check.area][0].upper()}_\w+) = Kind\("), check.constant)


def _add_rule(text: str, check: NewCheck) -> str:
    """Add the entry of the policy after the last one of its area that counts with the same group."""
    rule = f'{{ weight = {check.weight}, verdict = "{check.verdict}", group = "{check.group}" }}'
    entry = re.compile(rf'("{AREAS[check.area][0]}:[\w-]+") = .*group = "{check.group}"')
    return _insert(text, f'"{check.kind}" = {rule}', entry, chr(0x10FFFF))


def _add_to_registry(text: str, check: NewCheck) -> str:
    """Add the module to the imports of its area and to the end of `CHECKS`."""
    head, opening, rest = text.partition(f"from gatepost.checks.{check.area} import (\n")
    names, closing, tail = rest.partition("\n)")
    modules = sorted([*names.splitlines(), f"    {check.trick},"])
    tail, end, nothing = tail.rpartition("\n    )\n)\n")
    return f"{head}{opening}" + "\n".join(modules) + f"{closing}{tail}\n        {check.trick},{end}{nothing}"


def _add_strength(text: str, check: NewCheck) -> str:
    """Add a table with one number after the last table of its area; tables are blocks between empty lines."""
    table = f'["{check.kind}"]\nstrength = "1, or weak where …"\nweak = {{ value = 0.5, about = "where …" }}'
    blocks = text.rstrip().split("\n\n")
    own = [index for index, block in enumerate(blocks) if block.startswith(f'["{AREAS[check.area][0]}:')]
    place = own[-1] + 1 if own else len(blocks)
    return "\n\n".join([*blocks[:place], table, *blocks[place:]]) + "\n"


def _insert(text: str, line: str, pattern: re.Pattern[str], key: str) -> str:
    """Insert a line after the last one that matches and whose first group is not behind `key`; one that goes on over
    several lines is kept whole."""
    lines = text.splitlines()
    matches = [(index, match[1]) for index, each in enumerate(lines) if (match := pattern.match(each))]
    before = [index for index, name in matches if name < key] or [matches[0][0] - 1]
    place = before[-1] + 1
    while lines[place - 1].endswith("(") or (place < len(lines) and lines[place].startswith((" ", ")"))):
        place += 1
    return "\n".join([*lines[:place], line, *lines[place:]]) + "\n"


def _module(check: NewCheck) -> str:
    numbers = f'\n(_WEAK,) = coefficients({check.constant}, "weak")\n' if check.strength else ""
    imported = "from gatepost.strengths import coefficients\n" if check.strength else ""
    strength = "strength=_WEAK, " if check.strength else ""
    return f'''"""{check.title}: say what the trick is, in one line.

Teach the trick with an example, name the standard that it bends (RFC 0000 section 0), and say why an honest sender does
not do it.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import {check.constant}, Finding
{imported}
KINDS = ({check.constant},)
{numbers}

def check(reading: Reading) -> Iterator[Finding]:
    # Say which honest case is left out.
    if "x-{check.trick.replace("_", "-")}" in reading.fields:
        yield {check.constant}.at("header", {strength}seen=reading.message.subject)
'''


def _test(check: NewCheck) -> str:
    return f'''"""{check.title}: the trick, and what looks like it."""

from collections.abc import Callable

import pytest

from gatepost.checks.{check.area}.{check.trick} import check
from gatepost.findings import Reading
from gatepost.kinds import {check.constant}

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "fields", "kinds"),
    [
        ("Hello", "X-{check.trick.replace("_", "-")}: yes\\n", [{check.constant}.id]),
        ("Hello", "", []),  # an honest sender who does nearly the same
    ],
)
def test_{check.trick}(letter: Letter, text: str, fields: str, kinds: list[str]) -> None:
    assert [finding.kind for finding in check(letter(text, fields=fields))] == kinds
'''


def _message(check: NewCheck, path: Path, body: str) -> str:
    return f"""Return-Path: <desk@notice.example>
Received: from mx.notice.example (mx.notice.example [192.0.2.25]) by mail.house.example; Tue, 10 Nov 2026 09:12:00 +0000
From: Desk <desk@notice.example>
To: ann@house.example
Subject: {check.trick.replace("_", " ").capitalize()}
Date: Tue, 10 Nov 2026 09:12:00 +0000
Message-ID: <{path.stem}.4711@notice.example>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

{body}
"""


def describe(check: NewCheck, planned: Iterable[Path]) -> str:
    """Return which files were written and what is left to do."""
    written = "\n".join(f"  {path}" for path in sorted(planned))
    return f"""Written:
{written}

Next:
  1. Teach the trick in {check.module} and find it there.
  2. Fill the table in {check.test}: at least as many innocent rows as guilty ones.
  3. Write the attack and its innocent twin in tests/golden (cases.toml has what the border says of them).
  4. Weigh it in {POLICY}{f" and describe its numbers in {STRENGTHS}" if check.strength else ""}.
  5. .venv/bin/python -m pytest {check.test} tests/test_kinds.py tests/test_strengths.py tests/policy
  6. .venv/bin/python -m pytest tests/golden --regold, and read the difference: only the two new ledgers may appear.
  7. make docs lint"""


def write(planned: Mapping[Path, str], root: Path) -> None:
    """Write every planned file."""
    for path, text in planned.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the skeleton, or say why not."""
    parser = argparse.ArgumentParser(prog="new_check", description="Write the skeleton of a new check.")
    parser.add_argument("name", metavar="area/trick", help=f"area is one of {', '.join(AREAS)}")
    parser.add_argument("--title", default="", help="what people read in the ledger, in a plain phrase")
    parser.add_argument("--verdict", default="suspicious", choices=VERDICTS)
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--strength", action="store_true", help="it has degrees: add a table to strengths.toml")
    options = parser.parse_args(arguments)
    try:
        area, trick = parse_name(options.name)
        title = options.title.strip().rstrip(".") or trick.replace("_", " ").capitalize()
        check = NewCheck(area, trick, title, options.verdict, options.weight, options.strength)
        planned = plan(check, root)
    except RefusedError as refusal:
        print(f"{refusal} Nothing was written.", file=sys.stderr)
        return 1
    write(planned, root)
    print(describe(check, planned))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
