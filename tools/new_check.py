"""Write the skeleton of everything that a new check needs: `make check NAME=area/module.trick`.

    python tools/new_check.py links/urls.data_link --title "A link carries a page" --strength

The area and the module say what the check looks at; the trick names its function, and its kind (`url:data-link`). The
check and its test are appended where the module exists, and start a new module where it does not. Nothing is written
where a name is bad or taken. What was written fails its tests until the trick is filled in.
"""

import argparse
import ast
import keyword
import re
import subprocess
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
# Names that the skeleton itself uses.
USED = frozenset({"reading", "letter", "text", "kinds", "pytest", "find_kinds", "coefficients"})
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

KINDS = Path("src/gatepost/findings/kinds.py")
REGISTRY = Path("src/gatepost/checks/registry.py")
POLICY = Path("src/gatepost/policy/shipped.toml")
STRENGTHS = Path("src/gatepost/findings/strengths.toml")


class RefusedError(Exception):
    """A check of this name cannot be added; the text says why."""


@dataclass(frozen=True)
class NewCheck:
    """A check that is to be added, and what the policy shall make of it."""

    area: str
    subject: str
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
        return Path("src/gatepost/checks") / self.area / f"{self.subject}.py"

    @property
    def test(self) -> Path:
        return Path("tests/checks") / self.area / f"test_{self.subject}.py"

    @property
    def attack(self) -> Path:
        return Path("tests/golden/attacks") / f"{self.kind.replace(':', '-')}.eml"

    @property
    def twin(self) -> Path:
        return Path("tests/golden/twins") / f"innocent-{self.trick.replace('_', '-')}.eml"


def parse_name(name: str) -> tuple[str, str, str]:
    """Split `area/module.trick`; a bad name is refused with the reason."""
    area, slash, rest = name.partition("/")
    subject, dot, trick = rest.partition(".")
    if not slash or not dot or area not in AREAS:
        raise RefusedError(f"{name!r} is not area/module.trick, where area is one of {', '.join(AREAS)}.")
    for part in (subject, trick):
        if not _NAME.fullmatch(part) or keyword.iskeyword(part):
            raise RefusedError(f"{part!r} is no name: use small letters, digits and single underscores.")
        if part in NAMELESS:
            raise RefusedError(f"{part!r} says nothing: name the module by its subject and the check by its trick.")
    if trick in USED:
        raise RefusedError(f"{trick!r} is a name that the code of a check uses itself.")
    return area, subject, trick


def plan(check: NewCheck, root: Path) -> dict[Path, str]:
    """Return every file with its new text; refuse where something of the same name is there already."""
    _refuse_taken(check, root)
    texts = {path: (root / path).read_text("utf-8") for path in (KINDS, REGISTRY, POLICY, STRENGTHS)}
    planned = {
        check.module: _add_check(_read(root / check.module), check),
        KINDS: _add_kind(texts[KINDS], check),
        REGISTRY: _add_to_registry(texts[REGISTRY], check),
        POLICY: _add_rule(texts[POLICY], check),
        check.test: _add_test(_read(root / check.test), check),
        check.attack: _message(check, check.attack, "What the attacker writes."),
        check.twin: _message(check, check.twin, "What an honest sender writes who does nearly the same."),
    }
    if check.strength:
        planned[STRENGTHS] = _add_strength(texts[STRENGTHS], check)
    return planned


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _refuse_taken(check: NewCheck, root: Path) -> None:
    for path in sorted((root / "src/gatepost/checks").rglob("*.py")):
        if f"\ndef {check.trick}(" in path.read_text("utf-8"):
            raise RefusedError(f"There is a function {check.trick} already, in {path.relative_to(root)}.")
    for path in (check.module, check.test):
        if _names_in(_read(root / path)) & {check.trick, f"test_{check.trick}"}:
            raise RefusedError(f"There is something called {check.trick} already, in {path}.")
    for path in (KINDS, POLICY, STRENGTHS):
        if f'"{check.kind}"' in (root / path).read_text("utf-8"):
            raise RefusedError(f"There is a kind {check.kind} already, in {path}.")
    for path in (check.attack, check.twin):
        if (root / path).exists():
            raise RefusedError(f"There is a file {path} already.")


def _names_in(text: str) -> set[str]:
    """Return every name that a module defines or imports at its top level."""
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        else:
            names.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return names


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
    """Add the module of the check to the imports and to the end of `_MODULES`, where it is new."""
    if check.subject in _names_in(text):
        return text
    text = text.replace("\n)\nCHECKS", f"\n    {check.subject},\n)\nCHECKS", 1)
    return _format(_import(text, f"from gatepost.checks.{check.area} import {check.subject}"), REGISTRY)


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


