"""Read labelled mail, and train a text model from it.

A corpus is a folder with an `INDEX.tsv` (path, corpus, label; optionally year and the envelope), or a folder whose
subfolders or mailboxes are named after labels: `ham`, `spam`, `phish`, `fraud`, `bounce`. In the second case the corpus
has the name of the folder.
"""

import csv
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from email.parser import HeaderParser
from email.utils import parseaddr
from itertools import islice
from pathlib import Path

import msgspec
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gatepost.cli.printing import console
from gatepost.cli.scanners import messages_in
from gatepost.cli.sealed_analysis import open_extractor
from gatepost.mail.message import Envelope
from gatepost.service.data_folder import StartError
from gatepost.textmodel.features import Features
from gatepost.textmodel.model import FEEDBACK_FOLDER as FEEDBACK
from gatepost.textmodel.model import Model
from gatepost.textmodel.training import Example, TrainingError, family_of, learn

LABELS = ("ham", "spam", "phish", "fraud", "bounce")
INDEX = "INDEX.tsv"
# Messages that are handed to the workers at a time.
BATCH = 64
MAX_HEADER = 64 << 10


class LabelledMail(msgspec.Struct, frozen=True):
    """One message with its label; `path` is relative to its corpus."""

    raw: bytes
    path: str
    corpus: str
    label: str
    year: str = ""
    envelope: Envelope = Envelope()


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
        if not {"path", "corpus", "label"} <= set(rows.fieldnames or ()):
            raise StartError(f"{folder / INDEX} needs the columns path, corpus and label.")
        for row in rows:
            # "ham_template" is a kind of ham.
            label = row["label"].partition("_")[0]
            if label not in LABELS:
                raise StartError(f"{folder / INDEX}: there is no label {row['label']!r}; use {', '.join(LABELS)}.")
            raw = (folder / row["path"]).read_bytes()
            envelope = _read_envelope(row, raw, label)
            yield LabelledMail(raw, row["path"], row["corpus"], label, row.get("year") or "", envelope)


def _read_envelope(row: dict[str, str], raw: bytes, label: str) -> Envelope:
    """Return the envelope as the index has it. An archive that lost the sender does not make its mail bounces: then
    the sender is that of From."""
    sender = row.get("mail_from") or ""
    if not sender and label != "bounce":
        sender = _find_author(raw)
    return Envelope(sender, ("recipient@example.org",), row.get("client_ip") or None, row.get("helo") or None)


def _find_author(raw: bytes) -> str:
    """The address in From. Only sealed workers read mail as Gatepost does; this is the reader of the standard library,
    which stands for what the archive has lost."""
    start = raw[:MAX_HEADER].decode("latin-1")
    return parseaddr(HeaderParser().parsestr(start, headersonly=True).get("from", ""))[1]


def _find_label_folders(folder: Path) -> list[Path]:
    """Return the folders and mailboxes of a corpus that are named after a label."""
    if not folder.is_dir():
        raise StartError(f"{folder} is not a folder.")
    return sorted(place for place in folder.iterdir() if place.stem.lower() in LABELS)


def _read_sorted(folder: Path) -> Iterator[LabelledMail]:
    places = _find_label_folders(folder)
    if not places:
        raise StartError(f"{folder} has neither an {INDEX} nor folders or mailboxes named {', '.join(LABELS)}.")
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
    out = console()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeRemainingColumn()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task("reading")
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


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
            for mail, seen in zip(batch, extractor.extract_features([mail.raw for mail in batch]), strict=True):
                if seen is None:
                    unread += 1
                else:
                    found.append(Sample(mail.path, mail.corpus, mail.label, mail.year, len(mail.raw), seen))
    if unread:
        print(f"{unread} messages could not be read and are left out.", file=sys.stderr)
    return found


def train_model(chosen: Sequence[Sample], seed: int, step: Step) -> Model:
    """Train a model from these samples; it records its sources."""
    try:
        model = learn([sample.example for sample in chosen], seed, step)
    except TrainingError as fault:
        raise StartError(f"No model can be trained from this mail: {fault}.") from None
    except ModuleNotFoundError as fault:
        install = f"{shlex.quote(sys.executable)} -m pip install 'scikit-learn>=1.7'"
        raise StartError(f"Training needs {fault.name}, which is not installed. Install it with: {install}") from None
    sizes: dict[str, dict[str, int]] = {}
    for sample in chosen:
        labels = sizes.setdefault(sample.corpus, {})
        labels[sample.label] = labels.get(sample.label, 0) + 1
    return msgspec.structs.replace(model, about={"seed": seed, "sources": dict(sorted(sizes.items()))})
