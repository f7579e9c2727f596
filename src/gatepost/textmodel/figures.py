"""Figures that can be trusted: rates with their uncertainty, catch at a fixed rate of false alarms, calibration.

A rate of 3 in 143 is not 2.1 %; it is somewhere between 0.7 % and 6 % (Wilson, 1927). Every rate is told with that.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

_Z = 1.959964  # two-sided 95 %


class Rate(msgspec.Struct, frozen=True):
    """So many of so many."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's interval at 95 %."""
        if not self.total:
            return 0.0, 1.0
        share, square = self.share, _Z * _Z / self.total
        middle = share + square / 2
        reach = _Z * math.sqrt(share * (1 - share) / self.total + square / self.total / 4)
        return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.share:.2%} ({low:.2%} to {high:.2%})"


class Point(msgspec.Struct, frozen=True):
    """What is held with a threshold at `score`: the share of wanted and of unwanted mail."""

    score: float
    wanted: float
    unwanted: float


def curve(wanted: Sequence[float], unwanted: Sequence[float]) -> list[Point]:
    """The receiver operating characteristic: a point for each score that wanted mail has, most severe first."""
    bad = sorted(unwanted, reverse=True)
    points = [Point(math.inf, 0.0, 0.0)]
    caught = 0
    for number, score in enumerate(sorted(wanted, reverse=True), 1):
        while caught < len(bad) and bad[caught] > score:
            caught += 1
        points.append(Point(score, number / len(wanted), caught / max(len(bad), 1)))
    points.append(Point(-math.inf, 1.0, 1.0))
    return points


def caught_at(wanted: Sequence[float], unwanted: Sequence[float], alarms: float) -> Rate:
    """What is caught by a threshold, chosen after the fact, that holds at most this share of wanted mail."""
    allowed = int(alarms * len(wanted))
    scores = sorted(wanted, reverse=True)
    threshold = scores[allowed] if allowed < len(scores) else -math.inf
    return Rate(sum(score > threshold for score in unwanted), len(unwanted))


class Bin(msgspec.Struct, frozen=True):
    """Messages to which the model gave about the same probability, and how many were unwanted."""

    said: float
    seen: float
    count: int


def reliability(said: Iterable[tuple[float, bool]], bins: int = 10) -> list[Bin]:
    """Whether what is said to be 70 % happens in 70 %."""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for probability, happened in said:
        groups[min(bins - 1, int(probability * bins))].append((probability, happened))
    return [
        Bin(sum(p for p, _ in group) / len(group), sum(h for _, h in group) / len(group), len(group))
        for group in groups
        if group
    ]
