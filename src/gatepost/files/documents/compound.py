"""Compound files (MS-CFB): a small file system in one file, under every .doc, .xls, .ppt, .msg and .msi.

Sectors are chained by a table (FAT), small streams live in a stream of their own with a table of its own, and a
directory of red-black trees names them. All of these may be cyclic, may point anywhere and may lie about sizes, so
every chain is followed at most once around, entries that no tree leads to are listed too, and nothing raises.
"""

from array import array
from collections.abc import Iterator
from struct import Struct
from sys import byteorder
from typing import Any

import msgspec

SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
MAX_ENTRIES = 20_000
STREAM, STORAGE, ROOT = 2, 1, 5
_FREE = 0xFFFFFFFF
_NONE = 0xFFFFFFFA  # from here up, numbers are marks and no sectors
_HEADER = Struct("<30xHH10xIIIIIIII")
_ENTRY = Struct("<64sHBBIII16s4x8x8xIQ")


class CompoundEntry(msgspec.Struct, frozen=True, gc=False):
    """A stream or storage: `path` with its parents', upper case as names are compared; `clsid` in file order."""

    path: str
    kind: int
    clsid: bytes
    start: int
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class CompoundFile:
    """An opened compound file. `is_whole` is false where a table led nowhere or in a circle."""

    def __init__(self, content: bytes) -> None:
        self.is_whole = True
        self._content = content
        self._fat = array("I")
        self._mini_fat = array("I")
        self._mini: bytes | None = None
        self.entries: tuple[CompoundEntry, ...] = ()
        if len(content) < 512:
            self.is_whole = False
            return
        shift, _, tables, directory, _, self._cutoff, mini, _, difat, _ = _HEADER.unpack_from(content)
        # Only 512 and 4096 exist; programs take nothing else.
        self._shift = 12 if shift == 12 else 9
        sectors = self._find_fat_sectors(difat, tables)
        self._last_table = max(sectors, default=-1)
        self._fat = self._read_table(sectors)
        self._mini_fat = self._read_table(list(self._follow_chain(mini)))
        self.entries = tuple(self._read_directory(directory))

    @property
    def root(self) -> CompoundEntry | None:
        return self.entries[0] if self.entries else None

    @property
    def end(self) -> int:
        """Where the last sector ends that is in use; 0 where no table says so."""
        last = next((number for number in range(len(self._fat) - 1, -1, -1) if self._fat[number] != _FREE), -1)
        return (max(last, self._last_table) + 2) << self._shift if last >= 0 else 0

    def read(self, entry: CompoundEntry, limit: int) -> bytes:
        """Return the bytes of a stream, at most `limit`."""
        size = max(0, min(entry.size, limit, len(self._content)))
        if entry.size < self._cutoff and entry.kind != ROOT:
            return self._read_mini(entry.start, size)
        return self._read_sectors(entry.start, size)

    def _read_sector(self, number: int) -> bytes:
        start = (number + 1) << self._shift
        return self._content[start : start + (1 << self._shift)]

    def _find_fat_sectors(self, difat: int, tables: int) -> list[int]:
        """Return where the table stands: 109 places in the header, more in a chain of their own."""
        most = min(tables, (len(self._content) >> self._shift) + 1)
        sectors = list(_read_numbers(self._content[76:512]))
        seen: set[int] = set()
        while difat < _NONE and difat not in seen and len(sectors) < most:
            seen.add(difat)
            more = _read_numbers(self._read_sector(difat))
            if len(more) < 2:
                break
            sectors.extend(more[:-1])
            difat = more[-1]
        return [number for number in sectors[:most] if number < _NONE]

    def _read_table(self, sectors: list[int]) -> "array[int]":
        return _read_numbers(b"".join(self._read_sector(number) for number in sectors))

    def _follow_chain(self, start: int) -> Iterator[int]:
        """Yield the sectors from `start` on, each once."""
        seen: set[int] = set()
        fat = self._fat
        while start < _NONE:
            if start in seen or start >= len(fat):
                self.is_whole = False
                return
            seen.add(start)
            yield start
            start = fat[start]

    def _read_sectors(self, start: int, size: int) -> bytes:
        pieces = []
        got = 0
        for number in self._follow_chain(start):
            if got >= size:
                break
            piece = self._read_sector(number)
            got += len(piece)
            pieces.append(piece)
        return b"".join(pieces)[:size]

    def _read_mini(self, start: int, size: int) -> bytes:
        if self._mini is None:
            root = self.root
            self._mini = self._read_sectors(root.start, min(root.size, len(self._content))) if root else b""
        pieces = []
        table = self._mini_fat
        for _ in range((size + 63) >> 6):
            if start >= len(table):
                self.is_whole = False
                break
            pieces.append(self._mini[start << 6 : (start + 1) << 6])
            start = table[start]
        return b"".join(pieces)[:size]

    def _read_directory(self, start: int) -> Iterator[CompoundEntry]:
        data = self._read_sectors(start, MAX_ENTRIES * 128)
        raw = [_ENTRY.unpack_from(data, place) for place in range(0, len(data) - 127, 128)]
        parents = _find_parents(raw)
        for number, fields in enumerate(raw):
            kind = fields[2]
            if kind in (STREAM, STORAGE, ROOT):
                # Version 3 files leave rubbish in the upper half of the size.
                size = fields[9] & 0xFFFFFFFF if self._shift == 9 else fields[9]
                yield CompoundEntry(
                    parents.get(number, "") + _decode_name(fields[0], kind), kind, fields[7], fields[8], size
                )


def _read_numbers(data: bytes) -> "array[int]":
    numbers = array("I")
    numbers.frombytes(data[: len(data) // 4 * 4])
    if byteorder == "big":
        numbers.byteswap()
    return numbers


def _decode_name(raw: bytes, kind: int) -> str:
    if kind == ROOT:
        return ""
    return raw.decode("utf-16-le", "replace").partition("\0")[0].replace("/", "_").upper()


def _find_parents(raw: list[tuple[Any, ...]]) -> dict[int, str]:
    """Return the path of each entry's parents; entries that no tree leads to have none."""
    found: dict[int, str] = {}
    todo: list[tuple[int, str]] = [(raw[0][6], "")] if raw else []
    while todo:
        number, path = todo.pop()
        if number >= len(raw) or number in found:
            continue
        found[number] = path
        _, _, kind, _, left, right, child, *_ = raw[number]
        todo += [(left, path), (right, path)]
        if kind == STORAGE and path.count("/") < 32:
            todo.append((child, f"{path}{_decode_name(raw[number][0], STORAGE)}/"))
    return found
