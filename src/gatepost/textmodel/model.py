"""Scoring: a dictionary for words, another for pairs, a row of weights for each; the rest is addition.

The score of a message is the bias, plus the weights of its words and pairs divided by the root of how many there are
(so that a long mail does not outweigh a short one by its length), plus the weights of its marks. Three columns of
weights stand beside each other: whether the mail is unwanted at all, and how much it speaks for phishing, or for
fraud, rather than for plain spam. A pair is known by one number that is made of those of its two words.

Good words that were pasted around a lure must not drown it: a long text is also read in windows of some 80 words, and
where one of them speaks louder than the whole, less an allowance for having chosen it, that one counts.

The score shrinks towards nothing where little is known: four known words are no evidence, however sure they sound.
The probability is that score put through the sigmoid that was fitted on collections which the model had not seen
(Platt, 1999), for a mailbox where half of the mail is unwanted.
"""

import json
import math
import zlib
from functools import cache, cached_property
from importlib.resources import files
from io import BytesIO
from itertools import islice, repeat
from operator import add, mul
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.features import MARK, Features, normalise_word

Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]

FORMAT = 2
MARK_SCALE = 0.2
MAX_SHOWN = 6
# With so many known words and pairs, half of the score counts.
HALF = 20
# Longer texts are also read in windows of about so many words; the best of many is less surprising than the whole.
WINDOW = 80
CHOSEN = 1.0
_MAX_LOGIT = 30.0
NOWHERE = -1


class ModelError(ValueError):
    """A file that is no model; the text says why."""


class ModelScore(msgspec.Struct, frozen=True):
    """What the model thinks: `logit` is the log-odds that a mail is unwanted; the kinds share that probability."""

    logit: float
    spam: float
    phishing: float
    fraud: float

    @property
    def unwanted(self) -> float:
        return sigmoid(self.logit)


class Hits(msgspec.Struct, frozen=True):
    """The rows of the weights that one message has: words and pairs, and marks; of a long one also those of windows."""

    text: Numbers
    marks: Numbers
    windows: tuple[Numbers, ...] = ()


class Model(msgspec.Struct, frozen=True, dict=True):
    """A linear model. `words` are words and marks in the order of their rows, `pairs` the sorted keys of the rows that
    follow; `weights` and `bias` have a column each for unwanted, phishing and fraud; `slope` and `offset` calibrate."""

    words: tuple[str, ...]
    pairs: Numbers
    weights: Floats
    bias: Floats
    slope: float = 1.0
    offset: float = 0.0
    about: dict[str, Any] = {}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def _pair_rows(self) -> dict[int, int]:
        return {key: row for row, key in enumerate(self.pairs.tolist(), len(self.words))}

    @property
    def base(self) -> int:
        """What the row of a pair's first word is multiplied with; one more than there are, so that -1 finds nothing."""
        return len(self.words) + 1

    def hits(self, seen: Features) -> Hits:
        """Return which rows a message has, each once."""
        sequence, rest = self.rows(seen.text), self.rows(seen.rest)
        pairs = list(map(self._pair_rows.get, self.keys(sequence), repeat(NOWHERE)))
        marks = [row for row in map(self._rows.get, seen.marks) if row is not None]
        windows = tuple(_unite_rows(sequence[a:b], pairs[a : b - 1], rest) for a, b in _cut_windows(len(sequence)))
        return Hits(_unite_rows(sequence, pairs, rest), np.array(marks, np.int64), windows)

    def rows(self, words: list[str]) -> list[int]:
        """Return the row of each word, or of what it may stand for; -1 where there is none."""
        known = self._rows
        found = list(map(known.get, words, repeat(NOWHERE)))
        place = -1
        for _ in range(found.count(NOWHERE)):
            place = found.index(NOWHERE, place + 1)
            word = words[place]
            if not (word.isalpha() and word.isascii()) and (form := normalise_word(word)):
                found[place] = known.get(form, NOWHERE)
        return found

    def keys(self, sequence: list[int]) -> list[int]:
        """Return the keys of all neighbours."""
        return list(map(add, map(mul, sequence, repeat(self.base)), islice(sequence, 1, None)))

    def score(self, seen: Features) -> ModelScore:
        """Return what the model thinks of a message."""
        return self.weigh(self.hits(seen))

    def weigh(self, hits: Hits) -> ModelScore:
        """Return what the model thinks of these rows."""
        marks = self.bias + self.weights[hits.marks].sum(axis=0) * MARK_SCALE
        whole, phishing, fraud = (marks + self.weights[hits.text].sum(axis=0) / math.sqrt(len(hits.text) or 1)).tolist()
        raw = whole * evidence_share(len(hits.text))
        for window in hits.windows:
            part = float(marks[0] + self.weights[window, 0].sum() / math.sqrt(len(window) or 1))
            raw = max(raw, (part - CHOSEN) * evidence_share(len(window)))
        return share_probability(max(-_MAX_LOGIT, min(_MAX_LOGIT, self.slope * raw + self.offset)), phishing, fraud)

    def reasons(self, hits: Hits) -> tuple[str, ...]:
        """Return the words and marks that weighed most for unwanted mail, heaviest first."""
        text = self.weights[hits.text, 0] / math.sqrt(len(hits.text) or 1)
        marks = self.weights[hits.marks, 0] * MARK_SCALE
        rows = np.concatenate((hits.text, hits.marks))
        weights = np.concatenate((text, marks))
        order = np.argsort(-weights, kind="stable")[:MAX_SHOWN]
        return tuple(self.name(int(rows[place])) for place in order if weights[place] > 0)

    def name(self, row: int) -> str:
        """Return a row as a person reads it."""
        if row < len(self.words):
            return self.words[row].removeprefix(MARK)
        first, second = divmod(int(self.pairs[row - len(self.words)]), self.base)
        return f"{self.words[first]} {self.words[second]}"

    def to_bytes(self) -> bytes:
        """Return the model as a file."""
        packed = BytesIO()
        about = json.dumps({"format": FORMAT, "slope": self.slope, "offset": self.offset, **self.about}, sort_keys=True)
        np.savez_compressed(
            packed,
            words=np.frombuffer("\n".join(self.words).encode(), np.uint8),
            pairs=self.pairs,
            weights=self.weights.astype(np.float16),
            bias=self.bias,
            about=np.frombuffer(about.encode(), np.uint8),
        )
        return packed.getvalue()


