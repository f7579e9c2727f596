"""The table of archive readers, which says which reader opens which type, and the readers of formats without ciphers.

Every reader yields members and raises nothing. Every length is a claim: a member that goes beyond the file is given as
far as it goes and is said to be damaged.

Archives of DOS and old Windows are cabinet files ([MS-CAB]), ARJ and ACE. A cabinet has folders of blocks, each block
up to 32 KB of what the files in it are cut from. MSZIP blocks are deflate with the block before as dictionary. LZX and
Quantum are named and not unpacked: no library does it safely. ARJ and ACE are dead formats that some unpackers still
open. Names, encryption, and content that was only stored are read.

Archives of Unix systems are tar (POSIX ustar with GNU and pax names), ar(5) (and .deb, which is one), cpio(5), and rpm
(Linux Standard Base), which is a header before a packed cpio.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeAlias

import msgspec

from gatepost.files.archives import appended, decompress, disc_image, rar, sevenzip, zip_archive
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.file_types import CONTAINERS, UNOPENED
from gatepost.files.values import (
    BrokenError,
    ByteSource,
    File,
    Member,
    StepLimit,
    TooManyError,
    UnpackBudget,
    UnreadReason,
)

Reader: TypeAlias = Callable[[bytes, UnpackBudget, Iterable[str]], Iterator[Member]]


def _catch_faults(read: Callable[[bytes, UnpackBudget], Iterator[Member]]) -> Reader:
    """Return a reader that yields a member without a name where the bytes are broken, or hold too many headers."""

    def reader(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
        try:
            yield from read(content, budget)
        except TooManyError:
            yield Member(("",), b"", "count")
        except BrokenError:
            yield Member(("",), b"", "damaged")

    return reader


MAX_HEADERS = 20_000
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


@_catch_faults
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


@_catch_faults
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


@_catch_faults
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


_AR_HEADER = 60
_NEW_HEADER, _OLD_HEADER, _BINARY_HEADER = 110, 76, 26
_FORMAT, _FOLDER, _REGULAR = 0o170000, 0o040000, 0o100000
_RPM_LEAD = 96
_RPM_HEADER = b"\x8e\xad\xe8"


@_catch_faults
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


@_catch_faults
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


@_catch_faults
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


def is_tar(content: bytes) -> bool:
    """Return whether this is a tar: by the magic of ustar, or by a header checksum that is right (the oldest tars have
    no magic)."""
    if len(content) < BLOCK:
        return False
    header = content[:BLOCK]
    if header[257:262] == b"ustar":
        return True
    stated = _parse_tar_number(header[148:156]) if header[0] else None
    return stated is not None and stated == sum(header) - sum(header[148:156]) + 8 * 32


def read_tar(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every regular file."""
    place = 0
    long_name = ""
    count = 0
    while place + BLOCK <= len(content) and count <= budget.max_files:
        header = content[place : place + BLOCK]
        if not header.strip(b"\0"):
            place += BLOCK
            continue
        size = _parse_tar_number(header[124:136])
        if size is None:
            yield Member(("",), b"", "damaged")
            return
        room = budget.allowance(min(size, len(content)))
        data = content[place + BLOCK : place + BLOCK + min(size, room)]
        place += BLOCK + (size + BLOCK - 1) // BLOCK * BLOCK
        kind = header[156:157]
        if kind == b"L":
            long_name = _decode_text(data)
        elif kind == b"x":
            long_name = _find_pax_path(data) or long_name
        elif kind in (b"0", b"\0", b"7"):
            count += 1
            short: UnreadReason | None = "size" if size > room else "damaged" if len(data) < size else None
            budget.pay(0, len(data))
            yield Member((long_name or _decode_text(header[:100]),), data, short)
            long_name = ""
    if count > budget.max_files:
        yield Member(("",), b"", "count")
    elif content[place:].strip(b"\0"):
        yield Member(("",), b"", "damaged")


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


def _find_pax_path(data: bytes) -> str:
    for line in data[:65_536].split(b"\n"):
        _, _, record = line.partition(b" ")
        if record.startswith(b"path="):
            return record[5:].decode("utf-8", "replace")
    return ""


_ENDING = {"gzip": "gzip", "bzip2": "bzip2", "xz": "xz", "lzma": "xz"}
_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, UnreadReason | None]]] = {
    "activemime": decompress.activemime,
    "zstd": decompress.zstd,
    "lzip": decompress.lzip,
    "compress": decompress.uncompress,
    "lz4": decompress.lz4,
    "szdd": decompress.szdd,
}
MAX_COMMENT = 65_536
_SLOW_STREAMS = frozenset({"compress", "lz4", "szdd"})
_SUFFIXES = {
    "gzip": (".gz", ".tgz"),
    "bzip2": (".bz2", ".tbz"),
    "xz": (".xz", ".txz"),
    "zstd": (".zst", ".tzst"),
    "lzma": (".lzma", ".tlz"),
    "lzip": (".lz",),
    "compress": (".Z", ".z"),
    "lz4": (".lz4",),
    "szdd": ("_",),
    "activemime": (".mso",),
}


