"""Training: logistic regression on words, pairs and marks that several collections use.

A word that only one collection has says where a mail was collected, not what it wants: the name of a list, of a
company, of the person whose mailbox it was. So a word or pair counts only if at least two collections have it, if
enough messages do, and if no collection has it far more often than all others together. Numbers are known by their
length alone, and words that tell the date are left out.

Every collection is weighted by the root of its size. Honest figures need mail from people whose mail was not in the
training, so nothing here trusts a random split: the calibration is fitted on scores that each collection got from a
model which had not seen it, as a new mailbox will. Training needs scikit-learn, which the service does not: `pip
install gatepost[train]`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.deployed import FEEDBACK_FOLDER as REPORTS
from gatepost.textmodel.features import NAME, SUBJECT, Features, normalise_word
from gatepost.textmodel.labels import UNWANTED, find_kind
from gatepost.textmodel.model import MARK_SCALE, Floats, Model, evidence_share

T = TypeVar("T", str, int)

MIN_MESSAGES = 8
MIN_COLLECTIONS = 2
# In so many messages of a collection a word must be, to be one that the collection uses.
MIN_USED = 2
# Fewer messages are no collection, such as the first feedback of an operator.
MIN_SIZE = 20
# The part of a word's use (as a share of each collection's mail) that one collection may have.
MAX_SHARE = 0.8

_DATES = frozenset(
    "january february march april june july august september october november december jan feb mar apr jun jul aug sep "
    "sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat "
    "sun am pm est edt cst cdt mst mdt pst pdt gmt utc bst cet cest januar februar marz mai juni juli oktober dezember "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag".split()
)
# Programs that run mailing lists, and name themselves in what they add.
_LISTS = frozenset("mailman listinfo majordomo listserv yahoogroups ezmlm".split())


def build_vocabulary(messages: Sequence[Features], families: Sequence[str]) -> Model:
    """Return a model that knows its words and pairs and gives none of them any weight."""
    words = tuple(sorted(_select_used((_collect_words(message) for message in messages), families)))
    empty = Model(words, np.empty(0, np.int64), _make_zeros(0), np.zeros(3, np.float32))
    keys = [_collect_pairs(empty, message) for message in messages]
    pairs = np.array(sorted(_select_used(keys, families)), np.int64)
    return Model(words, pairs, _make_zeros(len(words) + len(pairs)), np.zeros(3, np.float32))


def _make_zeros(rows: int) -> Floats:
    return np.zeros((rows, 3), np.float32)


def _collect_words(message: Features) -> set[str]:
    """Return the words of a message that may be known."""
    words = {*message.text, *message.rest}
    plain = {word for word in words if not any(map(str.isdigit, word))}
    plain |= {form for word in words - plain if (form := normalise_word(word)) and not form.strip("0" + SUBJECT + NAME)}
    return {word for word in plain if not _is_trace(word) and len(word) <= 40}.union(message.marks)


def _is_trace(word: str) -> bool:
    """Return whether a word tells when or by what a mail came."""
    return word.removeprefix(SUBJECT) in _DATES or word in _LISTS


def _collect_pairs(empty: Model, message: Features) -> set[int]:
    """Return the pairs of a message, both of whose words are known."""
    rows = empty.rows(message.text)
    return {
        key for key, (first, second) in zip(empty.keys(rows), pairwise(rows), strict=True) if min(first, second) >= 0
    }


def _select_used(messages: Iterable[set[T]], families: Sequence[str]) -> list[T]:
    """Return what enough messages of enough collections have."""
    by_family: dict[str, Counter[T]] = {}
    for seen, family in zip(messages, families, strict=True):
        by_family.setdefault(family, Counter()).update(seen)
    total: Counter[T] = Counter()
    for counts in by_family.values():
        total.update(counts)
    words = [word for word, count in total.items() if count >= MIN_MESSAGES]
    sizes = Counter(families)
    table = np.array([[counts[word] for word in words] for counts in by_family.values()], np.float64)
    kept = select_spread(table, np.array([sizes[family] for family in by_family], np.float64))
    return [word for word, keep in zip(words, kept.tolist(), strict=True) if keep]


def select_spread(counts: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which columns enough collections use: `counts` has a row for each collection, of `sizes` messages."""
    enough: NDArray[np.bool_] = counts.sum(axis=0) >= MIN_MESSAGES
    large = sizes >= MIN_SIZE
    if large.sum() < MIN_COLLECTIONS:
        return enough
    counts = counts[large]
    rates = counts / sizes[large, None]
    shares = rates.max(axis=0) / np.maximum(rates.sum(axis=0), 1e-12)
    result: NDArray[np.bool_] = enough & ((counts >= MIN_USED).sum(axis=0) >= MIN_COLLECTIONS) & (shares <= MAX_SHARE)
    return result


