"""The directory of a 7z archive, as nested lists of properties, each with an id in front (7zFormat.txt)."""

from collections.abc import Iterator

import msgspec

from gatepost.files.values import BrokenError, ByteSource

MAX_FOLDERS = 100_000
MAX_CODERS = 8
MAX_STREAMS = 1 << 20

_END, _HEADER, _ARCHIVE, _ADDITIONAL, _MAIN, _FILES, _PACK, _UNPACK, _SUBSTREAMS = range(9)
_SIZE, _CRC, _FOLDER, _UNPACK_SIZE, _SUB_COUNT, _EMPTY_STREAM, _EMPTY_FILE = range(9, 16)
_NAMES, _ENCODED = 0x11, 0x17


class Coder(msgspec.Struct, frozen=True):
    """One step of packing: how many streams go in and come out when it is undone."""

    method: bytes
    properties: bytes = b""
    inputs: int = 1
    outputs: int = 1


class Folder(msgspec.Struct, frozen=True):
    """A run of files packed together. `bound` leads from an input to the output that feeds it, `fed` from an input
    to the packed stream that does; `sizes` are those of the outputs; `packs` are places and sizes in the archive."""

    coders: tuple[Coder, ...]
    bound: dict[int, int]
    fed: dict[int, int]
    sizes: tuple[int, ...] = ()
    packs: tuple[tuple[int, int], ...] = ()
    crc: int | None = None

    @property
    def last(self) -> int:
        """The output that nothing else takes: the files."""
        used = set(self.bound.values())
        return next((output for output in range(len(self.sizes)) if output not in used), 0)

    @property
    def size(self) -> int:
        """How many bytes the files are."""
        return self.sizes[self.last] if self.sizes else 0


class Stream(msgspec.Struct, frozen=True):
    """One file in a folder."""

    size: int
    crc: int | None = None


class Directory(msgspec.Struct, frozen=True):
    """What is in the archive: folders, the files of each, the names of those in order, and files without content."""

    folders: tuple[Folder, ...] = ()
    streams: tuple[tuple[Stream, ...], ...] = ()
    names: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


