"""Feature rows: what is kept of a message so that a report on it can teach, in some 200 bytes and without its text.

A row is a set of numbers of 16 bits: hashes of words of text, subject and display name, of the marks of the message's
build, and of the organisations that its links lead to. The number of a word does not tell the word, and two words may
share one. Rows are bounded in length: of a long text the first words count, since those are what its reader sees first.
A row is made of the bytes of a message alone, so the row of a reported file is that of the message when it arrived.
"""

from collections.abc import Iterable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gatepost.mail.message import Message
from gatepost.sender_history import list_organisations
from gatepost.speedups import native
from gatepost.textmodel.features import Features

Row = NDArray[np.uint16]

SPACE = 1 << 16
MAX_WORDS = 180
MAX_REST = 40
MAX_MARKS = 40
MAX_SITES = 10
# Two bytes a feature; what is longer was not made here.
MAX_ROW = 2 * (MAX_WORDS + MAX_REST + MAX_MARKS + MAX_SITES)
_SITE = "h:"


def make_row(message: Message, seen: Features) -> bytes:
    """Return the row of a message, packed."""
    sites = list_organisations(message.links)[:MAX_SITES]
    if native and (row := native.feature_row(seen.text, MAX_WORDS, _list_others(seen, sites))) is not None:
        packed: bytes = row
        return packed
    return pack_row(list_features(seen, sites))


def list_features(seen: Features, sites: Iterable[str] = ()) -> list[str]:
    """Return the features of a message by their names, each once. `feature_row` in `_speedups.c` packs the same."""
    words = dict.fromkeys(_shorten(word) for word in seen.text)
    return [*list(words)[:MAX_WORDS], *_list_others(seen, sites)]


def _list_others(seen: Features, sites: Iterable[str]) -> list[str]:
    """Return the features that are no words of the text."""
    rest = dict.fromkeys(seen.rest)
    return [*list(rest)[:MAX_REST], *seen.marks[:MAX_MARKS], *(_SITE + site for site in list(sites)[:MAX_SITES])]


def pack_row(names: Iterable[str]) -> bytes:
    """Return the hashes of names, each once and in order, as little-endian numbers of two bytes."""
    numbers = {crc32(name.encode("utf-8", "surrogatepass")) & (SPACE - 1) for name in names}
    return np.array(sorted(numbers), "<u2").tobytes()


def read_row(packed: bytes) -> Row:
    """Return a row from its bytes; of what is too long the start."""
    return np.frombuffer(packed[: min(len(packed), MAX_ROW) // 2 * 2], "<u2")


def _shorten(word: str) -> str:
    """Return the word, and of a number its length: the number itself is another in each message."""
    return "0" * min(len(word), 9) if word.isdigit() else word
