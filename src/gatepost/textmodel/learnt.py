"""Learnt models: what reports of a tenant or of a deployment add to the shipped model.

Of each message a feature row is kept, so that a report on it can teach: some 200 bytes, without its text. A row is a
set of numbers of 16 bits: hashes of words of text, subject and display name, of the marks of the message's build, and
of the organisations that its links lead to. The number of a word does not tell the word, and two words may share one.
Rows are bounded in length: of a long text the first words count, since those are what its reader sees first. A row is
made of the bytes of a message alone, so the row of a reported file is that of the message when it arrived.

A learnt model is a weight for each number. Its log-odds are the sum of the weights of a message's row, divided by the
root of how many there are. It is small, holds no words, and is trained anew from the whole pool each time. The model of
the tenant and that of the deployment speak together: their log-odds are added. What they may add to a score, or take
from it, policy limits.

Training is a logistic regression with a penalty on large weights, by gradient descent with momentum (Nesterov, 1983): a
fixed number of passes over numbers of 16 bits, so the cost is known beforehand, and numpy is all that it needs. Both
sides of the pool weigh the same. The rows of one reporter, of one mailbox and of one sender's domain weigh together no
more than a part of the pool, so that nobody teaches a pool alone. A fifth of the pool, chosen by the digest of each
message, never takes part in a fit: on it a new model has to do better than the one that it replaces (see
`learning.sealed_training`).
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import msgspec

from gatepost.mail.message import Message
from gatepost.mail.sender_history import list_organisations
from gatepost.speedups import native
from gatepost.textmodel.features import Features, make_features
from gatepost.textmodel.words import MessageWords

# Only training needs numpy, and imports it there; workers score without.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
Row = tuple[int, ...]

SPACE = 1 << 16
MAX_WORDS = 180
MAX_REST = 40
MAX_MARKS = 40
MAX_SITES = 10
# Two bytes a feature; what is longer was not made here.
MAX_ROW = 2 * (MAX_WORDS + MAX_REST + MAX_MARKS + MAX_SITES)
_SITE = "h:"


def make_row(message: Message, seen: Features) -> bytes:
    """Return the row of a message, packed."""
    sites = list_organisations(message.links)[:MAX_SITES]
    if native and (row := native.feature_row(seen.text, MAX_WORDS, _list_others(seen, sites))) is not None:
        packed: bytes = row
        return packed
    return pack_row(list_features(seen, sites))


def make_message_row(message: Message, words: MessageWords, marks: list[str]) -> bytes:
    """Return the same of words as they lie in memory, and the marks of their message."""
    sites = list_organisations(message.links)[:MAX_SITES]
    row = words.row(MAX_WORDS, MAX_REST, [*marks[:MAX_MARKS], *[_SITE + site for site in sites]])
    return make_row(message, make_features(words, marks)) if row is None else row


def list_features(seen: Features, sites: Iterable[str] = ()) -> list[str]:
    """Return the features of a message by their names, each once. `feature_row` in `_speedups.c` packs the same."""
    words = dict.fromkeys(_shorten(word) for word in seen.text)
    return [*list(words)[:MAX_WORDS], *_list_others(seen, sites)]


def _list_others(seen: Features, sites: Iterable[str]) -> list[str]:
    """Return the features that are no words of the text."""
    rest = dict.fromkeys(seen.rest)
    return [*list(rest)[:MAX_REST], *seen.marks[:MAX_MARKS], *(_SITE + site for site in list(sites)[:MAX_SITES])]


def pack_row(names: Iterable[str]) -> bytes:
    """Return the hashes of names, each once and in order, as little-endian numbers of two bytes."""
    numbers = {crc32(name.encode("utf-8", "surrogatepass")) & (SPACE - 1) for name in names}
    return struct.pack(f"<{len(numbers)}H", *sorted(numbers))


def read_row(packed: bytes) -> Row:
    """Return a row from its bytes; of what is too long the start."""
    count = min(len(packed), MAX_ROW) // 2
    return struct.unpack_from(f"<{count}H", packed)


def _shorten(word: str) -> str:
    """Return the word, and of a number its length: the number itself is another in each message."""
    return "0" * min(len(word), 9) if word.isdigit() else word


FORMAT = 1
MAX_PACKED = 1 << 20
# Of so many known features half of the log-odds count: three words that were seen in one report prove nothing.
HALF = 10
_MAX_LOGIT = 8.0

ModelScope = Literal["tenant", "deployment"]


class LearntModel(msgspec.Struct, frozen=True, dict=True):
    """Weights by number. `numbers` and `weights` are arrays of two-byte integers and of half-precision floats. `proof`
    is the packed model that was proved, which has not seen held-back mail: the next one is compared with that."""

    numbers: bytes
    weights: bytes
    bias: float = 0.0
    reports: int = 0
    version: int = 0
    scope: ModelScope = "deployment"
    format: int = FORMAT
    proof: bytes = b""

    @cached_property
    def table(self) -> dict[int, float]:
        """The weight of every number that a report had."""
        count = len(self.numbers) // 2
        numbers, weights = struct.unpack(f"<{count}H", self.numbers), struct.unpack(f"<{count}e", self.weights)
        return dict(zip(numbers, weights, strict=True))

    def score(self, row: Row) -> float:
        """Return the log-odds that a message with this row is unwanted."""
        weights = [weight for number in row if (weight := self.table.get(number))]
        known = len(weights)
        if not known:
            return 0.0
        raw = sum(weights) / math.sqrt(len(row)) + self.bias
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, raw * known / (known + HALF)))

    def to_bytes(self) -> bytes:
        """Return the model as it is stored and sent to workers."""
        return msgspec.msgpack.encode(self)


def make_model(table: "Floats", bias: float, reports: int) -> LearntModel:
    """Return a model with the weights of a table, without those that are nothing."""
    import numpy as np

    small = table.astype("<f2")
    numbers = np.flatnonzero(small).astype("<u2")
    return LearntModel(numbers.tobytes(), small[numbers].tobytes(), float(bias), reports)


def parse_learnt(packed: bytes) -> LearntModel | None:
    """Return a stored model, or None if these bytes are none; no input raises."""
    if len(packed) > MAX_PACKED:
        return None
    try:
        model = msgspec.msgpack.decode(packed, type=LearntModel)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    weights = struct.unpack_from(f"<{len(model.weights) // 2}e", model.weights)
    sound = len(model.numbers) == len(model.weights) and len(model.weights) % 2 == 0 and model.format == FORMAT
    return model if sound and math.isfinite(model.bias) and all(map(math.isfinite, weights)) else None


class LearntModels(msgspec.Struct, frozen=True):
    """The learnt models that speak about one tenant's mail, that of the deployment first."""

    models: tuple[LearntModel, ...] = ()

    def score(self, packed: bytes) -> tuple[float, tuple[LearntModel, ...]]:
        """Return the log-odds of a packed row, and the models that had something to say."""
        if not self.models or not packed:
            return 0.0, ()
        row = read_row(packed)
        said = [(model, model.score(row)) for model in self.models]
        speaking = tuple(model for model, score in said if score)
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, sum(score for _, score in said))), speaking


