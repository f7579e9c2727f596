"""Training of a learnt model from a pool of reports.

The fit is a logistic regression with a penalty on large weights, by gradient descent with momentum (Nesterov, 1983): a
fixed number of passes over numbers of 16 bits, so the cost is known beforehand, and numpy is all that it needs. Both
sides of the pool weigh the same. The rows of one reporter, of one mailbox and of one sender's domain weigh together no
more than a part of the pool, so that nobody teaches a pool alone.

A fifth of the pool, chosen by the digest of each message, never takes part in a fit: on it a new model has to do better
than the one that it replaces (see `learning.proof`).
"""

import math
from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.learnt import LearntModel, make_model
from gatepost.textmodel.rows import SPACE, read_row

Floats = NDArray[np.float64]

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
    """One report in a pool: what was said, by whom, of whose mail, and the feature row. `weight` is less than 1 for
    mail of which nobody said anything."""

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


def limit_parties(rows: Sequence[PoolRow]) -> Floats:
    """Return the weight of each row: less than 1 where its reporter, mailbox or sender's domain has many."""
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


def _fit(rows: Sequence[PoolRow], weights: Floats) -> tuple[Floats, float]:
    truth = np.array([row.unwanted for row in rows], np.float64)
    columns = [read_row(row.features) for row in rows]
    lengths = np.array([len(column) for column in columns])
    flat = np.concatenate(columns).astype(np.int64)
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


def _bound_curvature(places: NDArray[np.int64], owners: NDArray[np.int64], values: Floats, loads: Floats) -> float:
    """Return a bound of the largest eigenvalue of the weighed rows: the largest sum of a column times that of a row
    (Schur's test)."""
    columns = np.bincount(places, values * loads[owners])
    rows = np.bincount(owners, values)
    return float(columns.max(initial=0) * rows.max(initial=0)) + float(loads.sum())
