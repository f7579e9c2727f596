"""The two ciphers of zip archives.

The old one (APPNOTE section 6.1) is three 32-bit registers stirred by each byte; twelve random bytes before the data
end in one that is known, which weeds out 255 wrong passwords of 256. The newer one (WinZip's AE-1 and AE-2) is AES in
counter mode with a key from PBKDF2, two bytes to check the password and ten to check the data.
"""

import hmac
import zlib
from hashlib import pbkdf2_hmac
from struct import Struct

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HEADER = 12
AES_EXTRA = 0x9901
_KEY_SIZES = {1: 16, 2: 24, 3: 32}
_ROUNDS = 1000
_CHECK, _MAC = 2, 10

_FIELD = Struct("<HH")
_TABLE = tuple(zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256))


class Aes(msgspec.Struct, frozen=True):
    """What the extra field of an AES entry says: the strength of the key and the method below the cipher."""

    strength: int
    method: int


class Traditional:
    """The old cipher, keyed by one password."""

    def __init__(self, password: bytes) -> None:
        self._keys = (0x12345678, 0x23456789, 0x34567890)
        self._table = _TABLE
        self._stir(password)

    def _stir(self, data: bytes) -> None:
        k0, k1, k2 = self._keys
        table = self._table
        for byte in data:
            k0 = (k0 >> 8) ^ table[(k0 ^ byte) & 255]
            k1 = ((k1 + (k0 & 255)) * 134775813 + 1) & 0xFFFFFFFF
            k2 = (k2 >> 8) ^ table[(k2 ^ (k1 >> 24)) & 255]
        self._keys = (k0, k1, k2)

    def decipher(self, data: bytes | memoryview) -> bytes:
        """The next bytes in the clear; about a second a megabyte, so callers keep it short."""
        k0, k1, k2 = self._keys
        table = self._table
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


def traditional(data: memoryview, password: bytes, check: int) -> Traditional | None:
    """The cipher past its header, if the header's last byte is what it should be."""
    cipher = Traditional(password)
    header = cipher.decipher(data[:HEADER])
    return cipher if len(header) == HEADER and header[-1] == check else None


def aes_field(extra: bytes) -> Aes | None:
    """The AES record among the extra fields of an entry."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = _FIELD.unpack_from(extra, place)
        field = extra[place + 4 : place + 4 + size]
        if kind == AES_EXTRA and len(field) >= 7:
            return Aes(field[4], int.from_bytes(field[5:7], "little"))
        place += 4 + size
    return None


def aes(data: memoryview, field: Aes, password: bytes) -> bytes | None:
    """The data in the clear, if both the password's and the data's check hold."""
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
    return _counted(keys[:size], body)


def _counted(key: bytes, body: memoryview) -> bytes:
    """AES in counter mode with WinZip's counter: little-endian, from one."""
    blocks = (len(body) + 15) // 16
    counters = bytearray(16 * blocks)
    for byte in range(4):
        run = 1 << 8 * byte  # each value of this byte of the counter stands for so many blocks
        runs = b"".join(bytes([value & 255]) * min(run, blocks + 1) for value in range(min(256, blocks // run + 1)))
        counters[byte::16] = (runs * (blocks // len(runs) + 1))[1 : blocks + 1]
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  the mode is built on it here
    stream = encryptor.update(bytes(counters))[: len(body)]
    return (int.from_bytes(stream, "little") ^ int.from_bytes(body, "little")).to_bytes(len(body), "little")
