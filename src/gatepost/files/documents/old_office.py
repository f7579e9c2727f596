"""The streams of Office's binary documents: the text of Word and Excel, and what is in PowerPoint.

Word keeps its text in pieces of the stream `WordDocument`; a table in a second stream says where each piece stands and
whether its characters take one byte or two (MS-DOC section 2.8.35). Excel keeps the text of all cells in one table,
which goes on in `Continue` records, and those may begin within a string (MS-XLS section 2.4.265). Both read as much as
the budget of texts has room for; lengths and places are the author's, so every one is checked.

PowerPoint has records in records (MS-PPT). Embedded objects and macros stand in them as compressed compound files, and
a click or a mere move of the mouse may start a program.
"""

import re
from collections.abc import Iterable, Iterator
from struct import iter_unpack, unpack_from

from gatepost.files.archives import decompress
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import find_addresses
from gatepost.files.values import BrokenError, ByteSource

MAX_TEXT = 200_000
MAX_PIECES = 20_000
MAX_STRINGS = 50_000
_PIECE_TABLE, _PROPERTIES = 2, 1
_CLX = 0x1A2  # where the header of the document names its table of pieces
_TEXT_START = 0x18
_COMPRESSED = 1 << 30
# A field is an instruction, a separator and what is shown for it.
_INSTRUCTION = re.compile(r"\x13[^\x13\x14\x15]{0,2000}+[\x14\x15]?")
_LINE_ENDS = str.maketrans(dict.fromkeys("\r\x07\x0b\x0c", "\n"))
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]+")


def read_word_text(content: bytes, table: bytes) -> str:
    """Return the text of the stream `WordDocument`; `table` is the stream that its header names."""
    if content[:2] not in (b"\xec\xa5", b"\xdc\xa5"):
        return ""
    text = "".join(_read_pieces(content, table)) or _read_plain(content)
    return _CONTROLS.sub("", _INSTRUCTION.sub("", text).translate(_LINE_ENDS))


def _read_pieces(content: bytes, table: bytes) -> Iterator[str]:
    room = MAX_TEXT
    for characters, place in _find_pieces(content, table):
        count = min(characters, room)
        if place & _COMPRESSED:
            start = (place & ~_COMPRESSED) // 2
            yield content[start : start + count].decode("cp1252", "replace")
        else:
            yield content[place : place + 2 * count].decode("utf-16-le", "replace")
        room -= count
        if room <= 0:
            return


