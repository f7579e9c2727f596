"""What a PDF does besides showing pages: links, scripts, programs, files it carries (ISO 32000-1 section 12.6).

All of these are dictionaries, so every object that names one of them is looked at, wherever it hangs in the document
and whether or not it hangs in it at all.

Values (section 7.3) are names, strings, numbers, references, arrays and dictionaries. `/J#61vaScript` is `/JavaScript`,
a string may hold parentheses and escapes, a comment may stand anywhere. The parser keeps its own stack, takes anything,
and stops after so many tokens. A chain of filters (section 7.4) may stand before the data of a stream, and any link of
the chain may be a bomb, so each is bounded by the same limit.

Objects are found without the tables of the document (section 7.5). A cross-reference table says where objects stand,
and readers that find it broken look for `1 0 obj` themselves. An attacker may break it or make two. So every object is
found by its own mark, older versions of it too, and objects in compressed object streams are unpacked. Streams are
decoded only when a caller asks for them.

Most encrypted PDFs (ISO 32000-2 section 7.6) only forbid printing or copying: their user password is empty and every
reader opens them, but links and scripts are ciphertext to a scanner that does not. `derive_key` derives the key for a
password, by default the empty one, and returns None where another is needed.
"""

import re
from base64 import a85decode
from collections.abc import Callable, Iterator
from hashlib import md5, sha256, sha384, sha512
from itertools import groupby
from typing import TypeAlias

import msgspec
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gatepost.files.archives import decompress
from gatepost.files.documents import script_strings
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.values import UnreadReason

MAX_TOKENS = 50_000
MAX_DEPTH = 64
MAX_STRING = 1 << 20

_TOKEN = re.compile(
    rb"%[^\r\n]*+|(?P<ref>(\d{1,10})[\0\t\n\f\r ]{1,20}\d{1,5}[\0\t\n\f\r ]{1,20}R(?![A-Za-z]))|(?P<mark><<|>>|[\[\]])"
    rb"|/(?P<name>[^\0\t\n\f\r ()<>\[\]{}/%]{0,1000}+)|(?P<text>\()|<(?P<hex>[0-9A-Fa-f\0\t\n\f\r ]*+)>"
    rb"|(?P<number>[+-]?[\d.]{1,30}+)|(?P<word>[A-Za-z*'\"]{1,30}+)"
)
_PLAIN = re.compile(rb"[^\\()]*+(?>\\.[^\\()]*+)*+", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b"", b"\r": b""}
_HEX_NAME = re.compile(rb"#([0-9A-Fa-f]{2})")


class PdfName(msgspec.Struct, frozen=True, gc=False):
    """A name object, without its slash."""

    text: str


class PdfReference(msgspec.Struct, frozen=True, gc=False):
    """A reference to an indirect object by its number."""

    number: int


Value: TypeAlias = "bool | float | bytes | PdfName | PdfReference | list[Value] | dict[str, Value] | None"


def parse_value(body: bytes) -> Value:
    """Return the first value in `body`; None where there is none."""
    stack: list[list[Value]] = [[]]
    place = 0
    for _ in range(MAX_TOKENS):
        match = _TOKEN.search(body, place)
        if match is None:
            break
        place = match.end()
        if match.group("mark"):
            _open_or_close(match.group("mark"), stack)
        elif match.group("text"):
            text, place = _read_string(body, place)
            stack[-1].append(text)
        else:
            _add_simple(match, stack[-1])
        if len(stack) == 1 and stack[0]:
            return stack[0][0]
    while len(stack) > 1:
        _open_or_close(b">>", stack)
    return stack[0][0] if stack[0] else None


def _open_or_close(mark: bytes, stack: list[list[Value]]) -> None:
    if mark in (b"<<", b"["):
        if len(stack) < MAX_DEPTH:
            stack.append([])
    elif len(stack) > 1:
        items = stack.pop()
        stack[-1].append(_make_dictionary(items) if mark == b">>" else items)


def _make_dictionary(items: list[Value]) -> Value:
    """Return a dictionary from pairs of a name and a value; items that are out of step are skipped."""
    found: dict[str, Value] = {}
    place = 0
    while place + 1 < len(items):
        key = items[place]
        if isinstance(key, PdfName):
            found[key.text] = items[place + 1]
            place += 2
        else:
            place += 1
    return found


