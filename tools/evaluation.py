"""Measure the shipped model and policy on labelled mail, with models that have not seen that mail.

    python -m tools.evaluation --corpus mail-dev --mode leave-out --out DIR

`leave-out` judges every collection with a model that was trained without it: the figure for unknown mail, and the
headline of `docs/accuracy.md`. `folds` judges every message with a model that has seen its collection but not its
campaign. `as-is` uses a model as it is, such as a deployment's own. The policy is the same throughout and was
fixed beforehand.

A random split puts the thousandth copy of an advertisement into the test after the model has learnt the other 999. So
messages that share one of their few smallest hashes over runs of five words (Broder, 1997), or a subject of some
length, are one campaign, transitively, and a campaign is never on both sides of a split. That joins rather too much
than too little.

The language of a message is guessed by its script, and else by the commonest small words. It serves only the tables
that say where figures hold.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias
from zlib import crc32

import msgspec

from gatepost.near_duplicates import smallest_hashes
from gatepost.textmodel.features import SUBJECT, Features
from gatepost.textmodel.model import Model, ModelError, load_model, load_shipped_model
from tools.diagrams import Point, compute_curve, find_catch_rate
from tools.labelled_mail import (
    Judged,
    LabelledMail,
    Rate,
    Sample,
    Step,
    judge_mail,
    read_labelled,
    read_samples,
    show_steps,
    train_model,
)
from tools.training import family_of

Mode: TypeAlias = Literal["leave-out", "folds", "as-is"]

FOLDS = 5
ALARMS = (0.001, 0.005, 0.01)
ENOUGH_FOR_CURVE = 100


class Measured(Judged, frozen=True):
    """A message as it was judged, with the probability that the text model gave it. The language of its text is guessed
    where the index does not name it."""

    probability: float = 0.0


def measure_mail(
    folders: Sequence[Path], chosen: Sequence[Sample], mode: Mode, model: Model, seed: int, step: Step
) -> list[Measured]:
    """Judge every message of the corpora by the whole analysis, in the order of the samples."""
    groups = _assign_models(chosen, mode)
    models = [model] if mode == "as-is" else _train_without(chosen, groups, seed, step)
    numbers = {(sample.corpus, sample.path): number for number, sample in enumerate(chosen)}
    found: dict[int, Measured] = {}
    with TemporaryDirectory() as place:
        for group, its in enumerate(models):
            file = Path(place) / f"{group}.npz"
            file.write_bytes(its.to_bytes())
            mails = (mail for mail in read_labelled(folders) if _is_of(mail, numbers, groups, group))
            for judged in judge_mail(mails, str(file)):
                number = numbers[judged.corpus, judged.path]
                found[number] = _measure(judged, chosen[number].seen, its)
                step("judging", len(found), len(chosen))
    return [found[number] for number in sorted(found)]


def _is_of(mail: LabelledMail, numbers: dict[tuple[str, str], int], groups: Sequence[int], group: int) -> bool:
    number = numbers.get((mail.corpus, mail.path))
    return number is not None and groups[number] == group


def _measure(judged: Judged, seen: Features, model: Model) -> Measured:
    told = msgspec.structs.asdict(judged)
    told["language"] = judged.language or guess_language(seen.text)
    return Measured(**told, probability=model.score(seen).unwanted)


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


def catch_at_fixed_alarms(found: Sequence[Measured]) -> list[tuple[float, Rate]]:
    """Return what a score threshold chosen after the fact would catch, for comparison with other filters."""
    wanted = [each.score for each in found if each.label == "ham"]
    unwanted = [each.score for each in found if each.unwanted]
    return [(alarms, find_catch_rate(wanted, unwanted, alarms)) for alarms in ALARMS]


def trace_curve(found: Sequence[Measured]) -> Sequence[Point]:
    """Return the receiver operating characteristic of these messages."""
    return compute_curve(
        [each.score for each in found if not each.unwanted], [each.score for each in found if each.unwanted]
    )


def trace_corpus_curves(found: Sequence[Measured]) -> Iterator[tuple[str, Sequence[Point]]]:
    """Yield a curve for each corpus that has enough wanted and unwanted mail."""
    for corpus in sorted({each.corpus for each in found}):
        mine = [each for each in found if each.corpus == corpus]
        unwanted = sum(each.unwanted for each in mine)
        if min(unwanted, len(mine) - unwanted) >= ENOUGH_FOR_CURVE:
            yield corpus, trace_curve(mine)


MIN_VOTES = 3
_SCRIPTS = (
    ("Cyrillic", 0x400, 0x52F),
    ("Hebrew or Arabic", 0x590, 0x6FF),
    ("Chinese, Japanese or Korean", 0x2E80, 0xD7FF),
)
_SMALL = {
    "English": "the and to of you is for this your with that are have not we it be on",
    "German": "und der die das ist nicht sie wir mit fur auf ein eine ihre ihr zu von den",
    "French": "le la les et vous est pour votre nous dans des une sur pas avec ce qui",
    "Spanish": "el los las y su para por que una con del es esta usted no se lo",
    "Portuguese": "o os as e voce para por que uma com do da seu sua nao em um",
    "Italian": "il gli e di che per una con del sono non questo tuo la lei si",
    "Dutch": "de het een en van is voor niet met uw je wij op dat te aan",
}
_VOTES: dict[str, tuple[str, ...]] = {
    word: tuple(name for name, words in _SMALL.items() if word in words.split())
    for word in {word for words in _SMALL.values() for word in words.split()}
}


def guess_language(words: Sequence[str]) -> str:
    """Return the language of these words, "other" where none of the known ones stands out, "too short" for a few."""
    foreign = [word for word in words if not word.isascii()]
    if len(foreign) * 3 > len(words):
        for name, first, last in _SCRIPTS:
            if sum(first <= ord(word[0]) <= last for word in foreign) * 2 > len(foreign):
                return name
    votes = dict.fromkeys(_SMALL, 0.0)
    for word in words:
        for name in _VOTES.get(word, ()):
            votes[name] += 1 / len(_VOTES[word])
    best = max(votes, key=lambda name: votes[name])
    if votes[best] >= MIN_VOTES:
        return best
    return "too short" if len(words) < 20 else "other"


SIGNATURE_SIZE = 3
MIN_SUBJECT = 3


def group_campaigns(messages: Sequence[Features]) -> list[int]:
    """Return the number of each message's campaign: that of its first message."""
    parent = list(range(len(messages)))
    first: dict[int, int] = {}
    for number, message in enumerate(messages):
        for key in find_campaign_keys(message):
            other = _find_root(parent, first.setdefault(key, number))
            mine = _find_root(parent, number)
            parent[max(other, mine)] = min(other, mine)
    return [_find_root(parent, number) for number in range(len(messages))]


