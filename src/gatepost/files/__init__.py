"""What is inside the files of a message, layer by layer, within budgets.

Every leaf of the message is a file, whatever it claims to be, and so is everything inside archives. The walk is a
queue, not a recursion, so depth costs nothing but budget.
"""

from collections import deque
from collections.abc import Callable, Iterator
from hashlib import sha256

import msgspec

from gatepost.files import inflate, tararchive, ziparchive
from gatepost.files.budget import MAX_DEPTH, Budget
from gatepost.files.signatures import identify
from gatepost.files.tree import File, Member, Unread
from gatepost.mail.message import Message, Part

_STREAMS: dict[str, Callable[[bytes, int], tuple[bytes, Unread | None]]] = {
    "gzip": inflate.gzip,
    "bzip2": inflate.bzip2,
    "xz": inflate.xz,
}
_SUFFIXES = {"gzip": (".gz", ".tgz"), "bzip2": (".bz2", ".tbz"), "xz": (".xz", ".txz")}


def unfold(message: Message, budget: Budget | None = None) -> tuple[File, ...]:
    """Every file of the message and every file inside those, outermost first."""
    budget = budget or Budget()
    found: list[File] = []
    opened: dict[str, tuple[Unread, ...]] = {}
    queue = deque((_attached(part), 0) for part in message.files)
    while queue:
        file, depth = queue.popleft()
        if file.sha256 not in opened:  # the same bytes under two names are opened once
            inner, opened[file.sha256] = _opened(file, depth, budget)
            queue.extend((child, depth + 1) for child in inner)
        found.append(msgspec.structs.replace(file, unread=opened[file.sha256]))
    return tuple(found)


def _attached(part: Part) -> File:
    path = f"{part.path}/{part.names[0]}" if part.names else part.path
    return _file(path, part.content, part.names, part.content_type)


def _file(path: str, content: bytes, names: tuple[str, ...], declared: str = "") -> File:
    return File(path, content, identify(content), sha256(content).hexdigest(), names, declared)


def _opened(file: File, depth: int, budget: Budget) -> tuple[tuple[File, ...], tuple[Unread, ...]]:
    """The files directly inside, and what kept us from reading more."""
    members = _members(file, budget)
    if members is None:
        return (), ()
    if depth >= MAX_DEPTH:
        return (), ("depth",)
    inside: list[File] = []
    unread: dict[Unread, None] = {}
    for member in members:
        if not budget.another_file():
            unread["count"] = None
            break
        if member.unread:
            unread[member.unread] = None
        name = member.names[0] or "unnamed"
        inside.append(_file(f"{file.path}/{name}", member.content, member.names))
    return tuple(inside), tuple(unread)


def _members(file: File, budget: Budget) -> Iterator[Member] | None:
    """The reader for what this file is; None for a file that holds no others."""
    if file.type in _STREAMS:
        return _stream(file, budget)
    if file.type == "tar" or (file.type in ("data", "text") and tararchive.is_tar(file.content)):
        return tararchive.members(file.content, budget)
    if ziparchive.is_zip(file.content):
        return ziparchive.members(file.content, budget)
    return None


def _stream(file: File, budget: Budget) -> Iterator[Member]:
    """gzip, bzip2 and xz hold one nameless file, called as the archive without its suffix."""
    content, unread = _STREAMS[file.type](file.content, budget.allowance(len(file.content)))
    shortage = budget.shortage(len(file.content))
    budget.pay(len(file.content), len(content))
    name = file.names[0] if file.names else "content"
    for suffix in _SUFFIXES[file.type]:
        name = name.removesuffix(suffix)
    yield Member((name,), content, shortage if unread == "size" else unread)
