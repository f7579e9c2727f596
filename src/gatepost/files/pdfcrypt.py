"""Encrypted PDFs, opened as a reader opens them (ISO 32000-2 section 7.6).

Most encrypted PDFs only forbid printing or copying: their user password is empty and every reader opens them, but links
and scripts are ciphertext to whoever does not. This derives the key for the empty password and says no where another
one is needed; passwords that the mail gives away are tried by whoever calls.
"""

from hashlib import md5, sha256, sha384, sha512

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.pdfvalues import Name, Value

_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_MAX_ROUNDS = 200


class Key:
    """The key of one file, with how strings and streams are encrypted by it."""

    def __init__(self, secret: bytes, strings: str, streams: str) -> None:
        self._secret = secret
        self._strings = strings
        self._streams = streams

    def string(self, number: int, generation: int, data: bytes) -> bytes:
        return self._opened(self._strings, number, generation, data)

    def stream(self, number: int, generation: int, data: bytes) -> bytes:
        return self._opened(self._streams, number, generation, data)

    def _opened(self, method: str, number: int, generation: int, data: bytes) -> bytes:
        if method == "Identity":
            return data
        if method == "AESV3":
            return _aes(self._secret, data)
        mixed = self._secret + number.to_bytes(5, "little")[:3] + generation.to_bytes(4, "little")[:2]
        mixed += b"sAlT" if method == "AESV2" else b""
        key = _md5(mixed)[: min(16, len(self._secret) + 5)]
        return _aes(key, data) if method == "AESV2" else _rc4(key, data)


def key_for(encryption: dict[str, Value], identifier: bytes, password: str = "") -> Key | None:
    """The key that a user's password gives, or None where it does not open the file."""
    if encryption.get("Filter") != Name("Standard"):
        return None
    version, revision = _number(encryption, "V"), _number(encryption, "R")
    user, owner = _bytes(encryption, "U"), _bytes(encryption, "O")
    strings, streams = _method(encryption, "StrF", version), _method(encryption, "StmF", version)
    if revision >= 5:
        secret = _modern(encryption, revision, user, password.encode("utf-8", "replace")[:127])
    else:
        size = 5 if version == 1 else max(5, min(16, _number(encryption, "Length", 40) // 8))
        size = 16 if version == 4 else size
        padded = (password.encode("latin-1", "replace") + _PAD)[:32]
        secret = _classic(encryption, revision, padded, size, user, owner, identifier)
    return Key(secret, strings, streams) if secret else None


def _classic(
    encryption: dict[str, Value], revision: int, padded: bytes, size: int, user: bytes, owner: bytes, identifier: bytes
) -> bytes:
    """Revisions 2 to 4 (section 7.6.4.3.2, algorithms 2, 4 and 5)."""
    permissions = (_number(encryption, "P") & 0xFFFFFFFF).to_bytes(4, "little")
    hidden = b"\xff" * 4 if revision >= 4 and encryption.get("EncryptMetadata") is False else b""
    secret = _md5(padded + owner[:32] + permissions + identifier + hidden)[:size]
    if revision < 3:
        return secret if _rc4(secret, _PAD) == user[:32] else b""
    for _ in range(50):
        secret = _md5(secret)[:size]
    check = _md5(_PAD + identifier)
    for turn in range(20):
        check = _rc4(bytes(byte ^ turn for byte in secret), check)
    return secret if check == user[:16] else b""


def _modern(encryption: dict[str, Value], revision: int, user: bytes, password: bytes) -> bytes:
    """Revisions 5 and 6 (algorithm 2.A)."""
    wrapped = _bytes(encryption, "UE")[:32]
    if len(user) < 48 or len(wrapped) < 32 or _hash(password, user[32:40], revision) != user[:32]:
        return b""
    decryptor = Cipher(algorithms.AES(_hash(password, user[40:48], revision)), modes.CBC(bytes(16))).decryptor()
    return decryptor.update(wrapped) + decryptor.finalize()


def _hash(password: bytes, salt: bytes, revision: int) -> bytes:
    """Algorithm 2.B for a user's password."""
    key = sha256(password + salt).digest()
    if revision < 6:
        return key
    for turn in range(_MAX_ROUNDS):
        encryptor = Cipher(algorithms.AES(key[:16]), modes.CBC(key[16:32])).encryptor()
        mixed = encryptor.update((password + key) * 64) + encryptor.finalize()
        key = (sha256, sha384, sha512)[sum(mixed[:16]) % 3](mixed).digest()
        if turn >= 63 and mixed[-1] <= turn - 31:
            break
    return key[:32]


def _method(encryption: dict[str, Value], which: str, version: int) -> str:
    if version < 4:
        return "V2"
    chosen = encryption.get(which)
    name = chosen.text if isinstance(chosen, Name) else "Identity"
    filters = encryption.get("CF")
    found = filters.get(name) if isinstance(filters, dict) else None
    method = found.get("CFM") if isinstance(found, dict) else None
    return method.text if isinstance(method, Name) and name != "Identity" else "Identity"


def _number(values: dict[str, Value], key: str, otherwise: int = 0) -> int:
    value = values.get(key)
    return int(value) if isinstance(value, float) and abs(value) < 1 << 40 else otherwise


def _bytes(values: dict[str, Value], key: str) -> bytes:
    value = values.get(key)
    return value if isinstance(value, bytes) else b""


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key.ljust(5, b"\0")), None).decryptor().update(data)


def _aes(key: bytes, data: bytes) -> bytes:
    """The first block is the starting vector, the last byte says how much padding there is."""
    body = data[16 : len(data) // 16 * 16]
    if len(key) not in (16, 24, 32) or not body:
        return b""
    decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:16])).decryptor()
    plain = decryptor.update(body) + decryptor.finalize()
    return plain[: -plain[-1]] if 1 <= plain[-1] <= 16 else plain
