"""Measure what the whole analysis catches in labelled mail, with models that have not seen that mail.

`leave-out` judges every collection with a model that was trained without it: the figure for unknown mail, and the
headline. `folds` judges every message with a model that has seen its collection but not its campaign. `as-is` uses the
model as it is. The policy is the same throughout and was fixed beforehand. The DNS data of the day on which old mail
was sent is gone, so every name is answered with "no such name", which is harder than real life.

`evaluation_report` writes what was found as text, JSON, a page, and files.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

import msgspec

from gatepost.cli.sealed_analysis import answer_nothing, open_analyser
from gatepost.cli.training import LabelledMail, Sample, Step, read_labelled, train_model
from gatepost.ids import new_id
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Answers, DnsAnswer, Questions
from gatepost.report import Report
from gatepost.settings.keys import GuardSettings
from gatepost.textmodel.figures import Point, Rate, compute_curve, find_catch_rate
from gatepost.textmodel.labels import UNWANTED, group_campaigns, guess_language
from gatepost.textmodel.model import Model
from gatepost.textmodel.training import family_of
from gatepost.workers.jobs import AnalysisJob

Mode: TypeAlias = Literal["leave-out", "folds", "as-is"]

FOLDS = 5
NOW = 1_794_302_520.0
CONCLUSIVE = 100.0
MAX_SHOWN = 200
WORST = 20
ALARMS = (0.001, 0.005, 0.01)
ENOUGH_FOR_CURVE = 100
SIZES = ((2_000, "up to 2 kB"), (10_000, "up to 10 kB"), (50_000, "up to 50 kB"))


class Judged(msgspec.Struct, frozen=True):
    """One message as it was judged. `score` has the points of the ledger; `probability` is what the model said;
    `milliseconds` is how long its analysis took, from the question to the report. `subject` and `sender` are foreign
    text."""

    path: str
    corpus: str
    label: str
    year: str
    language: str
    size: int
    verdict: str
    held: bool
    score: float
    probability: float
    kinds: tuple[str, ...] = ()
    subject: str = ""
    sender: str = ""
    milliseconds: float = 0.0

    @property
    def unwanted(self) -> bool:
        return self.label in UNWANTED


class Row(msgspec.Struct, frozen=True):
    """One line of a table: the share of a group that was held."""

    group: str
    label: str
    held: Rate


def judge_mail(
    folders: Sequence[Path], chosen: Sequence[Sample], mode: Mode, model: Model, seed: int, step: Step
) -> list[Judged]:
    """Judge every message of the corpora by the whole analysis."""
    groups = _assign_models(chosen, mode)
    models = [model] if mode == "as-is" else _train_without(chosen, groups, seed, step)
    wanted = {(sample.corpus, sample.path): number for number, sample in enumerate(chosen)}
    found: dict[int, Judged] = {}
    with asyncio.Runner() as runner, TemporaryDirectory() as place:
        for group, its in enumerate(models):
            file = Path(place) / f"{group}.npz"
            file.write_bytes(its.to_bytes())
            with open_analyser(runner, GuardSettings(), shipped_policy(), _answer, str(file)) as analyser:
                for mail in read_labelled(folders):
                    number = wanted.get((mail.corpus, mail.path))
                    if number is not None and groups[number] == group:
                        begun = time.perf_counter()
                        report = analyser.analyse(mail.raw, new_id(), mail.envelope, NOW)
                        spent = (time.perf_counter() - begun) * 1000
                        found[number] = _describe(mail, chosen[number], its, report, spent)
                        step("judging", len(found), len(chosen))
    return [found[number] for number in sorted(found)]


async def _answer(_job: AnalysisJob, questions: Questions) -> Answers:
    return tuple(answer_nothing(question, DnsAnswer("no-name")) for question in questions)


def _assign_models(chosen: Sequence[Sample], mode: Mode) -> list[int]:
    """Return the number of the model that judges each sample."""
    if mode == "as-is":
        return [0] * len(chosen)
    if mode == "folds":
        return [campaign % FOLDS for campaign in _number_values(group_campaigns([sample.seen for sample in chosen]))]
    return _number_values([family_of(sample.corpus) for sample in chosen])


def _number_values(values: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _train_without(chosen: Sequence[Sample], groups: Sequence[int], seed: int, step: Step) -> list[Model]:
    """Train one model for each group, without the samples of that group."""
    found = []
    for group in range(max(groups) + 1):
        others = [sample for sample, its in zip(chosen, groups, strict=True) if its != group]
        name = f"model {group + 1} of {max(groups) + 1}"
        found.append(train_model(others, seed, lambda what, done, of, name=name: step(f"{name}: {what}", done, of)))  # type: ignore[misc]
    return found


def _describe(mail: LabelledMail, sample: Sample, model: Model, report: Report, milliseconds: float) -> Judged:
    held = report.decision != "deliver"
    conclusive = held and any(line.conclusive and line.verdict == report.verdict for line in report.lines)
    return Judged(
        path=mail.path,
        corpus=mail.corpus,
        label=mail.label,
        year=mail.year,
        language=guess_language(sample.seen.text),
        size=len(mail.raw),
        verdict=report.verdict,
        held=held,
        score=report.score / 100 + CONCLUSIVE * conclusive,
        probability=model.score(sample.seen).unwanted,
        kinds=tuple(line.kind for line in report.lines if line.counted or line.conclusive),
        subject=report.subject[:MAX_SHOWN],
        sender=", ".join(report.senders)[:MAX_SHOWN],
        milliseconds=milliseconds,
    )


def count_by_group(found: Iterable[Judged], group: Callable[[Judged], str]) -> list[Row]:
    """Return the share that was held, by label and group."""
    counts: dict[tuple[str, str], list[int]] = {}
    for each in found:
        pair = counts.setdefault((each.label, group(each)), [0, 0])
        pair[0] += each.held
        pair[1] += 1
    return [Row(name, label, Rate(*pair)) for (label, name), pair in sorted(counts.items())]


def count_all(found: Sequence[Judged]) -> list[Row]:
    """Return the share that was held of all wanted mail, of all bounces, and of all unwanted mail."""
    sides = (("ham", ("ham",)), ("bounce", ("bounce",)), ("unwanted", tuple(UNWANTED)))
    rows = []
    for name, labels in sides:
        mine = [each.held for each in found if each.label in labels]
        if mine:
            rows.append(Row("all", name, Rate(sum(mine), len(mine))))
    return rows


def catch_at_fixed_alarms(found: Sequence[Judged]) -> list[tuple[float, Rate]]:
    """Return what a score threshold chosen after the fact would catch, for comparison with other filters."""
    wanted = [each.score for each in found if each.label == "ham"]
    unwanted = [each.score for each in found if each.unwanted]
    return [(alarms, find_catch_rate(wanted, unwanted, alarms)) for alarms in ALARMS]


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds that an analysis took, in one sealed worker."""

    mean: float
    median: float
    p99: float


