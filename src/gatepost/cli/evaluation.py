"""Measure what the whole analysis holds of labelled mail, for `gatepost model evaluate`.

The DNS data of the day on which old mail was sent is gone, so every name is answered with "no such name", which is
harder than real life.

A rate of 3 in 143 is not 2.1 %; it is somewhere between 0.7 % and 6 % (Wilson, 1927). Every rate is given with that
interval.
"""

import asyncio
import math
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from gatepost.cli.labelled_mail import LabelledMail
from gatepost.cli.sealed_analysis import answer_nothing, open_analyser
from gatepost.ids import new_id
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Answers, DnsAnswer, Questions
from gatepost.report import Report
from gatepost.settings.keys import GuardSettings
from gatepost.textmodel.training import UNWANTED
from gatepost.workers.jobs import Job

NOW = 1_794_302_520.0
CONCLUSIVE = 100.0
MAX_SHOWN = 200
WORST = 20
FEW = 500
SIZES = ((2_000, "up to 2 kB"), (10_000, "up to 10 kB"), (50_000, "up to 50 kB"))
MISSED, HELD = "Unwanted mail with the fewest points", "Other mail with the most points"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_Z = 1.959964  # two-sided 95 %


class Rate(msgspec.Struct, frozen=True):
    """A count out of a total."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's interval at 95 %."""
        if not self.total:
            return 0.0, 1.0
        share, square = self.share, _Z * _Z / self.total
        middle = share + square / 2
        reach = _Z * math.sqrt(share * (1 - share) / self.total + square / self.total / 4)
        return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.share:.2%} ({low:.2%} to {high:.2%})"


class Judged(msgspec.Struct, frozen=True):
    """One message as it was judged. `score` has the points of the ledger; `milliseconds` is how long its analysis took,
    from the question to the report. `subject` and `sender` are foreign text."""

    path: str
    corpus: str
    label: str
    year: str
    size: int
    verdict: str
    held: bool
    score: float
    kinds: tuple[str, ...] = ()
    subject: str = ""
    sender: str = ""
    milliseconds: float = 0.0

    @property
    def unwanted(self) -> bool:
        return self.label in UNWANTED


J = TypeVar("J", bound=Judged)


class Row(msgspec.Struct, frozen=True):
    """One line of a table: the share of a group that was held."""

    group: str
    label: str
    held: Rate


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds that an analysis took, in one sealed worker."""

    mean: float
    median: float
    p99: float


def judge_mail(mails: Iterable[LabelledMail], model: str = "") -> Iterator[Judged]:
    """Judge every message by the whole analysis, with the text model of a file, or else with the shipped one."""
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, GuardSettings(), shipped_policy(), _answer, model) as analyser,
    ):
        for mail in mails:
            begun = time.perf_counter()
            report = analyser.analyse(mail.raw, new_id(), mail.envelope, NOW)
            yield _describe(mail, report, (time.perf_counter() - begun) * 1000)


async def _answer(_job: Job[Any], questions: Questions) -> Answers:
    return tuple(answer_nothing(question, DnsAnswer("no-name")) for question in questions)


def _describe(mail: LabelledMail, report: Report, milliseconds: float) -> Judged:
    return Judged(
        path=mail.path,
        corpus=mail.corpus,
        label=mail.label,
        year=mail.year,
        size=len(mail.raw),
        verdict=report.verdict,
        held=report.decision != "deliver",
        score=score_report(report),
        kinds=tuple(line.kind for line in report.lines if line.counted or line.conclusive),
        subject=report.subject[:MAX_SHOWN],
        sender=", ".join(report.senders)[:MAX_SHOWN],
        milliseconds=milliseconds,
    )


def score_report(report: Report) -> float:
    """Return the points of a message; a conclusive finding that holds it outweighs any sum."""
    held = report.decision != "deliver"
    conclusive = held and any(line.conclusive and line.verdict == report.verdict for line in report.lines)
    return report.score / 100 + CONCLUSIVE * conclusive


def group_mail(found: Sequence[Judged]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables of an evaluation with their titles."""
    yield "Corpus", [*_count_all(found), *count_by_group(found, lambda each: each.corpus)]
    yield "Year", count_by_group(found, lambda each: each.year or "unknown")
    yield "Size", count_by_group(found, _size_of)


