"""Which reader opens which archive. Every reader yields members and raises nothing."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from gatepost.files.archives import arj_ace, cab, decompress, disc_image, rar, sevenzip, tar, zip_archive
from gatepost.files.archives.passwords import Passwords
from gatepost.files.budget import Budget
from gatepost.files.values import File, Member, Unread

Reader: TypeAlias = Callable[[bytes, Budget, Passwords], Iterator[Member]]

_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, Unread | None]]] = {
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


def _recognised(_content: bytes, _budget: Budget, _passwords: Passwords) -> Iterator[Member]:
    """A disc image whose inside is not read."""
    yield Member(("",), b"", "unsupported")


_READERS: dict[str, Reader] = {
    "7z": sevenzip.members,
    "ace": arj_ace.ace,
    "arj": arj_ace.arj,
    "cab": cab.members,
    "iso": disc_image.members,
    "rar": rar.members,
    "vhd": _recognised,
}


def members(file: File, budget: Budget, passwords: Passwords) -> Iterator[Member] | None:
    """The members of what this file is; None for a file that holds no others."""
    if file.type in _STREAMS:
        return _stream(file, budget)
    if file.type in _READERS:
        return _READERS[file.type](file.content, budget, passwords)
    if file.type == "tar" or (file.type in ("data", "text") and tar.is_tar(file.content)):
        return tar.members(file.content, budget)
    if zip_archive.is_zip(file.content):
        return zip_archive.members(file.content, budget, passwords)
    return None


def _stream(file: File, budget: Budget) -> Iterator[Member]:
    """gzip, bzip2, xz and zstd hold one nameless file, called as the archive without its suffix."""
    content, unread = _STREAMS[file.type](file.content, budget.allowance(len(file.content)))
    shortage = budget.shortage(len(file.content))
    budget.pay(len(file.content), len(content))
    name = file.names[0] if file.names else "content"
    for suffix in _SUFFIXES[file.type]:
        name = name.removesuffix(suffix)
    yield Member((name,), content, shortage if unread == "size" else unread)
