"""The coders of 7z: a small graph from packed streams to one output, undone from its end.

A filter for machine code (BCJ, delta) changes bytes in place, so it is undone by giving its input to liblzma as LZMA2
that is not packed at all, under that filter. AES takes its key from half a million rounds of SHA-256, on purpose.

7-Zip applies BCJ2 to every .exe before packing it, so a scanner that cannot undo it does not see programs at all.
Targets of calls and jumps are moved out of the code into two streams of their own, as absolute addresses; a fourth
stream says, by a range coder with one adaptive bit per place, which calls were moved.
"""

import lzma
import re
from collections.abc import Callable
from hashlib import sha256

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.archives import decompress
from gatepost.files.archives.decompress import MAX_WINDOW
from gatepost.files.archives.sevenzip_header import Coder, Folder
from gatepost.files.values import BrokenError, UnpackBudget, UnreadReason

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
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    window = min(max(int.from_bytes(properties[1:5], "little"), 4096), MAX_WINDOW)
    return {"id": lzma.FILTER_LZMA1, "dict_size": window, "lc": lc, "lp": lp, "pb": pb}


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
    """Return the AES key: SHA-256 over salt, password and a counter, 2^cycles times. The input is built in blocks,
    since a loop would take seconds."""
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
