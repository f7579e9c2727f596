"""The content of one leaf in every reading: decoded as declared, as other programs would, and the files carried inside.

The first reading is the part itself. Others stand beside it as parts with a path of their own: `1.2~by-line` is part
1.2 decoded line by line, `1.2~uu1` the first uuencoded file in it.

`reread` is the reading of a program that believes no header. Mail can be written so that two programs see two trees: a
boundary in a comment, a field behind a carriage return, an end that is none. Instead of imitating each program, this
reading splits the bytes at every line that begins with `--` and has a content field after it, whatever boundaries were
declared, takes every line end for a line end, and decodes each piece in every way that its header hints at or its bytes
look like. It runs only where the ordinary reading met something odd, and gives only what that reading did not find.
"""

import re
import zlib
from collections.abc import Iterator
from itertools import islice

import msgspec

from gatepost import kinds
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings import embedded, outlook
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.embedded import MOST_EMBEDDED_FILES, EmbeddedFile
from gatepost.mail.encodings.transfer import (
    DecodedBody,
    decode_base64,
    decode_quoted_printable,
    is_likely_base64,
    reread_base64,
    reread_quoted_printable,
)
from gatepost.mail.message import Headers, Part
from gatepost.mail.mime import Entity, Parameters, decode_names
from gatepost.speedups import native

# One start for each line: tried at every dash of a line of dashes, it would run to the end of that line each time. What
# ends a line is the same before and after it, or a line of NULs and dashes would be read once for each of them.
_START = re.compile(
    rb"(?:\A|(?<=[\r\n\0]))[ \t]*+(--[^\r\n\0]*+)(?=(?:[\r\n\0]++[ \t]*+){1,3}[^\r\n]{0,40}?(?i:content-))"
)
_CANDIDATE = re.compile(rb"[\r\n\0][ \t]*+--")
_FIELD = re.compile(
    rb"[\r\n\0 \t]*+(?:[!-9;-~]++[ \t]*+:|[^\r\n]{0,40}?(?i:content-))[^\r\n]*+(?:(?:\r\n|\r|\n)[ \t]++[^\r\n]*+)*"
)
_EMPTY_LINE = re.compile(rb"\r\n[ \t]*\r\n|\n[ \t]*\n|\r[ \t]*\r(?!\n)")
_ENCODING = re.compile(rb"encoding[^\r\n]*[\r\n]*[^\r\n:]*")
_ESCAPE = re.compile(rb"=[0-9A-Fa-f]{2}")
_LONGEST_HEADER = 32_768
_MOST_SEGMENTS = 500
_MOST_CANDIDATES = 200_000
# The fewest bytes of such a line: its end and two dashes.
_CANDIDATE_SIZE = 3
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


class RereadContent(msgspec.Struct, frozen=True):
    """One content that the suspicious reading found."""

    label: str
    content_type: str
    names: tuple[str, ...]
    content: bytes
    charset: str | None = None


def reread(source: bytes, budget: ReadBudget) -> Iterator[RereadContent]:
    """Yield everything that the suspicious reading decodes or names in a source."""
    starts: list[int] = [0]
    ends: list[int] = []
    end = _find_reread_end(source)
    if len(source) > end:
        budget.note(kinds.LIMIT_ALTERNATIVES, "message")
    found = _find_segments(source, end, _MOST_SEGMENTS + 1)
    if len(found) > _MOST_SEGMENTS:
        budget.note(kinds.LIMIT_ALTERNATIVES, "message")
    for dashes, line_end in found[:_MOST_SEGMENTS]:
        starts.append(line_end)
        ends.append(dashes)
    for start, end in zip(starts, [*ends, len(source)], strict=True):
        budget.work.segments += 1
        yield from _reread_segment(source, start, end, budget)


def find_segments(source: bytes, limit: int, most: int) -> list[tuple[int, int]]:
    """Return where lines that begin with `--` and have a content field after them begin and end, at most so many, as
    far as they lie before `limit`. `_speedups.c` has the same."""
    return [line.span(1) for line in islice(_START.finditer(source, 0, max(0, limit)), max(0, most))]


_find_segments = native.find_segments if native else find_segments


def _find_reread_end(source: bytes) -> int:
    """Return up to where starts are looked for: each line that could be one costs several looks at what follows it."""
    if len(source) < _MOST_CANDIDATES * _CANDIDATE_SIZE:
        return _MOST_BYTES
    beyond = next(islice(_CANDIDATE.finditer(source, 0, _MOST_BYTES), _MOST_CANDIDATES, None), None)
    return beyond.start() if beyond else _MOST_BYTES


