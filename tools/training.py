"""Training: logistic regression on words, pairs and marks that several collections use.

A word that only one collection has says where a mail was collected, not what it wants: the name of a list, of a
company, of the person whose mailbox it was. So a word or pair counts only if at least two collections have it, if
enough messages do, and if no collection has it far more often than all others together. Numbers are known by their
length alone, and words that tell the date are left out.

Every collection is weighted by the root of its size, and has a constant of its own while the weights are fitted, which
is dropped afterwards: most collections are of one side only, so that any word of theirs would tell the sides apart, and
with the constant words learn mostly the difference inside of collections. Marks of a mail's build only accuse, since a
sender chooses how a mail is built. Honest figures need mail from people whose mail was not in the training, so nothing
here trusts a random split: the calibration is fitted on scores that each collection got from a model which had not seen
it, as a new mailbox will. Training needs scikit-learn, which the service does not.

Collections are labelled spam or phishing by where they came from, and a third of a phishing collection may be plain
spam. So the kind is derived from what the text asks for: money by a story or a threat is fraud, credentials are
phishing. These are cues, not truth; the kind never decides whether a mail is held, only what it is called.

Texts that are not English and notices of services get a second reader (`tools.second_reader`).

What a mail says to reassure its reader is left without a weight for wanted mail: every lure can say it.

The model card says what a model was made of, under which licences, what it can do and where it fails.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.features import MARK, NAME, SUBJECT, Features, normalise_word
from gatepost.textmodel.gloss import Letters
from gatepost.textmodel.model import FEEDBACK_FOLDER as REPORTS
from gatepost.textmodel.model import (
    MARK_SCALE,
    Model,
    find_rows,
    make_pair_keys,
    silence_assurances,
)
from tools import second_reader

CARD = Path(__file__).with_name("model_card.md")

T = TypeVar("T", str, int)
Floats: TypeAlias = NDArray[np.float32]

MIN_MESSAGES = 4
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


MailKind = Literal["ham", "spam", "phishing", "fraud", "unclear"]

UNWANTED = frozenset({"spam", "phish", "phishing", "fraud"})
WANTED = frozenset({"ham", "bounce"})

_FRAUD = (
    "next of kin;inheritance;beneficiary;late husband;barrister;million dollars;million usd;million united states;"
    "western union;atm card;bank of africa;funds transfer;transfer of funds;deceased;your compensation;donation of;"
    "recorded you;your webcam;adult sites;my bitcoin;btc wallet;bitcoin address;business proposal;"
    "strictly confidential;charity foundation;investment partner;lottery winning;claims agent;gift cards;consignment"
).split(";")
_PHISHING = (
    "verify your;your account;your password;account has been;log in;sign in;suspended;unusual activity;confirm your;"
    "update your;security alert;your mailbox;recovery phrase;wallet has;billing information;payment method;"
    "click here to;delivery of your package;shared document;expire today;votre compte;ihr konto;su cuenta;sua conta"
).split(";")
ENOUGH = 2


def find_kind(label: str, message: Features) -> MailKind:
    """Return the kind of an example with this label."""
    if label in WANTED:
        return "ham"
    if label in ("phishing", "fraud"):
        return "phishing" if label == "phishing" else "fraud"
    text = f" {' '.join(message.text)} {' '.join(word[2:] for word in message.rest)} "
    if _count_cues(_FRAUD, text) >= ENOUGH:
        return "fraud"
    asks = _count_cues(_PHISHING, text)
    if label == "phish":
        return "phishing" if asks else "unclear"
    return "phishing" if asks > ENOUGH else "spam"


def _count_cues(cues: list[str], text: str) -> int:
    return sum(f" {cue} " in text for cue in cues)


def build_vocabulary(messages: Sequence[Features], families: Sequence[str]) -> Model:
    """Return a model that knows its words and pairs and gives none of them any weight."""
    words = tuple(sorted(_select_used((_collect_words(message) for message in messages), families)))
    known = {word: row for row, word in enumerate(words)}
    keys = [_collect_pairs(known, message) for message in messages]
    pairs = np.array(sorted(_select_used(keys, families)), np.int64)
    return Model(words, pairs, np.zeros((len(words) + len(pairs), 3), np.float32), np.zeros(3, np.float32))


def _collect_words(message: Features) -> set[str]:
    """Return the words of a message that may be known."""
    words = {*message.text, *message.rest, *message.concepts}
    plain = {word for word in words if not any(map(str.isdigit, word))}
    plain |= {form for word in words - plain if (form := normalise_word(word)) and not form.strip("0" + SUBJECT + NAME)}
    # What tells when or by what a mail came is left out.
    telling = (word for word in plain if word.removeprefix(SUBJECT) not in _DATES and word not in _LISTS)
    return {word for word in telling if len(word) <= 40}.union(message.marks)


def _collect_pairs(known: Mapping[str, int], message: Features) -> set[int]:
    """Return the pairs of a message, both of whose words are known."""
    rows = find_rows(known, message.text, normalise_word)
    keys = make_pair_keys(rows, len(known) + 1)
    return {key for key, (first, second) in zip(keys, pairwise(rows), strict=True) if min(first, second) >= 0}


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
MIN_OF_LETTERS = 100
# What the corpora of our own letters begin with. They are shorter than mail and were never sent, so they weigh half,
# and the scale of the log-odds is that of real mail.
LETTERS = "letters-"
# The same of notices, which come as services send them: our own, and those that products send.
NOTICES = ("letters-notices-", "services-")
MADE = (LETTERS, *NOTICES)
LETTERS_WEIGHT = 0.5
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


def learn(
    every: Sequence[Example], seed: int = 1, progress: Progress = _ignore_progress, gloss: Path | None = None
) -> Model:
    """Train a calibrated model from these examples. Notices are for the second reader alone: with them the first one
    gets worse at real mail."""
    examples = [each for each in every if not each.corpus.startswith(NOTICES)]
    truth = np.array([example.label in UNWANTED for example in examples])
    if truth.all() or not truth.any():
        raise TrainingError("both wanted and unwanted mail is needed")
    families = [example.family for example in examples]
    progress("words", 0, 1)
    known = build_vocabulary([example.seen for example in examples], families)
    matrix = build_matrix(known, examples, progress)
    accusing = np.zeros(matrix.shape[1], bool)
    accusing[: len(known.words)] = [word.startswith(MARK) for word in known.words]
    trainer = _Trainer(matrix, truth, np.array(families), _weigh_examples(examples, truth), accusing, seed)
    weights, bias = trainer.fit(np.ones(len(truth), bool))
    kinds = [find_kind(example.label, example.seen) for example in examples]
    heads = [trainer.fit_kind(kinds, name) for name in ("phishing", "fraud")]
    slope, offset = trainer.calibrate(progress)
    learnt = msgspec.structs.replace(
        known,
        weights=np.stack([weights, *(head for head, _ in heads)], axis=1).astype(np.float32),
        bias=np.array([bias, *(start for _, start in heads)], np.float32),
        slope=slope,
        offset=offset,
        letters=learn_letters(every, gloss),
    )
    return silence_assurances(learnt)


def learn_letters(examples: Sequence[Example], gloss: Path | None = None) -> Letters | None:
    """Return the second reader that the letters among these examples teach, with the table of a file or else that of
    the shipped model; None where there are too few."""
    letters = [each for each in examples if each.corpus.startswith(MADE)]
    truth = [each.label in UNWANTED for each in letters]
    if min(sum(truth), len(truth) - sum(truth)) < MIN_OF_LETTERS:
        return None
    seen = [each.seen for each in letters]
    table = second_reader.read_gloss(gloss, seen) if gloss else second_reader.load_shipped_gloss()
    weights = [1.0 if each.corpus.startswith(NOTICES) else LETTERS_WEIGHT for each in letters]
    return second_reader.learn(table, seen, truth, [each.family for each in letters], weights)


def build_matrix(known: Model, examples: Sequence[Example], progress: Progress = _ignore_progress) -> Matrix:
    """Return one row for each example, scaled as in scoring."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    rows, values, ends = [], [], [0]
    for number, example in enumerate(examples):
        hits = known.hits(example.seen)
        text, marks = np.frombuffer(hits.text, np.int32), np.frombuffer(hits.marks, np.int32)
        rows += [text, marks]
        values += [np.full(len(text), 1 / math.sqrt(hits.count or 1)), np.full(len(marks), MARK_SCALE)]
        ends.append(ends[-1] + len(text) + len(marks))
        if number % 500 == 0:
            progress("features", number, len(examples))
    shape = len(examples), len(known.words) + len(known.pairs)
    return csr_matrix((np.concatenate(values), np.concatenate(rows), ends), shape)


