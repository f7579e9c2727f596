"""An evaluation on paper: tables for the terminal and for docs, pictures and the messages that went wrong as files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gatepost.cli.evaluation import Judged, Row, at_fixed_alarms, pooled, size_of, tabled
from gatepost.textmodel.figures import Point, curve, reliability
from gatepost.textmodel.pictures import diagram, roc

FEW = 500


def lines(found: Sequence[Judged]) -> Iterator[str]:
    """The whole evaluation as Markdown."""
    yield from _table("Corpus", [*pooled(found), *tabled(found, lambda each: each.corpus)])
    yield ""
    yield "| Ham held, threshold chosen after the fact | Unwanted held |"
    yield "|---|---|"
    for alarms, rate in at_fixed_alarms(found):
        yield f"| {alarms:.1%} | {rate} |"
    yield ""
    yield from _table("Year", tabled(found, lambda each: each.year or "unknown"))
    yield ""
    yield from _table("Language", tabled(found, lambda each: each.language))
    yield ""
    yield from _table("Size", tabled(found, size_of))


def _table(title: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"| Label | {title} | Messages | Held | Share (95 %) |"
    yield "|---|---|---|---|---|"
    for row in rows:
        small = "" if row.held.total >= FEW else " *"
        yield f"| {row.label} | {row.group} | {row.held.total:,}{small} | {row.held.count:,} | {row.held} |"


def write(found: Sequence[Judged], folder: Path) -> list[Path]:
    """Pictures, and every message that was judged wrongly, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "roc.svg": roc([("all", _curve(found)), *_curves(found)]),
        "reliability.svg": diagram(reliability((each.probability, each.unwanted) for each in found)),
        "wrong.tsv": "\n".join(_wrong(found)) + "\n",
    }
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    return [folder / name for name in files]


def _curve(found: Sequence[Judged]) -> Sequence[Point]:
    return curve([each.score for each in found if not each.unwanted], [each.score for each in found if each.unwanted])


def _curves(found: Sequence[Judged]) -> Iterator[tuple[str, Sequence[Point]]]:
    """One for each corpus that has enough of both sides."""
    for corpus in sorted({each.corpus for each in found}):
        mine = [each for each in found if each.corpus == corpus]
        unwanted = sum(each.unwanted for each in mine)
        if min(unwanted, len(mine) - unwanted) >= 100:
            yield corpus, _curve(mine)


def _wrong(found: Sequence[Judged]) -> Iterator[str]:
    yield "path\tcorpus\tlabel\tverdict\tscore\tprobability\tfindings"
    for each in found:
        if each.held != each.unwanted:
            facts = (each.path, each.corpus, each.label, each.verdict, f"{each.score:g}", f"{each.probability:.3f}")
            yield "\t".join((*facts, " ".join(each.kinds)))
