"""The table of archive readers: which reader opens which type. Every reader yields members and raises nothing."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from gatepost.files.archives import arj_ace, cab, decompress, disc_image, rar, sevenzip, tar, zip_archive
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.values import File, Member, UnpackBudget, UnreadReason

Reader: TypeAlias = Callable[[bytes, UnpackBudget, PasswordCandidates], Iterator[Member]]

_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, UnreadReason | None]]] = {
    "gzip": decompress.gzip,
    "bzip2": decompress.bzip2,
    "xz": decompress.xz,
    "zstd": decompress.zstd,
}
_SUFFIXES = {
    "gzip": (".gz", ".tgz"),
    "bzip2": (".bz2", ".tbz"),
    "xz": (".xz", ".txz"),
    "zstd": (".zst", ".tzst"),
}


def _refuse_unread(_content: bytes, _budget: UnpackBudget, _passwords: PasswordCandidates) -> Iterator[Member]:
    """Yield one unread member for a disc image whose inside is not read."""
    yield Member(("",), b"", "unsupported")


_READERS: dict[str, Reader] = {
    "7z": sevenzip.read_members,
    "ace": arj_ace.read_ace,
    "arj": arj_ace.read_arj,
    "cab": cab.read_members,
    "iso": disc_image.read_members,
    "rar": rar.read_members,
    "vhd": _refuse_unread,
}


def read_members(file: File, budget: UnpackBudget, passwords: PasswordCandidates) -> Iterator[Member] | None:
    """Return the members of an archive, read by the reader for its type; None for a file that holds no others."""
    if file.type in _STREAMS:
        return _unpack_stream(file, budget)
    if file.type in _READERS:
        return _READERS[file.type](file.content, budget, passwords)
    if file.type == "tar" or (file.type in ("data", "text") and tar.is_tar(file.content)):
        return tar.read_members(file.content, budget)
    if zip_archive.is_zip(file.content):
        return zip_archive.read_members(file.content, budget, passwords)
    return None


def _unpack_stream(file: File, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the one nameless file that gzip, bzip2, xz or zstd holds, named as the archive without its suffix."""
    content, unread = _STREAMS[file.type](file.content, budget.allowance(len(file.content)))
    shortage = budget.shortage(len(file.content))
    budget.pay(len(file.content), len(content))
    name = file.names[0] if file.names else "content"
    for suffix in _SUFFIXES[file.type]:
        name = name.removesuffix(suffix)
    yield Member((name,), content, shortage if unread == "size" else unread)
