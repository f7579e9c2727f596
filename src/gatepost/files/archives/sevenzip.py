"""7z archives: a directory at the end that says how to undo the packing of each run of files.

The directory is itself packed more often than not, sometimes encrypted. It is nested lists of properties, each with an
id in front. Files are packed back to back in "folders" (solid runs), each through a chain of coders: a small graph from
packed streams to one output, undone here from its end; libarchive undoes the rare coders. Format: 7zFormat.txt of the
LZMA SDK.

A filter for machine code (BCJ, delta) changes bytes in place, so it is undone by giving its input to liblzma as LZMA2
that is not packed at all, under that filter. AES takes its key from half a million rounds of SHA-256, on purpose.

7-Zip applies BCJ2 to every .exe before packing it, so a scanner that cannot undo it does not see programs at all.
Targets of calls and jumps are moved out of the code into two streams of their own, as absolute addresses; a fourth
stream says, by a range coder with one adaptive bit per place, which calls were moved.
"""

import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.archives import decompress, libarchive
from gatepost.files.archives.decompress import MAX_WINDOW
from gatepost.files.archives.passwords import PasswordAttempts
from gatepost.files.values import BrokenError, ByteSource, Member, TooManyError, UnpackBudget, UnreadReason

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

    def read_checksums(self, count: int) -> list[int | None]:
        """Return a CRC for each item that has one, None for the others; "all have one" takes a byte."""
        has_one = [True] * count if self.number(1) else self.read_bits(count)
        return [self.number(4) if known else None for known in has_one]


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
            while source.read_varint() != _END:
                source.skip(source.read_varint())
        elif kind in (_MAIN, _ADDITIONAL):
            main = _read_streams(source)
            folders, streams = main if kind == _MAIN else (folders, streams)
        elif kind == _FILES:
            names, empty = _read_files(source, limit)
        else:
            raise BrokenError("an unknown part of the directory")
    return Directory(folders, streams, names, empty)


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
            most = min(count, 4 * limit + 1000)
            names = source.take(end - source.place).decode("utf-16-le", "replace").split("\0", most)[:most]
        source.place = end
    states = [*hollow, *([False] * max(0, len(names) - len(hollow)))]
    empties = iter(empty)
    marked = [(name, state, state and next(empties, False)) for name, state in zip(names, states, strict=False)]
    filled = tuple(name for name, state, _ in marked if not state)
    return filled, tuple(name for name, _, is_empty in marked if is_empty)


ATTEMPT_COST = 100
AES = b"\x06\xf1\x07\x01"
BCJ2 = b"\x03\x03\x01\x1b"
COPY = b"\0"
LZMA1 = b"\x03\x01\x01"
LZMA2 = b"\x21"
_STREAMS: dict[bytes, Callable[[bytes, int], tuple[bytes, UnreadReason | None]]] = {
    b"\x04\x01\x08": decompress.deflate,
    b"\x04\x02\x02": decompress.bzip2,
    b"\x04\xf7\x11\x01": decompress.zstd,
}
_FILTERS = {
    b"\x03": lzma.FILTER_DELTA,
    b"\x04": lzma.FILTER_X86,
    b"\x05": lzma.FILTER_POWERPC,
    b"\x06": lzma.FILTER_IA64,
    b"\x07": lzma.FILTER_ARM,
    b"\x08": lzma.FILTER_ARMTHUMB,
    b"\x09": lzma.FILTER_SPARC,
    b"\x03\x03\x01\x03": lzma.FILTER_X86,
    b"\x03\x03\x02\x05": lzma.FILTER_POWERPC,
    b"\x03\x03\x04\x01": lzma.FILTER_IA64,
    b"\x03\x03\x05\x01": lzma.FILTER_ARM,
    b"\x03\x03\x07\x01": lzma.FILTER_ARMTHUMB,
    b"\x03\x03\x08\x05": lzma.FILTER_SPARC,
}
_KNOWN = frozenset({AES, BCJ2, COPY, LZMA1, LZMA2, *_STREAMS, *_FILTERS})
_MAX_CYCLES = 20
_MAX_HASHED = 32 << 20  # half a million rounds over a password of some 25 characters
_CHUNK = 1 << 16


class UnpackedFolder(msgspec.Struct, frozen=True):
    """A folder unpacked as far as it went, why no further, and the password that it took."""

    content: bytes = b""
    unread: UnreadReason | None = None
    password: str = ""


