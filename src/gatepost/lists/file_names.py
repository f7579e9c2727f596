"""The kind of list entries that are patterns over names of files: `invoice*.iso`, `*.pdf.exe`, `setup.msi`.

A `*` stands for any characters, none included. A pattern covers the whole name of a file, without its folders, in the
form in which Windows would save it (`names.normal_file_name`). Case and look-alike letters do not matter: both sides
are folded character by character when they are compared. The name before a colon counts too, since Windows takes what
follows for a stream inside the file (`setup.msi:x.txt`).

A message can have thousands of names, and a list a hundred thousand patterns. So patterns are kept by a piece of text
that every name they cover contains, and a name is compared with those whose piece it has. That bounds the work for
usual patterns only: whoever writes names and patterns that all have the same pieces could make it long. Therefore all
names of a message have one budget, `MAX_WORK`, and a message that goes beyond it is not called clean.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gatepost.lists.entries import (
    EntryFinder,
    EntryKind,
    FindingLimit,
    ListRefusal,
    NormalForm,
    UnkeyedEntry,
    show_as_key,
)
from gatepost.names import FILE_NAME_ENDS, MAX_FILE_NAME, drop_ends, fold_lookalikes, normal_file_name, plain_file_name

# No file system of a mail reader takes a longer name.
MAX_PATTERN = 255
MAX_WILDCARDS = 8
# So many characters in a row make a pattern narrow enough, and are what it is found by.
LEAST = 3
# About 0.4 s on one core.
MAX_WORK = 4_000_000
# The lengths of the pieces that patterns are kept by are these and `LEAST`.
_LONG, _MIDDLE = 8, 5
# What a comparison takes beside its looks at characters, and what folding one takes that is not ASCII.
_COMPARISON, _FOLDING = 20, 16
# So many patterns tell which pieces are frequent.
_SAMPLE = 5_000
_WILDCARDS = re.compile(r"\*+")
_ENDS = FILE_NAME_ENDS.replace("*", "").replace("?", "")


def normalise_file_name(text: str) -> NormalForm | ListRefusal:
    """Normalise a pattern: lower case, without what Windows drops at the end of a name, each run of `*` as one."""
    pattern = drop_ends(plain_file_name(text), _ENDS)
    if "/" in pattern or "\\" in pattern:
        return ListRefusal("is a path: a pattern is compared with the name of a file alone, without its folders")
    if "?" in pattern:
        return ListRefusal("has a ?: only * stands for other characters, and no name of a file has a ?")
    pattern = _WILDCARDS.sub("*", pattern)
    if len(pattern) > MAX_PATTERN:
        return ListRefusal(f"is longer than {MAX_PATTERN} characters, as no name of a file is")
    if pattern.count("*") > MAX_WILDCARDS:
        return ListRefusal(f"has more than {MAX_WILDCARDS} *")
    if not any(_is_narrow(piece) for piece in fold_lookalikes(pattern).split("*")):
        return ListRefusal(f"is too wide: it needs {LEAST} characters in a row that are no *, one a letter or digit")
    return show_as_key(pattern)


def _is_narrow(piece: str) -> bool:
    return len(piece) >= LEAST and any(map(str.isalnum, piece))


def is_covered(name: str, pattern: str) -> bool:
    """Return whether a pattern covers a name, both folded. Each piece is looked for once, behind the one before: where
    it is found first leaves the most room for the others."""
    first, *between = pattern.split("*")
    if not between:
        return name == pattern
    last = between.pop()
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return False
    place = len(first)
    for piece in between:
        place = name.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True


class FileNameFinder(EntryFinder):
    """Finds the patterns that cover names of files. They are compiled when the first name is compared: most messages
    have no file."""

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._entries = tuple(entries)
        self._index: _Index = {}
        self._most = 0

    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, UnkeyedEntry]]:
        """Yield the entries that cover each name, with the place of the name."""
        if not self._index and self._entries and texts:
            self._index = _make_index(self._entries)
        self._most = self.work + MAX_WORK
        found: dict[str, tuple[UnkeyedEntry, ...]] = {}
        for place, text in enumerate(texts):
            self._spend(min(len(text), MAX_FILE_NAME) * (1 if text.isascii() else _FOLDING))
            folded = fold_lookalikes(normal_file_name(text))
            covering: dict[UnkeyedEntry, None] = {}
            for name in dict.fromkeys((folded, folded.partition(":")[0].rstrip(FILE_NAME_ENDS))):
                if name not in found:
                    found[name] = tuple(self._entries[number] for number in sorted(self._find_covering(name)))
                covering.update(dict.fromkeys(found[name]))
            yield from ((place, entry) for entry in covering)

    def _find_covering(self, name: str) -> Iterator[int]:
        """Yield the numbers of the entries that cover one name, which is folded."""
        for size, by_piece in self._index.items():
            self._spend(len(name))
            pieces = {name[start : start + size] for start in range(len(name) - size + 1)}
            for piece in pieces & by_piece.keys():
                for pattern, number in by_piece[piece]:
                    self._spend(_COMPARISON)
                    if name.startswith(pattern.partition("*")[0]):
                        self._spend(len(name))
                        if is_covered(name, pattern):
                            yield number

    def _spend(self, looks: int) -> None:
        self.work += looks
        if self.work > self._most:
            raise FindingLimit("its patterns and the names of the files are too many to compare")


# Patterns with their numbers, by the length of the piece that they are kept by, and by that piece.
_Index = dict[int, dict[str, list[tuple[str, int]]]]


def _make_index(entries: Sequence[UnkeyedEntry]) -> _Index:
    """Return the index of all patterns. Each is kept by that one of its pieces that the fewest of a sample have."""
    patterns = fold_lookalikes("\n".join(entry.shown for entry in entries)).split("\n")
    sample = patterns[:: 1 + len(patterns) // _SAMPLE]
    frequency = Counter(piece for pattern in sample for piece in _list_pieces(pattern))
    index: _Index = {}
    for number, pattern in enumerate(patterns):
        chosen, least = "", math.inf
        for piece in _list_pieces(pattern):
            count = frequency[piece]
            if count < least or (count == least and len(piece) > len(chosen)):
                chosen, least = piece, count
        index.setdefault(len(chosen), {}).setdefault(chosen, []).append((pattern, number))
    return index


def _list_pieces(pattern: str) -> list[str]:
    """Return some pieces of each run of characters in a pattern: its beginning, its end, and the middle of a long one.
    The longer a piece, the fewer names have it by chance."""
    pieces = []
    for run in pattern.split("*"):
        length = len(run)
        if length < LEAST:
            continue
        size = _LONG if length >= _LONG else _MIDDLE if length >= _MIDDLE else LEAST
        pieces.append(run[:size])
        if length > size:
            pieces.append(run[-size:])
        if length > 2 * size:
            pieces.append(run[(length - size) // 2 : (length + size) // 2])
    return pieces


FILE_NAME = EntryKind(
    "file-name",
    "the name of a file, in which * stands for any characters",
    "invoice*.csv",
    normalise_file_name,
    make_finder=FileNameFinder,
    is_free_text=True,
)
