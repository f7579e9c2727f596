"""Composites: shipped findings that mean more together than their sum (`composites.toml`).

They are conditions in CEL, as an operator's own rules are, so that what ships can be read, copied and changed in the
same language. A check that combines phrases, counts or degrees stays a check: a condition sees tags, not strengths.
The file is read and compiled once. A condition is evaluated only where one of its tags was found, since building what
a condition can read costs more than most checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from gatepost.findings import Reading
from gatepost.kinds import BY_ID, Finding, Kind
from gatepost.own_rules import describe_reading
from gatepost.policy.conditions import ConditionError, evaluate, find_fault

AREA = "composite:"
_FILE = "composites.toml"


class Composite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition over findings, and the tags of which one must be there for it to be evaluated."""

    any_of: frozenset[str]
    when: str


class CompositeError(ValueError):
    """The shipped file has a fault."""


@cache
def load_composites() -> tuple[tuple[Kind, Composite], ...]:
    """Return the composites that come with the package, checked."""
    return parse_composites((files("gatepost") / _FILE).read_text("utf-8"))


def parse_composites(text: str) -> tuple[tuple[Kind, Composite], ...]:
    """Parse composites from TOML; raises `CompositeError` for tags that do not exist and faulty conditions."""
    stated = msgspec.toml.decode(text, type=dict[str, Composite])
    for name, composite in stated.items():
        unknown = sorted({name, *composite.any_of} - BY_ID.keys())
        if unknown or not composite.any_of or not name.startswith(AREA):
            raise CompositeError(f"{_FILE}: [{name}] has no tags, or unknown ones: {', '.join(unknown)}")
        if fault := find_fault(composite.when):
            raise CompositeError(f"{_FILE}: [{name}] {fault}")
    return tuple((BY_ID[name], composite) for name, composite in stated.items())


@cache
def _index_composites() -> Mapping[str, tuple[int, ...]]:
    """Return, by tag, the numbers of the composites that it lets evaluate."""
    found: dict[str, list[int]] = {}
    for number, (_, composite) in enumerate(load_composites()):
        for tag in composite.any_of:
            found.setdefault(tag, []).append(number)
    return {tag: tuple(numbers) for tag, numbers in found.items()}


def may_combine(findings: Sequence[Finding]) -> bool:
    """Return whether a condition of some composite has to be evaluated for these findings."""
    index = _index_composites()
    return any(finding.kind in index for finding in findings)


def find_composites(reading: Reading, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the composites of a message's findings. A condition that fails on a message does not hold for it."""
    index = _index_composites()
    numbers = {number for finding in findings if finding.kind in index for number in index[finding.kind]}
    variables = describe_reading(reading, findings)
    for number in sorted(numbers):
        kind, composite = load_composites()[number]
        try:
            holds = evaluate(composite.when, variables)
        except ConditionError:
            continue
        if holds:
            stated = {each.kind for each in findings if f'"{each.kind}"' in composite.when} - composite.any_of
            first = {each.kind for each in findings} & composite.any_of
            yield kind.at("findings", because=", ".join([*sorted(first), *sorted(stated)]))
