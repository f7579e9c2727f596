"""Mail with labels, for training and for measuring.

A corpus is a folder with an `INDEX.tsv` (path, corpus, label; optionally year and the envelope), or a folder whose
subfolders or mailboxes are named after labels: `ham`, `spam`, `phish`, `fraud`, `bounce`. Then its name is the
folder's.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gatepost.cli.mailbox import messages_in
from gatepost.mail.message import Envelope
from gatepost.service.datafolder import StartError

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
