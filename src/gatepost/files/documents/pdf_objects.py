"""The objects of a PDF, found without its tables (ISO 32000-1 section 7.5), and decrypted (ISO 32000-2 section 7.6).

A cross-reference table says where objects stand, and readers that find it broken look for `1 0 obj` themselves. An
attacker may break it or make two. So every object is found by its own mark, older versions of it too, and objects in
compressed object streams are unpacked. Streams are decoded only when a caller asks for them.

Most encrypted PDFs only forbid printing or copying: their user password is empty and every reader opens them, but links
and scripts are ciphertext to a scanner that does not. `derive_key` derives the key for a password, by default the empty
one, and returns None where another is needed.
"""

import re
from collections.abc import Iterator
from hashlib import md5, sha256, sha384, sha512

import msgspec
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.pdf_values import PdfName, PdfReference, Value, apply_filters, parse_value

_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_MAX_ROUNDS = 200


class DecryptionKey:
    """The key of one file, with how strings and streams are encrypted by it."""

    def __init__(self, secret: bytes, strings: str, streams: str) -> None:
        self._secret = secret
        self._strings = strings
        self._streams = streams

    def decrypt_string(self, number: int, generation: int, data: bytes) -> bytes:
        return self._decrypt(self._strings, number, generation, data)

    def decrypt_stream(self, number: int, generation: int, data: bytes) -> bytes:
        return self._decrypt(self._streams, number, generation, data)

    def _decrypt(self, method: str, number: int, generation: int, data: bytes) -> bytes:
        if method == "Identity":
            return data
        if method == "AESV3":
            return _decrypt_aes(self._secret, data)
        mixed = self._secret + number.to_bytes(5, "little")[:3] + generation.to_bytes(4, "little")[:2]
        mixed += b"sAlT" if method == "AESV2" else b""
        key = _hash_md5(mixed)[: min(16, len(self._secret) + 5)]
        return _decrypt_aes(key, data) if method == "AESV2" else _decrypt_rc4(key, data)


def derive_key(encryption: dict[str, Value], identifier: bytes, password: str = "") -> DecryptionKey | None:
    """Return the key that a user's password gives, or None where it does not open the file."""
    if encryption.get("Filter") != PdfName("Standard"):
        return None
    version, revision = _get_number(encryption, "V"), _get_number(encryption, "R")
    user, owner = _get_bytes(encryption, "U"), _get_bytes(encryption, "O")
    strings, streams = _find_method(encryption, "StrF", version), _find_method(encryption, "StmF", version)
    if revision >= 5:
        secret = _derive_modern_key(encryption, revision, user, password.encode("utf-8", "replace")[:127])
    else:
        size = 5 if version == 1 else max(5, min(16, _get_number(encryption, "Length", 40) // 8))
        size = 16 if version == 4 else size
        padded = (password.encode("latin-1", "replace") + _PAD)[:32]
        secret = _derive_classic_key(encryption, revision, padded, size, user, owner, identifier)
    return DecryptionKey(secret, strings, streams) if secret else None


def _derive_classic_key(
    encryption: dict[str, Value], revision: int, padded: bytes, size: int, user: bytes, owner: bytes, identifier: bytes
) -> bytes:
    """Derive the key of revisions 2 to 4 (section 7.6.4.3.2, algorithms 2, 4 and 5); b"" where the password is
    wrong."""
    permissions = (_get_number(encryption, "P") & 0xFFFFFFFF).to_bytes(4, "little")
    hidden = b"\xff" * 4 if revision >= 4 and encryption.get("EncryptMetadata") is False else b""
    secret = _hash_md5(padded + owner[:32] + permissions + identifier + hidden)[:size]
    if revision < 3:
        return secret if _decrypt_rc4(secret, _PAD) == user[:32] else b""
    for _ in range(50):
        secret = _hash_md5(secret)[:size]
    check = _hash_md5(_PAD + identifier)
    for turn in range(20):
        check = _decrypt_rc4(bytes(byte ^ turn for byte in secret), check)
    return secret if check == user[:16] else b""


def _derive_modern_key(encryption: dict[str, Value], revision: int, user: bytes, password: bytes) -> bytes:
    """Derive the key of revisions 5 and 6 (algorithm 2.A); b"" where the password is wrong."""
    wrapped = _get_bytes(encryption, "UE")[:32]
    if len(user) < 48 or len(wrapped) < 32 or _hash_password(password, user[32:40], revision) != user[:32]:
        return b""
    decryptor = Cipher(
        algorithms.AES(_hash_password(password, user[40:48], revision)), modes.CBC(bytes(16))
    ).decryptor()
    return decryptor.update(wrapped) + decryptor.finalize()


def _hash_password(password: bytes, salt: bytes, revision: int) -> bytes:
    """Hash a user's password (algorithm 2.B)."""
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


def _find_method(encryption: dict[str, Value], which: str, version: int) -> str:
    if version < 4:
        return "V2"
    chosen = encryption.get(which)
    name = chosen.text if isinstance(chosen, PdfName) else "Identity"
    filters = encryption.get("CF")
    found = filters.get(name) if isinstance(filters, dict) else None
    method = found.get("CFM") if isinstance(found, dict) else None
    return method.text if isinstance(method, PdfName) and name != "Identity" else "Identity"


def _get_number(values: dict[str, Value], key: str, otherwise: int = 0) -> int:
    value = values.get(key)
    return int(value) if isinstance(value, float) and abs(value) < 1 << 40 else otherwise


def _get_bytes(values: dict[str, Value], key: str) -> bytes:
    value = values.get(key)
    return value if isinstance(value, bytes) else b""


def _hash_md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _decrypt_rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key.ljust(5, b"\0")), None).decryptor().update(data)


