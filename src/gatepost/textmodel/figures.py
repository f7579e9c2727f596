"""The figures of an evaluation, their two diagrams as SVG, and the model card.

A rate of 3 in 143 is not 2.1 %; it is somewhere between 0.7 % and 6 % (Wilson, 1927). Every rate is given with that
interval. The diagrams are the ROC curve and the reliability diagram. The model card says what a model was made of,
under which licences, what it can do and where it fails.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

import msgspec

from gatepost.textmodel.model import Model
from gatepost.textmodel.training import find_heaviest

_Z = 1.959964  # two-sided 95 %


class Rate(msgspec.Struct, frozen=True):
    """A count out of a total."""

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


def compute_curve(wanted: Sequence[float], unwanted: Sequence[float]) -> list[Point]:
    """Return the receiver operating characteristic: a point for each score that wanted mail has, most severe first."""
    bad = sorted(unwanted, reverse=True)
    points = [Point(math.inf, 0.0, 0.0)]
    caught = 0
    for number, score in enumerate(sorted(wanted, reverse=True), 1):
        while caught < len(bad) and bad[caught] > score:
            caught += 1
        points.append(Point(score, number / len(wanted), caught / max(len(bad), 1)))
    points.append(Point(-math.inf, 1.0, 1.0))
    return points


def find_catch_rate(wanted: Sequence[float], unwanted: Sequence[float], alarms: float) -> Rate:
    """Return what is caught by a threshold, chosen after the fact, that holds at most this share of wanted mail."""
    allowed = int(alarms * len(wanted))
    scores = sorted(wanted, reverse=True)
    threshold = scores[allowed] if allowed < len(scores) else -math.inf
    return Rate(sum(score > threshold for score in unwanted), len(unwanted))


class Bin(msgspec.Struct, frozen=True):
    """Messages to which the model gave about the same probability, and how many were unwanted."""

    said: float
    seen: float
    count: int


def compute_reliability(said: Iterable[tuple[float, bool]], bins: int = 10) -> list[Bin]:
    """Group predictions by probability, with the share that was unwanted: is what was said to be 70 % so in 70 % of
    cases?"""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for probability, happened in said:
        groups[min(bins - 1, int(probability * bins))].append((probability, happened))
    return [
        Bin(sum(p for p, _ in group) / len(group), sum(h for _, h in group) / len(group), len(group))
        for group in groups
        if group
    ]


SIDE, EDGE = 360, 60
_COLOURS = ("#1f5fa8", "#b8430f", "#2f7d32", "#7a3fa0", "#555555", "#00808a", "#a31e4d", "#8a6d00")
_DECADES = (0.0001, 0.001, 0.01, 0.1, 1.0)


def draw_roc(curves: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """Draw the catch rate against false alarms, these on a logarithmic scale: what matters happens below 1 %."""
    ticks = [(_scale_logarithmic(value), f"{value:.2%}") for value in _DECADES]
    shapes = [*_draw_frame("Wanted mail held", "Unwanted mail held", ticks)]
    for number, (name, points) in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(
            f"{_x_at(_scale_logarithmic(point.wanted)):.1f},{_y_at(point.unwanted):.1f}"
            for point in _thin_points(points)
        )
        shapes.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        shapes.append(_draw_text(EDGE + SIDE - 8, _y_at(0) - 10 - 15 * number, name, "end", colour))
    return _wrap_svg(shapes)


def draw_reliability(bins: Sequence[Bin]) -> str:
    """Draw how often mail was unwanted against how probable that was said to be; on the diagonal both agree."""
    ticks = [(value / 5, f"{value / 5:.0%}") for value in range(6)]
    shapes = [*_draw_frame("Probability said", "Share that was unwanted", ticks)]
    shapes.append(
        f'<line x1="{_x_at(0)}" y1="{_y_at(0)}" x2="{_x_at(1)}" y2="{_y_at(1)}" stroke="#999" stroke-dasharray="4"/>'
    )
    for each in bins:
        radius = 2 + math.log10(each.count)
        shapes.append(
            f'<circle cx="{_x_at(each.said):.1f}" cy="{_y_at(each.seen):.1f}" r="{radius:.1f}" fill="{_COLOURS[0]}"/>'
        )
        shapes.append(_draw_text(_x_at(each.said), _y_at(each.seen) - 8, f"{each.count}", "middle", "#555"))
    return _wrap_svg(shapes)


def _thin_points(points: Sequence[Point]) -> Iterable[Point]:
    """Return a few hundred of the points, which show as much as ten thousand."""
    last = (-1.0, -1.0)
    for point in points:
        here = round(_scale_logarithmic(point.wanted), 2), round(point.unwanted, 2)
        if here != last:
            yield point
        last = here


def _scale_logarithmic(share: float) -> float:
    return max(0.0, 1 + math.log10(max(share, _DECADES[0])) / (len(_DECADES) - 1))


def _x_at(share: float) -> float:
    return EDGE + share * SIDE


def _y_at(share: float) -> float:
    return EDGE / 2 + (1 - share) * SIDE


def _draw_frame(across: str, up: str, ticks: Sequence[tuple[float, str]]) -> Iterable[str]:
    yield f'<rect x="{_x_at(0)}" y="{_y_at(1)}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#333"/>'
    for place, shown in ticks:
        yield _draw_text(_x_at(place), _y_at(0) + 16, shown, "middle")
    for fifth in range(6):
        yield _draw_text(_x_at(0) - 6, _y_at(fifth / 5) + 4, f"{fifth / 5:.0%}", "end")
    yield _draw_text(_x_at(0.5), _y_at(0) + 34, across, "middle")
    yield f'<g transform="rotate(-90 14 {_y_at(0.5)})">{_draw_text(14, _y_at(0.5), up, "middle")}</g>'


def _draw_text(x: float, y: float, shown: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(shown)}</text>'


def _wrap_svg(shapes: Iterable[str]) -> str:
    size = SIDE + EDGE + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>", ""])


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
    "feedback": "the operator's own mail",
}
NON_COMMERCIAL = "phishing"
UNKNOWN = "not known; whoever trains states it"
CAVEAT = (
    "Except for phishing_pot, licences are given as the collections are generally described; they were not verified."
)
PLAINLY = """\
phishing_pot is licensed CC BY-NC 4.0 (no commercial use). To train a model without it:"""
HEAD = """\
# Model card of the text model

