"""The table of archive readers, which says which reader opens which type.

Every reader yields members and raises nothing. Every length is a claim: a member that goes beyond the file is given as
far as it goes and is said to be damaged.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import msgspec

from gatepost.files.archives import (
    appended,
    decompress,
    disc_image,
    libarchive,
    old_archives,
    rar,
    sevenzip,
    zip_archive,
)
from gatepost.files.archives.libarchive_child import Format
from gatepost.files.archives.old_archives import Reader
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.file_types import CONTAINERS, UNOPENED
from gatepost.files.values import MAX_RATIO, File, Member, UnpackBudget, UnreadReason

_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, UnreadReason | None]]] = {
    "activemime": decompress.activemime,
    "zstd": decompress.zstd,
    "lzip": decompress.lzip,
}
MAX_COMMENT = 65_536
MAX_STREAMED = 256 << 20  # bytes of a tar that is larger than is kept: with gzip about a second, with others more
_LIBRARY_STREAMS: dict[str, Format] = {"compress": "compress", "lz4": "lz4"}
_SUFFIXES = {
    "gzip": (".gz", ".tgz"),
    "bzip2": (".bz2", ".tbz"),
    "xz": (".xz", ".txz"),
    "zstd": (".zst", ".tzst"),
    "lzma": (".lzma", ".tlz"),
    "lzip": (".lz",),
    "compress": (".Z", ".z"),
    "lz4": (".lz4",),
    "activemime": (".mso",),
}


def _refuse_unread(_content: bytes, _budget: UnpackBudget, _passwords: Iterable[str]) -> Iterator[Member]:
    """Yield one unread member for a container of a format that is recognised and not read."""
    yield Member(("",), b"", "unsupported")


_READERS: dict[str, Reader] = {
    "7z": sevenzip.read_members,
    "cab": old_archives.read_cab,
    "iso": disc_image.read_members,
    "rar": rar.read_members,
    "ar": old_archives.read_ar,
    "cpio": old_archives.read_cpio,
    "rpm": old_archives.read_rpm,
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
    if file.type == "tar" or (file.type in ("data", "text") and old_archives.is_tar(file.content)):
        return old_archives.read_tar(file.content, budget)
    if zip_archive.is_zip(file.content):
        found = zip_archive.read_members(file.content, budget, passwords)
        if file.type in appended.CARRIERS:
            return chain(found, appended.find_appended(file.content, budget))
        return chain(found, appended.find_tail(file.content, zip_archive.find_end(file.content), budget))
    if file.type in appended.CARRIERS and not file.is_body:
        first = list(islice(appended.find_appended(file.content, budget), appended.MAX_FOUND))
        return iter(first) if first else None
    return None


def says_count(file: File) -> bool:
    """Return whether a reader itself says that it left entries out; others end with the limit of the message."""
    return file.type not in _READERS


def is_container(file: File) -> bool:
    """Return whether the type of a file says that it holds others, so that none inside is a fault."""
    return file.type in CONTAINERS or _is_stream(file)


def _is_stream(file: File) -> bool:
    return file.type in _STREAMS or file.type in decompress.ENDING or file.type in _LIBRARY_STREAMS


def is_empty(file: File) -> bool:
    """Return whether an archive without files is whole: a tar, or a zip of folders that ends with its directory."""
    if file.type == "tar":
        return True
    entries = zip_archive.read_entries(file.content, 100)
    return zip_archive.END in file.content[-22:] and all(each.names[0].endswith("/") for each in entries)


def _unpack_stream(file: File, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the one nameless file that gzip, bzip2, xz and the like hold, named as the archive without its suffix."""
    if file.type in _LIBRARY_STREAMS:
        names = [_name_stream(name, file.type) for name in file.names] or ["content"]
        for member in libarchive.read_members(file.content, _LIBRARY_STREAMS[file.type], budget):
            yield msgspec.structs.replace(member, names=tuple(names))
        return
    allowance, end = max(0, budget.allowance(len(file.content))), 0
    if file.type in decompress.ENDING:
        content, unread, end = decompress.find_end(file.type, file.content, allowance)
    else:
        content, unread = _STREAMS[file.type](file.content, allowance)
    shortage = budget.shortage(len(file.content))
    if unread == shortage == "size" and file.type == "gzip" and old_archives.is_tar(content) and budget.take_stream():
        del content
        most = min(MAX_STREAMED, MAX_RATIO * len(file.content))
        yield from old_archives.read_tar_stream(decompress.iterate(file.type, file.content, most), budget, most)
        return
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
