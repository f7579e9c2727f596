"""How fast the text model scores, beside scikit-learn with the same weights in one run.

Both get the same messages with their words already split, on one core. scikit-learn looks the words up with its own
`CountVectorizer` (binary, words and pairs), scales and applies the same weights; both must agree on most. Ours also
reads the windows of long texts. Then what the model adds to the analysis of a message: taking the features and scoring
them.
"""

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from bench import corpus
from gatepost import names
from gatepost.files.values import File
from gatepost.files.walk import find_files
from gatepost.mail.message import Message
from gatepost.mail.reader import read
from gatepost.textmodel.features import Features, extract_features
from gatepost.textmodel.model import MARK_SCALE, Model, load_shipped_model

COUNT = 2_000
ROUNDS = 3


def run() -> str:
    """Score the same mail with both."""
    try:
        mail = corpus.mail(COUNT)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    names.preload_suffixes()
    model = load_shipped_model()
    read_mail = [(message, find_files(message)) for message in (read(each.raw) for each in mail)]
    seen = [extract_features(message, files) for message, files in read_mail]
    hits = [model.hits(each) for each in seen]
    ours, mine = _timed(lambda: [model.score(each).logit for each in seen])
    ready, _ = _timed(lambda: [model.weigh(each).logit for each in hits])
    whole, _ = _timed(lambda: [_both(model, message, files) for message, files in read_mail])
    rows = [
        _row("Gatepost: words to score", ours),
        _row("Gatepost: ready rows to score", ready),
        _row("Gatepost: message to score (features included)", whole),
    ]
    theirs = _sklearn(model, seen, mine)
    rows.insert(0, _row("scikit-learn: words to score", theirs) if theirs else "| scikit-learn | not installed | |")
    ratio = f"\n\n{theirs / ours:.1f} times scikit-learn." if theirs else ""
    return "| What | Messages/s | µs a message |\n|---|---|---|\n" + "\n".join(rows) + ratio


def _row(name: str, seconds: float) -> str:
    return f"| {name} | {COUNT / seconds:,.0f} | {seconds / COUNT * 1e6:.0f} |"


def _timed(work: Callable[[], list[float]]) -> tuple[float, list[float]]:
    """The quickest of a few rounds: what others do on this machine is not measured."""
    best, result = float("inf"), []
    for _ in range(ROUNDS):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def _both(model: Model, message: Message, files: tuple[File, ...]) -> float:
    return model.score(extract_features(message, files)).logit


def _sklearn(model: Model, seen: list[Features], mine: list[float]) -> float | None:
    """The time for the same by scikit-learn, one message at a time, as mail arrives."""
    try:
        from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return None
    known = {model.name(row) if row >= len(model.words) else model.words[row]: row for row in range(len(model.weights))}
    vectorizer = CountVectorizer(analyzer=_analyse, vocabulary=known, binary=True)
    is_mark = np.array([word.startswith("#") for word in known])

    def score(each: Features) -> float:
        row = vectorizer.transform([each])
        text = row.indices[~is_mark[row.indices]]
        marks = row.indices[is_mark[row.indices]]
        total = model.weights[text, 0].sum() / max(len(text), 1) ** 0.5 + model.weights[marks, 0].sum() * MARK_SCALE
        return float(model.slope * (total + model.bias[0]) + model.offset)

    seconds, theirs = _timed(lambda: [score(each) for each in seen])
    agreed = np.mean(np.abs(np.array(theirs) - np.array(mine)) < 0.3)
    # It does not know what unknown words stand for, and reads no windows, so some differ.
    assert agreed > 0.5, f"only {agreed:.0%} agree"
    return seconds


def _analyse(each: Features) -> list[str]:
    words = ["0" * min(len(word), 9) if word.isdigit() else word for word in each.text]
    pairs = map(" ".join, pairwise(words))
    return [*words, *pairs, *each.rest, *each.marks]
