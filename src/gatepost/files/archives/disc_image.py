"""Disc images: ISO 9660 with Joliet and Rock Ridge names, and UDF beside or instead of it.

Windows opens these with a double click, and the files inside once lost the mark of coming from the web. One image may
hold several directory trees over the same sectors; a program believes one of them, so all are read, and a file that two
trees lead to has the names of both. Standards: ECMA-119 and the Joliet specification.

UDF (ECMA-167) is the file system of DVDs and of images that Windows makes. The way leads from the anchor in sector 256
to the volume's descriptors, from there to a partition, the file set, the root and its tree; each structure has a tag
with a number in front. Images with a metadata or virtual partition (UDF 1.50, 2.50) are recognised and not read.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, TooManyError, UnpackBudget, UnreadReason

SECTOR = 2048
_ANCHOR_AT = 256
_ANCHOR, _PARTITION, _VOLUME, _TERMINATOR = 2, 5, 6, 8
_FILE_SET, _IDENTIFIER, _ENTRY, _EXTENDED = 256, 257, 261, 266
_MAX_DESCRIPTORS = 64
_MAX_FOLDERS = 5_000
_MAX_EXTENTS = 100
_MAX_NAMES = 20_000
_MAX_FOLDER_SIZE = 1 << 20
_FOLDER = 4
_SHORT, _LONG, _EMBEDDED = 0, 1, 3


class Extent(msgspec.Struct, frozen=True):
    """A run of bytes of the image."""

    start: int
    size: int


class _Partition(msgspec.Struct, frozen=True):
    """Where block 0 is, and where the file set is."""

    start: int
    file_set: int


def find_udf_files(content: bytes, limit: int) -> tuple[list[tuple[str, tuple[Extent, ...]]], UnreadReason | None]:
    """Return the files with their paths and places, and why there are not more. An image holds UDF by the descriptors
    that follow those of ISO 9660 or stand in their place."""
    found: list[tuple[str, tuple[Extent, ...]]] = []
    start = content[16 * SECTOR : 32 * SECTOR]
    if b"\0NSR02" not in start and b"\0NSR03" not in start:
        return found, None
    try:
        partition = _find_partition(content)
        if partition is None:
            return found, "unsupported"
        for file in _walk_udf(content, partition):
            found.append(file)
            if len(found) > limit:
                break
    except TooManyError:
        return found, "count"
    except BrokenError:
        return found, "damaged"
    return found, None


def _read_descriptor(content: bytes, place: int, *tags: int) -> ByteSource:
    """Return the descriptor at a place; it must have one of these tags."""
    source = ByteSource(content, place)
    if source.number(2) not in tags:
        raise BrokenError("another descriptor")
    source.place = place
    return source


def _read_number(content: bytes, place: int, size: int) -> int:
    return ByteSource(content, place).number(size)


def _find_partition(content: bytes) -> _Partition | None:
    _read_descriptor(content, _ANCHOR_AT * SECTOR, _ANCHOR)
    place = _read_number(content, _ANCHOR_AT * SECTOR + 20, 4) * SECTOR
    starts: dict[int, int] = {}
    volume = -1
    for _ in range(_MAX_DESCRIPTORS):
        tag = _read_number(content, place, 2)
        if tag == _TERMINATOR:
            break
        if tag == _PARTITION:
            starts[_read_number(content, place + 22, 2)] = _read_number(content, place + 188, 4) * SECTOR
        elif tag == _VOLUME:
            volume = place
        place += SECTOR
    if volume < 0:
        raise BrokenError("no volume")
    maps, kind = _read_number(content, volume + 268, 4), _read_number(content, volume + 440, 1)
    start = starts.get(_read_number(content, volume + 444, 2))
    if maps != 1 or kind != 1 or start is None:
        return None
    return _Partition(start, start + _read_number(content, volume + 252, 4) * SECTOR)


def _walk_udf(content: bytes, partition: _Partition) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    _read_descriptor(content, partition.file_set, _FILE_SET)
    queue = deque([("", _read_number(content, partition.file_set + 404, 4))])
    names = StepLimit(_MAX_NAMES)
    seen: set[int] = set()
    while queue and len(seen) < _MAX_FOLDERS:
        path, block = queue.popleft()
        if block in seen:
            continue
        seen.add(block)
        extents = _read_udf_entry(content, partition, block)
        size = sum(extent.size for extent in extents)
        if size > _MAX_FOLDER_SIZE:
            raise BrokenError("a folder beyond reason")
        data = b"".join(content[extent.start : extent.start + extent.size] for extent in extents)
        for name, child, is_folder in _read_identifiers(data, names):
            if is_folder:
                queue.append((f"{path}{name}/", child))
            else:
                yield path + name, _read_udf_entry(content, partition, child)


def _read_udf_entry(content: bytes, partition: _Partition, block: int) -> tuple[Extent, ...]:
    """Return where the bytes of a file entry are."""
    place = partition.start + block * SECTOR
    tag = _read_descriptor(content, place, _ENTRY, _EXTENDED).number(2)
    form, size = _read_number(content, place + 34, 2) & 7, _read_number(content, place + 56, 8)
    head = 176 if tag == _ENTRY else 216
    attributes, length = _read_number(content, place + head - 8, 4), _read_number(content, place + head - 4, 4)
    start = place + head + attributes
    if form == _EMBEDDED:
        return (Extent(start, min(size, length)),)
    if form not in (_SHORT, _LONG):
        raise BrokenError("extents of an unknown form")
    return tuple(_read_extents(ByteSource(content, start), length, form, partition, size))


def _read_extents(source: ByteSource, length: int, form: int, partition: _Partition, size: int) -> Iterator[Extent]:
    step = 8 if form == _SHORT else 16
    for _ in range(min(length // step, _MAX_EXTENTS)):
        run, block = source.number(4) & 0x3FFFFFFF, source.number(4)
        source.skip(step - 8)
        run = min(run, size)
        size -= run
        if run:
            yield Extent(partition.start + block * SECTOR, run)


def _read_identifiers(data: bytes, names: StepLimit) -> Iterator[tuple[str, int, bool]]:
    """Yield the names in a folder, with the block of each one's entry; without the parent and what was deleted."""
    place = 0
    while place + 38 <= len(data):
        names.step()
        source = _read_descriptor(data, place, _IDENTIFIER)
        source.skip(18)
        marks, name_size = source.number(1), source.number(1)
        source.skip(4)
        block = source.number(4)
        source.skip(8)
        source.skip(source.number(2))
        name = source.take(name_size)
        if not marks & 0b1100:
            # The first byte of a name says how many bits a character has.
            text = name[1:].decode("utf-16-be" if name[:1] == b"\x10" else "latin-1", "replace")
            yield text, block, bool(marks & 2)
        place += (source.place - place + 3) & ~3


