"""The reading of a program that believes no header: every line that could begin a part begins one.

Mail can be written so that two programs see two trees: a boundary in a comment, a field behind a carriage return, an
end that is none. Instead of imitating each program, this reading splits the bytes at every line that begins with `--`
and has a content field after it, whatever boundaries were declared, takes every line end for a line end, and decodes
each piece in every way that its header hints at or its bytes look like. It runs only where the ordinary reading met
something odd, and gives only what that reading did not find.
"""

import re
from collections.abc import Iterator

import msgspec

from gatepost.mail import parameters
from gatepost.mail.budget import Budget
from gatepost.mail.charset import decode as decode_charset
from gatepost.mail.encodings import looks_base64
from gatepost.mail.leaves import MOST_REREAD, decode, readings

_START = re.compile(rb"--[^\r\n]*+(?=(?:[\r\n\0]++[ \t]*+){1,3}[^\r\n]{0,40}?(?i:content-))")
_FIELD = re.compile(
    rb"[\r\n\0 \t]*+(?:[!-9;-~]++[ \t]*+:|[^\r\n]{0,40}?(?i:content-))[^\r\n]*+(?:(?:\r\n|\r|\n)[ \t]++[^\r\n]*+)*"
)
_EMPTY_LINE = re.compile(rb"\r\n[ \t]*\r\n|\n[ \t]*\n|\r[ \t]*\r(?!\n)")
_ENCODING = re.compile(rb"encoding[^\r\n]*[\r\n]*[^\r\n:]*")
_ESCAPE = re.compile(rb"=[0-9A-Fa-f]{2}")
_LONGEST_HEADER = 32_768
_MOST_SEGMENTS = 500
_MOST_BYTES = 16 << 20
_HINTS = (
    (b"gzip", "gzip64"),
    (b"64", "base64"),
    (b"quot", "quoted-printable"),
    (b"print", "quoted-printable"),
    (b"uu", "uuencode"),
    (b"yenc", "yenc"),
    (b"hex", "binhex"),
)


class Found(msgspec.Struct, frozen=True):
    """One content that this reading sees."""

    label: str
    content_type: str
    names: tuple[str, ...]
    content: bytes
    charset: str | None = None


def reread(source: bytes, budget: Budget) -> Iterator[Found]:
    """Everything that the suspicious reading decodes or names in a source."""
    starts: list[int] = [0]
    ends: list[int] = []
    if len(source) > _MOST_BYTES:
        budget.note("limit:alternatives", "message")
    for line in _START.finditer(source, 0, _MOST_BYTES):
        if not is_line_start(source, line.start()):
            continue
        if len(starts) > _MOST_SEGMENTS:
            budget.note("limit:alternatives", "message")
            break
        starts.append(line.end())
        ends.append(line.start())
    for start, end in zip(starts, [*ends, len(source)], strict=True):
        budget.work.segments += 1
        yield from _segment(source, start, end, budget)


def is_line_start(source: bytes, place: int) -> bool:
    """Whether nothing but white space stands between a place and the line end before it, whatever kind that is."""
    before = source[max(0, place - 40) : place].rstrip(b" \t")
    return not before or before[-1] in b"\r\n\0"


def _segment(source: bytes, start: int, end: int, budget: Budget) -> Iterator[Found]:
    head_end = start
    while field := _FIELD.match(source, head_end, min(end, start + _LONGEST_HEADER)):
        head_end = field.end()
    head = source[start:head_end]
    if b"content-" not in head.lower():
        return
    if end - head_end > MOST_REREAD:
        budget.note("limit:alternatives", "message")
        return
    empty = _EMPTY_LINE.search(source, max(start, head_end - 2), end)
    kind, names, charset = _described(head)
    places = [head_end] if empty is None or not source[head_end : empty.start()].strip() else [head_end, empty.end()]
    for place in places:
        for label, content in _contents(head.lower(), source[place:end]):
            if content:
                yield Found(label, kind, names, content, charset)


def _contents(head: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    declared = b" ".join(_ENCODING.findall(head))
    encodings = dict.fromkeys(name for hint, name in _HINTS if hint in declared)
    if looks_base64(body):
        encodings["base64"] = None
    if len(_ESCAPE.findall(body[:4096])) > 3:
        encodings["quoted-printable"] = None
    for encoding in encodings:
        decoded = decode(body, encoding)
        yield encoding, decoded.content
        if not decoded.whole:
            for label, content in readings(body, encoding):
                yield f"{encoding}-{label}", content
    if b"name" in head:
        yield "as-is", body.strip(b"\r\n")


def _described(head: bytes) -> tuple[str, tuple[str, ...], str | None]:
    """Type, names and charset from header bytes that need not be well formed."""
    text = re.sub(r"[\r\n\0]+(?![ \t])", ";", decode_charset(head, None)[0])
    values = parameters.Parameters("", (), text, True)
    kind = re.search(r"content-type[^a-z\"]{0,100}\"?([a-z]+/[\w.+-]+)", text, re.IGNORECASE)
    names = parameters.decoded_names(values.spellings("filename", "name"))
    charset = min(values.spellings("charset"), key=len, default=None)
    return kind[1].lower() if kind else "application/octet-stream", names, charset