def measure_cost(found: Sequence[Judged]) -> Cost:
    """Return what a message cost."""
    spent = sorted(each.milliseconds for each in found)
    return Cost(sum(spent) / len(spent), spent[len(spent) // 2], spent[min(len(spent) - 1, len(spent) * 99 // 100)])


def find_worst(found: Sequence[Judged], unwanted: bool) -> list[Judged]:
    """Return the messages that were judged worst: unwanted mail with the least points, or other mail with the most."""
    mine = [each for each in found if each.unwanted == unwanted]
    return sorted(mine, key=lambda each: (each.score if unwanted else -each.score, each.path))[:WORST]


def trace_curve(found: Sequence[Judged]) -> Sequence[Point]:
    """Return the receiver operating characteristic of these messages."""
    return compute_curve(
        [each.score for each in found if not each.unwanted], [each.score for each in found if each.unwanted]
    )


def trace_corpus_curves(found: Sequence[Judged]) -> Iterator[tuple[str, Sequence[Point]]]:
    """Yield a curve for each corpus that has enough wanted and unwanted mail."""
    for corpus in sorted({each.corpus for each in found}):
        mine = [each for each in found if each.corpus == corpus]
        unwanted = sum(each.unwanted for each in mine)
        if min(unwanted, len(mine) - unwanted) >= ENOUGH_FOR_CURVE:
            yield corpus, trace_curve(mine)


def size_of(each: Judged) -> str:
    """Return the size class of a message."""
    return next((name for limit, name in SIZES if each.size <= limit), "larger")
