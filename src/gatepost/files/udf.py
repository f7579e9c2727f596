"""UDF (ECMA-167), the file system of DVDs and of images that Windows makes.

From the anchor in sector 256 to the volume's descriptors, from there to a partition, the file set, the root and its
tree. Everything has a tag with a number in front. Images with a metadata or virtual partition (UDF 1.50, 2.50) are
recognised and not read.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from gatepost.files.bytesource import BrokenError, ByteSource, Count, TooManyError
from gatepost.files.tree import Unread

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


def is_udf(content: bytes) -> bool:
    """By the descriptors that follow those of ISO 9660, or stand in their place."""
    start = content[16 * SECTOR : 32 * SECTOR]
    return b"\0NSR02" in start or b"\0NSR03" in start


def files(content: bytes, limit: int) -> tuple[list[tuple[str, tuple[Extent, ...]]], Unread | None]:
    """The files with their paths and places, and why there are not more."""
    found: list[tuple[str, tuple[Extent, ...]]] = []
    try:
        partition = _partition(content)
        if partition is None:
            return found, "unsupported"
        for file in _tree(content, partition):
            found.append(file)
            if len(found) > limit:
                break
    except TooManyError:
        return found, "count"
    except BrokenError:
        return found, "damaged"
    return found, None


def _tagged(content: bytes, place: int, *tags: int) -> ByteSource:
    """A descriptor that must be one of these."""
    source = ByteSource(content, place)
    if source.number(2) not in tags:
        raise BrokenError("another descriptor")
    source.place = place
    return source


def _at(content: bytes, place: int, size: int) -> int:
    return ByteSource(content, place).number(size)


def _partition(content: bytes) -> _Partition | None:
    _tagged(content, _ANCHOR_AT * SECTOR, _ANCHOR)
    place = _at(content, _ANCHOR_AT * SECTOR + 20, 4) * SECTOR
    starts: dict[int, int] = {}
    volume = -1
    for _ in range(_MAX_DESCRIPTORS):
        tag = _at(content, place, 2)
        if tag == _TERMINATOR:
            break
        if tag == _PARTITION:
            starts[_at(content, place + 22, 2)] = _at(content, place + 188, 4) * SECTOR
        elif tag == _VOLUME:
            volume = place
        place += SECTOR
    if volume < 0:
        raise BrokenError("no volume")
    maps, kind = _at(content, volume + 268, 4), _at(content, volume + 440, 1)
    start = starts.get(_at(content, volume + 444, 2))
    if maps != 1 or kind != 1 or start is None:
        return None
    return _Partition(start, start + _at(content, volume + 252, 4) * SECTOR)


def _tree(content: bytes, partition: _Partition) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    _tagged(content, partition.file_set, _FILE_SET)
    queue = deque([("", _at(content, partition.file_set + 404, 4))])
    names = Count(_MAX_NAMES)
    seen: set[int] = set()
    while queue and len(seen) < _MAX_FOLDERS:
        path, block = queue.popleft()
        if block in seen:
            continue
        seen.add(block)
        _kind, extents = _entry(content, partition, block)
        size = sum(extent.size for extent in extents)
        if size > _MAX_FOLDER_SIZE:
            raise BrokenError("a folder beyond reason")
        data = b"".join(content[extent.start : extent.start + extent.size] for extent in extents)
        for name, child, is_folder in _identifiers(data, names):
            if is_folder:
                queue.append((f"{path}{name}/", child))
            else:
                yield path + name, _entry(content, partition, child)[1]


def _entry(content: bytes, partition: _Partition, block: int) -> tuple[int, tuple[Extent, ...]]:
    """What a file entry is of, and where its bytes are."""
    place = partition.start + block * SECTOR
    tag = _tagged(content, place, _ENTRY, _EXTENDED).number(2)
    kind, form, size = _at(content, place + 27, 1), _at(content, place + 34, 2) & 7, _at(content, place + 56, 8)
    head = 176 if tag == _ENTRY else 216
    attributes, length = _at(content, place + head - 8, 4), _at(content, place + head - 4, 4)
    start = place + head + attributes
    if form == _EMBEDDED:
        return kind, (Extent(start, min(size, length)),)
    if form not in (_SHORT, _LONG):
        raise BrokenError("extents of an unknown form")
    return kind, tuple(_extents(ByteSource(content, start), length, form, partition, size))


def _extents(source: ByteSource, length: int, form: int, partition: _Partition, size: int) -> Iterator[Extent]:
    step = 8 if form == _SHORT else 16
    for _ in range(min(length // step, _MAX_EXTENTS)):
        run, block = source.number(4) & 0x3FFFFFFF, source.number(4)
        source.skip(step - 8)
        run = min(run, size)
        size -= run
        if run:
            yield Extent(partition.start + block * SECTOR, run)


def _identifiers(data: bytes, names: Count) -> Iterator[tuple[str, int, bool]]:
    """The names in a folder, with the block of each one's entry; without the parent and what was deleted."""
    place = 0
    while place + 38 <= len(data):
        names.step()
        source = _tagged(data, place, _IDENTIFIER)
        source.skip(18)
        marks, name_size = source.number(1), source.number(1)
        source.skip(4)
        block = source.number(4)
        source.skip(8)
        source.skip(source.number(2))
        name = source.take(name_size)
        if not marks & 0b1100:
            yield _name(name), block, bool(marks & 2)
        place += (source.place - place + 3) & ~3


def _name(raw: bytes) -> str:
    """The first byte says how many bits a character has."""
    return raw[1:].decode("utf-16-be" if raw[:1] == b"\x10" else "latin-1", "replace")
