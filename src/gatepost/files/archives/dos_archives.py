"""Archives of DOS and old Windows: cabinet files ([MS-CAB]), ARJ and ACE.

A cabinet has folders of blocks, each block up to 32 KB of what the files in it are cut from. MSZIP blocks are deflate
with the block before as dictionary. LZX and Quantum are named and not unpacked: no library does it safely. ARJ and ACE
are dead formats that some unpackers still open. Names, encryption, and content that was only stored are read.
"""

import zlib
from collections.abc import Iterator

import msgspec

from gatepost.files.archives.reader import MAX_HEADERS, catch_faults
from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, UnpackBudget, UnreadReason

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


class _UnpackedFolder(msgspec.Struct, frozen=True):
    """A folder unpacked as far as it went, and why no further."""

    content: bytes
    unread: UnreadReason | None


@catch_faults
def read_cab(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every file of a cabinet."""
    folders, entries = _read_directory(content, budget.max_files)
    runs: dict[int, _UnpackedFolder] = {}
    for entry in entries:
        run = runs.get(entry.folder)
        if run is None:
            run = runs[entry.folder] = _unpack_folder(content, folders, entry.folder, budget)
        piece = run.content[entry.offset : entry.offset + entry.size]
        budget.pay(0, len(piece))  # entries may overlap
        yield Member((entry.name,), piece, (run.unread or "damaged") if len(piece) < entry.size else None)


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


def _unpack_folder(content: bytes, folders: list[_CabinetFolder], number: int, budget: UnpackBudget) -> _UnpackedFolder:
    if number >= len(folders):  # the file goes on in another cabinet, or is a lie
        return _UnpackedFolder(b"", "damaged")
    folder = folders[number]
    if folder.method & 15 not in (_NONE, _MSZIP):
        return _UnpackedFolder(b"", "unsupported")
    packed = len(content) - min(folder.start, len(content))
    room, shortage = budget.allowance(packed), budget.shortage(packed)
    if room <= 0 or not budget.take_slow(folder.blocks * _BLOCK_COST):
        return _UnpackedFolder(b"", shortage)
    budget.pay(packed, 0)
    out: list[bytes] = []
    size = 0
    try:
        for block in _unpack_blocks(content, folder):
            out.append(block)
            size += len(block)
            if size > room:
                return _UnpackedFolder(b"".join(out)[:room], shortage)
    except (BrokenError, zlib.error):
        return _UnpackedFolder(b"".join(out), "damaged")
    return _UnpackedFolder(b"".join(out), None)


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


_ARJ = b"\x60\xea"
_ACE_FILE = 1
_MAX_EXTENSIONS = 16


@catch_faults
def read_arj(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of an ARJ archive; the first header is that of the archive."""
    source = ByteSource(content)
    _read_arj_header(source)
    while header := _read_arj_header(source):
        garbled, method, packed = header[4] & 1, header[5], int.from_bytes(header[12:16], "little")
        name = header[header[0] :].split(b"\0", 1)[0].decode("cp437")
        yield _read_member(source, name, packed, budget, stored=method == 0, encrypted=bool(garbled))


def _read_arj_header(source: ByteSource) -> bytes:
    """Return one header without its checksum and extensions; empty at the end."""
    if source.take(2) != _ARJ:
        raise BrokenError("no header")
    header = source.take(source.number(2))
    if header:
        if len(header) < 30:
            raise BrokenError("a header cut short")
        source.skip(4)
        for _ in range(_MAX_EXTENSIONS):
            if not (size := source.number(2)):
                return header
            source.skip(size + 4)
        raise BrokenError("extensions without end")
    return header


@catch_faults
def read_ace(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of an ACE archive."""
    source = ByteSource(content)
    headers = StepLimit(MAX_HEADERS)
    while source.left:
        headers.step()
        source.skip(2)
        header = ByteSource(source.take(source.number(2)))
        kind, flags = header.number(1), header.number(2)
        packed = header.number(4) if flags & 1 else 0
        if kind != _ACE_FILE:
            source.skip(packed)
            continue
        header.skip(16)
        method = header.number(1)
        header.skip(5)
        name = header.take(header.number(2)).decode("cp437")
        yield _read_member(source, name, packed, budget, stored=method == 0, encrypted=bool(flags & 0x4000))


def _read_member(
    source: ByteSource, name: str, packed: int, budget: UnpackBudget, *, stored: bool, encrypted: bool
) -> Member:
    start = source.place
    source.skip(packed)
    if encrypted or not stored:
        return Member((name,), b"", "encrypted" if encrypted else "unsupported")
    limit = min(budget.allowance(packed), packed)
    budget.pay(packed, limit)
    short: UnreadReason | None = "size" if limit < packed else None
    return Member((name,), bytes(source.data[start : start + limit]), short)
