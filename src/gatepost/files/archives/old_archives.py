"""Archives that are headers and files in a row: those of Unix systems, and cabinets of Windows.

Of Unix are tar (POSIX ustar with GNU and pax names), ar(5) (and .deb, which is one), cpio(5), and rpm (Linux Standard
Base), which is a header before a packed cpio.

A cabinet ([MS-CAB]) has folders of blocks, each up to 32 KB of what the files in it are cut from. MSZIP blocks are
deflate with the block before as dictionary. LZX and Quantum are named and not unpacked: no library does it safely.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from gatepost.files.file_types import LONG_TEXT, TEXT_HEAD, is_plain_text
from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, TooManyError, UnpackBudget, UnreadReason

Reader: TypeAlias = Callable[[bytes, UnpackBudget, Iterable[str]], Iterator[Member]]
MAX_HEADERS = 20_000


def catch_faults(read: Callable[[bytes, UnpackBudget], Iterator[Member]]) -> Reader:
    """Return a reader that yields a member without a name where the bytes are broken, or hold too many headers."""

    def reader(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
        try:
            yield from read(content, budget)
        except TooManyError:
            yield Member(("",), b"", "count")
        except BrokenError:
            yield Member(("",), b"", "damaged")

    return reader


_AR_HEADER = 60
_NEW_HEADER, _OLD_HEADER, _BINARY_HEADER = 110, 76, 26
_FORMAT, _FOLDER, _REGULAR = 0o170000, 0o040000, 0o100000
_RPM_LEAD = 96
_RPM_HEADER = b"\x8e\xad\xe8"


@catch_faults
def read_ar(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of an ar archive, with GNU's and BSD's long names."""
    source = ByteSource(content, 8)
    names = b""
    headers = StepLimit(MAX_HEADERS)
    while source.left >= _AR_HEADER:
        headers.step()
        header = source.take(_AR_HEADER)
        size = _parse_number(header[48:58], 10)
        if header[58:60] != b"`\n":
            raise BrokenError("no header")
        label = header[:16].rstrip()
        name = label.rstrip(b"/")
        if label == b"//":
            names = bytes(source.data[source.place : source.place + size])
        elif label.startswith(b"#1/"):
            length = min(_parse_number(label[3:], 10), size)
            name = source.take(length).rstrip(b"\0")
            size -= length
        elif label.startswith(b"/") and label[1:].isdigit():
            name = names[int(label[1:]) :].split(b"\n", 1)[0].rstrip(b"/")
        if label in (b"/", b"//", b"/SYM64/") or content.startswith(b"!<thin>"):
            source.skip(min(size, source.left) if label in (b"/", b"//", b"/SYM64/") else 0)
        else:
            yield _take_member(source, name.decode("utf-8", "replace"), size, budget)
        source.skip(min(size & 1, source.left))