def _add_simple(match: "re.Match[bytes]", into: list[Value]) -> None:
    name, digits, number, word = match.group("name", "hex", "number", "word")
    if match.group("ref"):
        into.append(PdfReference(int(match.group(2))))
    elif name is not None:
        into.append(PdfName(_unescape_name(name)))
    elif digits is not None:
        into.append(_decode_hex(digits))
    elif number is not None:
        try:
            into.append(float(number))
        except ValueError:
            into.append(0.0)
    elif word in (b"true", b"false", b"null"):
        into.append({b"true": True, b"false": False}.get(word))


def _unescape_name(name: bytes) -> str:
    if b"#" in name:
        name = _HEX_NAME.sub(lambda match: bytes([int(match.group(1), 16)]), name)
    return name.decode("latin-1")


def _decode_hex(digits: bytes) -> bytes:
    digits = digits.translate(None, b"\0\t\n\f\r ")
    return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii"))


def _read_string(body: bytes, place: int) -> tuple[bytes, int]:
    """Return a string from behind its first parenthesis to its last one."""
    depth, start = 1, place
    while place < len(body) and place - start < MAX_STRING:
        match = _PLAIN.match(body, place)
        place = match.end() if match else place
        mark = body[place : place + 1]
        place += 1
        depth += (mark == b"(") - (mark == b")")
        if not depth:
            break
    raw = body[start : place - 1]
    return (_ESCAPE.sub(_unescape_match, raw) if b"\\" in raw else raw), place


def _unescape_match(match: "re.Match[bytes]") -> bytes:
    octal, character = match.groups()
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    return _ESCAPED.get(character, character) if character else b""


def decode_text(value: bytes) -> str:
    """Return a string as text: UTF-16 or UTF-8 by its mark, else one byte to a character."""
    if value[:2] == b"\xfe\xff":
        return value[2:].decode("utf-16-be", "replace")
    if value[:2] == b"\xff\xfe":
        return value[2:].decode("utf-16-le", "replace")
    if value[:3] == b"\xef\xbb\xbf":
        return value[3:].decode("utf-8", "replace")
    return value.decode("latin-1")


MAX_FILTERS = 8
_SLOW = frozenset({"ASCII85Decode", "A85", "RunLengthDecode", "RL", "LZWDecode", "LZW"})
_PICTURES = frozenset({"DCTDecode", "DCT", "JPXDecode", "CCITTFaxDecode", "CCF", "JBIG2Decode"})


