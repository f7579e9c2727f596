"""A cell of the matrix, and two whose growth is known: what is measured must tell them apart."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`make` gives what `run` is called with, of about so many bytes."""

    name: str
    run: Callable[[Any], object]
    make: Callable[[int], Any]


def repeat(unit: bytes, size: int) -> bytes:
    return unit * max(1, size // len(unit))


def take_labels_off(name: bytes) -> bytes:
    """A linear number of calls, each of which copies what is left: no count of calls shows that this is quadratic."""
    last = name
    while name:
        last, name = name, name.partition(b".")[2]
    return last


def split_labels(name: bytes) -> bytes:
    return name.split(b".")[-1]


QUADRATIC, LINEAR, LONG = (
    Cell("labels are taken off", take_labels_off, partial(repeat, b"a.")),
    Cell("labels are split", split_labels, partial(repeat, b"a.")),
    # Enough for instructions, which are the same each time and dear to count.
    Cell("long labels are taken off", take_labels_off, partial(repeat, b"a" * 63 + b".")),
)
KNOWN = {cell.name: cell for cell in (QUADRATIC, LINEAR, LONG)}
