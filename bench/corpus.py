"""Real mail to measure with, from the data folder beside the checkout."""

import csv
import fcntl
import hashlib
import os
import random
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import zstandard

DATA = Path(__file__).parents[2] / "shared" / "data"


class NotPresentError(Exception):
    """The data folder is not there; the benchmark cannot be run."""


@dataclass(frozen=True)
class Mail:
    """One message with what its headers tell of the envelope."""

    raw: bytes
    corpus: str
    label: str
    path: str
    envelope: dict[str, object]


def unpacked(name: str) -> Path:
    """The unpacked tree of one archive, kept outside the checkout for later runs."""
    archive = DATA / f"{name}.tar.zst"
    if not archive.exists():
        raise NotPresentError(f"{name} is not present in ../shared/data")
    stamp = f"{archive.name}:{archive.stat().st_size}:{archive.stat().st_mtime_ns}:{os.getuid()}"
    place = Path(tempfile.gettempdir()) / f"gatepost-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"
    with _alone(place):
        if not place.exists():
            _unpack(archive, place)
    (inside,) = [entry for entry in place.iterdir() if entry.is_dir()]
    return inside


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While one process unpacks, others wait for what it makes."""
    with place.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unpack(archive: Path, place: Path) -> None:
    """The tree gets its name when it is whole, so that an interrupted run leaves no half of one."""
    fresh = Path(tempfile.mkdtemp(dir=place.parent))
    with (
        archive.open("rb") as packed,
        zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tree,
    ):
        extract(tree, fresh)
    fresh.rename(place)


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive that others may have made. Python has filters since 3.11.4, and Debian 12 has 3.11.2."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def mail(count: int, seed: int = 7, max_bytes: int = 2_000_000, archive: str = "mail-dev") -> list[Mail]:
    """A random sample over all corpora of an archive, the same for the same seed."""
    root = unpacked(archive)
    with (root / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = [
            row
            for row in csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
            if int(row["bytes"]) <= max_bytes
        ]
    random.Random(seed).shuffle(rows)
    return [_mail(root, row) for row in rows[:count]]


def _mail(root: Path, row: dict[str, str]) -> Mail:
    envelope: dict[str, object] = {"envelopeFrom": row["mail_from"] or "", "envelopeRecipients": ["r@example.org"]}
    if row["client_ip"]:
        envelope["remoteAddress"] = row["client_ip"]
    if row["helo"]:
        envelope["senderHelo"] = row["helo"]
    return Mail((root / row["path"]).read_bytes(), row["corpus"], row["label"], row["path"], envelope)
