"""What an evaluation found: as text, as JSON, as one page of HTML, and as files.

The page needs nothing but itself: no script, no picture and no style from elsewhere. Subjects, senders and paths come
from strangers: they are escaped, characters that would change the direction of what follows are shown as such, and each
stands in an element of its own direction (`bdi`).
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tools.diagrams import compute_reliability, draw_reliability, draw_roc
from tools.evaluation import Measured, catch_at_fixed_alarms, trace_corpus_curves, trace_curve
from tools.labelled_mail import (
    FEW,
    HELD,
    MISSED,
    Row,
    count_by_group,
    describe_evaluation,
    describe_row,
    find_worst,
    group_mail,
    measure_cost,
    render_evaluation,
    render_table,
    show_foreign,
)

MAX_POINTS = 200


def render_measured(found: Sequence[Measured]) -> Iterator[str]:
    """Yield the whole evaluation as lines of Markdown."""
    yield from render_evaluation(found)
    yield ""
    yield from render_table("Language", _count_languages(found))
    yield ""
    yield "| Ham held, threshold chosen after the fact | Unwanted held |"
    yield "|---|---|"
    for alarms, rate in catch_at_fixed_alarms(found):
        yield f"| {alarms:.1%} | {rate} |"


def _count_languages(found: Sequence[Measured]) -> list[Row]:
    return count_by_group(found, lambda each: each.language)


def describe_measured(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the whole evaluation for programs."""
    points = trace_curve(found)
    step = max(1, len(points) // MAX_POINTS)
    described = describe_evaluation(found)
    described["tables"]["language"] = [describe_row(row) for row in _count_languages(found)]
    return {
        **described,
        "atFixedAlarms": [
            {"hamHeld": alarms, "held": rate.count, "of": rate.total} for alarms, rate in catch_at_fixed_alarms(found)
        ],
        "roc": [{"hamHeld": round(p.wanted, 6), "unwantedHeld": round(p.unwanted, 6)} for p in points[::step]],
    }


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1.2rem; }
th, td { text-align: left; padding: .28rem .6rem; border-bottom: 1px solid #d9dee6; vertical-align: top; }
th { background: #f2f5f9; font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; } .pictures svg { width: 26rem; max-width: 100%; }
.path, .findings { font: 12px/1.4 ui-monospace, monospace; color: #56606e; overflow-wrap: anywhere; }
.subject { overflow-wrap: anywhere; } .note { color: #56606e; }
"""


def write_page(found: Sequence[Measured], title: str) -> str:
    """Return the whole evaluation as one page that needs nothing else."""
    return "\n".join(_write_page(found, title)) + "\n"


def _write_page(found: Sequence[Measured], title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(show_foreign(title))}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    cost = measure_cost(found)
    yield f"<h1>{_isolate(title)}</h1>"
    yield (
        f"<p>{len(found):,} messages; a message took {cost.mean:.1f} ms in one sealed worker "
        f"(median {cost.median:.1f}, p99 {cost.p99:.1f}).</p>"
    )
    yield (
        '<p class="note">Held is every decision except deliver. Bounds are Wilson intervals at 95 %. '
        f"A star marks groups of fewer than {FEW} messages, for which a share says little.</p>"
    )
    yield "<h2>At a threshold that is chosen after the fact</h2>"
    rows = ([f"{alarms:.1%}", str(rate)] for alarms, rate in catch_at_fixed_alarms(found))
    yield from _write_table(("Ham held", "Unwanted held"), rows)
    yield '<div class="pictures">'
    yield draw_roc([("all", trace_curve(found)), *trace_corpus_curves(found)])
    yield draw_reliability(compute_reliability((each.probability, each.unwanted) for each in found))
    yield "</div>"
    for name, table in (*group_mail(found), ("Language", _count_languages(found))):
        yield f"<h2>By {name.lower()}</h2>"
        yield from _write_table(
            ("Label", name, "Messages", "Held", "Share (95 %)"), map(_write_row, table), numbers=(2, 3)
        )
    for heading, unwanted in ((MISSED, True), (HELD, False)):
        yield f"<h2>{heading}</h2>"
        worst = map(_write_message, find_worst(found, unwanted))
        yield from _write_table(("Score", "Verdict", "Message", "Findings"), worst, numbers=(0,))
    yield "</body>\n</html>"


def _write_row(row: Row) -> list[str]:
    star = "" if row.held.total >= FEW else " *"
    total, count = f"{row.held.total:,}{star}", f"{row.held.count:,}"
    return [escape(row.label), _isolate(row.group), total, count, escape(str(row.held))]


def _write_message(each: Measured) -> list[str]:
    message = (
        f'<div class="subject">{_isolate(each.subject or "(no subject)")}</div><div>{_isolate(each.sender)}</div>'
        f'<div class="path">{_isolate(each.path)}</div>'
    )
    findings = f'<div class="findings">{escape(" ".join(each.kinds))}</div>'
    return [f"{each.score:.2f}", escape(f"{each.verdict} ({each.label})"), message, findings]


def _isolate(text: str) -> str:
    """Return foreign text for the page: escaped, and in a direction of its own."""
    return f"<bdi>{escape(show_foreign(text))}</bdi>"


def _write_table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Iterator[str]:
    """Yield a table; the cells are HTML."""
    marks = [' class="number"' if place in numbers else "" for place in range(len(head))]
    yield "<table><thead><tr>" + "".join(f"<th{m}>{c}</th>" for m, c in zip(marks, head, strict=True)) + "</tr></thead>"
    for row in rows:
        yield "<tr>" + "".join(f"<td{m}>{c}</td>" for m, c in zip(marks, row, strict=True)) + "</tr>"
    yield "</table>"


def write_files(found: Sequence[Measured], folder: Path) -> list[Path]:
    """Write diagrams and the list of wrongly judged messages to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "roc.svg": draw_roc([("all", trace_curve(found)), *trace_corpus_curves(found)]),
        "reliability.svg": draw_reliability(compute_reliability((each.probability, each.unwanted) for each in found)),
        "wrong.tsv": "\n".join(_list_wrong(found)) + "\n",
    }
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    return [folder / name for name in files]


def _list_wrong(found: Sequence[Measured]) -> Iterator[str]:
    yield "path\tcorpus\tlabel\tverdict\tscore\tprobability\tfindings"
    for each in found:
        if each.held != each.unwanted:
            facts = (each.path, each.corpus, each.label, each.verdict, f"{each.score:g}", f"{each.probability:.3f}")
            yield "\t".join((*facts, " ".join(each.kinds)))
