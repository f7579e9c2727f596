"""Zip archives (PKWARE APPNOTE), read as every program reads them.

A zip says everything twice: each entry has a local header before its data, and the central directory at the end
repeats it. Programs believe one or the other, so a file can be hidden from whoever believes the other one. Here both
are read: entries of the central directory with all names given in either place, then the local headers that the
directory does not lead to.
"""

from collections.abc import Iterator
from struct import Struct

import msgspec

from gatepost.files import inflate
from gatepost.files.budget import Budget
from gatepost.files.tree import Member, Unread

LOCAL = b"PK\x03\x04"
CENTRAL = b"PK\x01\x02"
END = b"PK\x05\x06"
ENCRYPTED = 0x1
STREAMED = 0x8
UTF8 = 0x800

_LOCAL = Struct("<4xHHHHHIIIHH")
_CENTRAL = Struct("<4xHHHHHHIIIHHHHHII")
_END = Struct("<4xHHHHIIH")
_METHODS = {8: inflate.deflate, 12: inflate.bzip2, 14: inflate.zip_lzma}


class Entry(msgspec.Struct, frozen=True):
    """One entry: where its data starts and what is claimed of it."""

    names: tuple[str, ...]
    start: int
    method: int
    encrypted: bool
    packed: int


def is_zip(content: bytes) -> bool:
    """By its end record or a local header at the start; data may stand before a zip, as in a self-extracting one."""
    return content.startswith(LOCAL) or content.find(END, max(0, len(content) - 66_000)) >= 0


def members(content: bytes, budget: Budget) -> Iterator[Member]:
    """Every entry that some program would unpack."""
    for entry in entries(content, budget.max_files):
        if entry.names[0].endswith("/") and not entry.packed:
            continue
        yield _unpacked(content, entry, budget)


def entries(content: bytes, limit: int) -> list[Entry]:
    """The entries of the central directory, then those that only their local header tells of."""
    found: dict[int, Entry] = {}
    for entry in _directory(content):
        found.setdefault(entry.start, entry)
        if len(found) > limit:
            break
    covered = sorted((entry.start, entry.start + entry.packed) for entry in found.values())
    for entry in _local_headers(content, covered):
        found.setdefault(entry.start, entry)
        if len(found) > limit:
            break
    return list(found.values())


def _directory(content: bytes) -> Iterator[Entry]:
    end = content.rfind(END)
    if end < 0 or end + _END.size > len(content):
        return
    *_, size, offset, _comment = _END.unpack_from(content, end)
    # Data before the archive shifts every offset by its length; the directory ends where the end record starts.
    shift = max(0, end - size - offset)
    place = end - size if end >= size else offset
    while content.startswith(CENTRAL, place) and place + _CENTRAL.size <= len(content):
        fields = _CENTRAL.unpack_from(content, place)
        flags, method, packed, name_size = fields[2], fields[3], fields[7], fields[9]
        extra_size, comment_size, offset = fields[10], fields[11], fields[15]
        name = content[place + 46 : place + 46 + name_size]
        yield _entry_at(content, offset + shift, name, flags, method, packed)
        place += 46 + name_size + extra_size + comment_size


def _entry_at(content: bytes, header: int, name: bytes, flags: int, method: int, packed: int) -> Entry:
    """An entry of the directory with what its local header adds."""
    names = [_name(name, flags)]
    start = header
    encrypted = bool(flags & ENCRYPTED)
    if content.startswith(LOCAL, header) and header + 30 <= len(content):
        fields = _LOCAL.unpack_from(content, header)
        local_flags, name_size, extra_size = fields[1], fields[8], fields[9]
        start = header + 30 + name_size + extra_size
        names.append(_name(content[header + 30 : header + 30 + name_size], local_flags))
        # Believe "encrypted" only if both say so: a lie in one header must not keep us out.
        encrypted = encrypted and bool(local_flags & ENCRYPTED)
    return Entry(tuple(dict.fromkeys(names)), start, method, encrypted, packed)


def _local_headers(content: bytes, covered: list[tuple[int, int]]) -> Iterator[Entry]:
    """Local headers outside the data of known entries. (What is inside that data is found when it is unfolded.)"""
    place = content.find(LOCAL)
    regions = iter(covered)
    region = next(regions, None)
    while place >= 0:
        while region and region[1] <= place:
            region = next(regions, None)
        if region and region[0] <= place:
            place = content.find(LOCAL, region[1])
            continue
        if place + 30 > len(content):
            return
        fields = _LOCAL.unpack_from(content, place)
        flags, method, packed, name_size, extra_size = fields[1], fields[2], fields[6], fields[8], fields[9]
        start = place + 30 + name_size + extra_size
        if not packed or flags & STREAMED:
            following = content.find(b"PK", start)
            packed = (following if following >= 0 else len(content)) - start if method == 0 else len(content) - start
        name = _name(content[place + 30 : place + 30 + name_size], flags)
        yield Entry((name,), start, method, bool(flags & ENCRYPTED), max(0, packed))
        place = content.find(LOCAL, place + 4 if method == 8 and flags & STREAMED else start + max(0, packed))


def _unpacked(content: bytes, entry: Entry, budget: Budget) -> Member:
    if entry.encrypted:
        return Member(entry.names, b"", "encrypted")
    if entry.start > len(content):
        return Member(entry.names, b"", "damaged")
    data = memoryview(content)[entry.start : entry.start + entry.packed]
    limit = budget.allowance(len(data))
    if limit <= 0:
        return Member(entry.names, b"", budget.shortage(len(data)))
    unread: Unread | None = None
    if entry.method == 0:
        out, unread = bytes(data[:limit]), "size" if len(data) > limit else None
    elif entry.method in _METHODS:
        out, unread = _METHODS[entry.method](data, limit)
    else:
        return Member(entry.names, b"", "encrypted" if entry.method == 99 else "unsupported")
    shortage = budget.shortage(len(data))
    budget.pay(len(data), len(out))
    return Member(entry.names, out, shortage if unread == "size" else unread)


def _name(raw: bytes, flags: int) -> str:
    if flags & UTF8:
        return raw.decode("utf-8", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")