def is_line_start(source: bytes, place: int) -> bool:
    """Return whether nothing but white space stands between a place and the line end before it, whatever kind
    that is."""
    before = source[max(0, place - 40) : place].rstrip(b" \t")
    return not before or before[-1] in b"\r\n\0"


def _reread_segment(source: bytes, start: int, end: int, budget: ReadBudget) -> Iterator[RereadContent]:
    head_end = start
    while field := _FIELD.match(source, head_end, min(end, start + _LONGEST_HEADER)):
        head_end = field.end()
    head = source[start:head_end]
    if b"content-" not in head.lower():
        return
    if end - head_end > MOST_REREAD:
        budget.note(kinds.LIMIT_ALTERNATIVES, "message")
        return
    empty = _EMPTY_LINE.search(source, max(start, head_end - 2), end)
    kind, names, charset = _describe_head(head)
    places = [head_end] if empty is None or not source[head_end : empty.start()].strip() else [head_end, empty.end()]
    for place in places:
        for label, content in _decode_segment(head.lower(), source[place:end]):
            if content:
                yield RereadContent(label, kind, names, content, charset)


def _decode_segment(head: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    declared = b" ".join(_ENCODING.findall(head))
    encodings = dict.fromkeys(name for hint, name in _HINTS if hint in declared)
    if is_likely_base64(body):
        encodings["base64"] = None
    if len(_ESCAPE.findall(body[:4096])) > 3:
        encodings["quoted-printable"] = None
    for encoding in encodings:
        decoded = decode_body(body, encoding)
        yield encoding, decoded.content
        if not decoded.whole:
            for label, content in reread_body(body, encoding):
                yield f"{encoding}-{label}", content
    if b"name" in head:
        yield "as-is", body.strip(b"\r\n")


def _describe_head(head: bytes) -> tuple[str, tuple[str, ...], str | None]:
    """Return type, names and charset from header bytes that need not be well formed."""
    text = re.sub(r"[\r\n\0]+(?![ \t])", ";", decode_charset(head, None)[0])
    values = Parameters("", (), text, True)
    kind = re.search(r"content-type[^a-z\"]{0,100}\"?([a-z]+/[\w.+-]+)", text, re.IGNORECASE)
    names = decode_names(values.spellings("filename", "name"))
    charset = min(values.spellings("charset"), key=len, default=None)
    return kind[1].lower() if kind else "application/octet-stream", names, charset


MOST_REREAD = 1 << 20
_MOST_GUNZIPPED = 16 << 20
_BROKEN = {
    "base64": kinds.MIME_BROKEN_BASE64,
    "quoted-printable": kinds.MIME_BROKEN_QUOTED_PRINTABLE,
    "uuencode": kinds.MIME_BROKEN_UUENCODE,
    "yenc": kinds.MIME_BROKEN_YENC,
    "binhex": kinds.MIME_BROKEN_BINHEX,
    "gzip64": kinds.MIME_BROKEN_BASE64,
}
_WIDE = ("utf-16", "utf-32", "ucs", "unicode")
_CARRIERS = (
    (embedded.find_uuencoded, b"begin", "uuencode", kinds.MIME_UUENCODE),
    (embedded.find_yenc, b"=ybegin ", "yenc", kinds.MIME_YENC),
    (embedded.find_binhex, b"with BinHex", "binhex", kinds.MIME_BINHEX),
)


def decode_body(body: bytes, encoding: str) -> DecodedBody:
    """Decode a body by the name of its transfer encoding; "" is identity."""
    if not encoding:
        return DecodedBody(body)
    if encoding == "base64":
        return decode_base64(body)
    if encoding == "quoted-printable":
        return decode_quoted_printable(body)
    if encoding == "uuencode":
        return DecodedBody(*embedded.decode_uuencoded(body))
    if encoding == "yenc":
        file = next(embedded.find_yenc(body), None)
        return DecodedBody(file.content, file.whole) if file else DecodedBody(embedded.decode_yenc(body), False)
    if encoding == "binhex":
        fork = embedded.decode_binhex(body)
        return DecodedBody(fork.content, fork.whole)
    return _gunzip(decode_base64(body))


def read_leaf(path: str, entity: Entity, body: bytes, budget: ReadBudget) -> list[Part]:
    """Return the part, then its other readings and the files inside it."""
    decoded = decode_body(body, entity.encodings[0])
    if not budget.take_decoded(len(decoded.content), path):
        return [_make_part(path, entity, b"")]
    content = decoded.content
    parts = [_make_part(path, entity, content)]
    seen: set[bytes] = set()
    for label, other in _find_readings(path, entity, body, decoded, budget):
        if other and other not in seen and other != content and budget.take_alternative(len(other), path):
            seen.add(other)
            parts.append(_make_part(f"{path}~{label}", entity, other))
    others = (kind for kind in entity.types[1:] if budget.take_alternative(0, path))
    parts.extend(_make_part(f"{path}~{kind}", entity, content, kind) for kind in others)
    for number, file in enumerate(_find_embedded(path, entity, content, budget), 1):
        if budget.take_decoded(len(file.content), path):
            parts.append(_make_embedded_part(f"{path}~{file.label}{number}", file))
    _note_defects(path, entity, content, budget)
    return parts


def reread_body(body: bytes, encoding: str) -> Iterator[tuple[str, bytes]]:
    """Yield every reading of a body in one encoding but the first."""
    if encoding == "base64":
        yield from reread_base64(body)
    elif encoding == "quoted-printable":
        yield from reread_quoted_printable(body)


def _find_readings(
    path: str, entity: Entity, body: bytes, decoded: DecodedBody, budget: ReadBudget
) -> Iterator[tuple[str, bytes]]:
    first, *more = entity.encodings
    if not decoded.whole:
        budget.note(_BROKEN[first], path)
    if not decoded.whole or more:
        if len(body) > MOST_REREAD:
            budget.note(kinds.LIMIT_ALTERNATIVES, path)
            return
        for encoding in entity.encodings:
            yield from reread_body(body, encoding)
    for encoding in more:
        yield encoding or "as-is", decode_body(body, encoding).content
    if not first and is_likely_base64(body) and len(body) <= MOST_REREAD:
        if not more:
            budget.note(kinds.MIME_UNDECLARED_ENCODING, path)
        yield "base64", decode_base64(body).content
    elif first == "base64" and not decoded.whole and not is_likely_base64(body):
        yield "as-is", body


def _find_embedded(path: str, entity: Entity, content: bytes, budget: ReadBudget) -> Iterator[EmbeddedFile]:
    if content.startswith(outlook.SIGNATURE):
        budget.note(kinds.MIME_TNEF, path)
        for file in outlook.find_tnef(content, budget.limits.rich_text - budget.work.rich_text):
            if not file.whole:
                budget.note(kinds.MIME_BROKEN_TNEF, path)
            if file.content_type == outlook.PACKED_RTF:
                budget.note(kinds.LIMIT_DECODED_SIZE, path)
            elif file.content_type == "application/rtf":
                budget.work.rich_text += len(file.content)
            yield file
        return
    # A binary file may hold such a line by chance; what is not text has its own reader.
    if entity.types[0].startswith(("image/", "audio/", "video/")):
        return
    # The mark of yEnc holds that of uuencode: most content is searched for two marks, not for three.
    for find, mark, name, kind in _CARRIERS if b"begin" in content else _CARRIERS[2:]:
        if mark not in content:
            continue
        for file in find(content):
            budget.note(kind, path)
            if not file.whole:
                budget.note(_BROKEN[name], path)
            yield file
        if content.count(b"\n" + mark) > MOST_EMBEDDED_FILES:
            budget.note(kinds.LIMIT_ALTERNATIVES, path)


def _note_defects(path: str, entity: Entity, content: bytes, budget: ReadBudget) -> None:
    if len(entity.names) > 1:
        budget.note(kinds.MIME_SEVERAL_NAMES, path, " | ".join(entity.names))
    kind = entity.types[0]
    if kind.startswith("text/") and b"\0" in content and not (entity.charset or "").lower().startswith(_WIDE):
        budget.note(kinds.MIME_NUL, path)
    elif kind == "message/partial":
        budget.note(kinds.MIME_PARTIAL, path)
    elif kind == "message/external-body":
        budget.note(kinds.MIME_EXTERNAL_BODY, path)


def _make_part(path: str, entity: Entity, content: bytes, kind: str | None = None) -> Part:
    return Part(
        path=path,
        headers=entity.headers,
        content_type=kind or entity.types[0],
        charset=entity.charset,
        disposition=entity.disposition,
        names=entity.names,
        content=content,
    )


def _make_embedded_part(path: str, file: EmbeddedFile) -> Part:
    return Part(
        path=path,
        headers=Headers(),
        content_type=file.content_type,
        disposition="attachment" if file.names else "",
        names=file.names,
        content=file.content,
    )


def _gunzip(decoded: DecodedBody) -> DecodedBody:
    stream = zlib.decompressobj(wbits=47)
    try:
        content = stream.decompress(decoded.content, _MOST_GUNZIPPED)
    except zlib.error:
        return DecodedBody(decoded.content, False)
    return DecodedBody(content, decoded.whole and stream.eof)