_FIRST = 16
MAX_STEPS = 50_000
_PRIMARY, _SUPPLEMENTARY, _LAST = 1, 2, 255
_JOLIET = (b"%/@", b"%/C", b"%/E")
_IS_FOLDER = 2


def read_members(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every file of every tree, once."""
    found: dict[tuple[Extent, ...], dict[str, None]] = {}
    unread: UnreadReason | None = None
    try:
        for wide, root in _find_roots(content):
            _add_files(found, _walk_iso(content, root, wide, budget.max_files))
    except TooManyError:
        unread = "count"
    files, shortfall = find_udf_files(content, budget.max_files)
    unread = unread or shortfall
    _add_files(found, files)
    for extents, names in found.items():
        yield _read_member(content, tuple(names), extents, budget)
    if unread or not found:
        yield Member(("",), b"", unread or "damaged")


def _add_files(
    found: dict[tuple[Extent, ...], dict[str, None]], files: Iterable[tuple[str, tuple[Extent, ...]]]
) -> None:
    for name, extents in files:
        found.setdefault(extents, {})[name] = None


def _read_member(content: bytes, names: tuple[str, ...], extents: tuple[Extent, ...], budget: UnpackBudget) -> Member:
    size = sum(extent.size for extent in extents)
    limit = min(budget.allowance(min(size, len(content))), size)
    pieces: list[bytes] = []
    left = limit
    for extent in extents:
        pieces.append(content[extent.start : extent.start + min(extent.size, left)])
        left -= len(pieces[-1])
    data = b"".join(pieces)
    budget.pay(len(data), len(data))
    return Member(names, data, "size" if limit < size else "damaged" if len(data) < size else None)


def _find_roots(content: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yield the root record of each tree, and whether its names are Joliet's."""
    for number in range(_FIRST, _FIRST + _MAX_DESCRIPTORS):
        sector = content[number * SECTOR : (number + 1) * SECTOR]
        if sector[1:6] != b"CD001" or sector[0] == _LAST:
            return
        if sector[0] == _PRIMARY:
            yield False, sector[156:190]
        elif sector[0] == _SUPPLEMENTARY:
            yield sector[88:91] in _JOLIET, sector[156:190]


def _walk_iso(content: bytes, root: bytes, wide: bool, limit: int) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    """Yield the files below a root, with their paths. A folder that leads back to itself is read once."""
    queue = deque([("", _make_extent(root))])
    seen: set[int] = set()
    steps = StepLimit(MAX_STEPS)
    count = 0
    while queue and len(seen) < _MAX_FOLDERS:
        path, place = queue.popleft()
        if place.start in seen:
            continue
        seen.add(place.start)
        pending: tuple[Extent, ...] = ()
        folder = content[place.start : place.start + min(place.size, _MAX_FOLDER_SIZE)]
        for record in _read_records(folder, steps):
            name = path + _decode_name(record, wide)
            if record[25] & _IS_FOLDER:
                queue.append((f"{name}/", _make_extent(record)))
                continue
            pending = (*pending, _make_extent(record)) if len(pending) < 64 else pending
            if record[25] & 0x80:  # the file goes on in the next record
                continue
            count += 1
            if count > limit + 1:
                return
            yield name, pending
            pending = ()


def _read_records(data: bytes, steps: StepLimit) -> Iterator[bytes]:
    """Yield the entries of a folder but for the two that stand for itself and its parent."""
    place = 0
    while place < len(data):
        steps.step()
        size = data[place]
        if size < 34:  # entries do not cross sectors: the rest of this one is empty
            place = (place // SECTOR + 1) * SECTOR
            continue
        record = data[place : place + size]
        if len(record) == size and record[32] and record[33 : 33 + record[32]] not in (b"\0", b"\1"):
            yield record
        place += size


def _make_extent(record: bytes) -> Extent:
    start, size = int.from_bytes(record[2:6], "little"), int.from_bytes(record[10:14], "little")
    return Extent(start * SECTOR, size)


def _decode_name(record: bytes, wide: bool) -> str:
    raw = record[33 : 33 + record[32]]
    if wide:
        name = raw.decode("utf-16-be", "replace")
    else:
        name = _find_rock_ridge_name(record[33 + record[32] :]) or raw.decode("latin-1")
    return name.removesuffix(";1").rstrip(".")


def _find_rock_ridge_name(system: bytes) -> str:
    """Return the long name among the fields after an entry (IEEE P1282, field NM)."""
    place = len(system) % 2 and 1 if system[:1] == b"\0" else 0
    name = b""
    while place + 4 <= len(system):
        size = system[place + 2]
        if size < 4:
            break
        if system[place : place + 2] == b"NM":
            name += system[place + 5 : place + size]
        place += size
    return name.decode("utf-8", "replace")
