"""What 200 reports from a mailbox do to mail of that mailbox, for mailboxes that the shipped model has not seen.

Three collections play the mailbox in turn: the shipped model is trained without the whole collection, so neither its
senders nor its words are known. Messages are judged by the whole analysis with the shipped policy. The mailbox is cut
into five parts, and near-copies are in one part. For each part a pool is filled with 200 reports on mail of the other
four, as people report: what went wrong first. Half are of unwanted mail (missed mail first, then blocks that are
confirmed), half of wanted mail (what was held or came closest to it first). Then the part is judged with the model of
that pool, if it is proved as in service (`gatepost.learning.sealed_training`). Lies are reports that say the opposite.
"""

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from tools.labelled_mail import NOW, LabelledMail, read_labelled, read_samples, train_model
from tools.training import UNWANTED as UNWANTED_LABELS
from tools.training import family_of

from bench import corpus
from gatepost.analysis.report import Report
from gatepost.analysis.verdict import judge
from gatepost.checks.text import learned
from gatepost.cli.sealed_analysis import answer_nothing, start_pool
from gatepost.findings.kinds import Finding
from gatepost.ids import new_id
from gatepost.learning.sealed_training import UNWANTED, points_of, prove
from gatepost.near_duplicates import is_near_duplicate
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Answers, DnsAnswer, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.settings.keys import GuardSettings
from gatepost.textmodel.learnt import LearntModel, PoolRow, read_row
from gatepost.workers.jobs import Job
from gatepost.workers.protocol import JUDGE

MAILBOXES = ("vger", "spamassassin", "trec07p")
REPORTS, LIES, PARTS = 200, 100, 5
MOST_UNWANTED, MOST_WANTED = 1_000, 700
_COMPARED = 20


class Message(msgspec.Struct, frozen=True):
    """A message of the mailbox with what the analysis said of it before anything was learnt."""

    name: str
    is_unwanted: bool
    report: Report

    @property
    def is_held(self) -> bool:
        return self.report.decision != "deliver"


class Counts(msgspec.Struct):
    """Missed unwanted mail and held wanted mail, before and after."""

    unwanted: int = 0
    wanted: int = 0
    missed_before: int = 0
    missed_after: int = 0
    alarms_before: int = 0
    alarms_after: int = 0
    taken: int = 0


def run() -> str:
    """Each mailbox with true reports, and with true reports and lies."""
    try:
        folders = [find_folder(name) for name in ("mail-dev", "mail-dev-2")]
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    samples = read_samples(folders, (), unwatched)
    honest, lying = [], []
    with TemporaryDirectory() as place:
        for family in MAILBOXES:
            model = Path(place) / f"{family}.npz"
            known = [sample for sample in samples if family_of(sample.corpus) != family]
            model.write_bytes(train_model(known, 1, unwatched).to_bytes())
            mailbox = judge_mailbox(folders, family, str(model))
            honest.append(_describe(family, try_reports(mailbox)))
            lying.append(_describe(family, try_reports(mailbox, lies=LIES)))
    return render(honest, lying)


def render(honest: Sequence[str], lying: Sequence[str]) -> str:
    """The tables of both."""
    head = (
        "| Mailbox | Unwanted | Missed before | Missed after | Wanted | Held before | Held after | Models taken |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    return (
        f"{REPORTS} true reports from the mailbox:\n\n{head}" + "\n".join(honest) + "\n\n"
        f"The same with {LIES} false ones besides, unwanted mail reported as wanted by one reporter:\n\n{head}"
        + "\n".join(lying)
    )


def find_folder(name: str) -> Path:
    folder = corpus.unpacked(name)
    return folder / "dev" if (folder / "dev").is_dir() else folder


def unwatched(_what: str, _done: int, _of: int) -> None:
    """Nobody watches."""


def judge_mailbox(folders: Sequence[Path], family: str, model: str) -> list[Message]:
    """Judge a sample of a collection by the whole analysis, with a model that has not seen it."""
    mails = [mail for mail in read_labelled(folders) if family_of(mail.corpus) == family]
    random.Random(1).shuffle(mails)
    unwanted = [mail for mail in mails if mail.label in UNWANTED_LABELS][:MOST_UNWANTED]
    wanted = [mail for mail in mails if mail.label == "ham"][:MOST_WANTED]
    return asyncio.run(judge_mail([*unwanted, *wanted], model))


async def judge_mail(mails: Sequence[LabelledMail], model: str) -> list[Message]:
    pool = await start_pool(GuardSettings(), shipped_policy(), _answer, model, 2)
    turns = asyncio.Semaphore(4)

    async def one(mail: LabelledMail) -> Message:
        async with turns:
            report = await pool.run(Job(JUDGE, new_id(), mail.envelope, BytesBody(mail.raw), NOW))
            return Message(mail.path, mail.label in UNWANTED_LABELS, report)

    try:
        return list(await asyncio.gather(*map(one, mails)))
    finally:
        await pool.stop()


