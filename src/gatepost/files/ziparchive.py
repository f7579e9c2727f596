"""Zip archives (PKWARE APPNOTE), read as every program reads them.

A zip says everything twice: each entry has a local header before its data, and the central directory at the end
repeats it. Programs believe one or the other, so a file can be hidden from whoever believes the other one. Here both
are read: entries of the central directory with all names given in either place, then the local headers that the
directory does not lead to. Encrypted entries are opened where the mail gives the password away.
"""

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct

import msgspec

from gatepost.files import inflate, zipcipher
from gatepost.files.budget import Budget
from gatepost.files.passwords import Ring
from gatepost.files.tree import Member

LOCAL = b"PK\x03\x04"
CENTRAL = b"PK\x01\x02"
END = b"PK\x05\x06"
ENCRYPTED = 0x1
STREAMED = 0x8
UTF8 = 0x800

_LOCAL = Struct("<4xHHHHHIIIHH")
_CENTRAL = Struct("<4xHHHHHHIIIHHHHHII")
_END = Struct("<4xHHHHIIH")
_AES = 99
_METHODS = {
    0: inflate.stored,
    8: inflate.deflate,
    12: inflate.bzip2,
    14: inflate.zip_lzma,
    93: inflate.zstd,
    95: inflate.xz,
}
_PROBE = 1024


class Entry(msgspec.Struct, frozen=True):
    """One entry: where its data starts and what is claimed of it."""

    names: tuple[str, ...]
    start: int
    method: int
    encrypted: bool
    packed: int
    crc: int = 0
    check: int = 0
    aes: zipcipher.Aes | None = None


def is_zip(content: bytes) -> bool:
    """By its end record or a local header at the start; data may stand before a zip, as in a self-extracting one."""
    return content.startswith(LOCAL) or content.find(END, max(0, len(content) - 66_000)) >= 0


def members(content: bytes, budget: Budget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Every entry that some program would unpack."""
    ring = Ring(passwords, budget)
    for entry in entries(content, budget.max_files):
        if entry.names[0].endswith("/") and not entry.packed:
            continue
        data = memoryview(content)[entry.start : entry.start + entry.packed]
        if entry.start > len(content):
            yield Member(entry.names, b"", "damaged")
        elif entry.encrypted or entry.method == _AES:
            yield _deciphered(data, entry, budget, ring)
        else:
            yield _unpacked(data, entry, entry.method, budget)


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
        name_size, extra_size, comment_size = fields[9:12]
        yield _entry_at(content, place, fields, shift)
        place += 46 + name_size + extra_size + comment_size


def _entry_at(content: bytes, place: int, fields: tuple[int, ...], shift: int) -> Entry:
    """An entry of the directory with what its local header adds."""
    flags, method, time, crc, packed, name_size, extra_size = *fields[2:5], *fields[6:8], *fields[9:11]
    header = fields[15] + shift
    names = [_name(content[place + 46 : place + 46 + name_size], flags)]
    extra = content[place + 46 + name_size : place + 46 + name_size + extra_size]
    start = header
    encrypted = bool(flags & ENCRYPTED)
    if content.startswith(LOCAL, header) and header + 30 <= len(content):
        local = _LOCAL.unpack_from(content, header)
        local_flags, name_size, extra_size = local[1], local[8], local[9]
        start = header + 30 + name_size + extra_size
        names.append(_name(content[header + 30 : header + 30 + name_size], local_flags))
        # Believe "encrypted" only if both say so: a lie in one header must not keep us out.
        encrypted = encrypted and bool(local_flags & ENCRYPTED)
    check = time >> 8 if flags & STREAMED else crc >> 24
    aes = zipcipher.aes_field(extra) if method == _AES else None
    return Entry(tuple(dict.fromkeys(names)), start, method, encrypted, packed, crc, check, aes)


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
        flags, method, time, crc, packed, name_size, extra_size = *fields[1:4], *fields[5:7], *fields[8:10]
        start = place + 30 + name_size + extra_size
        if not packed or flags & STREAMED:
            following = content.find(b"PK", start)
            packed = (following if following >= 0 else len(content)) - start if method == 0 else len(content) - start
        name = _name(content[place + 30 : place + 30 + name_size], flags)
        check = time >> 8 if flags & STREAMED else crc >> 24
        aes = zipcipher.aes_field(content[start - extra_size : start]) if method == _AES else None
        yield Entry((name,), start, method, bool(flags & ENCRYPTED), max(0, packed), crc, check, aes)
        place = content.find(LOCAL, place + 4 if method == 8 and flags & STREAMED else start + max(0, packed))


def _unpacked(data: memoryview | bytes, entry: Entry, method: int, budget: Budget, password: str = "") -> Member:
    limit = budget.allowance(len(data))
    shortage = budget.shortage(len(data))
    if limit <= 0:
        return Member(entry.names, b"", shortage, password)
    if method not in _METHODS:
        return Member(entry.names, b"", "unsupported", password)
    out, unread = _METHODS[method](data, limit)
    budget.pay(len(data), len(out))
    return Member(entry.names, out, shortage if unread == "size" else unread, password)


def _deciphered(data: memoryview, entry: Entry, budget: Budget, ring: Ring) -> Member:
    """The entry opened with a password from the mail, or the word that it is encrypted."""
    locked = Member(entry.names, b"", "encrypted")
    if budget.allowance(len(data)) <= 0:
        return locked
    if entry.method == _AES:
        field = entry.aes
        if field is None:
            return locked
        clear = ring.unlock(lambda password: zipcipher.aes(data, field, password.encode("utf-8", "replace")))
        return locked if clear is None else _unpacked(clear, entry, field.method, budget, ring.password)
    return ring.unlock(lambda password: _tried(data, entry, budget, password)) or locked


def _tried(data: memoryview, entry: Entry, budget: Budget, password: str) -> Member | None:
    """The entry under the old cipher, if this password fits: by the header, by a first piece, and by the whole."""
    key = password.encode("utf-8", "replace")
    cipher = zipcipher.traditional(data, key, entry.check)
    if cipher is None:
        return None
    body = data[zipcipher.HEADER :]
    head = cipher.decipher(body[:_PROBE])
    if not _plausible(head, entry.method) or not budget.slowly(len(body)):
        return None
    member = _unpacked(head + cipher.decipher(body[_PROBE:]), entry, entry.method, budget, password)
    whole = member.unread is None
    return None if whole and zlib.crc32(member.content) != entry.crc else member


def _plausible(head: bytes, method: int) -> bool:
    """Whether a first piece under deflate is no nonsense."""
    try:
        return method != 8 or len(zlib.decompressobj(-15).decompress(head, _PROBE)) >= 0
    except zlib.error:
        return False


def _name(raw: bytes, flags: int) -> str:
    if flags & UTF8:
        return raw.decode("utf-8", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")
