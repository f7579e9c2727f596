"""Two judgements of one message side by side, line by line: what the ledger said, and what it says now."""

from collections.abc import Iterable, Mapping

import msgspec

from gatepost.analysis import Report
from gatepost.policy import Decision, Verdict
from gatepost.verdict import Judgement, Line


class Outcome(msgspec.Struct, frozen=True):
    """What a judgement led to. Points are decimals, as in the interface."""

    verdict: Verdict
    decision: Decision
    score: float
    reason: str


class LineChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the ledger: what it weighed and what of it counted, before and now. None: it was not there."""

    tag: str
    where: str
    weight: tuple[float | None, float | None]
    counted: tuple[float | None, float | None]
    note: str = ""

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        return self.weight[0] == self.weight[1] and self.counted[0] == self.counted[1]


class Comparison(msgspec.Struct, frozen=True):
    """One message judged twice."""

    ggrid: str
    subject: str
    before: Outcome
    now: Outcome
    lines: tuple[LineChange, ...]

    @property
    def flips(self) -> bool:
        """Whether the decision is another one."""
        return self.before.decision != self.now.decision


def compared(ggrid: str, before: Report | Judgement, now: Judgement, subject: str) -> Comparison:
    """Both judgements, with every line of either."""
    old, new = _keyed(before.lines), _keyed(now.lines)
    lines = (_line(old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new)))
    return Comparison(ggrid, subject, _outcome(before), _outcome(now), tuple(lines))


def _keyed(lines: Iterable[Line]) -> Mapping[tuple[object, ...], Line]:
    """Lines by what they state. The same fact may stand there more than once."""
    found: dict[tuple[object, ...], Line] = {}
    for line in lines:
        key: tuple[object, ...] = (line.kind, line.where, line.about, *line.facts.items())
        while key in found:
            key = (*key, None)
        found[key] = line
    return found


def _line(old: Line | None, new: Line | None) -> LineChange:
    shown = new or old
    if shown is None:
        raise ValueError("a line is on one side at least")
    return LineChange(
        shown.kind,
        shown.where,
        (_points(old.weight) if old else None, _points(new.weight) if new else None),
        (_points(old.counted) if old else None, _points(new.counted) if new else None),
        new.note if new else "",
    )


def _outcome(judged: Report | Judgement) -> Outcome:
    return Outcome(judged.verdict, judged.decision, _points(judged.score), judged.reason)


def _points(hundredths: int) -> float:
    return round(hundredths / 100, 2)