def _find_pieces(content: bytes, table: bytes) -> Iterator[tuple[int, int]]:
    """Yield the number of characters and the place of each piece."""
    if len(content) < _CLX + 8:
        return
    start, size = unpack_from("<II", content, _CLX)
    source = ByteSource(table[start : start + size])
    try:
        while source.left and (kind := source.number(1)) != _PIECE_TABLE:
            if kind != _PROPERTIES:
                return
            source.skip(source.number(2))
        length = source.number(4)
        pieces = source.take(min(length, source.left))
    except BrokenError:
        return
    count = min((len(pieces) - 4) // 12, MAX_PIECES)
    ends = [end for (end,) in iter_unpack("<I", pieces[: 4 * (count + 1)])] if count > 0 else []
    for number in range(max(0, count)):
        (place,) = unpack_from("<I", pieces, 4 * (count + 1) + 8 * number + 2)
        yield max(0, ends[number + 1] - ends[number]), place & 0x7FFFFFFF


def _read_plain(content: bytes) -> str:
    """Return the text where there is no table of pieces: it stands between two places (Word 6 and 95)."""
    if len(content) < _TEXT_START + 8:
        return ""
    start, end = unpack_from("<II", content, _TEXT_START)
    return content[start : min(end, start + MAX_TEXT)].decode("cp1252", "replace")


def read_shared_strings(records: Iterable[bytes]) -> str:
    """Return the strings of an `SST` record and the `Continue` records behind it, one on each line."""
    return "\n".join(_StringTable(list(records)).read())


class _StringTable:
    """Reads over the borders of records: characters that go on in the next one begin there with a flag of their own."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records
        self._number = 0
        self._source = ByteSource(records[0] if records else b"", 8)
        self._room = MAX_TEXT

    def read(self) -> Iterator[str]:
        try:
            for _ in range(MAX_STRINGS):
                if not self._source.left and not self._go_on():
                    return
                text = self._read_string()
                self._room -= len(text)
                yield text
                if self._room <= 0:
                    return
        except BrokenError:
            return

    def _go_on(self) -> bool:
        self._number += 1
        if self._number >= len(self._records):
            return False
        self._source = ByteSource(self._records[self._number])
        return True

    def _read_string(self) -> str:
        """Read one string with its formatting, which is passed over (MS-XLS section 2.5.293)."""
        count, flags = self._source.number(2), self._source.number(1)
        runs = self._source.number(2) if flags & 8 else 0
        extra = self._source.number(4) if flags & 4 else 0
        text = self._read_characters(count, wide=bool(flags & 1))
        self._skip(4 * runs + extra)
        return text

    def _read_characters(self, count: int, *, wide: bool) -> str:
        pieces: list[str] = []
        while count:
            width = 2 if wide else 1
            taken = min(count, self._source.left // width)
            pieces.append(self._source.take(taken * width).decode("utf-16-le" if wide else "latin-1", "replace"))
            count -= taken
            if count:
                if not self._go_on():
                    break
                wide = bool(self._source.number(1) & 1)
        return "".join(pieces)

    def _skip(self, count: int) -> None:
        while count > self._source.left:
            count -= self._source.left
            if not self._go_on():
                raise BrokenError("the table ends within a string")
        self._source.skip(count)


MAX_RECORDS = 500_000
STORAGE, ACTION, TEXT = 0x1011, 0x0FF3, 0x0FBA
WIDE_TEXT, NARROW_TEXT = 0x0FA0, 0x0FA8  # what stands on slides (MS-PPT sections 2.9.42 and 2.9.43)
RUN_PROGRAM, RUN_MACRO = 2, 1
_WANTED = frozenset({STORAGE, ACTION, TEXT, WIDE_TEXT, NARROW_TEXT})
ENCRYPTED_TOKEN = b"\xdf\xc4\xd1\xf3"


def inspect(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the stream `PowerPoint Document`."""
    program = False
    shown: list[str] = []
    for kind, instance, data in _read_records(content, builder):
        if kind == STORAGE:
            _add_storage(data, instance, builder)
        elif kind == ACTION:
            program = data[8:9] == bytes([RUN_PROGRAM])
            if data[8:9] == bytes([RUN_MACRO]):
                builder.add_trait("macro-autorun", "an action on a slide")
        elif kind == TEXT and program:
            command = data.decode("utf-16-le", "replace")
            builder.add_command("program-action", "program action", command)
            program = False
        elif kind == TEXT:
            builder.add_links(find_addresses(data))
        elif kind in (WIDE_TEXT, NARROW_TEXT):
            shown.append(data.decode("utf-16-le" if kind == WIDE_TEXT else "latin-1", "replace"))
    builder.add_text("\n".join(shown).replace("\r", "\n").replace("\x0b", "\n"))


def inspect_user(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the stream `Current User`, which says whether the rest is encrypted (MS-PPT section 2.3.2)."""
    if content[12:16] == ENCRYPTED_TOKEN:
        builder.add_trait("encrypted", "PowerPoint")


def _add_storage(data: bytes, instance: int, builder: ContentsBuilder) -> None:
    if instance == 1:
        out, unread = decompress.deflate(data[6:], builder.allowance(len(data)))  # past a length and the head of zlib
        builder.add_unread(None if unread == "damaged" else unread)  # PowerPoint leaves the end away
        builder.add_member("embedded storage", out, len(data))
    else:
        builder.add_member("embedded storage", data)


def _read_records(content: bytes, builder: ContentsBuilder) -> Iterator[tuple[int, int, bytes]]:
    """Yield the records that are wanted, wherever they stand; containers are stepped into, not over."""
    place = 0
    for _ in range(MAX_RECORDS):
        if place + 8 > len(content):
            return
        head = content[place] | content[place + 1] << 8
        kind = content[place + 2] | content[place + 3] << 8
        place += 8
        if head & 0xF == 0xF:
            continue
        size = int.from_bytes(content[place - 4 : place], "little")
        if kind in _WANTED:
            yield kind, head >> 4, content[place : place + size]
        place += size
    builder.add_unread("count")