def _decrypt_aes(key: bytes, data: bytes) -> bytes:
    """Decrypt AES data: the first block is the initialisation vector, the last byte says how much padding there is."""
    body = data[16 : len(data) // 16 * 16]
    if len(key) not in (16, 24, 32) or not body:
        return b""
    decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:16])).decryptor()
    plain = decryptor.update(body) + decryptor.finalize()
    return plain[: -plain[-1]] if 1 <= plain[-1] <= 16 else plain


MAX_OBJECTS = 200_000
MAX_WORDS = 600_000
MAX_BODY = 1 << 20
MAX_PARSED = 4 << 20
OVERHEAD = 100
MAX_HOPS = 8

_MARK = re.compile(rb"(\d{1,10})[\0\t\n\f\r ]{1,20}(\d{1,5})[\0\t\n\f\r ]{0,20}\Z")
_BEFORE = frozenset(bytes([byte]) for byte in b"\0\t\n\f\r 0123456789")
_END = re.compile(rb"endobj|(?<!end)stream(?=[\r\n ])")
_NUMBER = re.compile(rb"\d{1,10}")


class PdfObject(msgspec.Struct, frozen=True, gc=False):
    """An object as it stands: its number, the bytes of its value, where the data of its stream starts (or 0), and
    whether it came out of an object stream, where strings are not encrypted by themselves."""

    number: int
    generation: int
    body: bytes
    data: int = 0
    is_packed: bool = False


