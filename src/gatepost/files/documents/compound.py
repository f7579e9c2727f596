"""Compound files (MS-CFB), the small file system under every .doc, .xls, .ppt, .msg and .msi, and their macros.

Sectors are chained by a table (FAT), small streams live in a stream of their own with a table of its own, and a
directory of red-black trees names them. All of these may be cyclic, may point anywhere and may lie about sizes, so
every chain is followed at most once around, entries that no tree leads to are listed too, and nothing raises.

Visual Basic macros (MS-OVBA) are a storage named VBA with a stream `dir`, which names the modules, and one stream for
each: compiled code first, then the compressed source. Where `dir` is spoilt, modules are found by their source, which
starts with `Attribute VB_Name` and so compresses to the same bytes.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from sys import byteorder
from typing import Any

import msgspec

from gatepost.files.archives.decompress import copy_run
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import expand_commands, join_basic_strings
from gatepost.mail.encodings.charset import decode_charset

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


MAX_SOURCE = 4 << 20
MAX_MODULES = 500
CHUNK = 4096
COST = 8

_START = b"\0Attribut"
_CODE = re.compile(
    r"^[ \t]*(?:(?:public|private|friend|static)[ \t]+)*(?:sub|function|property|declare)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Procedures that Office runs by itself, when a document is opened, closed or touched.
_AUTORUN = re.compile(
    r"\b(auto_?(?:open|exec|close|exit|new|activate|deactivate)|document_?(?:open|close|new|beforeclose|change|"
    r"contentcontrolonenter)|workbook_?(?:open|activate|close|beforeclose|deactivate|sheetactivate|windowactivate)|"
    r"worksheet_?(?:calculate|change|activate|selectionchange)|(?:slide|presentation)_?(?:open|show)\w{0,20}|"
    r"app_(?:slide|presentation|workbook|document)\w{0,30}|on(?:slideshow)\w{0,20}|"
    r"\w{1,40}_(?:layout|painted|gotfocus|mousehover|mousemove|documentcomplete|navigatecomplete2|downloadcomplete))"
    r"[ \t]{0,20}\(",
    re.IGNORECASE,
)
# What macros need in order to leave the document: programs, downloads, other people's memory.
_CALLS = re.compile(
    r"(wscript\.shell|shell\.application|shellexecute|powershell|cmd(?:\.exe)?[ \t]{0,5}/[ck]|cmd\.exe|mshta|"
    r"rundll32|regsvr32|certutil|bitsadmin|wmic|cscript|schtasks|urldownloadtofile\w{0,4}|winhttp\.winhttprequest|"
    r"(?:msxml2|microsoft)\.(?:server)?xmlhttp|"
    r"adodb\.stream|savetofile|virtualalloc\w{0,2}|rtlmovememory|writeprocessmemory|createthread|createremotethread|"
    r"callwindowproc\w?|winmgmts|win32_process|scriptcontrol|\bshell[ \t]{0,5}[(\"]|call[ \t]{1,5}shell|callbyname|"
    r"execute(?:excel4macro)|scripting\.filesystemobject|createobject[ \t]{0,5}\()",
    re.IGNORECASE,
)
# Ordinary macros use these, too: they count only beside others.
_ORDINARY = frozenset({"createobject", "scripting.filesystemobject", "callbyname"})


def inspect(document: CompoundFile, builder: ContentsBuilder) -> None:
    """Add every VBA project: its modules as files, procedures that start by themselves, calls that reach out."""
    entries = {entry.path: entry for entry in document.entries if entry.kind == STREAM}
    projects = [path[: -len("DIR")] for path in entries if path.endswith("VBA/DIR") or path == "DIR"]
    sources: list[tuple[str, str]] = []
    for folder in projects:
        sources.extend(_read_project(document, entries, folder, builder))
    if _START in builder.file.content and not any(_CODE.search(source) for _, source in sources):
        sources.extend(_find_stray_modules(document, entries.values(), {name for name, _ in sources}, builder))
    _add_modules(sources, builder, is_unreadable=bool(projects) and not sources)


def _read_project(
    document: CompoundFile, entries: dict[str, CompoundEntry], folder: str, builder: ContentsBuilder
) -> Iterator[tuple[str, str]]:
    charset, modules = parse_dir(_decompress_stream(document, entries[f"{folder}DIR"], 0, builder))
    for stream, offset in modules:
        entry = entries.get(folder + stream.upper())
        if entry is not None and (source := _read_source(document, entry, offset, charset, builder)):
            yield stream, source


def _read_source(
    document: CompoundFile, entry: CompoundEntry, offset: int, charset: str, builder: ContentsBuilder
) -> str:
    return decode_charset(_decompress_stream(document, entry, offset, builder), charset)[0]


def _decompress_stream(document: CompoundFile, entry: CompoundEntry, offset: int, builder: ContentsBuilder) -> bytes:
    """Decompress a stream. Step-by-step work costs several times what a library needs, and is charged so."""
    stream = document.read(entry, MAX_SOURCE)
    room = min(MAX_SOURCE, builder.allowance(len(stream)) // COST)
    content = decompress_vba(stream, offset, room)
    if len(content) >= room:
        builder.add_unread("size")
    builder.budget.pay(len(stream), COST * len(content))
    return content


def _find_stray_modules(
    document: CompoundFile, entries: Iterable[CompoundEntry], known: set[str], builder: ContentsBuilder
) -> Iterator[tuple[str, str]]:
    """Yield modules that no `dir` names."""
    for entry in entries:
        if entry.name in known or not 16 <= entry.size <= MAX_SOURCE or builder.allowance(entry.size) < entry.size:
            continue
        stream = document.read(entry, MAX_SOURCE)
        builder.budget.pay(len(stream), 0)
        place = stream.find(_START)
        if place >= 3 and stream[place - 3] == 1:
            yield entry.name, _read_source(document, entry, place - 3, "", builder)


def _add_modules(sources: list[tuple[str, str]], builder: ContentsBuilder, *, is_unreadable: bool) -> None:
    with_code = [(name, source) for name, source in sources if _CODE.search(source)]
    if is_unreadable:
        builder.add_trait("macro", "its source cannot be read")
    if not with_code:
        return
    strings = "".join(join_basic_strings(source) for _, source in with_code)
    for name, source in with_code:
        builder.add_trait("macro", name)
        builder.add_member(f"VBA/{name}", source.encode())
        for match in _AUTORUN.finditer(source):
            builder.add_trait("macro-autorun", match.group(1))
    calls = find_calls("\n".join([*(source for _, source in with_code), strings]))
    if calls:
        builder.add_trait("macro-call", ", ".join(calls))
    builder.add_member("VBA strings", expand_commands(strings))


def find_calls(text: str) -> list[str]:
    """Return the calls in Basic source by which a macro leaves its document; ordinary ones alone are none."""
    found = dict.fromkeys(match.group(1).lower().strip(' ("\t') for match in _CALLS.finditer(text))
    return list(found) if set(found) - _ORDINARY else []


def parse_dir(listing: bytes) -> tuple[str, list[tuple[str, int]]]:
    """Return by the records of a decompressed `dir` stream (MS-OVBA section 2.3.4.2) the charset, and of each module
    the stream of its source and the offset in it."""
    charset, stream, place = "cp1252", "", 0
    modules: list[tuple[str, int]] = []
    while place + 6 <= len(listing) and len(modules) < MAX_MODULES:
        kind = int.from_bytes(listing[place : place + 2], "little")
        size = int.from_bytes(listing[place + 2 : place + 6], "little")
        if kind == 0x0009:  # the one record whose size is not its size
            size = 6
        data = listing[place + 6 : place + 6 + size]
        place += 6 + size
        if kind == 0x0003:
            charset = f"cp{int.from_bytes(data[:2], 'little')}"
        elif kind == 0x001A:
            stream = decode_charset(data, charset)[0]
        elif kind == 0x0032:
            stream = data.decode("utf-16-le", "replace") or stream
        elif kind == 0x0031:
            modules.append((stream, int.from_bytes(data[:4], "little")))
    return charset, modules


def decompress_vba(data: bytes, start: int, limit: int) -> bytes:
    """Decompress a container (MS-OVBA section 2.4.1) from `start` on, as far as it is sound."""
    out = bytearray()
    if data[start : start + 1] != b"\x01":
        return b""
    place = start + 1
    while place + 2 < len(data) and len(out) < limit:
        header = int.from_bytes(data[place : place + 2], "little")
        end = min(place + (header & 0x0FFF) + 3, len(data))
        if header >> 12 & 0b111 != 0b011:
            break
        if header & 0x8000:
            _decompress_chunk(data, place + 2, end, out)
        else:
            out += data[place + 2 : place + 2 + CHUNK]
        place = end
    return bytes(out[:limit])


def _decompress_chunk(data: bytes, place: int, end: int, out: bytearray) -> None:
    first = len(out)
    while place < end:
        flags = data[place]
        place += 1
        if not flags:
            out += data[place : min(place + 8, end)]
            place += 8
            continue
        for bit in range(8):
            if place >= end:
                return
            if not flags >> bit & 1:
                out.append(data[place])
                place += 1
                continue
            token = int.from_bytes(data[place : place + 2], "little")
            place += 2
            have = len(out) - first
            bits = max(4, (have - 1).bit_length()) if have else 4
            distance = (token >> 16 - bits) + 1
            if distance > have:
                return
            copy_run(out, len(out) - distance, (token & 0xFFFF >> bits) + 3)
            if len(out) - first > CHUNK:
                return
