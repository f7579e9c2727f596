"""Encrypted Office documents whose password is known (MS-OFFCRYPTO).

Excel opens a file encrypted with `VelvetSweatshop` without asking: a leftover of write protection. To a person nothing
is encrypted; to a scanner everything is. So that one is tried first, then those that the mail gives away.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from hashlib import md5, sha1, sha256, sha384, sha512
from hmac import compare_digest
from struct import Struct, error

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

EXCEL_DEFAULT = "VelvetSweatshop"
MAX_SPINS = 100_000
STANDARD_SPINS = 50_000
SEGMENT, RC4_BLOCK = 4096, 1024
WORD_BLOCK, WORD_HEAD = 512, 68
# Records that stay readable in an encrypted workbook (MS-XLS section 2.2.10).
_PLAIN = frozenset({0x0809, 0x002F, 0x0194, 0x0195, 0x00E1, 0x0196, 0x0138})
_BOUNDSHEET = 0x85
_INPUT, _VALUE, _KEY = (
    bytes.fromhex("fea7d2763b4b9e79"),
    bytes.fromhex("d7aa0f6d3061344e"),
    bytes.fromhex("146e0be7abacd0d6"),
)
_KEY_SIZES = (16, 24, 32)
_HASHES = {"SHA1": sha1, "SHA-1": sha1, "SHA256": sha256, "SHA384": sha384, "SHA512": sha512}
_ATTRIBUTE = re.compile(rb"([A-Za-z]{1,40})=\"([^\"]{0,1000})\"")
_VERIFIER = Struct("<4x16s16s4x32s")

Hash = Callable[[bytes], bytes]


def decrypt_package(information: bytes, encrypted: bytes, password: str = EXCEL_DEFAULT) -> bytes:
    """Return the zip inside an encrypted .docx, .xlsx or .pptx, b"" where the password is another one."""
    size = int.from_bytes(encrypted[:8], "little")
    try:
        agile = information[:4] == b"\x04\0\x04\0"
        open_with = _decrypt_agile if agile else _decrypt_standard
        plain = open_with(information, encrypted[8:], password.encode("utf-16-le", "replace"))
    except (error, ValueError, Error, KeyError):
        return b""
    return plain[:size]


def decrypt_workbook(stream: bytes, password: str = EXCEL_DEFAULT) -> bytes:
    """Return the records of an encrypted .xls, b"" where the password is another one."""
    place = stream.find(b"\x2f\0", 0, 4096)
    fields = stream[place + 4 : place + 4 + int.from_bytes(stream[place + 2 : place + 4], "little")]
    plain = _decrypt_blocks(stream, RC4_BLOCK, fields, password)
    return _restore_records(stream, plain) if plain else b""


def decrypt_word(stream: bytes, table: bytes, password: str = EXCEL_DEFAULT) -> bytes:
    """Return the text stream of an encrypted .doc without its mark of encryption, b"" where the password is another
    one. The table stream starts with the parameters; the head of the text has their size (MS-DOC section 2.2.6)."""
    size = int.from_bytes(stream[14:18], "little")
    plain = _decrypt_blocks(stream, WORD_BLOCK, b"\x01\0" + table[:size], password)
    if not plain:
        return b""
    head = bytearray(stream[:WORD_HEAD])
    head[11] &= 0xFE
    return bytes(head) + plain[WORD_HEAD:]


def _decrypt_blocks(stream: bytes, block: int, fields: bytes, password: str) -> bytes:
    """Return a stream in the clear, each block of which has a key of its own; b"" where the password is another one."""
    try:
        key = _derive_rc4_key(fields, password.encode("utf-16-le", "replace"))
    except (error, ValueError):
        return b""
    if key is None:
        return b""
    starts = range(0, len(stream), block)
    return b"".join(_decrypt_rc4(key(number), stream[start : start + block]) for number, start in enumerate(starts))


def _decrypt_agile(information: bytes, encrypted: bytes, password: bytes) -> bytes:
    """Decrypt a package whose parameters stand in XML (section 2.3.4.10)."""
    data_part, _, key_part = information[8:].partition(b"encryptedKey")
    data, key = _parse_attributes(data_part), _parse_attributes(key_part)
    spins = int(key["spinCount"])
    hashed, salt = _find_hash(key["hashAlgorithm"]), b64decode(key["saltValue"])
    if not 0 <= spins <= MAX_SPINS:
        return b""
    base = _hash_repeatedly(hashed, salt + password, spins)
    size = int(key["keyBits"]) // 8
    if size not in _KEY_SIZES:
        return b""

    def decrypt(block: bytes, name: str) -> bytes:
        return _decrypt_cbc(_pad_or_cut(hashed(base + block), size), _pad_or_cut(salt, 16), b64decode(key[name]))

    expected = decrypt(_VALUE, "encryptedVerifierHashValue")
    given = hashed(decrypt(_INPUT, "encryptedVerifierHashInput")[: int(key["saltSize"])])
    if not compare_digest(given, expected[: len(given)]):
        return b""
    secret = decrypt(_KEY, "encryptedKeyValue")[: int(data["keyBits"]) // 8]
    hashed, salt = _find_hash(data["hashAlgorithm"]), b64decode(data["saltValue"])
    segments = range(0, len(encrypted), SEGMENT)
    return b"".join(
        _decrypt_cbc(
            secret, _pad_or_cut(hashed(salt + number.to_bytes(4, "little")), 16), encrypted[start : start + SEGMENT]
        )
        for number, start in enumerate(segments)
    )


def _decrypt_standard(information: bytes, encrypted: bytes, password: bytes) -> bytes:
    """Decrypt a package in AES-ECB under a key from SHA-1 (section 2.3.4.5)."""
    header = int.from_bytes(information[8:12], "little")
    size = int.from_bytes(information[28:32], "little") // 8
    salt, verifier, expected = _VERIFIER.unpack_from(information, 12 + header)
    hashed = _find_hash("SHA1")
    final = hashed(_hash_repeatedly(hashed, salt + password, STANDARD_SPINS) + bytes(4)).ljust(64, b"\0")
    key = b"".join(hashed(bytes(byte ^ pad for byte in final)) for pad in (0x36, 0x5C))[:size]
    given = hashed(_decrypt_ecb(key, verifier))
    return _decrypt_ecb(key, encrypted) if compare_digest(given, _decrypt_ecb(key, expected)[:20]) else b""


def _derive_rc4_key(fields: bytes, password: bytes) -> Callable[[int], bytes] | None:
    """Return the key of each block of a workbook (sections 2.3.5 and 2.3.6), None where the password does not fit."""
    if fields[:2] != b"\x01\0":
        return None
    if fields[2:4] == b"\x01\0":
        salt, verifier, expected = fields[6:22], fields[22:38], fields[38:54]
        first = _compute_digest(md5, (_compute_digest(md5, password)[:5] + salt) * 16)[:5]

        def basic(block: int) -> bytes:
            return _compute_digest(md5, first + block.to_bytes(4, "little"))

        return basic if _fits(basic(0), verifier, expected, md5) else None
    header = int.from_bytes(fields[10:14], "little")
    bits = int.from_bytes(fields[30:34], "little") or 40
    salt, verifier, expected = _VERIFIER.unpack_from(fields + bytes(12), 14 + header)
    base = _compute_digest(sha1, salt + password)

    def modern(block: int) -> bytes:
        key = _compute_digest(sha1, base + block.to_bytes(4, "little"))[: bits // 8]
        return key.ljust(16, b"\0") if bits == 40 else key

    return modern if _fits(modern(0), verifier, expected[:20], sha1) else None


def _fits(key: bytes, verifier: bytes, expected: bytes, algorithm: Callable[..., object]) -> bool:
    plain = _decrypt_rc4(key, verifier + expected)
    return compare_digest(_compute_digest(algorithm, plain[:16]), plain[16:])


def _restore_records(stream: bytes, plain: bytes) -> bytes:
    """Return the records in the clear. Record heads were never encrypted, nor were some records."""
    out = bytearray(stream)
    place = 0
    while place + 4 <= len(stream):
        kind = stream[place] | stream[place + 1] << 8
        start, end = place + 4, place + 4 + (stream[place + 2] | stream[place + 3] << 8)
        if kind == 0x002F:
            out[place : place + 2] = b"\xff\xff"  # the mark of encryption goes
        elif kind not in _PLAIN:
            first = start + 4 if kind == _BOUNDSHEET else start
            out[first:end] = plain[first:end]
        place = end
    return bytes(out)


def _parse_attributes(text: bytes) -> dict[str, str]:
    return {name.decode(): value.decode("ascii", "replace") for name, value in _ATTRIBUTE.findall(text[:4096])}


def _find_hash(name: str) -> Hash:
    algorithm = _HASHES[name]
    return lambda data: _compute_digest(algorithm, data)


def _compute_digest(algorithm: Callable[..., object], data: bytes) -> bytes:
    result: bytes = algorithm(data, usedforsecurity=False).digest()  # type: ignore[attr-defined]
    return result


def _hash_repeatedly(hashed: Hash, start: bytes, spins: int) -> bytes:
    value = hashed(start)
    for turn in range(spins):
        value = hashed(turn.to_bytes(4, "little") + value)
    return value


def _pad_or_cut(value: bytes, size: int) -> bytes:
    return value[:size].ljust(size, b"\x36")


def _decrypt_cbc(key: bytes, vector: bytes, data: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    return decryptor.update(data[: len(data) // 16 * 16])


def _decrypt_ecb(key: bytes, data: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.ECB()).decryptor()  # noqa: S305  the format's choice
    return decryptor.update(data[: len(data) // 16 * 16])


def _decrypt_rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key), None).decryptor().update(data)