def _refuse_unread(_content: bytes, _budget: UnpackBudget, _passwords: Iterable[str]) -> Iterator[Member]:
    """Yield one unread member for a container of a format that is recognised and not read."""
    yield Member(("",), b"", "unsupported")


_READERS: dict[str, Reader] = {
    "7z": sevenzip.read_members,
    "ace": read_ace,
    "arj": read_arj,
    "cab": read_cab,
    "iso": disc_image.read_members,
    "rar": rar.read_members,
    "ar": read_ar,
    "cpio": read_cpio,
    "rpm": read_rpm,
    **dict.fromkeys(UNOPENED, _refuse_unread),
}


def read_members(file: File, budget: UnpackBudget, passwords: PasswordCandidates) -> Iterator[Member] | None:
    """Return the members of an archive, read by the reader for its type; None for a file that holds no others."""
    if _is_stream(file):
        return _unpack_stream(file, budget)
    if file.type in _READERS:
        found = _READERS[file.type](file.content, budget, passwords)
        end = appended.find_archive_end(file.type, file.content)
        return chain(found, appended.find_tail(file.content, end, budget)) if end else found
    if file.type == "tar" or (file.type in ("data", "text") and is_tar(file.content)):
        return read_tar(file.content, budget)
    if zip_archive.is_zip(file.content):
        found = zip_archive.read_members(file.content, budget, passwords)
        if file.type in appended.CARRIERS:
            return chain(found, appended.find_appended(file.content, budget))
        return chain(found, appended.find_tail(file.content, zip_archive.find_end(file.content), budget))
    if file.type in appended.CARRIERS and not file.is_body:
        first = list(islice(appended.find_appended(file.content, budget), appended.MAX_FOUND))
        return iter(first) if first else None
    return None


def is_container(file: File) -> bool:
    """Return whether the type of a file says that it holds others, so that none inside is a fault."""
    return file.type in CONTAINERS or _is_stream(file)


def _is_stream(file: File) -> bool:
    return file.type in _STREAMS or file.type in _ENDING


def is_empty(file: File) -> bool:
    """Return whether an archive without files is whole: a zip that ends with its directory and has folders only. A tar
    says by itself where it is broken."""
    if file.type == "tar":
        return True
    entries = zip_archive.read_entries(file.content, 100)
    return zip_archive.END in file.content[-22:] and all(each.names[0].endswith("/") for each in entries)


def _unpack_stream(file: File, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the one nameless file that gzip, bzip2, xz and the like hold, named as the archive without its suffix."""
    if file.type in _SLOW_STREAMS and not budget.take_slow(len(file.content)):
        yield Member(("",), b"", "size")
        return
    allowance, end = max(0, budget.allowance(len(file.content))), 0
    if file.type in _ENDING:
        content, unread, end = decompress.find_end(_ENDING[file.type], file.content, allowance)
    else:
        content, unread = _STREAMS[file.type](file.content, allowance)
    shortage = budget.shortage(len(file.content))
    budget.pay(len(file.content), len(content))
    names = [_name_stream(name, file.type) for name in file.names] or ["content"]
    if file.type == "gzip" and (stored := _read_gzip_header(file.content)[0]):
        names.append(stored.decode("utf-8", "replace"))  # by which some unpackers save it
    yield Member(tuple(dict.fromkeys(names)), content, shortage if unread == "size" else unread)
    if not unread:
        yield from appended.find_tail(file.content, end, budget)


def _name_stream(name: str, kind: str) -> str:
    """Return the name under which unpackers save what is in a stream: that of the stream without its last suffix."""
    for suffix in _SUFFIXES[kind]:
        if name.lower().endswith(suffix.lower()):
            return name[: -len(suffix)]
    stem, _, _ = name.rpartition(".")
    return stem or name


def find_gzip_comments(content: bytes) -> list[bytes]:
    """Return the comment that gzip keeps with the file (RFC 1952 section 2.3.1), if there is one."""
    comment = _read_gzip_header(content)[1]
    return [comment] if comment else []


def _read_gzip_header(content: bytes) -> tuple[bytes, bytes]:
    """Return the name and the comment that gzip keeps of the file (RFC 1952 section 2.3.1)."""
    flags, place = content[3] if len(content) > 10 else 0, 10
    if flags & 4:
        place += 2 + int.from_bytes(content[10:12], "little")
    name = comment = b""
    if flags & 8:
        name = content[place : place + 1_000].partition(b"\0")[0]
        place += len(name) + 1
    if flags & 16:
        comment = content[place : place + MAX_COMMENT].partition(b"\0")[0]
    return name, comment