class _Stop(Exception):  # noqa: N818  a way out of the recursion, not an error
    """Undoing cannot go on, for this reason."""

    def __init__(self, unread: UnreadReason) -> None:
        self.unread: UnreadReason = unread


def is_encrypted(folder: Folder) -> bool:
    """Return whether a password is needed for the folder."""
    return any(coder.method == AES for coder in folder.coders)


def is_known(folder: Folder) -> bool:
    """Return whether all coders of the folder can be undone here."""
    return all(coder.method in _KNOWN for coder in folder.coders)


def decode_folder(content: bytes, folder: Folder, budget: UnpackBudget, password: str = "") -> UnpackedFolder:
    """Undo the coders of a folder, within the budget."""
    packed = sum(min(size, max(0, len(content) - place)) for place, size in folder.packs)
    limit = min(budget.allowance(packed), folder.size)
    shortage = budget.shortage(packed)
    if limit <= 0 < folder.size:
        return UnpackedFolder(unread=shortage)
    decoder = _FolderDecoder(content, folder, limit, budget, password)
    try:
        out = decoder.decode_output(folder.last, 0)[:limit]
    except _Stop as stop:
        budget.pay(packed, 0)
        return UnpackedFolder(unread=stop.unread, password=password)
    budget.pay(packed, len(out))
    unread: UnreadReason | None = None
    if len(out) < folder.size:
        unread = shortage if len(out) == limit else "damaged"
    return UnpackedFolder(out, unread, password)


class _FolderDecoder:
    """One folder being undone."""

    def __init__(self, content: bytes, folder: Folder, limit: int, budget: UnpackBudget, password: str) -> None:
        self._content = content
        self._folder = folder
        self._limit = limit
        self._budget = budget
        self._password = password

    def decode_output(self, number: int, depth: int) -> bytes:
        """Return what comes out of the coder that this output belongs to."""
        first_input = first_output = 0
        for coder in self._folder.coders:
            if first_output <= number < first_output + coder.outputs:
                break
            first_input += coder.inputs
            first_output += coder.outputs
        else:
            raise _Stop("damaged")
        if depth > len(self._folder.coders):  # outputs that feed each other in a circle
            raise _Stop("damaged")
        inputs = [self._read_input(first_input + offset, depth) for offset in range(coder.inputs)]
        return self._undo(coder, inputs, min(self._limit, self._folder.sizes[number]))

    def _read_input(self, number: int, depth: int) -> bytes:
        if number in self._folder.bound:
            return self.decode_output(self._folder.bound[number], depth + 1)
        pack = self._folder.fed.get(number, -1)
        if not 0 <= pack < len(self._folder.packs):
            raise _Stop("damaged")
        place, size = self._folder.packs[pack]
        return self._content[place : place + size]

    def _undo(self, coder: Coder, inputs: list[bytes], size: int) -> bytes:
        if coder.method == BCJ2 and len(inputs) == 4:
            return self._undo_bcj2(inputs, size)
        if len(inputs) != 1:
            raise _Stop("unsupported")
        (data,) = inputs
        if coder.method == AES:
            # What is cut here is the padding alone: the limit is on what comes out, not on what is deciphered.
            return _decrypt(data, coder.properties, self._password)
        if coder.method == COPY:
            return data[:size]
        if coder.method in (LZMA1, LZMA2):
            return decompress.raw_lzma(data, size, [_read_lzma_filter(coder)])[0]
        if coder.method in _STREAMS:
            return _STREAMS[coder.method](data, size)[0]
        if coder.method in _FILTERS:
            return _undo_filter(data[:size], coder)
        raise _Stop("unsupported")

    def _undo_bcj2(self, inputs: list[bytes], size: int) -> bytes:
        room = self._budget.slow_left
        out, steps = decode_bcj2(inputs, size, room)
        self._budget.take_slow(steps)
        if steps >= room:
            raise _Stop("size")
        return out