NO_MODELS = LearntModels()


def parse_learnt_models(packed: bytes | memoryview) -> LearntModels:
    """Return the models of a snapshot, which is a list of packed models; what is none is left out."""
    try:
        each = msgspec.msgpack.decode(packed, type=tuple[bytes, ...])
    except (msgspec.DecodeError, ValueError):
        return NO_MODELS
    return LearntModels(tuple(model for model in map(parse_learnt, each[:2]) if model))


PASSES = 150
PENALTY = 0.01
MIN_OF_SIDE = 20
# A false alarm costs more than a miss.
WANTED_FACTOR = 1.5
HELD_BACK = 5
# What one reporter or mailbox, and one sender's domain, weighs: so many reports, or that part of the pool.
MAX_OF_PARTY, PARTY_SHARE = 200.0, 0.25
MAX_OF_DOMAIN, DOMAIN_SHARE = 20.0, 0.05


class PoolRow(msgspec.Struct, frozen=True):
    """One report in a pool: verdict, author, owner, feature row; `weight` is below 1 for mail that nobody judged."""

    message: str
    unwanted: bool
    features: bytes
    reporter: str = ""
    mailbox: str = ""
    domain: str = ""
    weight: float = 1.0

    @property
    def is_held_back(self) -> bool:
        """Whether the row is for measuring only; the same in every training."""
        return crc32(self.message.encode()) % HELD_BACK == 0


