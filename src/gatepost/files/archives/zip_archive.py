"""Zip archives (PKWARE APPNOTE), read as every program reads them, and their two ciphers.

A zip says everything twice: each entry has a local header before its data, and the central directory at the end repeats
it. Programs believe one or the other, so a file can be hidden from the programs that believe the other one. Here both
are read: entries of the central directory with all names given in either place, then the local headers that the
directory does not lead to. Encrypted entries are opened where the mail gives the password away.

The old cipher (APPNOTE section 6.1) is three 32-bit registers stirred by each byte; twelve random bytes before the data
end in one that is known, which weeds out 255 wrong passwords of 256. The newer one (WinZip's AE-1 and AE-2) is AES in
counter mode with a key from PBKDF2, two bytes to check the password and ten to check the data.
"""

import hmac
import zlib
from collections.abc import Iterable, Iterator
from hashlib import pbkdf2_hmac
from struct import Struct

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.archives import decompress
from gatepost.files.archives.passwords import PasswordAttempts
from gatepost.files.file_types import TEXT_HEAD, is_plain_text, is_text_name
from gatepost.files.values import Member, UnpackBudget

HEADER = 12
AES_EXTRA = 0x9901
UNICODE_PATH_EXTRA = 0x7075
XCEED_NAME_EXTRA = 0x554E
ZIP64_EXTRA = 0x0001
_KEY_SIZES = {1: 16, 2: 24, 3: 32}
_ROUNDS = 1000
_CHECK, _MAC, _DIGEST = 2, 10, 20

_FIELD = Struct("<HH")
_TABLE = tuple(zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256))


class AesField(msgspec.Struct, frozen=True):
    """What the extra field of an AES entry says: the strength of the key and the method below the cipher."""

    strength: int
    method: int


class TraditionalCipher:
    """The old cipher, keyed by one password."""

    def __init__(self, password: bytes) -> None:
        k0, k1, k2 = 0x12345678, 0x23456789, 0x34567890
        for byte in password:
            k0 = (k0 >> 8) ^ _TABLE[(k0 ^ byte) & 255]
            k1 = ((k1 + (k0 & 255)) * 134775813 + 1) & 0xFFFFFFFF
            k2 = (k2 >> 8) ^ _TABLE[(k2 ^ (k1 >> 24)) & 255]
        self._keys = (k0, k1, k2)

    def decipher(self, data: bytes | memoryview) -> bytes:
        """Return the next bytes in the clear; about a second a megabyte, so callers keep it short."""
        k0, k1, k2 = self._keys
        table = _TABLE
        out = bytearray(len(data))
        for place, hidden in enumerate(data):
            mix = k2 | 2
            byte = hidden ^ (mix * (mix ^ 1) >> 8) & 255
            k0 = (k0 >> 8) ^ table[(k0 ^ byte) & 255]
            k1 = ((k1 + (k0 & 255)) * 134775813 + 1) & 0xFFFFFFFF
            k2 = (k2 >> 8) ^ table[(k2 ^ (k1 >> 24)) & 255]
            out[place] = byte
        self._keys = (k0, k1, k2)
        return bytes(out)


def open_traditional(data: memoryview, password: bytes, check: int) -> TraditionalCipher | None:
    """Return the cipher past its header, if the header's last byte is what it should be."""
    cipher = TraditionalCipher(password)
    header = cipher.decipher(data[:HEADER])
    return cipher if len(header) == HEADER and header[-1] == check else None


