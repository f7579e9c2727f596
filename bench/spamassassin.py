"""Gatepost beside SpamAssassin's local rules on the same messages, in one run: whole collections left out in turn.

Of every collection and label a sample is drawn with a fixed seed from `mail-dev` and `mail-dev-2`. Gatepost judges each
message by the whole analysis, with a model that was trained on `mail-dev` without the message's collection; no name is
known to DNS. SpamAssassin is `spamd -L` as Debian ships it: no training, no network. Both have the threshold that holds
at most 0.1 % and 1 % of the ham of the row, chosen after the fact. With fewer than 1,000 ham messages 0.1 % means that
none is held, and with fewer than 100 so does 1 %. Collections without ham of their own are compared by the ham of their
corpus.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from tools.diagrams import find_catch_rate
from tools.labelled_mail import LabelledMail, read_labelled, read_samples, score_report, train_model
from tools.training import UNWANTED, family_of

from bench import corpus, peers
from bench.learning import find_folder, judge_mail, unwatched

SAMPLE = 150
SEED = 9
ALARMS = (0.001, 0.01)
FIRST, SECOND = "mail-dev", "mail-dev-2"


class Compared(msgspec.Struct, frozen=True):
    """A message with the points that both scanners gave it."""

    place: str
    family: str
    corpus: str
    label: str
    ours: float
    theirs: float


def run() -> str:
    """Draw the sample, ask both, and compare them part by part."""
    try:
        folders = {name: find_folder(name) for name in (FIRST, SECOND)}
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    drawn = {name: draw_sample(folder) for name, folder in folders.items()}
    mails = [mail for each in drawn.values() for mail in each]
    try:
        with peers.running() as (_, ask):
            theirs = ask([corpus.Mail(mail.raw, mail.corpus, mail.label, mail.path, {}) for mail in mails])
    except peers.PeersNotRunError as reason:
        return f"not run: {reason}"
    ours = judge_left_out(folders[FIRST], mails)
    places = [place for place, its in drawn.items() for _ in its]
    return render(
        [
            Compared(place, family_of(mail.corpus), mail.corpus, mail.label, score, said.score)
            for place, mail, score, said in zip(places, mails, ours, theirs["SpamAssassin"], strict=True)
            if said is not None
        ]
    )


def draw_sample(folder: Path) -> list[LabelledMail]:
    """Return as many messages of every collection and label, ham and unwanted mail alike; templates are no mail."""
    groups: dict[tuple[str, str], list[LabelledMail]] = {}
    for mail in read_labelled([folder]):
        if (mail.label == "ham" and not mail.corpus.endswith("_templates")) or mail.label in UNWANTED:
            groups.setdefault((mail.corpus, mail.label), []).append(mail)
    chance = random.Random(SEED)
    return [mail for _, group in sorted(groups.items()) for mail in chance.sample(group, min(SAMPLE, len(group)))]


def judge_left_out(folder: Path, mails: Sequence[LabelledMail]) -> list[float]:
    """Return the points of each message, by a model that was trained without its collection."""
    samples = read_samples([folder], (), unwatched)
    points: dict[int, float] = {}
    with TemporaryDirectory() as place:
        for family in sorted({family_of(mail.corpus) for mail in mails}):
            numbers = [number for number, mail in enumerate(mails) if family_of(mail.corpus) == family]
            model = Path(place) / f"{family}.npz"
            known = [sample for sample in samples if family_of(sample.corpus) != family]
            model.write_bytes(train_model(known, 1, unwatched).to_bytes())
            judged = asyncio.run(judge_mail([mails[number] for number in numbers], str(model)))
            points |= {number: score_report(each.report) for number, each in zip(numbers, judged, strict=True)}
    return [points[number] for number in range(len(mails))]


def render(found: Sequence[Compared]) -> str:
    """Return the table: both corpora, and each collection that has unwanted mail."""
    lines = [
        "| Part | Ham / unwanted | Gatepost at 0.1 % / 1 % | SpamAssassin at 0.1 % / 1 % |",
        "|---|---:|---:|---:|",
    ]
    for name, ham, unwanted in list_parts(found):
        cells = [
            " / ".join(f"{_catch(ham, unwanted, field, alarms):.1%}" for alarms in ALARMS)
            for field in ("ours", "theirs")
        ]
        lines.append(f"| {name} | {len(ham):,} / {len(unwanted):,} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def list_parts(found: Sequence[Compared]) -> list[tuple[str, list[Compared], list[Compared]]]:
    """Return each part with its ham and its unwanted mail."""
    parts = []
    for place in (FIRST, SECOND):
        mine = [each for each in found if each.place == place]
        parts.append((place, *_split(mine, mine)))
        families: Mapping[str, None] = dict.fromkeys(each.family for each in mine if each.label != "ham")
        for family in families:
            inside = [each for each in mine if each.family == family]
            has_ham = any(each.label == "ham" for each in inside)
            name = next(each.corpus for each in inside if each.label != "ham")
            parts.append((name if has_ham else f"{name}, ham of {place}", *_split(inside if has_ham else mine, inside)))
    return parts


def _split(ham: Sequence[Compared], unwanted: Sequence[Compared]) -> tuple[list[Compared], list[Compared]]:
    return [each for each in ham if each.label == "ham"], [each for each in unwanted if each.label != "ham"]


def _catch(ham: Sequence[Compared], unwanted: Sequence[Compared], field: str, alarms: float) -> float:
    wanted, bad = ([getattr(each, field) for each in side] for side in (ham, unwanted))
    return find_catch_rate(wanted, bad, alarms).share
