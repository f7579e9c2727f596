"""A message as a zip file with a password, so that no virus scanner on the way deletes it and no mail program opens it.

The password is no secret: it stands on the page, and `infected` is what analysts expect. The cipher is AES-256 as
WinZip defines it (AE-2), which 7-Zip, WinZip and the tools of analysts open. The older cipher of zip files would need a
step of Python for every byte, which is most of a minute for a large message.
"""

import hmac
import secrets
import time
import zlib
from hashlib import pbkdf2_hmac
from struct import Struct

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

PASSWORD = "infected"  # noqa: S105  it is shown to everybody
_ROUNDS, _SALT, _CHECK, _MAC, _KEY = 1_000, 16, 2, 10, 32
_BLOCK = 16
_CHUNK_BLOCKS = 1 << 16
_AES, _DEFLATED, _ENCRYPTED, _VERSION = 99, 8, 1, 51
# Id and length of the field, version 2 of the format, its vendor, the strength for 256 bits, the method below.
_EXTRA = Struct("<HHH2sBH").pack(0x9901, 7, 2, b"AE", 3, _DEFLATED)
_LOCAL = Struct("<4sHHHHHIIIHH")
_CENTRAL = Struct("<4sHHHHHHIIIHHHHHII")
_END = Struct("<4sHHHHIIH")


def zip_with_password(content: bytes, name: str, password: str = PASSWORD) -> bytes:
    """Return a zip file with one encrypted file; `name` is ASCII (PKWARE APPNOTE section 4.3, WinZip AE-2)."""
    data = _encrypt(_deflate(content), password.encode())
    moment = time.gmtime()
    clock = moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2
    day = (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday
    label = name.encode("ascii")
    # AE-2 has no CRC: it would tell what is encrypted.
    common = (_VERSION, _ENCRYPTED, _AES, clock, day, 0, len(data), len(content), len(label), len(_EXTRA))
    local = _LOCAL.pack(b"PK\x03\x04", *common) + label + _EXTRA + data
    directory = _CENTRAL.pack(b"PK\x01\x02", _VERSION, *common, 0, 0, 0, 0, 0) + label + _EXTRA
    return local + directory + _END.pack(b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(local), 0)


def _deflate(content: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(content) + deflate.flush()


def _encrypt(plain: bytes, password: bytes) -> bytes:
    """Salt, two bytes to check the password, the data in counter mode, ten bytes to check the data."""
    salt = secrets.token_bytes(_SALT)
    derived = pbkdf2_hmac("sha1", password, salt, _ROUNDS, 2 * _KEY + _CHECK)
    encrypted = _count_and_mix(derived[:_KEY], plain)
    mac = hmac.new(derived[_KEY : 2 * _KEY], encrypted, "sha1").digest()[:_MAC]
    return salt + derived[2 * _KEY :] + encrypted + mac


def _count_and_mix(key: bytes, plain: bytes) -> bytes:
    """AES in counter mode with a counter that begins at 1 and has its lowest byte first, unlike the usual mode. The
    reader of archives has the same, but no service may load a reader of hostile bytes."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  the mode is built on it here
    pieces = []
    step = _CHUNK_BLOCKS * _BLOCK
    for start in range(0, len(plain), step):
        piece = np.frombuffer(plain[start : start + step], np.uint8)
        blocks = -(-len(piece) // _BLOCK)
        counters = np.zeros((blocks, 2), "<u8")
        counters[:, 0] = np.arange(start // _BLOCK + 1, start // _BLOCK + 1 + blocks)
        stream = np.frombuffer(encryptor.update(counters.tobytes()), np.uint8)
        pieces.append((piece ^ stream[: len(piece)]).tobytes())
    return b"".join(pieces)
