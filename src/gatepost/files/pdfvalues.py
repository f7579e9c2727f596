"""Values of a PDF (ISO 32000-1 section 7.3): names, strings, numbers, references, arrays, dictionaries.

`/J#61vaScript` is `/JavaScript`, a string may hold parentheses and escapes, a comment may stand anywhere. The reader
keeps its own stack, takes anything, and stops after so many tokens.
"""

import re
from typing import TypeAlias

import msgspec

MAX_TOKENS = 50_000
MAX_DEPTH = 64
MAX_STRING = 1 << 20

_TOKEN = re.compile(
    rb"%[^\r\n]*+|(?P<ref>(\d{1,10})[\0\t\n\f\r ]{1,20}\d{1,5}[\0\t\n\f\r ]{1,20}R(?![A-Za-z]))|(?P<mark><<|>>|[\[\]])"
    rb"|/(?P<name>[^\0\t\n\f\r ()<>\[\]{}/%]{0,1000}+)|(?P<text>\()|<(?P<hex>[0-9A-Fa-f\0\t\n\f\r ]*+)>"
    rb"|(?P<number>[+-]?[\d.]{1,30}+)|(?P<word>[A-Za-z*'\"]{1,30}+)"
)
_PLAIN = re.compile(rb"[^\\()]*+(?:\\.[^\\()]*+)*+", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b"", b"\r": b""}
_HEX_NAME = re.compile(rb"#([0-9A-Fa-f]{2})")


class Name(msgspec.Struct, frozen=True, gc=False):
    text: str


class Reference(msgspec.Struct, frozen=True, gc=False):
    number: int


Value: TypeAlias = "bool | float | bytes | Name | Reference | list[Value] | dict[str, Value] | None"


def parse(body: bytes) -> Value:
    """The first value in `body`; None where there is none."""
    stack: list[list[Value]] = [[]]
    place = 0
    for _ in range(MAX_TOKENS):
        match = _TOKEN.search(body, place)
        if match is None:
            break
        place = match.end()
        if match.group("mark"):
            _bracket(match.group("mark"), stack)
        elif match.group("text"):
            text, place = _string(body, place)
            stack[-1].append(text)
        else:
            _simple(match, stack[-1])
        if len(stack) == 1 and stack[0]:
            return stack[0][0]
    while len(stack) > 1:
        _bracket(b">>", stack)
    return stack[0][0] if stack[0] else None


def _bracket(mark: bytes, stack: list[list[Value]]) -> None:
    if mark in (b"<<", b"["):
        if len(stack) < MAX_DEPTH:
            stack.append([])
    elif len(stack) > 1:
        items = stack.pop()
        stack[-1].append(_dictionary(items) if mark == b">>" else items)


def _dictionary(items: list[Value]) -> Value:
    """Pairs of a name and a value; what is out of step is stepped over."""
    found: dict[str, Value] = {}
    place = 0
    while place + 1 < len(items):
        key = items[place]
        if isinstance(key, Name):
            found[key.text] = items[place + 1]
            place += 2
        else:
            place += 1
    return found


def _simple(match: "re.Match[bytes]", into: list[Value]) -> None:
    name, digits, number, word = match.group("name", "hex", "number", "word")
    if match.group("ref"):
        into.append(Reference(int(match.group(2))))
    elif name is not None:
        into.append(Name(_unescaped(name)))
    elif digits is not None:
        into.append(_from_hex(digits))
    elif number is not None:
        try:
            into.append(float(number))
        except ValueError:
            into.append(0.0)
    elif word in (b"true", b"false", b"null"):
        into.append({b"true": True, b"false": False}.get(word))


def _unescaped(name: bytes) -> str:
    if b"#" in name:
        name = _HEX_NAME.sub(lambda match: bytes([int(match.group(1), 16)]), name)
    return name.decode("latin-1")


def _from_hex(digits: bytes) -> bytes:
    digits = digits.translate(None, b"\0\t\n\f\r ")
    return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii"))


def _string(body: bytes, place: int) -> tuple[bytes, int]:
    """A string from behind its first parenthesis to its last one."""
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
    return (_ESCAPE.sub(_escaped, raw) if b"\\" in raw else raw), place


def _escaped(match: "re.Match[bytes]") -> bytes:
    octal, character = match.groups()
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    return _ESCAPED.get(character, character) if character else b""


def text_of(value: bytes) -> str:
    """A string as text: UTF-16 or UTF-8 by its mark, else one byte to a character."""
    if value[:2] == b"\xfe\xff":
        return value[2:].decode("utf-16-be", "replace")
    if value[:2] == b"\xff\xfe":
        return value[2:].decode("utf-16-le", "replace")
    if value[:3] == b"\xef\xbb\xbf":
        return value[3:].decode("utf-8", "replace")
    return value.decode("latin-1")