def count_by_group(found: Iterable[J], group: Callable[[J], str]) -> list[Row]:
    """Return the share that was held, by label and group."""
    counts: dict[tuple[str, str], list[int]] = {}
    for each in found:
        pair = counts.setdefault((each.label, group(each)), [0, 0])
        pair[0] += each.held
        pair[1] += 1
    return [Row(name, label, Rate(*pair)) for (label, name), pair in sorted(counts.items())]


def _count_all(found: Sequence[Judged]) -> list[Row]:
    """Return the share that was held of all wanted mail, of all bounces, and of all unwanted mail."""
    sides = (("ham", ("ham",)), ("bounce", ("bounce",)), ("unwanted", tuple(UNWANTED)))
    rows = []
    for name, labels in sides:
        mine = [each.held for each in found if each.label in labels]
        if mine:
            rows.append(Row("all", name, Rate(sum(mine), len(mine))))
    return rows


def _size_of(each: Judged) -> str:
    return next((name for limit, name in SIZES if each.size <= limit), "larger")


def measure_cost(found: Sequence[Judged]) -> Cost:
    """Return what a message cost."""
    spent = sorted(each.milliseconds for each in found)
    return Cost(sum(spent) / len(spent), spent[len(spent) // 2], spent[min(len(spent) - 1, len(spent) * 99 // 100)])


def find_worst(found: Sequence[J], unwanted: bool) -> list[J]:
    """Return the messages that were judged worst: unwanted mail with the least points, or other mail with the most."""
    mine = [each for each in found if each.unwanted == unwanted]
    return sorted(mine, key=lambda each: (each.score if unwanted else -each.score, each.path))[:WORST]


def render_evaluation(found: Sequence[Judged]) -> Iterator[str]:
    """Yield an evaluation as lines of Markdown."""
    for title, rows in group_mail(found):
        yield from render_table(title, rows)
        yield ""
    cost = measure_cost(found)
    yield f"Cost of a message, in ms: {cost.mean:.1f} (median {cost.median:.1f}, p99 {cost.p99:.1f})."
    for title, unwanted in ((MISSED, True), (HELD, False)):
        yield ""
        yield f"{title}:"
        for each in find_worst(found, unwanted):
            yield f"  {each.score:6.2f}  {show_foreign(each.path)}  {show_foreign(each.subject[:80])}"


def render_table(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table as lines of Markdown; a star marks groups for which a share says little."""
    yield f"| Label | {title} | Messages | Held | Share (95 %) |"
    yield "|---|---|---|---|---|"
    for row in rows:
        small, held = "" if row.held.total >= FEW else " *", row.held
        yield f"| {row.label} | {show_foreign(row.group)} | {held.total:,}{small} | {held.count:,} | {held} |"


def show_foreign(text: str) -> str:
    """Return foreign text without characters that are not seen and change how others are."""
    return "".join(f"\\u{ord(char):04x}" if unicodedata.category(char) in _UNSEEN else char for char in text)


def describe_evaluation(found: Sequence[Judged]) -> dict[str, Any]:
    """Return an evaluation for programs."""
    return {
        "messages": len(found),
        "tables": {title.lower(): [describe_row(row) for row in rows] for title, rows in group_mail(found)},
        "milliseconds": measure_cost(found),
        "worst": {
            "missed": [_describe_message(each) for each in find_worst(found, unwanted=True)],
            "held": [_describe_message(each) for each in find_worst(found, unwanted=False)],
        },
    }


def describe_row(row: Row) -> dict[str, Any]:
    """Return a row of a table for programs."""
    low, high = row.held.bounds
    held = {"held": row.held.count, "of": row.held.total, "low": round(low, 6), "high": round(high, 6)}
    return {"group": row.group, "label": row.label, **held}


def _describe_message(each: Judged) -> dict[str, Any]:
    shown = {name: getattr(each, name) for name in ("path", "corpus", "label", "verdict", "held", "subject", "sender")}
    return {**shown, "score": round(each.score, 2), "findings": each.kinds}
