"""RAR archives, versions 4 and 5: names and encryption from the headers, content that was only stored.

The method of packing is RAR's own, and no library that unpacks it comes as a wheel: libarchive does it where it is
installed, else what is packed is said to be unread. Formats: technote.txt of RAR 5 and of RAR 4.
"""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import msgspec

from gatepost.files.archives import libarchive
from gatepost.files.archives.appended import find_tail
from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, TooManyError, UnpackBudget, UnreadReason

RAR4 = b"Rar!\x1a\x07\x00"
RAR5 = b"Rar!\x1a\x07\x01\x00"
SFX_SIZE = 1 << 20  # how far into a file WinRAR looks for its mark
MAX_BLOCKS = 20_000
MAX_WINDOW = 128 << 20  # a header of a few bytes may ask for 4 GB

_MAIN4, _FILE4, _END4 = 0x73, 0x74, 0x7B
_STORED4 = 0x30
_MAIN5, _FILE5, _SERVICE5, _CRYPT5, _END5 = range(1, 6)


class RarEntry(msgspec.Struct, frozen=True):
    """One file: where its data lies, how long it is packed and unpacked, whether it can be read as it stands, and the
    `window` of memory that unpacking it takes."""

    name: str
    start: int
    packed: int
    size: int
    stored: bool
    encrypted: bool
    folder: bool = False
    split: bool = False
    window: int = 0