Matrix: TypeAlias = Any  # scipy.sparse has no types of its own
Flags: TypeAlias = NDArray[np.bool_]
Progress: TypeAlias = Callable[[str, int, int], None]

STRENGTH = 10.0
KIND_STRENGTH = 3.0
MIN_OF_KIND = 20
REPORTS_SHARE = 0.25


class Example(msgspec.Struct, frozen=True):
    """One labelled message. `family` names who collected it; `weight` is more than 1 for an operator's own feedback."""

    seen: Features
    label: str
    corpus: str
    weight: float = 1.0

    @property
    def family(self) -> str:
        return family_of(self.corpus)


class TrainingError(ValueError):
    """Mail from which nothing can be learnt; the text says why."""


def family_of(corpus: str) -> str:
    """Return who collected a corpus: the part of its name before the first underscore. Corpora of one family are left
    out together."""
    return corpus.partition("_")[0]


def _ignore_progress(_what: str, _done: int, _of: int) -> None:
    """Report no progress."""


def learn(examples: Sequence[Example], seed: int = 1, progress: Progress = _ignore_progress) -> Model:
    """Train a calibrated model from these examples."""
    truth = np.array([example.label in UNWANTED for example in examples])
    if truth.all() or not truth.any():
        raise TrainingError("both wanted and unwanted mail is needed")
    families = [example.family for example in examples]
    progress("words", 0, 1)
    known = build_vocabulary([example.seen for example in examples], families)
    matrix, counts = _build_matrix(known, examples, progress)
    trainer = _Trainer(matrix, truth, np.array(families), _weigh_examples(examples, truth), seed)
    weights, bias = trainer.fit(np.ones(len(truth), bool))
    kinds = [find_kind(example.label, example.seen) for example in examples]
    heads = [trainer.fit_kind(kinds, name) for name in ("phishing", "fraud")]
    slope, offset = trainer.calibrate(np.array([evidence_share(count) for count in counts]), progress)
    return msgspec.structs.replace(
        known,
        weights=np.stack([weights, *(head for head, _ in heads)], axis=1).astype(np.float32),
        bias=np.array([bias, *(start for _, start in heads)], np.float32),
        slope=slope,
        offset=offset,
    )


