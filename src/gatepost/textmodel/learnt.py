"""Learnt models: what reports of a tenant or of a deployment add to the shipped model.

A learnt model is a row of weights, one for each number of a feature row (see `rows`). Its log-odds are the sum of the
weights of a message's features, divided by the root of how many there are. It is small, holds no words, and is
trained anew from the whole pool each time. The model of the tenant and that of the deployment speak together: their
log-odds are added. What they may add to a score, or take from it, policy limits.
"""

import math
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.rows import SPACE, Row, read_row

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
    def table(self) -> NDArray[np.float32]:
        """The weight of every number; 0 for those that no report had."""
        table = np.zeros(SPACE, np.float32)
        table[np.frombuffer(self.numbers, "<u2")] = np.frombuffer(self.weights, "<f2").astype(np.float32)
        return table

    def score(self, row: Row) -> float:
        """Return the log-odds that a message with this row is unwanted."""
        weights = self.table[row]
        known = int(np.count_nonzero(weights))
        if not known:
            return 0.0
        raw = float(weights.sum()) / math.sqrt(len(row)) + self.bias
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, raw * known / (known + HALF)))

    def to_bytes(self) -> bytes:
        """Return the model as it is stored and sent to workers."""
        return msgspec.msgpack.encode(self)


def make_model(table: NDArray[np.float64], bias: float, reports: int) -> LearntModel:
    """Return a model with the weights of a table, without those that are nothing."""
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
    weights = np.frombuffer(model.weights[: len(model.weights) // 2 * 2], "<f2")
    sound = len(model.numbers) == len(model.weights) and len(model.weights) % 2 == 0 and model.format == FORMAT
    return model if sound and math.isfinite(model.bias) and bool(np.isfinite(weights).all()) else None


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