class PdfObjects:
    """All objects of one file. `key` opens the strings and streams of an encrypted one."""

    def __init__(self, content: bytes, builder: ContentsBuilder) -> None:
        self.key: DecryptionKey | None = None
        self._parsed = 0
        self._last_end = len(content)
        self._content = content
        self._builder = builder
        self.all: list[PdfObject] = list(self._find_objects())
        self._by_number = {found.number: found for found in self.all}

    @property
    def is_spent(self) -> bool:
        """Whether no more objects are parsed; that was said."""
        return self._parsed > MAX_PARSED

    def unpack(self) -> None:
        """Add the objects inside object streams; an encrypted file's key must be known before."""
        for found in [one for one in self.all if one.data and b"ObjStm" in one.body]:
            value = self._parse(found)
            if isinstance(value, dict):
                self._unpack(found, value)
            if len(self.all) >= MAX_OBJECTS:
                self._builder.add_unread("count")
                return

    def resolve(self, value: Value) -> Value:
        """Return the value that a reference leads to, at most a few hops away."""
        for _ in range(MAX_HOPS):
            if not isinstance(value, PdfReference):
                return value
            found = self._by_number.get(value.number)
            value = self.read_value(found) if found else None
        return None

    def find_target(self, value: Value) -> PdfObject | None:
        """Return the object that a reference names."""
        return self._by_number.get(value.number) if isinstance(value, PdfReference) else None

    def read_value(self, found: PdfObject) -> Value:
        """Return the value of an object, its strings decrypted."""
        value = self._parse(found)
        if self.key is None or found.is_packed:
            return value
        return _decrypt(value, self.key, found)

    def read_stream(self, found: PdfObject) -> bytes:
        """Return the data of an object's stream through all its filters, as far as the budget goes."""
        value = self._parse(found)
        if not found.data or not isinstance(value, dict):
            return b""
        if not self._builder.allowance(1):
            self._builder.add_unread("size")
            return b""
        end = self._content.find(b"endstream", found.data, self._last_end)
        length = self.resolve(value.get("Length"))
        if isinstance(length, float) and self._content[found.data + int(length) :][:20].lstrip().startswith(b"endstr"):
            end = found.data + int(length)
        if end < 0:  # nor will there be one for any stream behind it
            end, self._last_end = len(self._content), min(self._last_end, found.data)
        data = self._content[found.data : end]
        room = self._builder.allowance(len(data))
        if not room:
            self._builder.add_unread(self._builder.budget.shortage(len(data)))
            return b""
        if self.key is not None and value.get("Type") != PdfName("XRef"):
            data = self.key.decrypt_stream(found.number, found.generation, data)
        filters, parameters = self.resolve(value.get("Filter")), self.resolve(value.get("DecodeParms"))
        out, unread = apply_filters(data, filters, parameters, room, self._builder.budget.take_slow)
        self._builder.budget.pay(len(data), len(out))
        # Sloppy programs cut streams short: what could be read is what readers show.
        self._builder.add_unread(None if unread == "damaged" else unread)
        return out

    def _parse(self, found: PdfObject) -> Value:
        """Parse an object's value and count its length: a reference to a large object may stand in many places."""
        self._parsed += len(found.body) + OVERHEAD
        if self._parsed > MAX_PARSED:
            self._builder.add_unread("size")
            return None
        return parse_value(found.body)

    def _find_objects(self) -> Iterator[PdfObject]:
        content = self._content
        place = content.find(b"obj")
        last: tuple[int, int, int] | None = None
        count = 0
        for _ in range(MAX_WORDS):
            if place < 0:
                break
            if mark := _read_mark(content[max(0, place - 60) : place]):
                if last:
                    yield self._read_object(*last, place)
                last = (*mark, place + 3)
                count += 1
                if count > MAX_OBJECTS:
                    self._builder.add_unread("count")
                    return
            place = content.find(b"obj", place + 3)
        if place >= 0:
            self._builder.add_unread("count")
        if last:
            yield self._read_object(*last, len(content))

    def _read_object(self, number: int, generation: int, start: int, limit: int) -> PdfObject:
        """Return the object behind a mark, which ends before the next one."""
        end = _END.search(self._content, start, min(limit, start + MAX_BODY))
        body = self._content[start : end.start() if end else min(limit, start + MAX_BODY)]
        data = 0
        if end and end.group() == b"stream":
            data = end.end() + (2 if self._content[end.end() : end.end() + 2] == b"\r\n" else 1)
        return PdfObject(number, generation, body, data)

    def _unpack(self, packed: PdfObject, value: dict[str, Value]) -> None:
        data = self.read_stream(packed)
        first = self.resolve(value.get("First"))
        start = int(first) if isinstance(first, float) and 0 <= first <= len(data) else 0
        numbers = [int(match.group()) for match in _NUMBER.finditer(data[:start])]
        places = sorted(zip(numbers[1::2], numbers[::2], strict=False))
        for index, (place, number) in enumerate(places):
            if len(self.all) >= MAX_OBJECTS:
                return
            end = places[index + 1][0] if index + 1 < len(places) else len(data)
            found = PdfObject(number, 0, data[start + place : start + end][:MAX_BODY], is_packed=True)
            self.all.append(found)
            self._by_number.setdefault(number, found)


def _read_mark(head: bytes) -> tuple[int, int] | None:
    """Return number and generation of an object, which end `head`; None for other words with these letters."""
    if head[-1:] not in _BEFORE:
        return None
    parts = head[-24:].rsplit(None, 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() and len(parts[1]) <= 10 and len(parts[2]) <= 5:
        return int(parts[1]), int(parts[2])  # as programs write it; the expression below is slower
    match = _MARK.search(head)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _decrypt(value: Value, key: DecryptionKey, found: PdfObject) -> Value:
    if isinstance(value, bytes):
        return key.decrypt_string(found.number, found.generation, value)
    if isinstance(value, list):
        return [_decrypt(item, key, found) for item in value]
    if isinstance(value, dict):
        return {name: _decrypt(item, key, found) for name, item in value.items()}
    return value