def read_members(content: bytes, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every file; where the headers are encrypted, one member without a name. No password is tried: what comes
    out of the cipher is packed, and nothing here unpacks it. That is said."""
    entries, unread, end = _read_entries(content, budget.max_files)
    if unread == "encrypted" or any(entry.encrypted for entry in entries):
        budget.untried = max(budget.untried, len(tuple(passwords)))
    files = [entry for entry in entries if not entry.folder]
    packed = any(not (entry.stored or entry.encrypted or entry.split) for entry in files)
    fits = all(entry.window <= MAX_WINDOW for entry in entries)
    if packed and fits and libarchive.is_usable(budget):
        unpacked = libarchive.read_members(content, "rar", budget, [entry.name for entry in files])
        for member, entry in zip_longest(unpacked, files):
            short = entry and member and not member.unread and not entry.split and len(member.content) < entry.size
            yield msgspec.structs.replace(member, unread="damaged") if short else member
    else:
        yield from (_read_stored(content, entry, budget) for entry in files)
    for entry in entries:
        if entry.folder and entry.packed:  # a folder has no content; programs differ on what this one is
            yield Member((entry.name,), b"", "unsupported")
    is_said = unread == "damaged" and any(entry.start + entry.packed > len(content) for entry in files)
    if unread and not is_said:
        yield Member(("",), b"", unread)
    yield from find_tail(content, end, budget)


def _read_entries(content: bytes, limit: int) -> tuple[list[RarEntry], UnreadReason | None, int]:
    """Return the files as far as the headers can be read, why no further, and where the archive ends if it says so."""
    start = content.find(b"Rar!\x1a\x07", 0, SFX_SIZE)
    newer = content.startswith(RAR5, start)
    found: list[RarEntry] = []
    unread: UnreadReason | None = None
    end = 0
    walk = _read_rar5(content, start + len(RAR5)) if newer else _read_rar4(content, start + len(RAR4))
    try:
        for entry in walk:
            if entry is None:
                unread = "encrypted"
                break
            if isinstance(entry, int):
                end = entry
                break
            found.append(entry)
            if len(found) > limit:
                break
    except TooManyError:
        unread = "count"
    except BrokenError:
        unread = "damaged"
    return found, unread, end


def _read_rar4(content: bytes, start: int) -> Iterator[RarEntry | int | None]:
    """Yield the blocks of RAR 4; None where the rest is encrypted, and where the end is behind the last one."""
    place = start
    blocks = StepLimit(MAX_BLOCKS)
    while place + 7 <= len(content):
        blocks.step()
        source = ByteSource(content, place + 2)
        kind, flags, size = source.number(1), source.number(2), source.number(2)
        if size < 7:
            raise BrokenError("a block without a size")
        data = source.number(4) if flags & 0x8000 or kind == _FILE4 else 0
        if kind == _END4:
            yield place + size
            return
        if kind == _MAIN4 and flags & 0x80:
            yield None
            return
        if kind == _FILE4:
            entry = _read_file4(source, flags, place + size, data)
            data = entry.packed
            yield entry
        place += size + data
    if place > len(content):
        raise BrokenError("data that ends nowhere")


def _read_file4(source: ByteSource, flags: int, start: int, packed: int) -> RarEntry:
    size = source.number(4)
    source.skip(10)  # system, checksum, time, version
    method, name_size, _attributes = source.number(1), source.number(2), source.number(4)
    if flags & 0x100:
        packed |= source.number(4) << 32
        size |= source.number(4) << 32
    return RarEntry(
        name=_decode_name4(source.take(name_size), bool(flags & 0x200)),
        start=start,
        packed=packed,
        size=size,
        stored=method == _STORED4,
        encrypted=bool(flags & 4),
        folder=flags & 0xE0 == 0xE0,
        split=bool(flags & 3),
    )


def _decode_name4(raw: bytes, is_unicode: bool) -> str:
    plain, _, packed = raw.partition(b"\0")
    if not is_unicode:
        return raw.decode("cp437").rstrip("\0")
    if not packed:
        return plain.decode("utf-8", "replace")
    return _unpack_name(plain, packed)


def _unpack_name(plain: bytes, packed: bytes) -> str:
    """Decode a Unicode name of RAR 4, which is written as its difference from the plain name: two bits say how each
    character is given."""
    source = ByteSource(packed, 1)
    high = packed[0] << 8
    out: list[int] = []
    flags = bits = 0
    try:
        while source.left and len(out) < 1000:
            if not bits:
                flags, bits = source.number(1), 8
            bits -= 2
            form = flags >> bits & 3
            if form == 0:
                out.append(source.number(1))
            elif form == 1:
                out.append(source.number(1) | high)
            elif form == 2:
                out.append(source.number(2))
            else:
                out += _copy_run(source, plain, len(out), high)
    except BrokenError:
        pass
    return b"".join(unit.to_bytes(2, "little") for unit in out).decode("utf-16-le", "replace")


def _copy_run(source: ByteSource, plain: bytes, place: int, high: int) -> list[int]:
    """Return a run of the plain name, perhaps shifted."""
    length = source.number(1)
    shift = source.number(1) if length & 0x80 else None
    run = plain[place : place + (length & 0x7F) + 2]
    return list(run) if shift is None else [((byte + shift) & 0xFF) | high for byte in run]


def _read_rar5(content: bytes, start: int) -> Iterator[RarEntry | int | None]:
    """Yield the blocks of RAR 5; None where the rest is encrypted, and where the end is behind the last one."""
    place = start
    blocks = StepLimit(MAX_BLOCKS)
    while place < len(content):
        blocks.step()
        source = ByteSource(content, place + 4)
        size = _read_vint(source)
        end = source.place + size
        if not size or end > len(content):
            raise BrokenError("a block that ends nowhere")
        kind, flags = _read_vint(source), _read_vint(source)
        extra = _read_vint(source) if flags & 1 else 0
        data = _read_vint(source) if flags & 2 else 0
        if kind == _CRYPT5:
            yield None
            return
        if kind == _END5:
            yield end
            return
        if kind == _FILE5:
            yield _read_file5(source, flags, content[max(source.place, end - extra) : end], end, data)
        place = end + data
    if place > len(content):
        raise BrokenError("data that ends nowhere")


def _read_file5(source: ByteSource, flags: int, extra: bytes, start: int, packed: int) -> RarEntry:
    kind, size, _attributes = _read_vint(source), _read_vint(source), _read_vint(source)
    source.skip((4 if kind & 2 else 0) + (4 if kind & 4 else 0))
    method, _system = _read_vint(source), _read_vint(source)
    name = source.take(min(_read_vint(source), 65_536)).decode("utf-8", "replace")
    return RarEntry(
        name=name,
        start=start,
        packed=packed,
        size=size,
        stored=method >> 7 & 7 == 0,
        encrypted=1 in _read_extra_kinds(extra),
        folder=bool(kind & 1),
        split=bool(flags & 0x18),
        window=(128 << 10) << (method >> 10 & 0x1F) if method >> 7 & 7 else 0,
    )


def _read_extra_kinds(extra: bytes) -> set[int]:
    """Return which kinds of record follow a header."""
    source = ByteSource(extra)
    kinds = set()
    try:
        while source.left:
            size = _read_vint(source)
            end = source.place + size
            kinds.add(_read_vint(source))
            source.skip(end - source.place)
    except BrokenError:
        pass
    return kinds


def _read_vint(source: ByteSource) -> int:
    """Return a number of seven bits a byte, low ones first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = source.number(1)
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value
    raise BrokenError("a number beyond reason")


def _read_stored(content: bytes, entry: RarEntry, budget: UnpackBudget) -> Member:
    """Return an entry as it stands in the archive, if that is its content."""
    names = (entry.name,)
    if entry.encrypted:
        return Member(names, b"", "encrypted")
    if not entry.stored:
        return Member(names, b"", "unsupported")
    limit = min(budget.allowance(entry.packed), entry.packed)
    data = content[entry.start : entry.start + limit]
    budget.pay(len(data), len(data))
    short: UnreadReason | None = "size" if limit < entry.packed else "damaged" if len(data) < entry.packed else None
    return Member(names, data, "damaged" if entry.split else short)
