"""Whether a table of a SQLite file has changed, told from the memory that SQLite shares between processes.

Every commit to a file with a WAL is published in the WAL-index (the file `-shm`; https://sqlite.org/walformat.html): a
header with the number of frames that are committed, and the number of the page that each frame holds. A reader of the
database sees a commit when it sees that header, not before. So whoever finds the header as it was knows that nothing
was committed since, and whoever finds that no frame since then holds a page of a table knows that this table is as it
was. That takes no statement, no system call and no hand-over of the interpreter to another thread, and it holds for
every program that writes the file: there is nothing that a writer could fail to announce, or could be killed before.

Where the index does not tell, as when the WAL has begun anew, the table is read: few rows are compared, many are taken
for changed.
"""

import mmap
import os
import struct
from array import array
from collections.abc import Sequence
from typing import ClassVar

import apsw

# Version of the format, whether it is initialised, frames in the WAL, pages in the database, two salts.
_HEADER = struct.Struct("=I8xB3xII8xII8x")
_HEADER_BYTES = _HEADER.size
_FORMAT = 3_007_000
# Each block begins with the page numbers of frames and ends with a hash table; the first has the header before them.
_BLOCK_BYTES = 32_768
_BLOCK_FRAMES = 4_096
_BEFORE_FIRST_FRAME = 136 // 4
# Looking at more frames than these would take longer than reading the table.
MAX_FRAMES = 4_096
# The rows of a table that has more pages are not compared.
MAX_COMPARED_PAGES = 8

_PAGES = "SELECT pageno FROM dbstat WHERE name = ?"


class IndexFile:
    """A WAL-index that is mapped into this process.

    The system takes all locks of a process on a file away when the process closes any descriptor of it, and with those
    locks SQLite keeps other processes from truncating the index. So what was opened stays open until SQLite has
    deleted the file, which it does when nobody uses it any longer.
    """

    opened: "ClassVar[list[IndexFile]]"

    def __init__(self, path: str) -> None:
        self.close_unused()
        self._file = os.open(path, os.O_RDONLY)
        self._maps: list[mmap.mmap] = []
        self._is_used = True
        self.opened.append(self)
        self.map_all()

    def map_all(self) -> None:
        """Map what the file has grown by; a map that is too small stays, since closing it would close a descriptor."""
        size = os.fstat(self._file).st_size // _BLOCK_BYTES * _BLOCK_BYTES
        if size and (not self._maps or size > len(self._maps[-1])):
            self._maps.append(mmap.mmap(self._file, size, prot=mmap.PROT_READ))

    def read_header(self) -> bytes:
        """The header as it is now, perhaps while it is being changed; nothing where there is none."""
        return self._maps[-1][:_HEADER_BYTES] if self._maps else b""

    def read_copy(self) -> bytes:
        """The second copy of the header. A writer changes this one first, so a header that was read before and is equal
        was whole, and what it speaks of is in the index. (Readers wait for no memory barrier in between, since there
        are far more instructions than any processor has under way.)"""
        return self._maps[-1][_HEADER_BYTES : 2 * _HEADER_BYTES]

    def read_pages(self, after: int, last: int) -> Sequence[int] | None:
        """The pages that the frames after one have, to the last; None where they are not mapped."""
        begin, end = after + _BEFORE_FIRST_FRAME, last + _BEFORE_FIRST_FRAME
        first_block, last_block = begin // _BLOCK_FRAMES, (end - 1) // _BLOCK_FRAMES
        if (last_block + 1) * _BLOCK_BYTES > len(self._maps[-1]):
            return None
        pages = array("I")
        for block in range(first_block, last_block + 1):
            low, high = max(begin - block * _BLOCK_FRAMES, 0), min(end - block * _BLOCK_FRAMES, _BLOCK_FRAMES)
            at = block * _BLOCK_BYTES
            pages.frombytes(self._maps[-1][at + 4 * low : at + 4 * high])
        return pages

    def release(self) -> None:
        """Use it no longer."""
        self._is_used = False
        self.close_unused()

    @classmethod
    def close_unused(cls) -> None:
        """Close what is no longer used, neither here nor by SQLite."""
        cls.opened = [index for index in cls.opened if not index.close_if_unused()]

    def close_if_unused(self) -> bool:
        """Return whether it could be closed."""
        if self._is_used or os.fstat(self._file).st_nlink:
            return False
        for mapped in self._maps:
            mapped.close()
        os.close(self._file)
        return True


IndexFile.opened = []


class TableWatch:
    """Numbers the states of a table, of which no two may have the same rows: versions in it only ever rise.

    `connection` stays open for as long as the watch is used, and is not in a transaction when it is asked.
    """

    def __init__(self, connection: apsw.Connection, table: str) -> None:
        self._connection, self._table = connection, table
        # The index is there, and stays, once the connection has read.
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        self._index = IndexFile(f"{connection.filename}-shm")
        self._number = 0
        self._seen = b""
        self._salts: list[int] = []
        self._frames = self._last_page = 0
        self._pages: frozenset[int] = frozenset()
        self._rows: Sequence[tuple[object, ...]] | None = None

    def number(self) -> int | None:
        """The number of the state in which the table is now; None where it cannot be told without waiting.

        What is read after this belongs to that state or to a later one.
        """
        header = self._index.read_header()
        # A header that is being changed is not acknowledged yet: what still equals the one that was seen holds.
        return self._number if header == self._seen and header else self._look(header)

    def close(self) -> None:
        """End, after the connection was closed."""
        self._index.release()

    def _look(self, header: bytes) -> int | None:
        """Find out what has happened since the header was another."""
        if not header or header != self._index.read_copy():
            self._index.map_all()
            return None
        version, is_ready, frames, pages, *salts = _HEADER.unpack_from(header)
        if version != _FORMAT or not is_ready:
            return None
        if not self._is_untouched(salts, frames, pages) and not self._read_table():
            return None
        self._seen, self._salts, self._frames = header, salts, frames
        return self._number

    def _is_untouched(self, salts: list[int], frames: int, pages: int) -> bool:
        """Whether all frames since the last look are at hand, and none has a page of the table. A change of a table
        changes at least one of the pages that it had."""
        added = frames - self._frames
        if salts != self._salts or not 0 <= added <= MAX_FRAMES or not self._pages or self._last_page > pages:
            return False
        written = self._index.read_pages(self._frames, frames)
        return written is not None and self._pages.isdisjoint(written)

    def _read_table(self) -> bool:
        """Read which pages the table has, and after that its rows; return whether they could be read."""
        self._index.map_all()
        try:
            self._pages = frozenset(page for (page,) in self._connection.execute(_PAGES, (self._table,)))
            self._last_page = max(self._pages)
            is_small = len(self._pages) <= MAX_COMPARED_PAGES
            rows = self._connection.execute(f"SELECT * FROM {self._table}").fetchall() if is_small else None  # noqa: S608
        except apsw.Error:
            self._pages = frozenset()
            return False
        if rows is None or rows != self._rows:
            self._number += 1
        self._rows = rows
        return True