def _read_lzma_filter(coder: Coder) -> dict[str, int]:
    properties = coder.properties
    if coder.method == LZMA2:
        if len(properties) != 1 or properties[0] > 40:
            raise _Stop("damaged")
        window = (2 | (properties[0] & 1)) << (properties[0] // 2 + 11)
        return {"id": lzma.FILTER_LZMA2, "dict_size": min(max(window, 4096), MAX_WINDOW)}
    if len(properties) < 5 or properties[0] >= 225:
        raise _Stop("damaged")
    return decompress.make_lzma_filter(properties)


def _undo_filter(data: bytes, coder: Coder) -> bytes:
    """Undo a filter alone, by way of LZMA2 chunks that hold the data as it is."""
    chunks = []
    for place in range(0, len(data), _CHUNK):
        piece = data[place : place + _CHUNK]
        chunks.append(bytes([1 if place == 0 else 2]) + (len(piece) - 1).to_bytes(2, "big") + piece)
    chain: list[dict[str, int]] = [{"id": _FILTERS[coder.method]}, {"id": lzma.FILTER_LZMA2, "dict_size": _CHUNK}]
    if chain[0]["id"] == lzma.FILTER_DELTA:
        chain[0]["dist"] = coder.properties[0] + 1 if coder.properties else 1
    return decompress.raw_lzma(b"".join(chunks) + b"\0", len(data), chain)[0]


def _decrypt(data: bytes, properties: bytes, password: str) -> bytes:
    if len(properties) < 2:
        raise _Stop("damaged")
    cycles = properties[0] & 0x3F
    salt_size = (properties[0] >> 7) + (properties[1] >> 4)
    iv_size = (properties[0] >> 6 & 1) + (properties[1] & 15)
    salt, iv = properties[2 : 2 + salt_size], properties[2 + salt_size : 2 + salt_size + iv_size]
    if cycles > _MAX_CYCLES or (len(salt) + 2 * len(password) + 8) << cycles > _MAX_HASHED:
        raise _Stop("encrypted")
    decryptor = Cipher(
        algorithms.AES(_derive_key(password, salt, cycles)), modes.CBC(iv.ljust(16, b"\0")[:16])
    ).decryptor()
    return decryptor.update(data[: len(data) // 16 * 16])


def _derive_key(password: str, salt: bytes, cycles: int) -> bytes:
    """Return the AES key: SHA-256 over salt, password and a counter, 2^cycles times, in blocks for speed."""
    unit = salt + password.encode("utf-16-le", "replace") + bytes(8)
    rounds = 1 << cycles
    block = min(rounds, 1 << 16)
    size, counter = len(unit), len(unit) - 8
    buffer = bytearray(unit * block)
    buffer[counter::size] = (bytes(range(256)) * (block // 256 + 1))[:block]
    buffer[counter + 1 :: size] = (b"".join(bytes([value]) * 256 for value in range(256)))[:block]
    digest = sha256()
    for high in range(rounds // block):
        buffer[counter + 2 :: size] = bytes([high & 255]) * block
        digest.update(buffer)
    return digest.digest()


# A call, a jump, or the second byte of a conditional jump. The first byte of those stands before the match.
_BRANCH = re.compile(rb"[\xe8\xe9]|(?<=\x0f)[\x80-\x8f]")
_TOP = 1 << 24


class _RangeDecoder:
    """A range decoder over one stream (as in LZMA)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._code = int.from_bytes(data[1:5], "big")
        self._place = 5
        self._range = 0xFFFFFFFF
        self._chances = [1024] * 258

    def decode_bit(self, context: int) -> bool:
        chance = self._chances[context]
        bound = (self._range >> 11) * chance
        taken = self._code >= bound
        if taken:
            self._range -= bound
            self._code -= bound
            self._chances[context] = chance - (chance >> 5)
        else:
            self._range = bound
            self._chances[context] = chance + ((2048 - chance) >> 5)
        if self._range < _TOP:
            if self._place >= len(self._data):
                raise BrokenError("out of bits")
            self._range = (self._range << 8) & 0xFFFFFFFF
            self._code = (self._code << 8 | self._data[self._place]) & 0xFFFFFFFF
            self._place += 1
        return taken


def decode_bcj2(streams: list[bytes], size: int, most: int) -> tuple[bytes, int]:
    """Return the code put together again, up to `size` bytes and `most` branches, and how many branches there were."""
    main, calls, jumps, decisions = streams
    bits = _RangeDecoder(decisions)
    out = bytearray()
    places = {True: 0, False: 0}
    place = steps = 0
    while len(out) < size and steps < most:
        found = _find_next_branch(main, place, out)
        end = found + 1 if found >= 0 else len(main)
        out += main[place:end]
        place = end
        if found < 0 or len(out) >= size:
            break
        steps += 1
        branch = out[-1]
        context = (2 + (out[-2] if len(out) > 1 else 0)) if branch == 0xE8 else 1 if branch == 0xE9 else 0
        try:
            if not bits.decode_bit(context):
                continue
        except BrokenError:
            break
        is_call = branch == 0xE8
        target = (calls if is_call else jumps)[places[is_call] : places[is_call] + 4]
        if len(target) < 4:
            break
        places[is_call] += 4
        out += ((int.from_bytes(target, "big") - len(out) - 4) & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(out[:size]), steps


def _find_next_branch(main: bytes, place: int, out: bytearray) -> int:
    """Return where the next branch is. What was put in may end in the first byte of a conditional jump."""
    if out and out[-1] == 0x0F and main[place : place + 1] and main[place] & 0xF0 == 0x80:
        return place
    found = _BRANCH.search(main, place)
    return found.start() if found else -1


SIGNATURE = b"7z\xbc\xaf\x27\x1c"
_START = 32
_MAX_LAYERS = 4
_MAX_HEADER = 2 << 20  # far more names than files are read


def read_members(content: bytes, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every file of the archive; where even the names are encrypted, one without a name."""
    attempts = PasswordAttempts(passwords, budget, ATTEMPT_COST)
    try:
        header = _read_header(content, budget, attempts)
        found = parse_directory(header.content, budget.max_files) if header.content else Directory()
    except TooManyError:
        yield Member(("",), b"", "count")
        return
    except BrokenError:
        yield Member(("",), b"", "damaged")
        return
    if header.unread:
        yield Member(("",), b"", header.unread)
    has_rare = not all(is_known(folder) or is_encrypted(folder) for folder in found.folders)
    if has_rare and libarchive.is_usable(budget):
        yield from libarchive.read_members(content, "7z", budget, found.names)
        return
    place = 0
    for folder, streams in zip(found.folders, found.streams, strict=False):
        if not streams:
            continue
        run = _unpack_folder(content, folder, streams, budget, attempts)
        names = found.names[place : place + len(streams)]
        yield from _cut_files(run, streams, names, header.password)
        place += len(streams)
    yield from (Member((name,), b"") for name in found.empty)


def _read_header(content: bytes, budget: UnpackBudget, attempts: PasswordAttempts) -> UnpackedFolder:
    """Return the directory in the clear, or why there is none, and the password that its encryption took."""
    source = HeaderSource(content, 12)
    offset, size = source.number(8), source.number(8)
    if not size:
        return UnpackedFolder()
    if offset + size > len(content) - _START:
        raise BrokenError("the directory lies outside")
    if size > _MAX_HEADER:
        raise TooManyError("too long a directory")
    header = content[_START + offset : _START + offset + size]
    password = ""
    for _ in range(_MAX_LAYERS):
        folder = find_packed_header(header)
        if folder is None:
            return UnpackedFolder(header, password=password)
        if folder.size > _MAX_HEADER:
            raise TooManyError("too long a directory")
        run = _unpack_folder(content, folder, (Stream(folder.size, folder.crc),), budget, attempts)
        if run.unread:
            return UnpackedFolder(unread=run.unread)
        header, password = run.content, password or run.password
    raise BrokenError("a directory within a directory without end")


def _unpack_folder(
    content: bytes, folder: Folder, streams: tuple[Stream, ...], budget: UnpackBudget, attempts: PasswordAttempts
) -> UnpackedFolder:
    """Return a folder unpacked, with a password where it takes one."""
    if not is_encrypted(folder):
        return decode_folder(content, folder, budget)

    def attempt(password: str) -> UnpackedFolder | None:
        run = decode_folder(content, folder, budget, password)
        return run if _fits(run, streams) else None

    return attempts.unlock(attempt) or UnpackedFolder(unread="encrypted")


def _fits(run: UnpackedFolder, streams: tuple[Stream, ...]) -> bool:
    """Return whether the first file that is whole has its checksum; without one, whether nothing broke."""
    if streams and streams[0].crc is not None and len(run.content) >= streams[0].size:
        return zlib.crc32(run.content[: streams[0].size]) == streams[0].crc
    return bool(run.content) and run.unread != "damaged"


def _cut_files(
    run: UnpackedFolder, streams: tuple[Stream, ...], names: tuple[str, ...], password: str
) -> Iterator[Member]:
    place = 0
    for number, stream in enumerate(streams):
        piece = run.content[place : place + stream.size]
        place += stream.size
        unread = run.unread or "damaged" if len(piece) < stream.size else None
        yield Member((names[number] if number < len(names) else "",), piece, unread, run.password or password)