def _build_matrix(known: Model, examples: Sequence[Example], progress: Progress) -> tuple[Matrix, list[int]]:
    """Return one row for each example, scaled as in scoring, and how many words and pairs each has."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    rows, values, ends, counts = [], [], [0], []
    for number, example in enumerate(examples):
        hits = known.hits(example.seen)
        counts.append(len(hits.text))
        rows += [hits.text, hits.marks]
        values += [np.full(len(hits.text), 1 / math.sqrt(len(hits.text) or 1)), np.full(len(hits.marks), MARK_SCALE)]
        ends.append(ends[-1] + len(hits.text) + len(hits.marks))
        if number % 500 == 0:
            progress("features", number, len(examples))
    shape = len(examples), len(known.words) + len(known.pairs)
    return csr_matrix((np.concatenate(values), np.concatenate(rows), ends), shape), counts


def _weigh_examples(examples: Sequence[Example], truth: Flags) -> NDArray[np.float64]:
    """Weigh each side of each collection by the root of its size, so that the largest does not drown the others."""
    groups = [(example.family, bool(bad)) for example, bad in zip(examples, truth, strict=True)]
    sizes = Counter(groups)
    weights = np.array([each.weight / math.sqrt(sizes[group]) for each, group in zip(examples, groups, strict=True)])
    return _limit_reports(weights, [family for family, _ in groups])


def _limit_reports(weights: NDArray[np.float64], families: Sequence[str]) -> NDArray[np.float64]:
    """Limit the weight of all reports to a part of the heaviest collection: a person who reports a lot must not train
    the model alone."""
    totals: Counter[str] = Counter()
    for family, weight in zip(families, weights.tolist(), strict=True):
        totals[family] += weight
    most = REPORTS_SHARE * max((total for family, total in totals.items() if family != REPORTS), default=math.inf)
    if totals[REPORTS] <= most:
        return weights
    return np.where([family == REPORTS for family in families], weights * most / totals[REPORTS], weights)


class _Trainer:
    """The data of one training, from which fits may leave out collections."""

    def __init__(
        self, matrix: Matrix, truth: Flags, families: NDArray[np.str_], weights: NDArray[np.float64], seed: int
    ) -> None:
        self._build_matrix, self._truth, self._families = matrix, truth, families
        self._weigh_examples, self._seed = weights, seed
        presence = matrix.copy()
        presence.data = np.ones_like(presence.data)
        self._counts = {name: np.asarray(presence[families == name].sum(axis=0))[0] for name in np.unique(families)}

    def fit(self, chosen: Flags) -> tuple[Floats, float]:
        """Return the weights and the bias that these examples teach. What too few of their collections have gets
        none."""
        columns = self._select_columns(set(self._families[chosen].tolist()))
        truth = self._truth[chosen]
        weights = self._balance(self._weigh_examples[chosen], truth)
        coefficients, bias = self._fit_regression(self._build_matrix[chosen][:, columns], truth, weights, STRENGTH)
        whole = np.zeros(self._build_matrix.shape[1], np.float32)
        whole[columns] = coefficients
        return whole, bias

    def fit_kind(self, kinds: Sequence[str], name: str) -> tuple[Floats, float]:
        """Return the weights that tell one kind of unwanted mail from plain spam; none where there are too few of
        it."""
        named = np.array([kind == name for kind in kinds])
        chosen = named | np.array([kind == "spam" for kind in kinds])
        if min(named.sum(), (chosen & ~named).sum()) < MIN_OF_KIND:
            return np.zeros(self._build_matrix.shape[1], np.float32), -30.0
        weights = self._balance(self._weigh_examples[chosen], named[chosen])
        return self._fit_regression(self._build_matrix[chosen], named[chosen], weights, KIND_STRENGTH)

    def calibrate(self, known: NDArray[np.float64], progress: Progress) -> tuple[float, float]:
        """Return slope and offset from what each collection's mail scored without it, by how much is known of each
        message.

        Reports are no collection: there may be one side of them only, and they may be lies.
        """
        scores = np.zeros(len(self._truth))
        told = self._families == REPORTS
        names = np.unique(self._families[~told])
        for number, name in enumerate(names):
            progress("calibration", number, len(names))
            out = self._families == name
            if len(names) < 2 or self._truth[~out & ~told].all() or not self._truth[~out & ~told].any():
                return 1.0, 0.0
            weights, bias = self.fit(~out)
            scores[out] = (self._build_matrix[out] @ weights + bias) * known[out]
        balanced = self._balance(self._weigh_examples[~told], self._truth[~told])
        slope, offset = self._fit_regression(scores[~told, None], self._truth[~told], balanced, 1e6)
        return float(slope[0]), offset

    def _select_columns(self, families: set[str]) -> NDArray[np.int64]:
        names = sorted(families)
        counts = np.array([self._counts[name] for name in names], np.float64)
        sizes = np.array([(self._families == name).sum() for name in names], np.float64)
        return np.flatnonzero(select_spread(counts, sizes))

    def _balance(self, weights: NDArray[np.float64], truth: Flags) -> NDArray[np.float64]:
        """Scale the weights so that both sides weigh the same, and all together as much as there are examples."""
        result = weights.copy()
        for side in (truth, ~truth):
            result[side] *= len(truth) / 2 / result[side].sum()
        return result

    def _fit_regression(
        self, matrix: Matrix, truth: Flags, weights: NDArray[np.float64], strength: float
    ) -> tuple[Floats, float]:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        wide = matrix.shape[1] > 1
        fitted = LogisticRegression(
            C=strength,
            solver="liblinear",
            dual=wide,
            tol=0.01 if wide else 1e-6,
            max_iter=1000,
            random_state=self._seed,
        ).fit(matrix, truth, sample_weight=weights)
        return fitted.coef_[0].astype(np.float32), float(fitted.intercept_[0])


def find_heaviest(model: Model, count: int = 40) -> Iterator[tuple[str, float]]:
    """Yield the rows that weigh most for unwanted mail and, after them, for wanted mail."""
    order = np.argsort(-model.weights[:, 0], kind="stable")
    for row in (*order[:count].tolist(), *order[: -count - 1 : -1].tolist()):
        yield model.name(row), float(model.weights[row, 0])
