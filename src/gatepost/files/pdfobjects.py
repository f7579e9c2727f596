"""The objects of a PDF, found without its tables (ISO 32000-1 section 7.5).

A cross-reference table says where objects stand, and readers that find it broken look for `1 0 obj` themselves. An
attacker may break it or make two. So every object is found by its own mark, older versions of it too, and objects in
compressed object streams are taken out. Nothing is decoded that nobody asks for.
"""

import re
from collections.abc import Iterator

import msgspec

from gatepost.files.insight import Insight
from gatepost.files.pdfcrypt import Key
from gatepost.files.pdffilters import decoded
from gatepost.files.pdfvalues import Name, Reference, Value, parse

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


class Object(msgspec.Struct, frozen=True, gc=False):
    """An object as it stands: its number, the bytes of its value, where the data of its stream starts (or 0), and
    whether it came out of an object stream, where strings are not encrypted by themselves."""

    number: int
    generation: int
    body: bytes
    data: int = 0
    is_packed: bool = False


class Objects:
    """All objects of one file. `key` opens the strings and streams of an encrypted one."""

    def __init__(self, content: bytes, insight: Insight) -> None:
        self.key: Key | None = None
        self._parsed = 0
        self._last_end = len(content)
        self._content = content
        self._insight = insight
        self.all: list[Object] = list(self._found())
        self._by_number = {found.number: found for found in self.all}

    def unpack(self) -> None:
        """Add the objects inside object streams; an encrypted file's key must be known before."""
        for found in [one for one in self.all if one.data and b"ObjStm" in one.body]:
            value = self._parse(found)
            if isinstance(value, dict):
                self._unpack(found, value)
            if len(self.all) >= MAX_OBJECTS:
                self._insight.unread("count")
                return

    def resolved(self, value: Value) -> Value:
        """What a reference leads to, at most a few hops away."""
        for _ in range(MAX_HOPS):
            if not isinstance(value, Reference):
                return value
            found = self._by_number.get(value.number)
            value = self.value(found) if found else None
        return None

    def target(self, value: Value) -> Object | None:
        """The object that a reference names."""
        return self._by_number.get(value.number) if isinstance(value, Reference) else None

    def value(self, found: Object) -> Value:
        """The value of an object, its strings decrypted."""
        value = self._parse(found)
        if self.key is None or found.is_packed:
            return value
        return _opened(value, self.key, found)

    def stream(self, found: Object) -> bytes:
        """The data of an object's stream through all its filters, as far as the budget goes."""
        value = self._parse(found)
        if not found.data or not isinstance(value, dict):
            return b""
        if not self._insight.room(1):
            self._insight.unread("size")
            return b""
        end = self._content.find(b"endstream", found.data, self._last_end)
        length = self.resolved(value.get("Length"))
        if isinstance(length, float) and self._content[found.data + int(length) :][:20].lstrip().startswith(b"endstr"):
            end = found.data + int(length)
        if end < 0:  # nor will there be one for any stream behind it
            end, self._last_end = len(self._content), min(self._last_end, found.data)
        data = self._content[found.data : end]
        room = self._insight.room(len(data))
        if not room:
            self._insight.unread(self._insight.budget.shortage(len(data)))
            return b""
        if self.key is not None and value.get("Type") != Name("XRef"):
            data = self.key.stream(found.number, found.generation, data)
        filters, parameters = self.resolved(value.get("Filter")), self.resolved(value.get("DecodeParms"))
        out, unread = decoded(data, filters, parameters, room, self._insight.budget.slowly)
        self._insight.budget.pay(len(data), len(out))
        # Sloppy programs cut streams short: what could be read is what readers show.
        self._insight.unread(None if unread == "damaged" else unread)
        return out

    def _parse(self, found: Object) -> Value:
        """Parsing is paid for by length: a reference to a large object may stand in a thousand places."""
        self._parsed += len(found.body) + OVERHEAD
        if self._parsed > MAX_PARSED:
            self._insight.unread("size")
            return None
        return parse(found.body)

    def _found(self) -> Iterator[Object]:
        content = self._content
        place = content.find(b"obj")
        last: Object | None = None
        count = 0
        for _ in range(MAX_WORDS):
            if place < 0:
                break
            head = content[max(0, place - 60) : place]
            # Most words with these letters are told apart at a glance.
            if head[-1:] in _BEFORE and (match := _MARK.search(head)):
                if last:
                    yield self._object(last, place)
                last = Object(int(match.group(1)), int(match.group(2)), b"", place + 3)
                count += 1
                if count > MAX_OBJECTS:
                    self._insight.unread("count")
                    return
            place = content.find(b"obj", place + 3)
        if place >= 0:
            self._insight.unread("count")
        if last:
            yield self._object(last, len(content))

    def _object(self, mark: Object, limit: int) -> Object:
        """The object behind a mark, which ends before the next one."""
        start = mark.data
        end = _END.search(self._content, start, min(limit, start + MAX_BODY))
        body = self._content[start : end.start() if end else min(limit, start + MAX_BODY)]
        data = 0
        if end and end.group() == b"stream":
            data = end.end() + (2 if self._content[end.end() : end.end() + 2] == b"\r\n" else 1)
        return Object(mark.number, mark.generation, body, data)

    def _unpack(self, packed: Object, value: dict[str, Value]) -> None:
        data = self.stream(packed)
        first = self.resolved(value.get("First"))
        start = int(first) if isinstance(first, float) and 0 <= first <= len(data) else 0
        numbers = [int(match.group()) for match in _NUMBER.finditer(data[:start])]
        places = sorted(zip(numbers[1::2], numbers[::2], strict=False))
        for index, (place, number) in enumerate(places):
            if len(self.all) >= MAX_OBJECTS:
                return
            end = places[index + 1][0] if index + 1 < len(places) else len(data)
            found = Object(number, 0, data[start + place : start + end][:MAX_BODY], is_packed=True)
            self.all.append(found)
            self._by_number.setdefault(number, found)


def _opened(value: Value, key: Key, found: Object) -> Value:
    if isinstance(value, bytes):
        return key.string(found.number, found.generation, value)
    if isinstance(value, list):
        return [_opened(item, key, found) for item in value]
    if isinstance(value, dict):
        return {name: _opened(item, key, found) for name, item in value.items()}
    return value