@catch_faults
def read_cpio(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of a cpio archive in any of its forms."""
    source = ByteSource(content)
    headers = StepLimit(MAX_HEADERS)
    while source.left >= _BINARY_HEADER:
        headers.step()
        mode, size, name, pad = _read_cpio_header(source)
        if name == "TRAILER!!!":
            return
        start = source.place
        if mode & _FORMAT in (_REGULAR, 0) and size:
            yield _take_member(source, name, size, budget)
        else:
            source.skip(size)
        source.skip(min(-(source.place if pad == 4 else source.place - start) % pad, source.left))
    raise BrokenError("no trailer")


def _read_cpio_header(source: ByteSource) -> tuple[int, int, str, int]:
    """Return mode, size, name, and what the data is padded to."""
    magic = bytes(source.data[source.place : source.place + 6])
    if magic in (b"070701", b"070702"):
        header = source.take(_NEW_HEADER)
        mode, size, length = (_parse_number(header[at : at + 8], 16) for at in (14, 54, 94))
        name, pad = source.take(length), 4
        source.skip(min(-source.place % 4, source.left))
    elif magic == b"070707":
        header = source.take(_OLD_HEADER)
        mode, size, length = (_parse_number(header[a:b], 8) for a, b in ((18, 24), (65, 76), (59, 65)))
        name, pad = source.take(length), 1
    elif magic[:2] in (b"\xc7\x71", b"\x71\xc7"):
        order = "little" if magic[0] == 0xC7 else "big"
        header = source.take(_BINARY_HEADER)
        words = [int.from_bytes(header[at : at + 2], order) for at in range(0, _BINARY_HEADER, 2)]  # type: ignore[arg-type]
        mode, length, size, pad = words[3], words[10], words[11] << 16 | words[12], 2
        name = source.take(length)
        source.skip(min(length & 1, source.left))
    else:
        raise BrokenError("no header")
    return mode, size, name.rstrip(b"\0").decode("utf-8", "replace"), pad


@catch_faults
def read_rpm(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the payload of an rpm package: a packed cpio behind a lead and two headers."""
    source = ByteSource(content, _RPM_LEAD)
    for number in range(2):
        if source.take(8)[:3] != _RPM_HEADER:
            raise BrokenError("no header")
        entries, size = int.from_bytes(source.take(4), "big"), int.from_bytes(source.take(4), "big")
        source.skip(16 * entries + size)
        if number == 0:
            source.skip(-source.place % 8)
    if not source.left:
        raise BrokenError("no payload")
    yield _take_member(source, "payload", source.left, budget)


def _take_member(source: ByteSource, name: str, size: int, budget: UnpackBudget) -> Member:
    here = min(size, source.left)
    limit = min(max(0, budget.allowance(here)), here)
    data = bytes(source.data[source.place : source.place + limit])
    source.skip(here)
    budget.pay(0, limit)
    short: UnreadReason | None = "size" if limit < here else "damaged" if here < size else None
    return Member((name,), data, short)


def _parse_number(field: bytes, base: int) -> int:
    try:
        value = int(field.strip(b" \0") or b"0", base)
    except ValueError:
        raise BrokenError("no number") from None
    if value < 0:
        raise BrokenError("a negative number")
    return value


BLOCK = 512
MAX_NAMES = 1 << 20


def is_tar(content: bytes) -> bool:
    """Return whether this is a tar: by the magic of ustar, or by a right header checksum (the oldest have no magic)."""
    if len(content) < BLOCK:
        return False
    header = content[:BLOCK]
    if header[257:262] == b"ustar":
        return True
    stated = _parse_tar_number(header[148:156]) if header[0] else None
    return stated is not None and stated == sum(header) - sum(header[148:156]) + 8 * 32


class ChunkSource:
    """Bytes that come in chunks and are taken or passed over in their order."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._place = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer where the last chunk ends before."""
        pieces = []
        while count > 0 and self._has_more():
            piece = self._chunk[self._place : self._place + count]
            self._place += len(piece)
            count -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def skip(self, count: int) -> bool:
        """Pass over so many bytes; return whether they were there."""
        while count > 0 and self._has_more():
            step = min(count, len(self._chunk) - self._place)
            self._place += step
            count -= step
        return count <= 0

    def _has_more(self) -> bool:
        while self._place >= len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._chunk, self._place = chunk, 0
        return True


def read_tar(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every regular file."""
    return _read_tar(ChunkSource(iter((content,))), budget, len(content))


def read_tar_stream(chunks: Iterator[bytes], budget: UnpackBudget, most: int) -> Iterator[Member]:
    """Yield every regular file of a tar that is unpacked piece by piece; `most` is how large it may be."""
    try:
        yield from _read_tar(ChunkSource(chunks), budget, most)
    except TooManyError:
        yield Member(("",), b"", "size")
    except BrokenError:
        yield Member(("",), b"", "damaged")


def _read_tar(source: ChunkSource, budget: UnpackBudget, most: int) -> Iterator[Member]:
    long_name = sparse_name = ""
    for count in range(budget.max_entries + 1):
        header = source.take(BLOCK)
        while len(header) == BLOCK and not header.strip(b"\0"):
            header = source.take(BLOCK)
        if len(header) < BLOCK:
            if header.strip(b"\0"):
                yield Member(("",), b"", "damaged")
            return
        size = _parse_tar_number(header[124:136])
        if size is None or count == budget.max_entries:
            yield Member(("",), b"", "damaged" if size is None else "count")
            return
        kind = header[156:157]
        if kind in (b"0", b"\0", b"7"):
            names = (long_name or _decode_text(header[:100]), sparse_name)
            yield _take_tar_member(source, names if sparse_name else names[:1], size, budget, most)
            long_name = sparse_name = ""
        else:
            data = source.take(min(size, MAX_NAMES))
            if kind == b"L":
                long_name = _decode_text(data)
            elif kind == b"x":
                long_name, sparse_name = _find_pax_path(data) or long_name, _find_pax_path(data, b"GNU.sparse.name=")
            source.skip(size - len(data))
        source.skip(-size % BLOCK)


def _take_tar_member(source: ChunkSource, names: tuple[str, ...], size: int, budget: UnpackBudget, most: int) -> Member:
    """Return a file as far as the budget allows: the first bytes of text that nothing runs, where room is short."""
    room = max(0, budget.allowance(min(size, most)))
    is_tight = size > room or (size > LONG_TEXT and budget.is_tight)
    data = source.take(min(size, TEXT_HEAD if is_tight else room))
    taken = len(data)
    short: UnreadReason | None = None
    if is_tight and is_plain_text(names, data):
        short = "text"
    elif is_tight:
        data = (data + source.take(min(size, room) - taken))[:room]
        taken, short = max(taken, len(data)), "size" if size > room else None
    budget.pay(0, len(data))
    is_whole = source.skip(size - taken) if short else len(data) == size
    return Member(names, data, short if is_whole else "damaged")


def _parse_tar_number(field: bytes) -> int | None:
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _decode_text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _find_pax_path(data: bytes, key: bytes = b"path=") -> str:
    for line in data[:65_536].split(b"\n"):
        _, _, record = line.partition(b" ")
        if record.startswith(key):
            return record[len(key) :].decode("utf-8", "replace")
    return ""


_NONE, _MSZIP = 0, 1
_HAS_PREVIOUS, _HAS_NEXT, _HAS_RESERVE = 1, 2, 4
_UTF8_NAME = 0x80
_BLOCK = 32_768
_BLOCK_COST = 16


class _CabinetFolder(msgspec.Struct, frozen=True):
    """A run of blocks in which files are packed together."""

    start: int
    blocks: int
    method: int
    reserve: int


class _CabinetFile(msgspec.Struct, frozen=True):
    """One file: where it lies in its unpacked folder."""

    name: str
    size: int
    offset: int
    folder: int


@catch_faults
def read_cab(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every file of a cabinet."""
    folders, entries = _read_directory(content, budget.max_files)
    runs: dict[int, tuple[bytes, UnreadReason | None]] = {}
    for entry in entries:
        if entry.folder not in runs:
            runs[entry.folder] = _unpack_folder(content, folders, entry.folder, budget)
        run, unread = runs[entry.folder]
        piece = run[entry.offset : entry.offset + entry.size]
        budget.pay(0, len(piece))  # entries may overlap
        yield Member((entry.name,), piece, (unread or "damaged") if len(piece) < entry.size else None)


def _read_directory(content: bytes, limit: int) -> tuple[list[_CabinetFolder], list[_CabinetFile]]:
    source = ByteSource(content, 16)
    files_at = source.number(4)
    source.skip(6)
    folder_count, file_count, flags = source.number(2), source.number(2), source.number(2)
    source.skip(4)
    folder_reserve = block_reserve = 0
    if flags & _HAS_RESERVE:
        header_reserve, folder_reserve, block_reserve = source.number(2), source.number(1), source.number(1)
        source.skip(header_reserve)
    for present in (flags & _HAS_PREVIOUS, flags & _HAS_NEXT):
        if present:
            source.text()
            source.text()
    folders = []
    for _ in range(folder_count):
        folders.append(_CabinetFolder(source.number(4), source.number(2), source.number(2), block_reserve))
        source.skip(folder_reserve)
    source.place = files_at
    return folders, [_read_entry(source) for _ in range(min(file_count, limit + 1))]


def _read_entry(source: ByteSource) -> _CabinetFile:
    size, offset, folder = source.number(4), source.number(4), source.number(2)
    source.skip(4)
    attributes = source.number(2)
    raw = source.text()
    name = raw.decode("utf-8", "replace") if attributes & _UTF8_NAME else raw.decode("cp1252", "replace")
    return _CabinetFile(name, size, offset, folder)


def _unpack_folder(
    content: bytes, folders: list[_CabinetFolder], number: int, budget: UnpackBudget
) -> tuple[bytes, UnreadReason | None]:
    """Return a folder unpacked as far as it went, and why no further."""
    if number >= len(folders):  # the file goes on in another cabinet, or is a lie
        return b"", "damaged"
    folder = folders[number]
    if folder.method & 15 not in (_NONE, _MSZIP):
        return b"", "unsupported"
    packed = len(content) - min(folder.start, len(content))
    room, shortage = budget.allowance(packed), budget.shortage(packed)
    if room <= 0 or not budget.take_slow(folder.blocks * _BLOCK_COST):
        return b"", shortage
    budget.pay(packed, 0)
    out: list[bytes] = []
    size = 0
    try:
        for block in _unpack_blocks(content, folder):
            out.append(block)
            size += len(block)
            if size > room:
                return b"".join(out)[:room], shortage
    except (BrokenError, zlib.error):
        return b"".join(out), "damaged"
    return b"".join(out), None


def _unpack_blocks(content: bytes, folder: _CabinetFolder) -> Iterator[bytes]:
    source = ByteSource(content, folder.start)
    before = b""
    for _ in range(folder.blocks):
        source.skip(4)
        packed, size = source.number(2), source.number(2)
        source.skip(folder.reserve)
        data = source.take(packed)
        if folder.method & 15 == _MSZIP:
            if data[:2] != b"CK":
                raise BrokenError("no MSZIP block")
            data = before = zlib.decompressobj(-15, zdict=before).decompress(data[2:], min(size, _BLOCK))
        yield data[:size]