def apply_filters(
    data: bytes, filters: Value, parameters: Value, limit: int, take_slow: Callable[[int], bool]
) -> tuple[bytes, UnreadReason | None]:
    """Return the data through all filters, and why there is not more; `take_slow` allows filters that are slow."""
    chain = filters if isinstance(filters, list) else [filters] if filters is not None else []
    settings = parameters if isinstance(parameters, list) else [parameters]
    if len(chain) > MAX_FILTERS:
        return b"", "depth"
    worst: UnreadReason | None = None
    for index, link in enumerate(chain):
        name = link.text if isinstance(link, PdfName) else ""
        if name in _SLOW and not take_slow(len(data)):
            return b"", "size"
        data, unread = _apply_filter(name, data, limit)
        worst = unread or worst
        setting = settings[index] if index < len(settings) else None
        if isinstance(setting, dict) and "Predictor" in setting and take_slow(len(data) // 4):
            data = _undo_predictor(data, setting)
    return data[:limit], worst


def _apply_filter(name: str, data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    match name:
        case "FlateDecode" | "Fl":
            # Past the two bytes of zlib's head; the checksum at its end is nothing that PDF readers look at.
            return decompress.deflate(memoryview(data.lstrip(b"\r\n"))[2:], limit)
        case "ASCIIHexDecode" | "AHx":
            return _decode_hex(re.sub(rb"[^0-9A-Fa-f]", b"", data.partition(b">")[0])), None
        case "ASCII85Decode" | "A85":
            return _decode_ascii85(data)
        case "RunLengthDecode" | "RL":
            return _decode_run_lengths(data, limit)
        case "LZWDecode" | "LZW":
            return _decode_lzw(data, limit)
        case "Crypt" | "":
            return data, None
    return data, None if name in _PICTURES else "unsupported"


def _decode_ascii85(data: bytes) -> tuple[bytes, UnreadReason | None]:
    digits = re.sub(rb"[^!-uz]", b"", data.removeprefix(b"<~").partition(b"~")[0])
    try:
        return a85decode(digits), None
    except ValueError:
        return b"", "damaged"


def _decode_run_lengths(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    out = bytearray()
    place = 0
    while place < len(data) and data[place] != 128:
        length = data[place]
        if length < 128:
            out += data[place + 1 : place + 2 + length]
            place += length + 2
        else:
            out += data[place + 1 : place + 2] * (257 - length)
            place += 2
        if len(out) > limit:
            return bytes(out[:limit]), "size"
    return bytes(out), None


def _decode_lzw(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decode LZW: codes of 9 to 12 bits, high bit first, one code early as most writers do."""
    table = [bytes([byte]) for byte in range(256)] + [b"", b""]
    out: list[bytes] = []
    size = bits = held = 0
    width = 9
    last = b""
    for byte in data:
        held = (held << 8 | byte) & 0xFFFFFF
        bits += 8
        if bits < width:
            continue
        bits -= width
        code = held >> bits & (1 << width) - 1
        if code == 257:
            break
        if code == 256:
            del table[258:]
            width, last = 9, b""
            continue
        if code > len(table) or (code == len(table) and not last):
            return b"".join(out), "damaged"
        entry = table[code] if code < len(table) else last + last[:1]
        if last and len(table) < 4096:
            table.append(last + entry[:1])
        width = min(12, max(9, (len(table) + 1).bit_length()))
        last = entry
        out.append(entry)
        size += len(entry)
        if size > limit:
            return b"".join(out)[:limit], "size"
    return b"".join(out), None


def _undo_predictor(data: bytes, setting: dict[str, Value]) -> bytes:
    """Undo PNG's predictors where they are the plain "up" or "none" that tables use; others belong to pictures."""
    predictor, columns = setting.get("Predictor"), setting.get("Columns")
    if not isinstance(predictor, float) or predictor < 10 or not isinstance(columns, float):
        return data
    width = int(columns)
    if not 0 < width <= 65_536:
        return data
    rows = [data[place : place + width + 1] for place in range(0, len(data), width + 1)]
    if any(kind not in (0, 2) for kind, _ in groupby(row[0] for row in rows)):
        return data
    above = bytes(width)
    out = []
    for row in rows:
        line = row[1:] if row[0] == 0 else bytes((one + two) & 0xFF for one, two in zip(row[1:], above, strict=False))
        out.append(line)
        above = line
    return b"".join(out)


_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_MAX_ROUNDS = 200


class DecryptionKey:
    """The key of one file, with how strings and streams are encrypted by it."""

    def __init__(self, secret: bytes, strings: str, streams: str) -> None:
        self._secret = secret
        self._strings = strings
        self._streams = streams

    def decrypt(self, found: "PdfObject", data: bytes, *, is_stream: bool) -> bytes:
        """Decrypt a string or the stream of an object."""
        method = self._streams if is_stream else self._strings
        if method == "Identity":
            return data
        if method == "AESV3":
            return _decrypt_aes(self._secret, data)
        mixed = self._secret + found.number.to_bytes(5, "little")[:3] + found.generation.to_bytes(4, "little")[:2]
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
    """Derive the key of revisions 2 to 4 (section 7.6.4.3.2, algorithms 2, 4, 5); b"" if the password is wrong."""
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
    key = _hash_password(password, user[40:48], revision)
    decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).decryptor()
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
            data = self.key.decrypt(found, data, is_stream=True)
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
        return key.decrypt(found, value, is_stream=False)
    if isinstance(value, list):
        return [_decrypt(item, key, found) for item in value]
    if isinstance(value, dict):
        return {name: _decrypt(item, key, found) for name, item in value.items()}
    return value


MAX_DICTIONARIES = 200_000
# A name with an escape in it (`/J#53`) hides something or holds a space: worth a look.
_INTERESTING = re.compile(
    rb"/(?:URI|JS|JavaScript|Launch|EF|EmbeddedFile|OpenAction|AA|AcroForm|XFA|SubmitForm|GoToR|GoToE|ImportData|RichMedia"
    rb"|[^\0\t\n\f\r ()<>\[\]{}/%#]{0,60}#[0-9A-Fa-f]{2})"
)
_ENCRYPTED = re.compile(rb"/Encrypt[\0\t\n\f\r ]{0,20}(?=\d|<<)")
_IDENTIFIER = re.compile(rb"/ID[\0\t\n\f\r ]{0,20}\[")
_ACTIONS = {"Launch": "pdf-launch", "SubmitForm": "pdf-submit-form", "ImportData": "pdf-import-data"}
_AT_ONCE = frozenset({"OpenAction", "AA", "XFA", "AcroForm"})
_ELSEWHERE = frozenset({"GoToR", "GoToE", "SubmitForm", "ImportData"})


def inspect(builder: ContentsBuilder) -> None:
    """Add everything of interest in one PDF."""
    objects = PdfObjects(builder.file.content, builder)
    if _find_key(objects, builder):
        objects.unpack()
        inspector = _PdfInspector(objects, builder)
        inspector.read()
        builder.add_links(script_strings.join_addresses(inspector.base, inspector.addresses))


def _find_key(objects: PdfObjects, builder: ContentsBuilder) -> bool:
    """Find the key of an encrypted file; return False where there is none, so that nothing else can be read."""
    content = builder.file.content
    mark = _ENCRYPTED.search(content)
    if mark is None:
        return True
    encryption = objects.resolve(parse_value(content[mark.end() : mark.end() + 8192]))
    identifiers = _IDENTIFIER.search(content)
    array = parse_value(content[identifiers.end() - 1 : identifiers.end() + 1024]) if identifiers else None
    first = array[0] if isinstance(array, list) and array else b""
    if not isinstance(encryption, dict):
        return True
    encryption = {key: objects.resolve(value) for key, value in encryption.items()}
    objects.key = _try_passwords(encryption, first if isinstance(first, bytes) else b"", builder)
    if objects.key is None:
        builder.add_trait("encrypted", "PDF")
    return objects.key is not None


# Revisions 5 and 6 hash a password in a hundred rounds of AES and SHA, which takes a few milliseconds.
MODERN_COST = 5


def _try_passwords(encryption: dict[str, Value], identifier: bytes, builder: ContentsBuilder) -> DecryptionKey | None:
    if key := derive_key(encryption, identifier):
        return key
    cost = 1 if encryption.get("R") in (2, 3, 4) else MODERN_COST
    for password in builder.passwords:
        if not builder.budget.take_attempt(cost):
            break
        if key := derive_key(encryption, identifier, password):
            builder.add_trait("document-password", password)
            return key
    return None


class _PdfInspector:
    """The walk over all objects that may matter."""

    def __init__(self, objects: PdfObjects, builder: ContentsBuilder) -> None:
        self._objects = objects
        self._builder = builder
        self._embedded: set[int] = set()
        self._scripts: set[int] = set()
        self.base = ""
        self.addresses: list[str] = []

    def read(self) -> None:
        seen = 0
        for found in self._objects.all:
            if not _INTERESTING.search(found.body):
                continue
            for values in _find_dictionaries(self._objects.read_value(found)):
                seen += 1
                self._inspect_dictionary(values, found)
            if self._objects.is_spent:
                return
            if seen > MAX_DICTIONARIES:
                self._builder.add_unread("count")
                return

    def _inspect_dictionary(self, values: dict[str, Value], found: PdfObject) -> None:
        action = values.get("S")
        name = action.text if isinstance(action, PdfName) else ""
        address = self._objects.resolve(values.get("URI"))
        if isinstance(address, bytes):
            self.addresses.append(decode_text(address).strip())
        elif isinstance(address, dict):
            self.base = self._read_text(address.get("Base")).strip() or self.base
        if "JS" in values:
            self._add_script(values["JS"])
        elif name == "JavaScript":
            self._builder.add_trait("pdf-javascript")
        if name in _ACTIONS:
            self._builder.add_trait(_ACTIONS[name], self._describe_command(values))
        if name in _ELSEWHERE and (target := self._find_file_name(values.get("F"))):
            if ":" in target:
                self._builder.add_link(target)
            if script_strings.DOMAIN_SHARE.match(target):
                self._builder.add_trait("remote-object", target)
        if "EF" in values:
            self._add_embedded_files(values)
        if values.get("Type") == PdfName("EmbeddedFile") and found.number not in self._embedded:
            self._add_member(("embedded file",), found)
        if not _AT_ONCE.isdisjoint(values):
            self._inspect_start(values)

    def _inspect_start(self, values: dict[str, Value]) -> None:
        """Report actions that run on opening. Going to a page is harmless; a field's own AA does not run by itself."""
        actions = [values.get("OpenAction")]
        additional = self._objects.resolve(values.get("AA"))
        if isinstance(additional, dict):
            actions += [additional.get(key) for key in ("O", "PO", "PV")]
        for action in map(self._objects.resolve, actions):
            name = action.get("S") if isinstance(action, dict) else None
            if isinstance(name, PdfName) and name.text not in ("GoTo", "Named"):
                self._builder.add_trait("pdf-open-action", name.text)
        if "XFA" in values:
            self._builder.add_trait("pdf-form", "XFA")
            self._inspect_form(values["XFA"])
        elif "AcroForm" in values:
            self._builder.add_trait("pdf-form", "AcroForm")

    def _inspect_form(self, value: Value) -> None:
        """Report the scripts of a form that is XML: one stream, or several one after the other."""
        parts = self._objects.resolve(value)
        targets = map(self._objects.find_target, parts[:200] if isinstance(parts, list) else [value])
        form = b"".join(self._objects.read_stream(each) for each in targets if each)
        for source in script_strings.find_form_scripts(form):
            self._add_source(source)
        self._builder.add_links(script_strings.find_form_addresses(form), "script")

    def _add_script(self, value: Value) -> None:
        found = self._objects.find_target(value)
        if found is not None:
            if found.number in self._scripts:
                return
            self._scripts.add(found.number)
        direct = self._objects.resolve(value)
        stated = direct if isinstance(direct, bytes) else self._objects.read_stream(found) if found else b""
        self._add_source(decode_text(stated))

    def _add_source(self, source: str) -> None:
        self._builder.add_trait("pdf-javascript", source[:100])
        if launch := script_strings.LAUNCHES.search(source):
            self._builder.add_trait("pdf-launch", launch.group()[:100])
        strings = script_strings.join_script_strings(source)
        self._builder.add_member("JavaScript", f"{source}\n".encode() + script_strings.expand_commands(strings))

    def _describe_command(self, values: dict[str, Value]) -> str:
        """Return the program that an action starts and its arguments, as far as they are stated."""
        windows = self._objects.resolve(values.get("Win"))
        parts = [self._find_file_name(values.get("F"))]
        if isinstance(windows, dict):
            parts += [self._read_text(windows.get(key)) for key in ("F", "P")]
        return " ".join(part for part in parts if part)

    def _find_file_name(self, value: Value) -> str:
        """Return the name in a file specification, which is a string or a dictionary with several names."""
        value = self._objects.resolve(value)
        if isinstance(value, dict):
            return next((text for key in ("UF", "F", "DOS", "Unix") if (text := self._read_text(value.get(key)))), "")
        return self._read_text(value)

    def _read_text(self, value: Value) -> str:
        value = self._objects.resolve(value)
        return decode_text(value) if isinstance(value, bytes) else ""

    def _add_embedded_files(self, values: dict[str, Value]) -> None:
        streams = self._objects.resolve(values["EF"])
        names = tuple(dict.fromkeys(name for key in ("UF", "F") if (name := self._read_text(values.get(key)))))
        for value in streams.values() if isinstance(streams, dict) else ():
            found = self._objects.find_target(value)
            if found is not None and found.number not in self._embedded:
                self._embedded.add(found.number)
                self._add_member(names or ("embedded file",), found)

    def _add_member(self, names: tuple[str, ...], found: PdfObject) -> None:
        self._builder.add_trait("pdf-embedded-file", names[0])
        content = self._objects.read_stream(found)
        self._builder.budget.pay(0, -len(content))  # paid when it was decoded; `member` pays again
        self._builder.add_member(names, content)


def _find_dictionaries(value: Value) -> Iterator[dict[str, Value]]:
    """Yield every dictionary in a value, outermost first."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