def train_pool(rows: Sequence[PoolRow]) -> LearntModel | None:
    """Return the model that these rows teach; None where one side has too few."""
    sides = Counter(row.unwanted for row in rows)
    if min(sides[True], sides[False]) < MIN_OF_SIDE:
        return None
    table, bias = _fit(rows, limit_parties(rows))
    return make_model(table, bias, len(rows))


def limit_parties(rows: Sequence[PoolRow]) -> "Floats":
    """Return the weight of each row: less than 1 where its reporter, mailbox or sender's domain has many."""
    import numpy as np

    total = float(len(rows))
    weights = np.array([row.weight for row in rows], np.float64)
    for names, most, share in (
        ([row.reporter for row in rows], MAX_OF_PARTY, PARTY_SHARE),
        ([row.mailbox for row in rows], MAX_OF_PARTY, PARTY_SHARE),
        ([row.domain for row in rows], MAX_OF_DOMAIN, DOMAIN_SHARE),
    ):
        sums: Counter[str] = Counter()
        for name, weight in zip(names, weights.tolist(), strict=True):
            sums[name] += weight
        limit = max(most, share * total)
        weights *= np.array([1.0 if not name else min(1.0, limit / sums[name]) for name in names])
    return weights


def _fit(rows: Sequence[PoolRow], weights: "Floats") -> "tuple[Floats, float]":
    import numpy as np

    truth = np.array([row.unwanted for row in rows], np.float64)
    columns = [read_row(row.features) for row in rows]
    lengths = np.array([len(column) for column in columns])
    flat = np.concatenate([np.array(column, np.int64) for column in columns])
    known, places = np.unique(flat, return_inverse=True)
    owners = np.repeat(np.arange(len(rows)), lengths)
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths)
    balanced = weights.copy()
    for side, factor in ((truth == 1, 1.0), (truth == 0, WANTED_FACTOR)):
        balanced[side] *= factor * weights.sum() / 2 / max(balanced[side].sum(), 1e-9)
    # The slope of the logistic function changes by a quarter at most.
    step = 1 / (0.5 * _bound_curvature(places, owners, values, balanced) + PENALTY)
    table, bias = np.zeros(len(known)), 0.0
    ahead, ahead_bias, momentum = table, bias, 1.0
    for _ in range(PASSES):
        scores = np.bincount(owners, ahead[places] * values, len(rows)) + ahead_bias
        slope = (1 / (1 + np.exp(-scores)) - truth) * balanced
        fresh = ahead - step * (np.bincount(places, slope[owners] * values, len(known)) + PENALTY * ahead)
        fresh_bias = ahead_bias - step * float(slope.sum())
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        share = (momentum - 1) / following
        ahead, ahead_bias = fresh + share * (fresh - table), fresh_bias + share * (fresh_bias - bias)
        table, bias, momentum = fresh, fresh_bias, following
    whole = np.zeros(SPACE)
    whole[known] = table
    return whole, bias


def _bound_curvature(
    places: "NDArray[np.int64]", owners: "NDArray[np.int64]", values: "Floats", loads: "Floats"
) -> float:
    """Bound the largest eigenvalue of the weighed rows: the largest column sum times a row sum (Schur's test)."""
    import numpy as np

    columns = np.bincount(places, values * loads[owners])
    rows = np.bincount(owners, values)
    return float(columns.max(initial=0) * rows.max(initial=0)) + float(loads.sum())
