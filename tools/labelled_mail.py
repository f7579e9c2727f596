"""Labelled mail: read it, train a text model from it, and measure what the whole analysis holds of it.

A corpus is a folder with an `INDEX.tsv` (path, corpus, label; optionally year and the envelope), or a folder whose
subfolders or mailboxes are named after labels: `ham`, `spam`, `phish`, `fraud`, `bounce`. In the second case the corpus
has the name of the folder.

In an evaluation every name is answered with "no such name", which is harder than real life: the DNS data of the day on
which old mail was sent is gone. A rate of 3 in 143 is not 2.1 %; it is somewhere between 0.7 % and 6 % (Wilson, 1927).
So every rate is given with that interval.
"""

import asyncio
import csv
import math
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.parser import HeaderParser
from email.utils import parseaddr
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from gatepost.analysis.report import Report
from gatepost.cli.printing import ProgressBar
from gatepost.cli.scanners import messages_in
from gatepost.cli.sealed_analysis import answer_nothing, open_analyser, open_extractor
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Answers, DnsAnswer, Questions
from gatepost.settings.keys import GuardSettings
from gatepost.textmodel.features import Features
from gatepost.textmodel.model import FEEDBACK_FOLDER as FEEDBACK
from gatepost.textmodel.model import Model
from gatepost.workers.jobs import Job
from tools.training import UNWANTED, Example, TrainingError, family_of, learn

LABELS = ("ham", "spam", "phish", "fraud", "bounce")
INDEX = "INDEX.tsv"
# Messages that are handed to the workers at a time.
BATCH = 64
MAX_HEADER = 64 << 10


class LabelledMail(msgspec.Struct, frozen=True):
    """One message with its label; `path` is relative to its corpus. `form` (the class of a notice) and `language` are
    as the index has them."""

    raw: bytes
    path: str
    corpus: str
    label: str
    year: str = ""
    envelope: Envelope = Envelope()
    form: str = ""
    language: str = ""


def read_labelled(folders: Iterable[Path]) -> Iterator[LabelledMail]:
    """Yield every message of these corpora; each is read when it is asked for."""
    for folder in folders:
        yield from _read_indexed(folder) if (folder / INDEX).is_file() else _read_sorted(folder)


def read_chosen(folders: Iterable[Path], without: Sequence[str]) -> Iterator[LabelledMail]:
    """Yield every message of these corpora, except for the corpora or collections that are left out."""
    for mail in read_labelled(folders):
        if mail.corpus not in without and family_of(mail.corpus) not in without:
            yield mail


def count_messages(folders: Iterable[Path]) -> int:
    """Return the approximate number of messages, for a progress bar."""
    return sum(_count_corpus(folder) for folder in folders)


def _count_corpus(folder: Path) -> int:
    if (folder / INDEX).is_file():
        with (folder / INDEX).open("rb") as index:
            return sum(1 for _ in index) - 1
    return sum(1 for place in _find_label_folders(folder) for path in place.rglob("*") if path.is_file())


def _read_indexed(folder: Path) -> Iterator[LabelledMail]:
    with (folder / INDEX).open(encoding="utf-8", newline="") as index:
        rows = csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not {"path", "label"} <= set(rows.fieldnames or ()) or not {"corpus", "product"} & set(
            rows.fieldnames or ()
        ):
            raise SystemExit(f"{folder / INDEX} needs the columns path, corpus and label.")
        for row in rows:
            # "ham_template" is a kind of ham, and what products for phishing simulations send is phishing.
            label = row["label"].partition("_")[0].replace("bad", "phish")
            if label not in LABELS:
                raise SystemExit(f"{folder / INDEX}: there is no label {row['label']!r}; use {', '.join(LABELS)}.")
            raw = (folder / row["path"]).read_bytes()
            envelope = _read_envelope(row, raw, label)
            named = {"year": row.get("year"), "form": row.get("class"), "language": row.get("language")}
            known = {name: value for name, value in named.items() if value}
            yield LabelledMail(raw, row["path"], name_corpus(row), label, envelope=envelope, **known)