def find_aes_field(extra: bytes) -> AesField | None:
    """Return the AES record among the extra fields of an entry."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = _FIELD.unpack_from(extra, place)
        field = extra[place + 4 : place + 4 + size]
        if kind == AES_EXTRA and len(field) >= 7:
            return AesField(field[4], int.from_bytes(field[5:7], "little"))
        place += 4 + size
    return None


def _find_unicode_names(extra: bytes) -> list[str]:
    """Return the names in Unicode Path fields (APPNOTE section 4.6.9), which unpackers use in place of the name: a
    version, a checksum of that name, and the other name. Some do not compare the checksum."""
    found: list[str] = []
    place = 0
    while place + 4 <= len(extra):
        kind, size = _FIELD.unpack_from(extra, place)
        if kind == UNICODE_PATH_EXTRA and size > 5:
            found.append(extra[place + 9 : place + 4 + size].decode("utf-8", "replace"))
        elif kind == XCEED_NAME_EXTRA and extra[place + 4 : place + 8] == b"NUCX":
            letters = 2 * int.from_bytes(extra[place + 8 : place + 10], "little")
            found.append(extra[place + 10 : place + 10 + letters].decode("utf-16-le", "replace"))
        place += 4 + size
    return found


def decrypt_aes(data: memoryview, field: AesField, password: bytes) -> bytes | None:
    """Return the data in the clear, if both the password's and the data's check hold."""
    size = _KEY_SIZES.get(field.strength)
    if size is None or len(data) < size // 2 + _CHECK + _MAC:
        return None
    salt, rest = bytes(data[: size // 2]), data[size // 2 :]
    keys = pbkdf2_hmac("sha1", password, salt, _ROUNDS, 2 * size + _CHECK)
    if keys[-_CHECK:] != bytes(rest[:_CHECK]):
        return None
    body = rest[_CHECK:-_MAC]
    if hmac.digest(keys[size : 2 * size], body, "sha1")[:_MAC] != bytes(rest[-_MAC:]):
        return None
    return _decrypt_counter_mode(keys[:size], body)


def _decrypt_counter_mode(key: bytes, body: memoryview) -> bytes:
    """Decrypt AES in counter mode with WinZip's counter, which is little-endian and starts at one."""
    blocks = (len(body) + 15) // 16
    counters = bytearray(16 * blocks)
    for byte in range(4):
        run = 1 << 8 * byte  # each value of this byte of the counter stands for so many blocks
        runs = b"".join(bytes([value & 255]) * min(run, blocks + 1) for value in range(min(256, blocks // run + 1)))
        counters[byte::16] = (runs * (blocks // len(runs) + 1))[1 : blocks + 1]
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  the mode is built on it here
    stream = encryptor.update(bytes(counters))[: len(body)]
    return (int.from_bytes(stream, "little") ^ int.from_bytes(body, "little")).to_bytes(len(body), "little")


LOCAL = b"PK\x03\x04"
CENTRAL = b"PK\x01\x02"
END = b"PK\x05\x06"
END64 = b"PK\x06\x06"
ENCRYPTED = 0x1
STREAMED = 0x8
UTF8 = 0x800

_LOCAL = Struct("<4xHHHHHIIIHH")
_CENTRAL = Struct("<4xHHHHHHIIIHHHHHII")
_END = Struct("<4xHHHHIIH")
_END64 = Struct("<QQ")
_AES = 99
_METHODS = {
    0: decompress.read_stored,
    8: decompress.deflate,
    12: decompress.bzip2,
    14: decompress.zip_lzma,
    93: decompress.zstd,
    95: decompress.xz,
}
_PROBE = 1024
_PACKED_HEAD = 65_536
MAX_COMMENTS = 200


class ZipEntry(msgspec.Struct, frozen=True):
    """One entry: where its data starts and what is claimed of it; `listed` where the directory leads to it."""

    names: tuple[str, ...]
    start: int
    method: int
    encrypted: bool
    packed: int
    crc: int = 0
    check: int = 0
    aes: AesField | None = None
    listed: bool = True


def is_zip(content: bytes) -> bool:
    """Return whether this is a zip, by its end record (data may stand before it) or a local header at the start."""
    return content.startswith(LOCAL) or content.find(END, max(0, len(content) - 66_000)) >= 0


def find_end(content: bytes) -> int:
    """Return where the last end record with its comment ends; 0 where there is none."""
    place = content.rfind(END)
    return place + _END.size + int.from_bytes(content[place + 20 : place + 22], "little") if place >= 0 else 0


def read_members(content: bytes, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield every entry that some program would unpack."""
    attempts = PasswordAttempts(passwords, budget)
    entries = read_entries(content, budget.max_entries)
    has_directory = any(entry.listed for entry in entries)
    for entry in entries:
        if entry.names[0].endswith("/") and not entry.packed:
            continue
        data = memoryview(content)[entry.start : entry.start + entry.packed]
        if entry.start > len(content):
            yield Member(entry.names, b"", "damaged")
        elif entry.encrypted or entry.method == _AES:
            yield _decrypt(data, entry, budget, attempts)
        else:
            member = _unpack(data, entry, entry.method, budget)
            # Bytes that only look like a header, beside a directory that is in order, are no damage to the archive.
            if entry.listed or not has_directory or member.content or member.unread != "damaged":
                yield member
    if len(entries) > budget.max_entries:
        yield Member(("",), b"", "count")


def read_entries(content: bytes, limit: int) -> list[ZipEntry]:
    """Return the entries of the central directory, then those that only their local header tells of."""
    found: dict[int, ZipEntry] = {}
    for entry in _read_directory(content):
        found.setdefault(entry.start, entry)
        if len(found) > limit:
            break
    covered = sorted((entry.start, entry.start + entry.packed) for entry in found.values())
    for entry in _find_local_headers(content, covered):
        found.setdefault(entry.start, entry)
        if len(found) > limit:
            break
    return list(found.values())


def _read_directory(content: bytes) -> Iterator[ZipEntry]:
    place, shift = _find_directory(content)
    while content.startswith(CENTRAL, place) and place + _CENTRAL.size <= len(content):
        fields = _CENTRAL.unpack_from(content, place)
        name_size, extra_size, comment_size = fields[9:12]
        yield _read_entry(content, place, fields, shift)
        place += 46 + name_size + extra_size + comment_size


def find_comments(content: bytes) -> list[bytes]:
    """Return the comments of the archive and of its first entries (APPNOTE sections 4.4.18 and 4.4.26)."""
    end = content.rfind(END, max(0, len(content) - 66_000))
    if end < 0 or end + _END.size > len(content):
        return []
    found = [content[end + 22 : end + 22 + int.from_bytes(content[end + 20 : end + 22], "little")]]
    place, _ = _find_directory(content)
    for _ in range(MAX_COMMENTS):
        if not content.startswith(CENTRAL, place) or place + _CENTRAL.size > len(content):
            break
        name_size, extra_size, comment_size = _CENTRAL.unpack_from(content, place)[9:12]
        place += 46 + name_size + extra_size + comment_size
        found.append(content[place - comment_size : place] if comment_size else b"")
    return [comment for comment in found if comment]


def _find_directory(content: bytes) -> tuple[int, int]:
    """Return where the directory starts, and by how much data before the archive shifts every offset in it. The
    directory ends where the end record starts, or where the larger one of zip64 does (APPNOTE section 4.3.14)."""
    end = content.rfind(END)
    if end < 0 or end + _END.size > len(content):
        return len(content), 0
    *_, size, offset, _comment = _END.unpack_from(content, end)
    larger = content.rfind(END64, max(0, end - 4096), end)
    if larger >= 0 and larger + 56 <= len(content):
        size, offset = _END64.unpack_from(content, larger + 40)
        end = larger
    return (end - size, max(0, end - size - offset)) if end >= size else (offset, 0)


def _read_large_sizes(extra: bytes, *values: int) -> tuple[int, ...]:
    """Return the values, each from the extra field of zip64 where it is too large for its own place."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = _FIELD.unpack_from(extra, place)
        if kind == ZIP64_EXTRA:
            numbers = iter(
                [int.from_bytes(extra[at : at + 8], "little") for at in range(place + 4, place + 4 + size, 8)]
            )
            return tuple(next(numbers, value) if value == 0xFFFFFFFF else value for value in values)
        place += 4 + size
    return values


def _read_entry(content: bytes, place: int, fields: tuple[int, ...], shift: int) -> ZipEntry:
    """Return an entry of the directory with what its local header adds."""
    flags, method, time, crc, packed, name_size, extra_size = *fields[2:5], *fields[6:8], *fields[9:11]
    names = [_decode_name(content[place + 46 : place + 46 + name_size], flags)]
    extra = content[place + 46 + name_size : place + 46 + name_size + extra_size]
    names += _find_unicode_names(extra)
    _, packed, header = _read_large_sizes(extra, fields[8], packed, fields[15])
    header += shift
    start = header
    encrypted = bool(flags & ENCRYPTED)
    if content.startswith(LOCAL, header) and header + 30 <= len(content):
        local = _LOCAL.unpack_from(content, header)
        local_flags, name_size, extra_size = local[1], local[8], local[9]
        start = header + 30 + name_size + extra_size
        names.append(_decode_name(content[header + 30 : header + 30 + name_size], local_flags))
        names += _find_unicode_names(content[start - extra_size : start])
        # Believe "encrypted" only if both say so: a lie in one header must not keep us out.
        encrypted = encrypted and bool(local_flags & ENCRYPTED)
    check = time >> 8 if flags & STREAMED else crc >> 24
    aes = find_aes_field(extra) if method == _AES else None
    return ZipEntry(tuple(dict.fromkeys(names)), start, method, encrypted, packed, crc, check, aes)


def _find_local_headers(content: bytes, covered: list[tuple[int, int]]) -> Iterator[ZipEntry]:
    """Yield local headers outside the data of known entries. What is inside is found when that data is unfolded."""
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
        _, packed = _read_large_sizes(content[start - extra_size : start], fields[7], packed)
        if not packed or flags & STREAMED:
            following = content.find(b"PK", start)
            packed = (following if following >= 0 else len(content)) - start if method == 0 else len(content) - start
        name = _decode_name(content[place + 30 : place + 30 + name_size], flags)
        check = time >> 8 if flags & STREAMED else crc >> 24
        aes = find_aes_field(content[start - extra_size : start]) if method == _AES else None
        names = tuple(dict.fromkeys((name, *_find_unicode_names(content[start - extra_size : start]))))
        yield ZipEntry(names, start, method, bool(flags & ENCRYPTED), max(0, packed), crc, check, aes, False)
        place = content.find(LOCAL, place + 4 if method == 8 and flags & STREAMED else start + max(0, packed))


def _unpack(data: memoryview | bytes, entry: ZipEntry, method: int, budget: UnpackBudget, password: str = "") -> Member:
    limit = budget.allowance(len(data))
    shortage = budget.shortage(len(data))
    if limit <= 0 and method not in _METHODS:
        return Member(entry.names, b"", shortage, password)
    if method not in _METHODS:
        return Member(entry.names, b"", "unsupported", password)
    # Of text that nothing runs the first bytes are enough where room is short: logs are kept in archives.
    is_text = shortage == "size" and is_text_name(entry.names)
    if is_text and (limit < TEXT_HEAD or (budget.is_tight and len(data) > _PACKED_HEAD)):
        head = _METHODS[method](data[:_PACKED_HEAD], TEXT_HEAD)[0]
        if is_plain_text(entry.names, head):
            budget.pay(0, len(head))
            return Member(entry.names, head, "text", password)
    if limit <= 0:
        return Member(entry.names, b"", shortage, password)
    out, unread = _METHODS[method](data, limit)
    budget.pay(len(data), len(out))
    if unread == "size" and is_text and is_plain_text(entry.names, out):
        unread = "text"
    if not password and len(data) < entry.packed:
        unread = unread or "damaged"
    return Member(entry.names, out, shortage if unread == "size" else unread, password)


def _decrypt(data: memoryview, entry: ZipEntry, budget: UnpackBudget, attempts: PasswordAttempts) -> Member:
    """Return the entry opened with a password from the mail, or a member that says it is encrypted."""
    locked = Member(entry.names, b"", "encrypted")
    if budget.allowance(len(data)) <= 0:
        return locked
    if entry.method == _AES:
        field = entry.aes
        if field is None:
            return locked
        blocks = -(-(2 * _KEY_SIZES.get(field.strength, 0) + _CHECK) // _DIGEST)
        clear = attempts.unlock(lambda password: decrypt_aes(data, field, password.encode("utf-8", "replace")), blocks)
        return locked if clear is None else _unpack(clear, entry, field.method, budget, attempts.password)
    return attempts.unlock(lambda password: _try_password(data, entry, budget, password)) or locked


def _try_password(data: memoryview, entry: ZipEntry, budget: UnpackBudget, password: str) -> Member | None:
    """Return the entry under the old cipher if this password fits: the header, then a first piece, then the whole."""
    key = password.encode("utf-8", "replace")
    cipher = open_traditional(data, key, entry.check)
    if cipher is None:
        return None
    body = data[HEADER:]
    head = cipher.decipher(body[:_PROBE])
    if not _is_plausible(head, entry.method) or not budget.take_slow(len(body)):
        return None
    member = _unpack(head + cipher.decipher(body[_PROBE:]), entry, entry.method, budget, password)
    whole = member.unread is None
    return None if whole and zlib.crc32(member.content) != entry.crc else member


def _is_plausible(head: bytes, method: int) -> bool:
    """Return whether a first piece can be deflate."""
    try:
        return method != 8 or len(zlib.decompressobj(-15).decompress(head, _PROBE)) >= 0
    except zlib.error:
        return False


def _decode_name(raw: bytes, flags: int) -> str:
    if flags & UTF8:
        return raw.decode("utf-8", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")