async def _answer(_job: Job[Any], questions: Questions) -> Answers:
    return tuple(answer_nothing(question, DnsAnswer("no-name")) for question in questions)


def try_reports(mailbox: Sequence[Message], lies: int = 0, seed: int = 1) -> Counts:
    """Judge each part of the mailbox with what reports on the other parts teach."""
    counts = Counts()
    for others, part in split_mailbox(mailbox, seed):
        model, _ = prove([*choose_reports(others), *tell_lies(others, lies)], b"")
        counts.taken += model is not None
        for message in part:
            after = is_held_with(message.report, model) if model else message.is_held
            if message.is_unwanted:
                counts.unwanted += 1
                counts.missed_before += not message.is_held
                counts.missed_after += not after
            else:
                counts.wanted += 1
                counts.alarms_before += message.is_held
                counts.alarms_after += after
    return counts


def split_mailbox(mailbox: Sequence[Message], seed: int) -> Iterator[tuple[list[Message], list[Message]]]:
    """Yield each part with all others; near-copies are in the same part."""
    chance = random.Random(seed)
    groups = _group_copies(mailbox)
    parts = {group: chance.randrange(PARTS) for group in sorted(set(groups))}
    for number in range(PARTS):
        inside = [parts[group] == number for group in groups]
        others = [message for message, mine in zip(mailbox, inside, strict=True) if not mine]
        chance.shuffle(others)
        yield others, [message for message, mine in zip(mailbox, inside, strict=True) if mine]


def _group_copies(mailbox: Sequence[Message]) -> list[int]:
    groups = list(range(len(mailbox)))
    by_hash: dict[int, list[int]] = {}
    for number, message in enumerate(mailbox):
        mine = message.report.signature
        for each in mine:
            for other in by_hash.setdefault(each, [])[-_COMPARED:]:
                if is_near_duplicate(mailbox[other].report.signature, mine):
                    groups[number] = groups[other]
            by_hash[each].append(number)
    return groups


def choose_reports(others: Sequence[Message]) -> list[PoolRow]:
    """Half of the reports are of unwanted mail, missed mail first; half of wanted mail, that with most points first."""
    unwanted = sorted((message for message in others if message.is_unwanted), key=lambda message: message.is_held)
    wanted = sorted(
        (message for message in others if not message.is_unwanted), key=lambda message: -message.report.score
    )
    chosen = [*unwanted[: REPORTS // 2], *wanted[: REPORTS // 2]]
    return [PoolRow(each.name, each.is_unwanted, each.report.features, "ann", "mailbox") for each in chosen]


def tell_lies(others: Sequence[Message], lies: int) -> list[PoolRow]:
    """Unwanted mail that a reporter calls wanted: held mail, as a release is."""
    held = [message for message in others if message.is_unwanted and message.is_held]
    return [
        PoolRow(f"{each.name}!", False, each.report.features, "eve", "mailbox") for each in held[len(held) - lies :]
    ]


def is_held_with(report: Report, model: LearntModel) -> bool:
    """Whether a message is held with what the model finds, or no longer finds, in it."""
    logit = model.score(read_row(report.features))
    lowering = min(learned.WANTED_MOST, -logit) if -logit >= learned.WANTED_SPEAKS else 0.0
    findings = [
        finding
        for line in report.lines
        if (finding := _lower(Finding(line.kind, line.where, line.facts, line.strength, line.about), report, lowering))
    ]
    strength = points_of(logit) / shipped_policy().kinds[UNWANTED].weight
    if strength >= learned.LEARNT_LEAST:
        findings.append(Finding(UNWANTED, "text", {}, strength))
    return judge(findings, report.outcomes, shipped_policy()).decision != "deliver"


def _lower(finding: Finding, report: Report, lowering: float) -> Finding | None:
    """What is left of a finding of the text model; `learned.text_model` does the same with the exact log-odds."""
    if not lowering or not finding.kind.startswith("text:model-"):
        return finding
    if finding.kind == "text:model-sure":
        return None
    said = next(line for line in report.lines if line.kind == "text:model-spam")
    before = _logit(min(0.995, float(said.facts["probability"])))
    share = _strength(before - lowering) / max(_strength(before), 0.01)
    strength = finding.strength * min(1.0, share)
    return msgspec.structs.replace(finding, strength=strength) if strength >= learned.LEAST else None


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _strength(logit: float) -> float:
    return min(1.0, max(0.0, (logit - learned.BEGINS) / (learned.SAYS_ALL - learned.BEGINS)))


def _describe(family: str, counts: Counts) -> str:
    return (
        f"| {family} | {counts.unwanted:,} | {counts.missed_before} | {counts.missed_after} "
        f"| {counts.wanted:,} | {counts.alarms_before} | {counts.alarms_after} | {counts.taken} of {PARTS} |"
    )