def name_corpus(row: Mapping[str, str]) -> str:
    """Return the collection of a message by its row of the index. Notices of products are one of four, chosen so that
    each has good mail and lures."""
    if corpus := row.get("corpus"):
        return corpus
    return f"services-{'abcd'[(crc32(row['product'].encode()) >> 10) % 4]}_{row['product']}"


def _read_envelope(row: dict[str, str], raw: bytes, label: str) -> Envelope:
    """Return the envelope as the index has it. An archive that lost the sender does not make its mail bounces: then
    the sender is that of From."""
    sender = row.get("mail_from") or ""
    if not sender and label != "bounce":
        sender = _find_author(raw)
    return Envelope(
        sender, ("recipient@example.org",), row.get("client_ip") or row.get("client") or None, row.get("helo") or None
    )


def _find_author(raw: bytes) -> str:
    """The address in From. Only sealed workers read mail as Gatepost does; this is the reader of the standard library,
    which stands for what the archive has lost."""
    start = raw[:MAX_HEADER].decode("latin-1")
    return parseaddr(HeaderParser().parsestr(start, headersonly=True).get("from", ""))[1]


def _find_label_folders(folder: Path) -> list[Path]:
    """Return the folders and mailboxes of a corpus that are named after a label."""
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not a folder.")
    return sorted(place for place in folder.iterdir() if place.stem.lower() in LABELS)


def _read_sorted(folder: Path) -> Iterator[LabelledMail]:
    places = _find_label_folders(folder)
    if not places:
        raise SystemExit(f"{folder} has neither an {INDEX} nor folders or mailboxes named {', '.join(LABELS)}.")
    for place in places:
        for mail in messages_in([place]):
            name = mail.name.removeprefix(f"{folder}/")
            yield LabelledMail(mail.raw, name, folder.name, place.stem.lower())


Step = Callable[[str, int, int], None]

FEEDBACK_WEIGHT = 5.0


class Sample(msgspec.Struct, frozen=True):
    """A message without its bytes: its path and label, and the features that the model sees."""

    path: str
    corpus: str
    label: str
    year: str
    size: int
    seen: Features

    @property
    def example(self) -> Example:
        weight = FEEDBACK_WEIGHT if self.corpus == FEEDBACK else 1.0
        return Example(self.seen, self.label, self.corpus, weight)


@contextmanager
def show_steps() -> Iterator[Step]:
    """Show a progress bar for several steps, on a terminal."""
    with ProgressBar("reading") as progress:
        yield lambda what, done, total: progress.update(done, total, what)


def read_samples(folders: Sequence[Path], without: Sequence[str], step: Step) -> list[Sample]:
    """Return a sample for every message, except for the corpora that are left out. The mail is read in sealed workers:
    reports of users, which are used as well, are as hostile as any mail."""
    total, number, unread = count_messages(folders), 0, 0
    found: list[Sample] = []
    wanted = read_chosen(folders, without)
    with open_extractor() as extractor:
        while batch := list(islice(wanted, BATCH)):
            number += len(batch)
            step("reading", number, total)
            for mail, row in zip(batch, extractor.extract_rows([mail.raw for mail in batch]), strict=True):
                if row is None:
                    unread += 1
                else:
                    seen = msgspec.msgpack.decode(row.data, type=Features)
                    found.append(Sample(mail.path, mail.corpus, mail.label, mail.year, len(mail.raw), seen))
    if unread:
        print(f"{unread} messages could not be read and are left out.", file=sys.stderr)
    return found


