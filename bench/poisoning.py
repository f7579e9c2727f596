"""What wrong reports do to a text model that learns them: spam called wanted, and wanted mail called spam.

One collection, trec07p, plays the mailbox of an operator: the model is made without it, and then once more with reports
from it, as a deployment keeps them in its folder `feedback`, which are false. The table counts other messages of that
mailbox which the model calls unwanted (even odds or more). The rules do not learn and are not part of this.

The second table is of training pools, the way that reports of people go: the model stays the one that was made without
the mailbox, and a learnt model of the pool, if it is proved, quietens it by a bounded amount. The lies come from one
reporter.
"""

import random

import msgspec
from tools.labelled_mail import Sample, read_samples, train_model

from bench import corpus
from gatepost.checks.text import learned
from gatepost.learning.sealed_training import prove
from gatepost.textmodel.learnt import LearntModel, PoolRow, list_features, pack_row, read_row
from gatepost.textmodel.model import FEEDBACK_FOLDER as FEEDBACK
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
    plain: Model | None = None
    for name, lies in (
        ("no report", []),
        ("100 spam messages called wanted", _told(spam[OTHERS : OTHERS + 100], "ham")),
        ("1,000 spam messages called wanted", _told(spam[OTHERS : OTHERS + 1_000], "ham")),
        ("500 wanted messages called spam", _told(ham[OTHERS : OTHERS + 500], "spam")),
    ):
        model = train_model([*elsewhere, *lies], 1, _unwatched)
        plain = plain or model
        rows.append(f"| {name} | {_named(model, spam[:OTHERS]):.1%} | {_named(model, ham[:OTHERS]):.1%} |")
    head = f"{len(elsewhere):,} messages of other collections; {OTHERS:,} of spam and of ham judged.\n\n"
    table = "| Reports | Spam named | Ham named |\n|---|---:|---:|\n"
    assert plain is not None
    pools = _try_pools(plain, spam, ham)
    return "\n".join((head + table.rstrip(), *rows, "\nTraining pools:\n", table.rstrip(), *pools))


def _try_pools(model: Model, spam: list[Sample], ham: list[Sample]) -> list[str]:
    """The same mailbox where reports go into a pool: none, true ones, and true ones with lies of several sizes."""
    rows = [f"| no report | {_named(model, spam[:OTHERS]):.1%} | {_named(model, ham[:OTHERS]):.1%} |"]
    true = [
        *_as_rows(spam[OTHERS : OTHERS + 100], "ann", unwanted=True),
        *_as_rows(ham[OTHERS : OTHERS + 100], "ann", unwanted=False),
    ]
    for name, reports in (
        ("200 true ones", true),
        ("200 true ones, 100 spam messages called wanted", [*true, *_as_rows(spam[-100:], "eve", unwanted=False)]),
        ("200 true ones, 500 spam messages called wanted", [*true, *_as_rows(spam[-500:], "eve", unwanted=False)]),
        ("200 true ones, 100 wanted messages called spam", [*true, *_as_rows(ham[-100:], "eve", unwanted=True)]),
        ("100 spam messages called wanted and nothing else", _as_rows(spam[-100:], "eve", unwanted=False)),
    ):
        learnt, _ = prove(reports, b"")
        rows.append(
            f"| {name} | {_named(model, spam[:OTHERS], learnt):.1%} | {_named(model, ham[:OTHERS], learnt):.1%} |"
        )
    return rows


def _as_rows(chosen: list[Sample], reporter: str, *, unwanted: bool) -> list[PoolRow]:
    return [
        PoolRow(f"{sample.path}:{reporter}", unwanted, pack_row(list_features(sample.seen)), reporter, "mailbox")
        for sample in chosen
    ]


def _unwatched(_what: str, _done: int, _of: int) -> None:
    """Nobody watches."""


def _shuffled(known: list[Sample], label: str) -> list[Sample]:
    chosen = [sample for sample in known if sample.corpus == MAILBOX and sample.label == label]
    random.Random(1).shuffle(chosen)
    return chosen


def _told(chosen: list[Sample], label: str) -> list[Sample]:
    return [msgspec.structs.replace(sample, corpus=FEEDBACK, label=label) for sample in chosen]


def _named(model: Model, mail: list[Sample], learnt: LearntModel | None = None) -> float:
    """The share of mail that the models name: together, less what a learnt model takes away."""
    return sum(model.score(sample.seen).logit + _find_change(sample, learnt) >= 0 for sample in mail) / len(mail)


def _find_change(sample: Sample, learnt: LearntModel | None) -> float:
    """What a learnt model does to the log-odds: it takes a bounded amount, or names the mail itself."""
    if learnt is None:
        return 0.0
    logit = learnt.score(read_row(pack_row(list_features(sample.seen))))
    if logit >= learned.LEARNT_SPEAKS:
        return 30.0
    return -min(learned.WANTED_MOST, -logit) if -logit >= learned.WANTED_SPEAKS else 0.0