def _import(text: str, *lines: str) -> str:
    """Add imports before those that are there; `_format` sorts them."""
    imports = [node.lineno for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    all_lines = text.splitlines()
    place = imports[0] - 1 if imports else len(all_lines)
    return "\n".join([*all_lines[:place], *lines, *all_lines[place:]]) + "\n"


def _format(text: str, path: Path) -> str:
    """Sort the imports of a module, and put it into its normal form."""
    # A new module is not on disk yet, so ruff would take it for another project's.
    own = 'lint.isort.known-first-party = ["gatepost"]'
    options = ["--config", str(ROOT / "pyproject.toml"), "--config", own, "--stdin-filename", str(path), "-"]
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        run = [sys.executable, "-m", "ruff", *command, *options]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def _add_check(text: str, check: NewCheck) -> str:
    """Append the check to its module, which may be new."""
    weak = f"_{check.trick.upper()}_WEAK"
    numbers = f'({weak},) = coefficients(kinds.{check.constant}, "weak")\n' if check.strength else ""
    strength = f"strength={weak}, " if check.strength else ""
    imports = [
        "from collections.abc import Iterator",
        "from gatepost.checks.reading import Reading, check",
        "from gatepost.findings import kinds",
        "from gatepost.findings.kinds import Finding",
    ]
    if check.strength:
        imports.append("from gatepost.findings.strengths import coefficients")
    start = text or f'"""{_phrase(check.subject)}: say what the checks of this module look at."""\n'
    body = f'''
{numbers}
@check(kinds.{check.constant})
def {check.trick}(reading: Reading) -> Iterator[Finding]:
    """{check.title}: say what the trick is, in one line.

    Teach the trick with an example, name the standard that it bends (RFC 0000 section 0), and say why an honest sender
    does not do it.
    """
    # Say which honest case is left out.
    if "x-{check.trick.replace("_", "-")}" in reading.fields:
        yield kinds.{check.constant}.at("header", {strength}seen=reading.message.subject)
'''
    return _format(_import(start, *imports) + body, check.module)


def _add_test(text: str, check: NewCheck) -> str:
    """Append the table of the check to the tests of its module, which may be new."""
    imports = [
        "import pytest",
        "from tests.checks.readings import find_kinds, letter",
        f"from gatepost.checks.{check.area}.{check.subject} import {check.trick}",
    ]
    title = f'"""The checks of `{check.area}/{check.subject}`: the tricks, and what looks like them."""\n'
    body = f"""


# {check.title}.
@pytest.mark.parametrize(
    ("text", "fields", "kinds"),
    [
        ("Hello", "X-{check.trick.replace("_", "-")}: yes\\n", ["{check.kind}"]),
        ("Hello", "", []),  # an honest sender who does nearly the same
    ],
)
def test_{check.trick}(text: str, fields: str, kinds: list[str]) -> None:
    assert find_kinds({check.trick}, letter(text, fields=fields)) == kinds
"""
    return _format(_import(text or title, *imports) + body, check.test)


def _phrase(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _message(check: NewCheck, path: Path, body: str) -> str:
    return f"""Return-Path: <desk@notice.example>
Received: from mx.notice.example (mx.notice.example [192.0.2.25]) by mail.house.example; Tue, 10 Nov 2026 09:12:00 +0000
From: Desk <desk@notice.example>
To: ann@house.example
Subject: {_phrase(check.trick)}
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
  1. Teach the trick in the docstring of {check.trick} in {check.module}, and find it there.
  2. Fill the table of test_{check.trick} in {check.test}: at least as many innocent rows as guilty ones.
  3. Give it a trigger, where it needs one of the signs in checks/data/signs.toml: @check(…, needs={{"link"}}). Without
     one it is called for every message.
  4. Write the attack and its innocent twin in tests/golden (cases.toml has what the border says of them).
  5. Weigh it in {POLICY}{f" and describe its numbers in {STRENGTHS}" if check.strength else ""}.
  6. .venv/bin/python -m pytest {check.test} tests/checks tests/findings tests/policy
  7. .venv/bin/python -m pytest tests/golden --regold, and read the difference: only the two new ledgers may appear.
  8. make docs lint"""


def write(planned: Mapping[Path, str], root: Path) -> None:
    """Write every planned file."""
    for path, text in planned.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the skeleton, or say why not."""
    parser = argparse.ArgumentParser(prog="new_check", description="Write the skeleton of a new check.")
    parser.add_argument("name", metavar="area/module.trick", help=f"area is one of {', '.join(AREAS)}")
    parser.add_argument("--title", default="", help="what people read in the ledger, in a plain phrase")
    parser.add_argument("--verdict", default="suspicious", choices=VERDICTS)
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--strength", action="store_true", help="it has degrees: add a table to strengths.toml")
    options = parser.parse_args(arguments)
    try:
        area, subject, trick = parse_name(options.name)
        title = options.title.strip().rstrip(".") or _phrase(trick)
        check = NewCheck(area, subject, trick, title, options.verdict, options.weight, options.strength)
        planned = plan(check, root)
    except RefusedError as refusal:
        print(f"{refusal} Nothing was written.", file=sys.stderr)
        return 1
    write(planned, root)
    print(describe(check, planned))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