def _weigh_examples(examples: Sequence[Example], truth: Flags) -> NDArray[np.float64]:
    """Weigh each side of each collection by the root of its size, so that the largest does not drown the others."""
    groups = [(example.family, bool(bad)) for example, bad in zip(examples, truth, strict=True)]
    sizes = Counter(groups)
    weights = np.array([each.weight / math.sqrt(sizes[group]) for each, group in zip(examples, groups, strict=True)])
    weights[[each.corpus.startswith(LETTERS) for each in examples]] *= LETTERS_WEIGHT
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
        self,
        matrix: Matrix,
        truth: Flags,
        families: NDArray[np.str_],
        weights: NDArray[np.float64],
        accusing: Flags,
        seed: int,
    ) -> None:
        self._matrix, self._truth, self._families = matrix, truth, families
        self._weights, self._accusing, self._seed = weights, accusing, seed
        presence = matrix.copy()
        presence.data = np.ones_like(presence.data)
        self._counts = {name: np.asarray(presence[families == name].sum(axis=0))[0] for name in np.unique(families)}

    def fit(self, chosen: Flags) -> tuple[Floats, float]:
        """Return the weights and the bias that these examples teach. What too few of their collections have gets
        none."""
        columns = self._select_columns(set(self._families[chosen].tolist()))
        truth = self._truth[chosen]
        weights = self._balance(self._weights[chosen], truth)
        _, collections = np.unique(self._families[chosen], return_inverse=True)
        coefficients, bias = fit_collections(
            self._matrix[chosen][:, columns], truth, weights, collections, self._accusing[columns]
        )
        whole = np.zeros(self._matrix.shape[1], np.float32)
        whole[columns] = coefficients
        return whole, bias

    def fit_kind(self, kinds: Sequence[str], name: str) -> tuple[Floats, float]:
        """Return the weights that tell one kind of unwanted mail from plain spam; none where there are too few of
        it."""
        named = np.array([kind == name for kind in kinds])
        chosen = named | np.array([kind == "spam" for kind in kinds])
        if min(named.sum(), (chosen & ~named).sum()) < MIN_OF_KIND:
            return np.zeros(self._matrix.shape[1], np.float32), -30.0
        weights = self._balance(self._weights[chosen], named[chosen])
        return fit_regression(self._matrix[chosen], named[chosen], weights, KIND_STRENGTH, self._seed)

    def calibrate(self, progress: Progress) -> tuple[float, float]:
        """Return slope and offset from what each collection's mail scored without it.

        Reports are no collection: there may be one side of them only, and they may be lies. Nor are our own letters.
        """
        scores = np.zeros(len(self._truth))
        told = np.array([family == REPORTS or family.startswith(LETTERS) for family in self._families.tolist()])
        names = np.unique(self._families[~told])
        for number, name in enumerate(names):
            progress("calibration", number, len(names))
            out = self._families == name
            if len(names) < 2 or self._truth[~out & ~told].all() or not self._truth[~out & ~told].any():
                return 1.0, 0.0
            weights, bias = self.fit(~out)
            scores[out] = self._matrix[out] @ weights + bias
        if not len(names):
            return 1.0, 0.0
        balanced = self._balance(self._weights[~told], self._truth[~told])
        slope, offset = fit_regression(scores[~told, None], self._truth[~told], balanced, 1e6, self._seed)
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


