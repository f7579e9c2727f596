"""What wrong reports do to a text model that learns them: spam called wanted, and wanted mail called spam.

One collection, trec07p, plays the mailbox of an operator: the model is made without it, and then once more with reports
from it, as `gatepost model feedback` keeps them, which are false. The table counts other messages of that mailbox which
the model calls unwanted (even odds or more). The rules do not learn and are not part of this.
"""

import random

import msgspec

from bench import corpus
from gatepost.cli.training import Sample, read_samples, train_model
from gatepost.textmodel.deployed import FEEDBACK_FOLDER as FEEDBACK
from gatepost.textmodel.model import Model

MAILBOX = "trec07p"
OTHERS = 2_000


def run() -> str:
    """The same mailbox after lies of several sizes."""
    try:
        folder = corpus.unpacked("mail-dev")
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    known = read_samples([folder / "dev" if (folder / "dev").is_dir() else folder], (), _unwatched)
    elsewhere = [sample for sample in known if sample.corpus != MAILBOX]
    spam, ham = (_shuffled(known, label) for label in ("spam", "ham"))
    rows = []
    for name, lies in (
        ("no report", []),
        ("100 spam messages called wanted", _told(spam[OTHERS : OTHERS + 100], "ham")),
        ("1,000 spam messages called wanted", _told(spam[OTHERS : OTHERS + 1_000], "ham")),
        ("500 wanted messages called spam", _told(ham[OTHERS : OTHERS + 500], "spam")),
    ):
        model = train_model([*elsewhere, *lies], 1, _unwatched)
        rows.append(f"| {name} | {_named(model, spam[:OTHERS]):.1%} | {_named(model, ham[:OTHERS]):.1%} |")
    head = f"{len(elsewhere):,} messages of other collections; {OTHERS:,} of spam and of ham judged.\n\n"
    return head + "| Reports | Spam named | Ham named |\n|---|---:|---:|\n" + "\n".join(rows)


def _unwatched(_what: str, _done: int, _of: int) -> None:
    """Nobody watches."""


def _shuffled(known: list[Sample], label: str) -> list[Sample]:
    chosen = [sample for sample in known if sample.corpus == MAILBOX and sample.label == label]
    random.Random(1).shuffle(chosen)
    return chosen


def _told(chosen: list[Sample], label: str) -> list[Sample]:
    return [msgspec.structs.replace(sample, corpus=FEEDBACK, label=label) for sample in chosen]


def _named(model: Model, mail: list[Sample]) -> float:
    return sum(model.score(sample.seen).logit >= 0 for sample in mail) / len(mail)
