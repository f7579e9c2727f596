"""Which reader opens which archive. Every reader yields members and raises nothing."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from gatepost.files import cab, inflate, iso, oldarchives, rar, sevenzip, tararchive, ziparchive
from gatepost.files.budget import Budget
from gatepost.files.passwords import Passwords
from gatepost.files.tree import File, Member, Unread

Reader: TypeAlias = Callable[[bytes, Budget, Passwords], Iterator[Member]]

_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, Unread | None]]] = {
    "gzip": inflate.gzip,
    "bzip2": inflate.bzip2,
    "xz": inflate.xz,
    "zstd": inflate.zstd,
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
    "ace": oldarchives.ace,
    "arj": oldarchives.arj,
    "cab": cab.members,
    "iso": iso.members,
    "rar": rar.members,
    "vhd": _recognised,
}


def members(file: File, budget: Budget, passwords: Passwords) -> Iterator[Member] | None:
    """The members of what this file is; None for a file that holds no others."""
    if file.type in _STREAMS:
        return _stream(file, budget)
    if file.type in _READERS:
        return _READERS[file.type](file.content, budget, passwords)
    if file.type == "tar" or (file.type in ("data", "text") and tararchive.is_tar(file.content)):
        return tararchive.members(file.content, budget)
    if ziparchive.is_zip(file.content):
        return ziparchive.members(file.content, budget, passwords)
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
