"""UCL, the language of rspamd's configuration, as far as local files use it: a reader with bounds.

A document is a list of `key = value;` and `key { … }`, in which the punctuation is mostly optional. A key may come
several times, and then has several values; `key "name" { … }` is a section `name` in a section `key`. Values are texts
(in quotes, bare, or between `<<END` and `END`), numbers with a unit, truths, lists and objects; all simple ones are
kept as texts. Comments begin with `#` or stand in `/* */`. Directives (`.include`) are reported and not followed.

Reading is linear: each character is looked at once. What cannot be read is an error with its line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Union

import msgspec

MAX_DEPTH = 20
MAX_VALUES = 200_000

Value = Union[str, "UclObject", tuple["Value", ...]]

_BLANK = re.compile(r"(?>[\s;,]++|#[^\n]*+|//[^\n]*+)*+")
_KEY = re.compile(r"\"((?>[^\"\\]|\\.)*+)\"|([^\s={}\[\];:,\"#]++)", re.DOTALL)
_QUOTED = re.compile(r"\"((?>[^\"\\]|\\.)*+)\"", re.DOTALL)
_SINGLE = re.compile(r"'((?>[^'\\]|\\.)*+)'", re.DOTALL)
_BARE = re.compile(r"[^\n;,\]}]*+")
_DIRECTIVE = re.compile(r"\.(\w++)[^\n]*+")
_HEREDOC = re.compile(r"<<([A-Z]++)\n")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class UclError(ValueError):
    """A document that cannot be read, and where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class UclObject(msgspec.Struct, frozen=True):
    """Keys with their values in the order of the file, each with its line."""

    items: tuple[tuple[str, Value, int], ...] = ()

    def get(self, name: str) -> Value | None:
        """The last value of a key, which is the one that counts."""
        return next((value for key, value, _ in reversed(self.items) if key == name), None)

    def text(self, name: str) -> str:
        """The last value of a key as text; "" where it has none."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        """All texts of a key, those of lists included."""
        return [text for key, value, _ in self.items if key == name for text in _texts_of(value)]

    def sections(self) -> Iterator[tuple[str, "UclObject", int]]:
        """Every key whose value is an object."""
        for key, value, line in self.items:
            if isinstance(value, UclObject):
                yield key, value, line


def _texts_of(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _texts_of(each)


def parse_ucl(text: str) -> UclObject:
    """Read a document. Raises `UclError`."""
    return _Reader(text).read_document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._position, self._values = text, 0, 0
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def read_document(self) -> UclObject:
        self._skip()
        wrapped = self._peek() == "{"
        if wrapped:
            self._position += 1
        return self._read_items("}" if wrapped else "", 0)

    def _line(self) -> int:
        return bisect_left(self._ends, self._position) + 1

    def _fail(self, reason: str) -> UclError:
        return UclError(self._line(), reason)

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _skip(self) -> None:
        """Skip blanks, separators and comments; those between `/*` and `*/` can be nested."""
        while True:
            found = _BLANK.match(self._text, self._position)
            self._position = found.end() if found else self._position
            if not self._text.startswith("/*", self._position):
                return
            depth = 0
            for mark in re.compile(r"/\*|\*/").finditer(self._text, self._position):
                depth += 1 if mark[0] == "/*" else -1
                if not depth:
                    self._position = mark.end()
                    break
            else:
                raise self._fail("a comment that does not end")

    def _count(self, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._fail(f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise self._fail(f"sections deeper than {MAX_DEPTH}")

    def _read_items(self, end: str, depth: int) -> UclObject:
        items: list[tuple[str, Value, int]] = []
        while True:
            self._skip()
            if self._position >= len(self._text):
                if end:
                    raise self._fail("a section that does not end")
                return UclObject(tuple(items))
            if self._peek() == end:
                self._position += 1
                return UclObject(tuple(items))
            if found := _DIRECTIVE.match(self._text, self._position):
                items.append((f".{found[1]}", found[0], self._line()))
                self._position = found.end()
                continue
            self._count(depth)
            line = self._line()
            key = self._read_key()
            items.append((key, self._read_after_key(depth), line))

    def _read_key(self) -> str:
        found = _KEY.match(self._text, self._position)
        if found is None:
            raise self._fail(f"{self._peek()!r} where a key should be")
        self._position = found.end()
        return found[2] if found[1] is None else _unescape(found[1])

    def _read_after_key(self, depth: int) -> Value:
        """Read what follows a key: a value, a section, or the name of a section in it."""
        self._skip_blanks()
        if self._peek() in ("=", ":") and self._peek():
            self._position += 1
            self._skip_blanks()
            return self._read_value(depth)
        if self._peek() in ("{", "["):
            return self._read_value(depth)
        start, line = self._position, self._line()
        named = _KEY.match(self._text, self._position)
        if named:
            self._position = named.end()
            self._skip_blanks()
            if self._peek() == "{":
                name = named[2] if named[1] is None else _unescape(named[1])
                return UclObject(((name, self._read_value(depth), line),))
        self._position = start
        return self._read_value(depth)

    def _skip_blanks(self) -> None:
        while self._peek() and self._peek() in " \t\r\n":
            self._position += 1

    def _read_value(self, depth: int) -> Value:
        self._count(depth)
        mark = self._peek()
        if mark == "{":
            self._position += 1
            return self._read_items("}", depth + 1)
        if mark == "[":
            self._position += 1
            return self._read_list(depth + 1)
        for pattern in (_QUOTED, _SINGLE):
            if found := pattern.match(self._text, self._position):
                self._position = found.end()
                return _unescape(found[1])
        if found := _HEREDOC.match(self._text, self._position):
            end = self._text.find(f"\n{found[1]}", found.end() - 1)
            if end < 0:
                raise self._fail(f"a text that does not end with {found[1]}")
            value = self._text[found.end() : end]
            self._position = end + len(found[1]) + 1
            return value
        found = _BARE.match(self._text, self._position)
        assert found is not None  # it matches anything
        self._position = found.end()
        return found[0].partition("#")[0].strip()

    def _read_list(self, depth: int) -> tuple[Value, ...]:
        found: list[Value] = []
        while True:
            self._skip()
            if self._position >= len(self._text):
                raise self._fail("a list that does not end")
            if self._peek() == "]":
                self._position += 1
                return tuple(found)
            before = self._position
            found.append(self._read_value(depth))
            if self._position == before:
                raise self._fail(f"{self._peek()!r} in a list")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)
