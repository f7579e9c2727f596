"""7z archives: a directory at the end that says how to undo the packing of each run of files.

The directory is itself packed more often than not, sometimes encrypted. Files are packed back to back in "folders"
(solid runs), each through a chain of coders; `sevenzip_coders` undoes the usual ones, libarchive the rare. Format:
7zFormat.txt of the LZMA SDK.
"""

import zlib
from collections.abc import Iterable, Iterator

import msgspec

from gatepost.files.archives import libarchive
from gatepost.files.archives.passwords import PasswordAttempts
from gatepost.files.archives.sevenzip_coders import ATTEMPT_COST, UnpackedFolder, decode_folder, is_encrypted, is_known
from gatepost.files.archives.sevenzip_header import (
    Directory,
    Folder,
    HeaderSource,
    Stream,
    find_packed_header,
    parse_directory,
)
from gatepost.files.values import BrokenError, Member, TooManyError, UnpackBudget, UnreadReason

SIGNATURE = b"7z\xbc\xaf\x27\x1c"
_START = 32
_MAX_LAYERS = 4
_MAX_HEADER = 2 << 20  # far more names than files are read


class _UnpackedHeader(msgspec.Struct, frozen=True):
    """The directory in the clear, or why there is none; the password that its encryption took."""

    content: bytes = b""
    unread: UnreadReason | None = None
    password: str = ""


def read_members(content: bytes, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every file of the archive; where even the names are encrypted, one without a name."""
    attempts = PasswordAttempts(passwords, budget, ATTEMPT_COST)
    try:
        header = _read_header(content, budget, attempts)
        found = parse_directory(header.content, budget.max_files) if header.content else Directory()
    except TooManyError:
        yield Member(("",), b"", "count")
        return
    except BrokenError:
        yield Member(("",), b"", "damaged")
        return
    if header.unread:
        yield Member(("",), b"", header.unread)
    has_rare = not all(is_known(folder) or is_encrypted(folder) for folder in found.folders)
    if has_rare and all(map(_fits_memory, found.folders)) and libarchive.is_usable(budget):
        yield from libarchive.read_members(content, "7z", budget, found.names)
        return
    place = 0
    for folder, streams in zip(found.folders, found.streams, strict=False):
        if not streams:
            continue
        run = _unpack_folder(content, folder, streams, budget, attempts)
        names = found.names[place : place + len(streams)]
        yield from _cut_files(run, streams, names, header.password)
        place += len(streams)
    yield from (Member((name,), b"") for name in found.empty)


def _read_header(content: bytes, budget: UnpackBudget, attempts: PasswordAttempts) -> _UnpackedHeader:
    source = HeaderSource(content, 12)
    offset, size = source.number(8), source.number(8)
    if not size:
        return _UnpackedHeader()
    if offset + size > len(content) - _START:
        raise BrokenError("the directory lies outside")
    if size > _MAX_HEADER:
        raise TooManyError("too long a directory")
    header = content[_START + offset : _START + offset + size]
    password = ""
    for _ in range(_MAX_LAYERS):
        folder = find_packed_header(header)
        if folder is None:
            return _UnpackedHeader(header, password=password)
        if folder.size > _MAX_HEADER:
            raise TooManyError("too long a directory")
        run = _unpack_folder(content, folder, (Stream(folder.size, folder.crc),), budget, attempts)
        if run.unread:
            return _UnpackedHeader(unread=run.unread)
        header, password = run.content, password or run.password
    raise BrokenError("a directory within a directory without end")


def _unpack_folder(
    content: bytes, folder: Folder, streams: tuple[Stream, ...], budget: UnpackBudget, attempts: PasswordAttempts
) -> UnpackedFolder:
    """Return a folder unpacked, with a password where it takes one."""
    if not is_encrypted(folder):
        return decode_folder(content, folder, budget)

    def attempt(password: str) -> UnpackedFolder | None:
        run = decode_folder(content, folder, budget, password)
        return run if _fits(run, streams) else None

    return attempts.unlock(attempt) or UnpackedFolder(unread="encrypted")


_PPMD, _LZMA, _LZMA2 = b"\x03\x04\x01", b"\x03\x01\x01", b"\x21"
_MAX_WINDOW = 128 << 20


def _fits_memory(folder: Folder) -> bool:
    """Return whether the memory that a decoder would take by the folder's own account is within the limit."""
    for coder in folder.coders:
        properties = coder.properties
        if coder.method in (_PPMD, _LZMA) and int.from_bytes(properties[1:5], "little") > _MAX_WINDOW:
            return False
        if coder.method == _LZMA2 and properties and (2 | properties[0] & 1) << (properties[0] // 2 + 11) > _MAX_WINDOW:
            return False
    return True


def _fits(run: UnpackedFolder, streams: tuple[Stream, ...]) -> bool:
    """Return whether the first file that is whole has its checksum; without one, whether nothing broke."""
    if streams and streams[0].crc is not None and len(run.content) >= streams[0].size:
        return zlib.crc32(run.content[: streams[0].size]) == streams[0].crc
    return bool(run.content) and run.unread != "damaged"


def _cut_files(
    run: UnpackedFolder, streams: tuple[Stream, ...], names: tuple[str, ...], password: str
) -> Iterator[Member]:
    place = 0
    for number, stream in enumerate(streams):
        piece = run.content[place : place + stream.size]
        place += stream.size
        unread = run.unread or "damaged" if len(piece) < stream.size else None
        yield Member((names[number] if number < len(names) else "",), piece, unread, run.password or password)