`gatepost model train` writes this page. The model is linear over words, word pairs and structural features of a mail,
with three columns of weights (unwanted, phishing, fraud): {words:,} words and features, {pairs:,} pairs. It adds a
capped number of points to the score of the whole analysis. It decides alone only at odds of twenty to one, on mail that
came through no list, is not signed by its sender, has no unsubscribe link and leads to unrelated sites.
"""
KNOWS = """
## Features

The model uses words of visible text, subject and display name that at least two collections use and no single one
dominates; the length of numbers; the number of links, their shape, and whether they lead to the sender's own site;
types of files; the amount of hidden text; whether the message is a reply or has an unsubscribe link. It does not use
dates, hosts, addresses, mail programs, quotes, signatures, list tags and footers, or the findings of other checks.

These features have the largest weights. The list is a guard against leaks: the name of a collection here would be one.
"""
LIMITS = """
## Limits

- The probability is calibrated for a mailbox where half of the mail is unwanted, on collections that the model had not
  seen.
- Whether unwanted mail is spam, phishing or fraud was derived from cues in its text, not from labels: a phishing
  collection contains much plain spam. The kind determines the verdict, not whether mail is held.
- Wanted and unwanted advertising use the same words. Modern marketing mail is rare in the training mail and the most
  likely false alarm.
- Nearly all training mail is English. Messages in other languages are judged more by structure than by words.
- Short texts give little evidence: the probability of a short message stays near one half.
- Text in pictures is not read.

Figures by `gatepost model evaluate` are in [`accuracy.md`](accuracy.md)."""


def write_model_card(model: Model, without: Sequence[str], folders: Sequence[str]) -> str:
    """Return the card of a model."""
    return "\n".join(_write_lines(model, without, folders)) + "\n"


def _write_lines(model: Model, without: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    yield HEAD.format(words=len(model.words), pairs=len(model.pairs))
    yield from _write_sources(model, without, folders)
    yield KNOWS
    rows = list(find_heaviest(model, 30))
    yield "- for unwanted: " + ", ".join(f"`{name}`" for name, weight in rows if weight > 0)
    yield "- for wanted: " + ", ".join(f"`{name}`" for name, weight in rows if weight <= 0)
    yield LIMITS


def _write_sources(model: Model, without: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    sources: dict[str, dict[str, int]] = model.about.get("sources", {})
    yield "## Sources and licences\n\n| Corpus | Messages | Licence |\n|---|---|---|"
    for corpus, labels in sources.items():
        counts = ", ".join(f"{label} {count:,}" for label, count in labels.items())
        yield f"| {corpus} | {counts} | {LICENCES.get(corpus.partition('_')[0], UNKNOWN)} |"
    command = "gatepost model train " + " ".join(f"--corpus {folder}" for folder in folders)
    command += "".join(f" --without {name}" for name in without) + f" --seed {model.about.get('seed', 1)}"
    yield f"\n{CAVEAT}\n"
    yield f"Trained by `{command}`; the same seed and mail give the same model."
    if any(corpus.partition("_")[0] == NON_COMMERCIAL for corpus in sources):
        yield f"\n{PLAINLY}\n\n    {command} --without {NON_COMMERCIAL}_pot"