def find_campaign_keys(message: Features) -> set[int]:
    """Return the keys by which a message is recognised in another."""
    words = [word for word in message.text if word.isalpha()]
    subject = [word for word in message.rest if word.startswith(SUBJECT)]
    runs = smallest_hashes(words, SIGNATURE_SIZE)
    keys = set(runs)
    if len(subject) >= MIN_SUBJECT or not runs:
        keys.add(crc32(" ".join(subject if runs else subject + words).encode()))
    return keys


def _find_root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number


def main() -> None:
    """Evaluate, and print and write what was found."""
    from tools import evaluation_report as report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", type=Path, required=True, help="labelled mail; repeatable")
    parser.add_argument("--mode", choices=["leave-out", "folds", "as-is"], default="leave-out")
    parser.add_argument("--without", action="append", default=[], help="leave out this corpus; repeatable")
    parser.add_argument("--model", type=Path, help="the model for --mode as-is; the shipped one by default")
    parser.add_argument("--seed", type=int, default=1, help="the same seed and mail give the same models")
    parser.add_argument("--out", type=Path, help="write diagrams and what was judged wrongly to this folder")
    parser.add_argument("--html", type=Path, help="write the evaluation as one page of HTML to this file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    wanted = parser.parse_args()
    try:
        model = load_model(wanted.model) if wanted.model else load_shipped_model()
    except ModelError as fault:
        parser.error(f"{wanted.model} cannot be used: {fault}")
    with show_steps() as step:
        chosen = read_samples(wanted.corpus, wanted.without, step)
        if not chosen:
            parser.error("there is no mail to evaluate")
        found = measure_mail(wanted.corpus, chosen, wanted.mode, model, wanted.seed, step)
    if wanted.out:
        report.write_files(found, wanted.out)
    if wanted.html:
        title = f"Gatepost on {', '.join(folder.resolve().name for folder in wanted.corpus)} ({wanted.mode})"
        wanted.html.write_text(report.write_page(found, title), "utf-8")
    if wanted.json:
        print(msgspec.json.encode(report.describe_measured(found)).decode())
    else:
        print("\n".join(report.render_measured(found)))


if __name__ == "__main__":
    main()