def fit_regression(
    matrix: Matrix, truth: Flags, weights: NDArray[np.float64], strength: float, seed: int
) -> tuple[Floats, float]:
    """Return the coefficients and the intercept of a logistic regression; a single column is fitted closely."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    wide = matrix.shape[1] > 1
    fitted = LogisticRegression(
        C=strength,
        solver="liblinear",
        dual=wide,
        tol=0.01 if wide else 1e-6,
        max_iter=1000,
        random_state=seed,
    ).fit(matrix, truth, sample_weight=weights)
    return fitted.coef_[0].astype(np.float32), float(fitted.intercept_[0])


def fit_collections(
    matrix: Matrix, truth: Flags, weights: NDArray[np.float64], collections: NDArray[np.int64], accusing: Flags
) -> tuple[Floats, float]:
    """Return the coefficients and the intercept of a logistic regression in which every collection has a constant, and
    no coefficient of an accusing column is below zero (L-BFGS-B: Byrd, Lu, Nocedal and Zhu, 1995)."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    columns, signs, across = matrix.shape[1], np.where(truth, 1.0, -1.0), matrix.T.tocsr()
    count = int(collections.max()) + 1

    def measure(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (matrix @ values[:columns] + values[columns] + values[columns + 1 :][collections])
        slopes = -weights * signs * np.exp(-np.logaddexp(0, margins))
        changes = np.concatenate([across @ slopes, [slopes.sum()], np.bincount(collections, slopes, count)])
        lost = float(weights @ np.logaddexp(0, -margins) + values @ values / (2 * STRENGTH))
        return lost, changes + values / STRENGTH

    bounds = [(0.0 if accuses else None, None) for accuses in (*accusing.tolist(), False, *[False] * count)]
    # Sums in one order alone: the same mail gives the same model on any number of cores.
    with threadpool_limits(1):
        start = np.zeros(columns + 1 + count)
        options = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-7, "gtol": 1e-3}
        fitted = minimize(measure, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return fitted.x[:columns].astype(np.float32), float(fitted.x[columns])


def find_heaviest(model: Model, count: int = 40) -> Iterator[tuple[str, float]]:
    """Yield the rows that weigh most for unwanted mail and, after them, for wanted mail."""
    order = np.argsort(-np.asarray(model.weights)[:, 0], kind="stable")
    for row in (*order[:count].tolist(), *order[: -count - 1 : -1].tolist()):
        yield model.name(row), float(model.weights[row, 0])


# What is known of public collections. Operators who train on others state their licences.
LICENCES = {
    "spamassassin": "SpamAssassin public corpus, 2002 to 2003; free to use, the writers keep their copyright",
    "trec07p": "TREC 2007 public corpus, for research under its agreement",
    "enron": "Enron mail as published by the FERC; public record",
    "phishing": "phishing_pot, CC BY-NC 4.0: **no commercial use**",
    "lists": "public technical mailing lists, 2019 to 2026",
    "notmuch": "public mailing lists from notmuch's test corpora",
    "foff": "foff-milter's test mail, 2025 to 2026",
    "sisimai": "bounces from Sisimai's test set, BSD-2-Clause",
    "vger": "public lists of kernel.org, 2019 to 2026; no licence is stated",
    "discourse": "templates of Discourse, GPL-2.0",
    "agency": "templates of newsletters",
    "letters": "letters that the authors of Gatepost wrote, under its licence",
    "letters-notices": "notices that the authors of Gatepost wrote, under its licence",
    "services": "notices rendered from templates and translations of 16 public products, mostly GPL and AGPL, and "
    "templates of phishing simulations",
    "feedback": "the operator's own mail",
}
NON_COMMERCIAL = "phishing"
UNKNOWN = "not known; whoever trains states it"
CAVEAT = (
    "Except for phishing_pot, licences are given as the collections are generally described; they were not verified."
)
PLAINLY = "phishing_pot is licensed CC BY-NC 4.0 (no commercial use). To train a model without it:"


def write_model_card(model: Model, without: Sequence[str], folders: Sequence[str]) -> str:
    """Return the card of a model."""
    rows = list(find_heaviest(model, 30))
    return CARD.read_text("utf-8").format(
        words=len(model.words),
        pairs=len(model.pairs),
        sources="\n".join(_write_sources(model, without, folders)),
        unwanted=", ".join(f"`{name}`" for name, weight in rows if weight > 0),
        wanted=", ".join(f"`{name}`" for name, weight in rows if weight <= 0),
    )


def _join_letters(sources: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[str]]:
    """Return the sources with letters and notices, which are many small corpora, as one each."""
    found: dict[str, Counter[str]] = {}
    for corpus, labels in sources.items():
        name = next((each.rstrip("-") for each in (*NOTICES, LETTERS) if corpus.startswith(each)), corpus)
        found.setdefault(name, Counter()).update(labels)
    return found


def _write_sources(model: Model, without: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    sources = _join_letters(model.about.get("sources", {}))
    yield "## Sources and licences\n\n| Corpus | Messages | Licence |\n|---|---|---|"
    for corpus, labels in sources.items():
        counts = ", ".join(f"{label} {count:,}" for label, count in labels.items())
        yield f"| {corpus} | {counts} | {LICENCES.get(corpus.partition('_')[0], UNKNOWN)} |"
    command = "python -m tools.train_model " + " ".join(f"--corpus {folder}" for folder in folders)
    command += "".join(f" --without {name}" for name in without) + f" --seed {model.about.get('seed', 1)}"
    yield f"\n{CAVEAT}\n"
    yield f"Trained by `{command}`; the same seed and mail give the same model."
    if any(corpus.partition("_")[0] == NON_COMMERCIAL for corpus in sources):
        yield f"\n{PLAINLY}\n\n    {command} --without {NON_COMMERCIAL}_pot"