class HeaderSource(ByteSource):
    """Adds the numbers and bit lists of 7z."""

    def read_varint(self, most: int = 1 << 62) -> int:
        """Return a number whose first byte says, by its leading ones, how many bytes follow."""
        first = self.number(1)
        extra = 0
        while extra < 8 and first & (0x80 >> extra):
            extra += 1
        low = self.number(extra)
        value = low | ((first & (0x7F >> extra)) << 8 * extra if extra < 7 else 0)
        if value > most:
            raise BrokenError("a number beyond reason")
        return value

    def read_bits(self, count: int) -> list[bool]:
        """Return `count` bits, high ones first."""
        data = self.take((count + 7) // 8)
        return [bool(data[place >> 3] & (0x80 >> (place & 7))) for place in range(count)]

    def read_defined(self, count: int) -> list[bool]:
        """Return a list of bits that has a shorthand for "all set"."""
        return [True] * count if self.number(1) else self.read_bits(count)

    def read_checksums(self, count: int) -> list[int | None]:
        """Return a CRC for each item that has one, None for the others."""
        return [self.number(4) if known else None for known in self.read_defined(count)]


def find_packed_header(header: bytes) -> Folder | None:
    """Return the folder that holds the real directory; None where this is the real one."""
    if not header or header[0] == _HEADER:
        return None
    if header[0] != _ENCODED:
        raise BrokenError("no directory")
    folders, _ = _read_streams(HeaderSource(header, 1))
    if not folders:
        raise BrokenError("a packed directory that is nowhere")
    return folders[0]


def parse_directory(header: bytes, limit: int) -> Directory:
    """Return the directory, with at most a few more files than `limit`."""
    source = HeaderSource(header, 1)
    folders: tuple[Folder, ...] = ()
    streams: tuple[tuple[Stream, ...], ...] = ()
    names: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    while (kind := source.read_varint()) != _END:
        if kind == _ARCHIVE:
            _skip_properties(source)
        elif kind in (_MAIN, _ADDITIONAL):
            main = _read_streams(source)
            folders, streams = main if kind == _MAIN else (folders, streams)
        elif kind == _FILES:
            names, empty = _read_files(source, limit)
        else:
            raise BrokenError("an unknown part of the directory")
    return Directory(folders, streams, names, empty)


def _skip_properties(source: HeaderSource) -> None:
    while source.read_varint() != _END:
        source.skip(source.read_varint())


def _read_streams(source: HeaderSource) -> tuple[tuple[Folder, ...], tuple[tuple[Stream, ...], ...]]:
    """Return where the packed streams lie, the folders, and how each folder is cut into files."""
    start = 32
    packs: list[int] = []
    folders: list[Folder] = []
    streams: list[tuple[Stream, ...]] | None = None
    while (kind := source.read_varint()) != _END:
        if kind == _PACK:
            start, packs = _read_pack_info(source)
        elif kind == _UNPACK:
            folders = _read_folders(source)
        elif kind == _SUBSTREAMS:
            streams = _read_substreams(source, folders)
        else:
            raise BrokenError("an unknown part of the streams")
    placed = tuple(_place_folders(folders, start, packs))
    return placed, tuple(streams or [(Stream(folder.size, folder.crc),) for folder in folders])


def _read_pack_info(source: HeaderSource) -> tuple[int, list[int]]:
    start = 32 + source.read_varint()
    count = source.read_varint(MAX_STREAMS)
    sizes: list[int] = []
    while (kind := source.read_varint()) != _END:
        if kind == _SIZE:
            sizes = [source.read_varint() for _ in range(count)]
        elif kind == _CRC:
            source.read_checksums(count)
        else:
            raise BrokenError("an unknown part of the packed streams")
    return start, sizes


def _place_folders(folders: list[Folder], start: int, packs: list[int]) -> Iterator[Folder]:
    """Yield each folder with the places of its packed streams, which follow one another."""
    number = 0
    for folder in folders:
        own = packs[number : number + len(folder.fed)]
        number += len(folder.fed)
        places = []
        for size in own:
            places.append((start, size))
            start += size
        yield msgspec.structs.replace(folder, packs=tuple(places))


def _read_folders(source: HeaderSource) -> list[Folder]:
    if source.read_varint() != _FOLDER:
        raise BrokenError("no folders")
    count = source.read_varint(MAX_FOLDERS)
    if source.number(1):
        raise BrokenError("folders elsewhere")
    folders = [_read_folder(source) for _ in range(count)]
    if source.read_varint() != _UNPACK_SIZE:
        raise BrokenError("no sizes")
    sizes = [tuple(source.read_varint() for coder in folder.coders for _ in range(coder.outputs)) for folder in folders]
    crcs: list[int | None] = [None] * count
    while (kind := source.read_varint()) != _END:
        if kind != _CRC:
            raise BrokenError("an unknown part of the folders")
        crcs = source.read_checksums(count)
    return [
        msgspec.structs.replace(folder, sizes=size, crc=crc)
        for folder, size, crc in zip(folders, sizes, crcs, strict=True)
    ]


def _read_folder(source: HeaderSource) -> Folder:
    coders = tuple(_read_coder(source) for _ in range(source.read_varint(MAX_CODERS)))
    inputs, outputs = sum(coder.inputs for coder in coders), sum(coder.outputs for coder in coders)
    if not coders or not outputs:
        raise BrokenError("a folder without coders")
    bound = {source.read_varint(inputs): source.read_varint(outputs) for _ in range(outputs - 1)}
    feeds = inputs - len(bound)
    if feeds == 1:
        free = [number for number in range(inputs) if number not in bound]
        return Folder(coders, bound, dict.fromkeys(free[:1], 0))
    return Folder(coders, bound, {source.read_varint(inputs): number for number in range(max(0, feeds))})


def _read_coder(source: HeaderSource) -> Coder:
    flags = source.number(1)
    method = source.take(flags & 15)
    inputs, outputs = (source.read_varint(MAX_CODERS), source.read_varint(MAX_CODERS)) if flags & 0x10 else (1, 1)
    properties = source.take(source.read_varint()) if flags & 0x20 else b""
    return Coder(method, properties, inputs, outputs)


def _read_substreams(source: HeaderSource, folders: list[Folder]) -> list[tuple[Stream, ...]]:
    counts = [1] * len(folders)
    kind = source.read_varint()
    if kind == _SUB_COUNT:
        counts = [source.read_varint(MAX_STREAMS) for _ in folders]
        kind = source.read_varint()
    sizes = [_read_sizes(source, folder, count, kind == _SIZE) for folder, count in zip(folders, counts, strict=True)]
    if kind == _SIZE:
        kind = source.read_varint()
    known = [count == 1 and folder.crc is not None for folder, count in zip(folders, counts, strict=True)]
    crcs: Iterator[int | None] = iter(())
    while kind != _END:
        if kind != _CRC:
            raise BrokenError("an unknown part of the files' streams")
        missing = sum(count for count, has in zip(counts, known, strict=True) if not has)
        crcs = iter(source.read_checksums(min(missing, MAX_STREAMS)))
        kind = source.read_varint()
    return [
        tuple(Stream(size, folder.crc if has else next(crcs, None)) for size in own)
        for folder, own, has in zip(folders, sizes, known, strict=True)
    ]


def _read_sizes(source: HeaderSource, folder: Folder, count: int, given: bool) -> list[int]:
    """Return the sizes of a folder's files: all but the last are stated, the last is the rest."""
    if not count:
        return []
    sizes = [source.read_varint() for _ in range(count - 1)] if given else []
    return [*sizes, max(0, folder.size - sum(sizes))]


def _read_files(source: HeaderSource, limit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of files with content, and of empty files. What is neither is a folder."""
    count = source.read_varint(MAX_STREAMS)
    names: list[str] = []
    hollow: list[bool] = []
    empty: list[bool] = []
    while (kind := source.read_varint()) != _END:
        size = source.read_varint()
        end = source.place + size
        if size > source.left:
            raise BrokenError("out of bytes")
        if kind == _EMPTY_STREAM:
            hollow = source.read_bits(count)
        elif kind == _EMPTY_FILE:
            empty = source.read_bits(sum(hollow))
        elif kind == _NAMES and not source.number(1):
            names = _decode_names(source.take(end - source.place), min(count, 4 * limit + 1000))
        source.place = end
    states = [*hollow, *([False] * max(0, len(names) - len(hollow)))]
    empties = iter(empty)
    marked = [(name, state, state and next(empties, False)) for name, state in zip(names, states, strict=False)]
    filled = tuple(name for name, state, _ in marked if not state)
    return filled, tuple(name for name, _, is_empty in marked if is_empty)


def _decode_names(data: bytes, limit: int) -> list[str]:
    return data.decode("utf-16-le", "replace").split("\0", limit)[:limit]