def _unite_rows(*rows: list[int]) -> Numbers:
    """Return each known row once."""
    found: set[int] = set().union(*rows)
    found.discard(NOWHERE)
    return np.fromiter(found, np.int64, len(found))


def _cut_windows(length: int) -> list[tuple[int, int]]:
    """Return where the windows of a text begin and end: none for one that is hardly longer than a window."""
    count = round(length / WINDOW)
    if length < WINDOW * 3 // 2:
        return []
    return [(length * part // count, length * (part + 1) // count) for part in range(count)]


def evidence_share(rows: int) -> float:
    """Return the part of a score that counts, by how many words and pairs are known."""
    return rows / (rows + HALF)


def sigmoid(logit: float) -> float:
    """Return the probability of these log-odds."""
    return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, logit))))


def share_probability(logit: float, phishing: float, fraud: float) -> ModelScore:
    """Return the probability that a mail is unwanted, shared among the kinds by their odds against plain spam."""
    odds = (1.0, math.exp(min(_MAX_LOGIT, phishing)), math.exp(min(_MAX_LOGIT, fraud)))
    whole = sigmoid(logit) / sum(odds)
    return ModelScore(logit, *(whole * each for each in odds))


def parse_model(content: bytes) -> Model:
    """Return a model from a file's bytes. Nothing in it is run."""
    try:
        with np.load(BytesIO(content), allow_pickle=False) as packed:
            about = json.loads(packed["about"].tobytes())
            words = tuple(packed["words"].tobytes().decode().split("\n"))
            pairs, weights, bias = packed["pairs"], packed["weights"].astype(np.float32), packed["bias"]
    except (ValueError, KeyError, OSError, EOFError, BadZipFile, zlib.error) as fault:
        raise ModelError(f"it is not a model ({type(fault).__name__})") from None
    if about.pop("format", None) != FORMAT:
        raise ModelError("it is a model of another version")
    if weights.shape != (len(words) + len(pairs), 3) or bias.shape != (3,):
        raise ModelError("its parts do not fit together")
    return Model(words, pairs, weights, bias, about.pop("slope"), about.pop("offset"), about)


def load_model(path: Path) -> Model:
    """Return a model from a file."""
    try:
        return parse_model(path.read_bytes())
    except OSError as fault:
        raise ModelError(fault.strerror or "it cannot be read") from None


@cache
def load_shipped_model() -> Model:
    """Return the model that comes with the package."""
    return parse_model((files("gatepost.textmodel") / "shipped.npz").read_bytes())
