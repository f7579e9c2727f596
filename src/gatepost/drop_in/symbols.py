"""A report in the terms of SpamAssassin and rspamd: a score, the score from which on mail is spam, and symbols.

Their clients compare the score with a number of their own, or look at the flag alone. So both always agree with the
decision: mail that is to be delivered has less than the required score, other mail has at least that. Where the
decision comes from a list or a conclusive finding, the symbol `GATEPOST_DECISION` has the difference; the points of all
symbols add up to the score.
"""

import re

import msgspec

from gatepost.analysis.report import Report

# Where the verdict `suspicious` begins in the policy as it is shipped, and SpamAssassin's own default.
REQUIRED = 5.0
DECISION = "GATEPOST_DECISION"
MAX_OPTIONS, MAX_OPTION = 8, 200
_OTHER = re.compile(r"[^A-Z0-9]+")


class Symbol(msgspec.Struct, frozen=True):
    """A finding: its points, what it is, and its evidence."""

    name: str
    score: float
    description: str
    options: tuple[str, ...] = ()


class Scores(msgspec.Struct, frozen=True):
    """A report in numbers."""

    is_spam: bool
    score: float
    symbols: tuple[Symbol, ...]


def symbol_name(kind: str) -> str:
    """Return the kind of a finding as a symbol is written: `url:foreign-target` is `URL_FOREIGN_TARGET`."""
    return _OTHER.sub("_", kind.upper()).strip("_")


def read_scores(report: Report) -> Scores:
    """Return a report in numbers; findings of one kind are one symbol."""
    found: dict[str, Symbol] = {}
    for line in report.lines:
        name, before = symbol_name(line.kind), found.get(symbol_name(line.kind))
        score = line.counted / 100 + (before.score if before else 0.0)
        facts = [f"{key}={value}"[:MAX_OPTION] for key, value in line.facts.items()]
        options = ((*before.options, *facts) if before else tuple(facts))[:MAX_OPTIONS]
        found[name] = Symbol(name, round(score, 2), line.title, options)
    is_spam = report.decision != "deliver"
    total = round(sum(each.score for each in found.values()), 2)
    shown = max(total, REQUIRED) if is_spam else min(total, REQUIRED - 0.1)
    if shown != total or report.lists:
        found[DECISION] = Symbol(DECISION, round(shown - total, 2), f"{report.verdict}: {report.reason}")
    return Scores(is_spam, round(shown, 2), tuple(found.values()))
