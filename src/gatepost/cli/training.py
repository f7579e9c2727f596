"""Mail with labels, for training and for measuring.

A corpus is a folder with an `INDEX.tsv` (path, corpus, label; optionally year and the envelope), or a folder whose
subfolders or mailboxes are named after labels: `ham`, `spam`, `phish`, `fraud`, `bounce`. Then its name is the
folder's.

From labelled mail to a model: read, take the features, leave out what is to be left out, learn.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gatepost.cli.printing import console
from gatepost.cli.scan_files import messages_in
from gatepost.files.walk import find_files
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.service.data_folder import StartError
from gatepost.textmodel.deployed import FEEDBACK_FOLDER as FEEDBACK
from gatepost.textmodel.features import Features, extract_features
from gatepost.textmodel.model import Model
from gatepost.textmodel.training import Example, TrainingError, family_of, learn

LABELS = ("ham", "spam", "phish", "fraud", "bounce")
INDEX = "INDEX.tsv"


class Labelled(msgspec.Struct, frozen=True):
    """One message and what is known of it. `path` is relative to its corpus."""

    raw: bytes
    path: str
    corpus: str
    label: str
    year: str = ""
    envelope: Envelope = Envelope()


def labelled(folders: Iterable[Path]) -> Iterator[Labelled]:
    """Every message of these corpora, read as they are asked for."""
    for folder in folders:
        yield from _indexed(folder) if (folder / INDEX).is_file() else _sorted(folder)


def count(folders: Iterable[Path]) -> int:
    """About how many messages there are, for a progress bar."""
    return sum(_count(folder) for folder in folders)


def _count(folder: Path) -> int:
    if (folder / INDEX).is_file():
        with (folder / INDEX).open("rb") as index:
            return sum(1 for _ in index) - 1
    return sum(1 for place in _places(folder) for path in place.rglob("*") if path.is_file())


def _indexed(folder: Path) -> Iterator[Labelled]:
    with (folder / INDEX).open(encoding="utf-8", newline="") as index:
        rows = csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not {"path", "corpus", "label"} <= set(rows.fieldnames or ()):
            raise StartError(f"{folder / INDEX} needs the columns path, corpus and label.")
        for row in rows:
            if row["label"] not in LABELS:
                raise StartError(f"{folder / INDEX}: there is no label {row['label']!r}; use {', '.join(LABELS)}.")
            raw = (folder / row["path"]).read_bytes()
            yield Labelled(raw, row["path"], row["corpus"], row["label"], row.get("year") or "", _envelope(row))


def _envelope(row: dict[str, str]) -> Envelope:
    recipients = ("recipient@example.org",)
    return Envelope(row.get("mail_from") or "", recipients, row.get("client_ip") or None, row.get("helo") or None)


def _places(folder: Path) -> list[Path]:
    """What stands directly in a corpus and is named after a label."""
    if not folder.is_dir():
        raise StartError(f"{folder} is not a folder.")
    return sorted(place for place in folder.iterdir() if place.stem.lower() in LABELS)


def _sorted(folder: Path) -> Iterator[Labelled]:
    places = _places(folder)
    if not places:
        raise StartError(f"{folder} has neither an {INDEX} nor anything named {', '.join(LABELS)}.")
    for place in places:
        for mail in messages_in([place]):
            name = mail.name.removeprefix(f"{folder}/")
            yield Labelled(mail.raw, name, folder.name, place.stem.lower())


Step = Callable[[str, int, int], None]

FEEDBACK_WEIGHT = 5.0


class Sample(msgspec.Struct, frozen=True):
    """A message without its bytes: what it was called and what the model sees of it."""

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
def steps() -> Iterator[Step]:
    """A progress bar for several steps, on a terminal."""
    out = console()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeRemainingColumn()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task("reading")
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def samples(folders: Sequence[Path], without: Sequence[str], step: Step) -> list[Sample]:
    """What the model sees of every message, but for the corpora that are left out."""
    total = count(folders)
    found = []
    for number, mail in enumerate(labelled(folders)):
        step("reading", number, total)
        if not is_left_out(mail.corpus, without):
            found.append(_sample(mail))
    return found


def is_left_out(corpus: str, without: Sequence[str]) -> bool:
    """Whether a corpus is named, or belongs to a collection that is."""
    return corpus in without or family_of(corpus) in without


def _sample(mail: Labelled) -> Sample:
    message = read(mail.raw)
    return Sample(
        mail.path, mail.corpus, mail.label, mail.year, len(mail.raw), extract_features(message, find_files(message))
    )


def learnt(chosen: Sequence[Sample], seed: int, step: Step) -> Model:
    """A model from these samples, with what it was made of written into it."""
    try:
        model = learn([sample.example for sample in chosen], seed, step)
    except TrainingError as fault:
        raise StartError(f"Nothing can be learnt from this mail: {fault}.") from None
    except ModuleNotFoundError as fault:
        raise StartError(f"Training needs {fault.name}: pip install 'gatepost[train]'.") from None
    sizes: dict[str, dict[str, int]] = {}
    for sample in chosen:
        labels = sizes.setdefault(sample.corpus, {})
        labels[sample.label] = labels.get(sample.label, 0) + 1
    return msgspec.structs.replace(model, about={"seed": seed, "sources": dict(sorted(sizes.items()))})