def train_model(chosen: Sequence[Sample], seed: int, step: Step, gloss: Path | None = None) -> Model:
    """Train a model from these samples, with the words of a gloss; it records its sources."""
    try:
        model = learn([sample.example for sample in chosen], seed, step, gloss)
    except TrainingError as fault:
        raise SystemExit(f"No model can be trained from this mail: {fault}.") from None
    sizes: dict[str, dict[str, int]] = {}
    for sample in chosen:
        labels = sizes.setdefault(sample.corpus, {})
        labels[sample.label] = labels.get(sample.label, 0) + 1
    return msgspec.structs.replace(model, about={"seed": seed, "sources": dict(sorted(sizes.items()))})


NOW = 1_794_302_520.0
CONCLUSIVE = 100.0
MAX_SHOWN = 200
WORST = 20
FEW = 500
SIZES = ((2_000, "up to 2 kB"), (10_000, "up to 10 kB"), (50_000, "up to 50 kB"))
MISSED, HELD = "Unwanted mail with the fewest points", "Other mail with the most points"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
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


class Judged(msgspec.Struct, frozen=True):
    """One message as it was judged. `score` has the points of the ledger; `milliseconds` is how long its analysis took,
    from the question to the report. `subject` and `sender` are foreign text."""

    path: str
    corpus: str
    label: str
    year: str
    size: int
    verdict: str
    held: bool
    score: float
    kinds: tuple[str, ...] = ()
    subject: str = ""
    sender: str = ""
    milliseconds: float = 0.0
    form: str = ""
    language: str = ""

    @property
    def unwanted(self) -> bool:
        return self.label in UNWANTED


J = TypeVar("J", bound=Judged)


class Row(msgspec.Struct, frozen=True):
    """One line of a table: the share of a group that was held."""

    group: str
    label: str
    held: Rate


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds that an analysis took, in one sealed worker."""

    mean: float
    median: float
    p99: float


def judge_mail(mails: Iterable[LabelledMail], model: str = "") -> Iterator[Judged]:
    """Judge every message by the whole analysis, with the text model of a file, or else with the shipped one."""
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, GuardSettings(), shipped_policy(), _answer, model) as analyser,
    ):
        for mail in mails:
            begun = time.perf_counter()
            report = analyser.analyse(mail.raw, new_id(), mail.envelope, NOW)
            yield _describe(mail, report, (time.perf_counter() - begun) * 1000)


async def _answer(_job: Job[Any], questions: Questions) -> Answers:
    return tuple(answer_nothing(question, DnsAnswer("no-name")) for question in questions)


def _describe(mail: LabelledMail, report: Report, milliseconds: float) -> Judged:
    return Judged(
        path=mail.path,
        corpus=mail.corpus,
        label=mail.label,
        year=mail.year,
        size=len(mail.raw),
        verdict=report.verdict,
        held=report.decision != "deliver",
        score=score_report(report),
        kinds=tuple(line.kind for line in report.lines if line.counted or line.conclusive),
        subject=report.subject[:MAX_SHOWN],
        sender=", ".join(report.senders)[:MAX_SHOWN],
        milliseconds=milliseconds,
        form=mail.form,
        language=mail.language,
    )


def score_report(report: Report) -> float:
    """Return the points of a message; a conclusive finding that holds it outweighs any sum."""
    held = report.decision != "deliver"
    conclusive = held and any(line.conclusive and line.verdict == report.verdict for line in report.lines)
    return report.score / 100 + CONCLUSIVE * conclusive


def group_mail(found: Sequence[Judged]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables of an evaluation with their titles."""
    yield "Corpus", [*_count_all(found), *count_by_group(found, lambda each: each.corpus)]
    if classed := [each for each in found if each.form]:
        yield "Class", count_by_group(classed, lambda each: each.form)
    yield "Year", count_by_group(found, lambda each: each.year or "unknown")
    yield "Size", count_by_group(found, _size_of)


