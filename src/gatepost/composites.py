"""Composites: shipped findings that mean more together than their sum (`composites.toml`).

They are conditions in CEL, as an operator's own rules are, so that what ships can be read, copied and changed in the
same language. A check that combines phrases, counts or degrees stays a check: a condition sees tags, not strengths.
The file is read and compiled once. A condition reads tags only, and is evaluated only where one of its tags was found,
since an evaluation costs more than most checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from gatepost.kinds import BY_ID, Finding, Kind
from gatepost.policy.conditions import (
    MAX_ITEMS,
    ConditionError,
    evaluate,
    find_fault,
    make_variables,
    reads_only_tags,
)

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
        fault = find_fault(composite.when) or ("" if reads_only_tags(composite.when) else "reads more than tags")
        if fault:
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


@cache
def _make_empty_values() -> Mapping[str, Any]:
    """Every value that a condition can read, empty; composites read tags only."""
    return make_variables()


def may_combine(findings: Sequence[Finding]) -> bool:
    """Return whether a condition of some composite has to be evaluated for these findings."""
    index = _index_composites()
    for finding in findings:  # noqa: SIM110  a generator costs a call for each finding of every message
        if finding.kind in index:
            return True
    return False


def find_composites(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the composites of a message's findings. A condition that fails on a message does not hold for it."""
    index = _index_composites()
    numbers = {number for finding in findings if finding.kind in index for number in index[finding.kind]}
    variables = {
        **_make_empty_values(),
        "tags": list(dict.fromkeys([finding.kind for finding in findings]))[:MAX_ITEMS],
    }
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