def count_by_group(found: Iterable[J], group: Callable[[J], str]) -> list[Row]:
    """Return the share that was held, by label and group."""
    counts: dict[tuple[str, str], list[int]] = {}
    for each in found:
        pair = counts.setdefault((each.label, group(each)), [0, 0])
        pair[0] += each.held
        pair[1] += 1
    return [Row(name, label, Rate(*pair)) for (label, name), pair in sorted(counts.items())]


def _count_all(found: Sequence[Judged]) -> list[Row]:
    """Return the share that was held of all wanted mail, of all bounces, and of all unwanted mail."""
    sides = (("ham", ("ham",)), ("bounce", ("bounce",)), ("unwanted", tuple(UNWANTED)))
    rows = []
    for name, labels in sides:
        mine = [each.held for each in found if each.label in labels]
        if mine:
            rows.append(Row("all", name, Rate(sum(mine), len(mine))))
    return rows


def _size_of(each: Judged) -> str:
    return next((name for limit, name in SIZES if each.size <= limit), "larger")


def measure_cost(found: Sequence[Judged]) -> Cost:
    """Return what a message cost."""
    spent = sorted(each.milliseconds for each in found)
    return Cost(sum(spent) / len(spent), spent[len(spent) // 2], spent[min(len(spent) - 1, len(spent) * 99 // 100)])


def find_worst(found: Sequence[J], unwanted: bool) -> list[J]:
    """Return the messages that were judged worst: unwanted mail with the least points, or other mail with the most."""
    mine = [each for each in found if each.unwanted == unwanted]
    return sorted(mine, key=lambda each: (each.score if unwanted else -each.score, each.path))[:WORST]


def render_evaluation(found: Sequence[Judged]) -> Iterator[str]:
    """Yield an evaluation as lines of Markdown."""
    for title, rows in group_mail(found):
        yield from render_table(title, rows)
        yield ""
    cost = measure_cost(found)
    yield f"Cost of a message, in ms: {cost.mean:.1f} (median {cost.median:.1f}, p99 {cost.p99:.1f})."
    for title, unwanted in ((MISSED, True), (HELD, False)):
        yield ""
        yield f"{title}:"
        for each in find_worst(found, unwanted):
            yield f"  {each.score:6.2f}  {show_foreign(each.path)}  {show_foreign(each.subject[:80])}"


def render_table(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table as lines of Markdown; a star marks groups for which a share says little."""
    yield f"| Label | {title} | Messages | Held | Share (95 %) |"
    yield "|---|---|---|---|---|"
    for row in rows:
        small, held = "" if row.held.total >= FEW else " *", row.held
        yield f"| {row.label} | {show_foreign(row.group)} | {held.total:,}{small} | {held.count:,} | {held} |"


def show_foreign(text: str) -> str:
    """Return foreign text without characters that are not seen and change how others are."""
    return "".join(f"\\u{ord(char):04x}" if unicodedata.category(char) in _UNSEEN else char for char in text)


def describe_evaluation(found: Sequence[Judged]) -> dict[str, Any]:
    """Return an evaluation for programs."""
    return {
        "messages": len(found),
        "tables": {title.lower(): [describe_row(row) for row in rows] for title, rows in group_mail(found)},
        "milliseconds": measure_cost(found),
        "worst": {
            "missed": [_describe_message(each) for each in find_worst(found, unwanted=True)],
            "held": [_describe_message(each) for each in find_worst(found, unwanted=False)],
        },
    }


def describe_row(row: Row) -> dict[str, Any]:
    """Return a row of a table for programs."""
    low, high = row.held.bounds
    held = {"held": row.held.count, "of": row.held.total, "low": round(low, 6), "high": round(high, 6)}
    return {"group": row.group, "label": row.label, **held}


def _describe_message(each: Judged) -> dict[str, Any]:
    shown = {name: getattr(each, name) for name in ("path", "corpus", "label", "verdict", "held", "subject", "sender")}
    return {**shown, "score": round(each.score, 2), "findings": each.kinds}
