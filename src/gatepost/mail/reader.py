"""Reading mail: any bytes become a frozen `Message`.

The ordinary way is one pass over the bytes (`mime.MimeTree`), then each leaf is decoded once (`read_leaf`). Where the
form of a message is ambiguous, a second, suspicious reading (`reread`) adds what another mail program would have found.
Messages inside encoded parts are sources of their own and wait in a queue: nothing recurses.

A leaf is decoded as declared, then as other programs would, and gives the files that it carries. The first reading is
the part itself. Others stand beside it as parts with a path of their own: `1.2~by-line` is part 1.2 decoded line by
line, `1.2~uu1` the first uuencoded file in it.

`reread` is the reading of a program that believes no header. Mail can be written so that two programs see two trees: a
boundary in a comment, a field behind a carriage return, an end that is none. Instead of imitating each program, this
reading splits the bytes at every line that begins with `--` and has a content field after it, whatever boundaries were
declared, takes every line end for a line end, and decodes each piece in every way that its header hints at or its bytes
look like. It runs only where the ordinary reading met something odd, and gives only what that reading did not find.
"""

import re
import zlib
from collections import deque
from collections.abc import Container, Iterator
from itertools import islice

import msgspec
from msgspec.structs import replace

from gatepost.findings import kinds
from gatepost.mail import headers
from gatepost.mail.budget import DEFAULT_LIMITS, ReadBudget
from gatepost.mail.encodings import embedded, openpgp, outlook
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.cms import open_cms
from gatepost.mail.encodings.embedded import MOST_EMBEDDED_FILES, EmbeddedFile
from gatepost.mail.encodings.transfer import (
    DecodedBody,
    decode_base64,
    decode_quoted_printable,
    is_likely_base64,
    reread_base64,
    reread_quoted_printable,
)
from gatepost.mail.headers import decode_words, unfold
from gatepost.mail.message import EMBEDS, MAX_SIGNED, NO_SIGNS, Field, Headers, Message, Part
from gatepost.mail.mime import (
    Entity,
    MimeNode,
    MimeTree,
    Parameters,
    decode_names,
    describe_known_leaf,
    describe_ordinary_leaf,
    guess_names,
)
from gatepost.mail.text import read_texts
from gatepost.names import MAX_SUBJECT, Address
from gatepost.speedups import native

# One start for each line: tried at every dash of a line of dashes, it would run to the end of that line each time. What
# ends a line is the same before and after it, or a line of NULs and dashes would be read once for each of them.
_START = re.compile(
    rb"(?:\A|(?<=[\r\n\0]))[ \t]*+(--[^\r\n\0]*+)(?=(?:[\r\n\0]++[ \t]*+){1,3}[^\r\n]{0,40}?(?i:content-))"
)
_FIELD = re.compile(
    rb"[\r\n\0 \t]*+(?:[!-9;-~]++[ \t]*+:|[^\r\n]{0,40}?(?i:content-))[^\r\n]*+(?:(?:\r\n|\r|\n)[ \t]++[^\r\n]*+)*"
)
_EMPTY_LINE = re.compile(rb"\r\n[ \t]*\r\n|\n[ \t]*\n|\r[ \t]*\r(?!\n)")
_ENCODING = re.compile(rb"encoding[^\r\n]*[\r\n]*[^\r\n:]*")
_ESCAPE = re.compile(rb"=[0-9A-Fa-f]{2}")
_NO_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+(?:[\r\n]|\Z))")
# Content that no header calls quoted-printable may be so where escapes are that much more than equals signs that begin
# none: links in pages and letters have `=20` by chance, too.
_ESCAPES_TO_OTHERS = 4
_MOST_CLOSINGS, _LONGEST_CLOSING = 20, 1_024
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


class RereadContent(msgspec.Struct, frozen=True):
    """One content that the suspicious reading found."""

    label: str
    content_type: str
    names: tuple[str, ...]
    content: bytes
    charset: str | None = None


def reread(source: bytes, budget: ReadBudget, closings: Container[bytes] = ()) -> Iterator[RereadContent]:
    """Yield all that the suspicious reading finds in a source; `closings` are boundaries that have ended in it."""
    starts: list[int] = [0]
    ends: list[int] = []
    found = _find_segments(source, _MOST_BYTES, _MOST_SEGMENTS + 1)
    if len(found) > _MOST_SEGMENTS or len(source) > _MOST_BYTES:
        budget.note(kinds.LIMIT_ALTERNATIVES, "message")
    for dashes, line_end in found[:_MOST_SEGMENTS]:
        starts.append(line_end)
        ends.append(dashes)
    for start, end in zip(starts, [*ends, len(source)], strict=True):
        budget.work.segments += 1
        yield from _reread_segment(source, start, end, closings, budget)


def find_segments(source: bytes, limit: int, most: int) -> list[tuple[int, int]]:
    """Return where lines that begin with `--` and have a content field after them begin and end, at most so many, as
    far as they lie before `limit`. `_speedups.c` has the same."""
    return [line.span(1) for line in islice(_START.finditer(source, 0, max(0, limit)), max(0, most))]


_find_segments = native.find_segments if native else find_segments


def _reads_one_way(body: bytes, encoding: str) -> bool:
    """Return whether all clients read a body alike: it is whole, without an empty line, at which some end base64."""
    if encoding == "base64" and _EMPTY_LINE.search(body.strip()):
        return False
    return decode_body(body, encoding).whole


def _find_closing(source: bytes, start: int, end: int, closings: Container[bytes]) -> int:
    """Return where a segment ends before lines that close a multipart, if nothing follows them; else its end."""
    for _ in range(_MOST_CLOSINGS):
        tail = source[max(start, end - _LONGEST_CLOSING) : end].rstrip()
        line_start = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
        line = tail[line_start:]
        if not line_start or not line.startswith(b"--") or not line.endswith(b"--") or line[2:-2] not in closings:
            break
        end = max(start, end - _LONGEST_CLOSING) + line_start
    return end


def is_line_start(source: bytes, place: int) -> bool:
    """Return whether only white space stands between a place and the line end before it, of whatever kind."""
    before = source[max(0, place - 40) : place].rstrip(b" \t")
    return not before or before[-1] in b"\r\n\0"


def _reread_segment(
    source: bytes, start: int, end: int, closings: Container[bytes], budget: ReadBudget
) -> Iterator[RereadContent]:
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
    closing = _find_closing(source, head_end, end, closings)
    places = [head_end] if empty is None or not source[head_end : empty.start()].strip() else [head_end, empty.end()]
    for place in places:
        for label, content in _decode_segment(head.lower(), source[place:end], max(0, end - closing)):
            if content:
                yield RereadContent(label, kind, names, content, charset)


def _decode_segment(head: bytes, body: bytes, closing: int) -> Iterator[tuple[str, bytes]]:
    """Yield what a segment is in each encoding that it may have; the last `closing` bytes are lines that close
    multiparts. Boundaries have equals signs and dashes: where nothing else is broken, to read these in other ways as
    well says nothing new."""
    declared = b" ".join(_ENCODING.findall(head))
    encodings = dict.fromkeys(name for hint, name in _HINTS if hint in declared)
    if is_likely_base64(body):
        encodings["base64"] = None
    sample = body[:4096]
    escapes = len(_ESCAPE.findall(sample))
    if escapes > 3 and escapes >= _ESCAPES_TO_OTHERS * len(_NO_ESCAPE.findall(sample)):
        encodings["quoted-printable"] = None
    for encoding in encodings:
        decoded = decode_body(body, encoding)
        yield encoding, decoded.content
        if decoded.whole or (closing and _reads_one_way(body[: len(body) - closing], encoding)):
            continue
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
_OF_OPENPGP = "pgp"
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
    is_signed = native and len(content) <= MAX_SIGNED and entity.types[0].startswith("text/")
    signs: int = native.content_signs(content) if is_signed else NO_SIGNS
    parts = [_make_part(path, entity, content, signs=signs)]
    seen: set[bytes] = set()
    for label, other in _find_readings(path, entity, body, decoded, budget):
        if other and other not in seen and other != content and budget.take_alternative(len(other), path):
            seen.add(other)
            parts.append(_make_part(f"{path}~{label}", entity, other))
    others = (kind for kind in entity.types[1:] if budget.take_alternative(0, path))
    parts.extend(_make_part(f"{path}~{kind}", entity, content, kind) for kind in others)
    files = _find_embedded(path, entity, content, budget) if signs & EMBEDS or entity.names else ()
    for number, file in enumerate(files, 1):
        if budget.take_decoded(len(file.content), path):
            disposition = "attachment" if file.names else ""
            inside = f"{path}~{file.label}{number}"
            parts.append(Part(inside, Headers(), file.content_type, None, disposition, file.names, file.content))
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
    yield from _open_openpgp(path, entity, content, budget)
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


def _open_openpgp(path: str, entity: Entity, content: bytes, budget: ReadBudget) -> Iterator[EmbeddedFile]:
    """Yield the files of OpenPGP messages that are not encrypted; programs show one in a message's text as text."""
    if not openpgp.has_openpgp(content, entity.names):
        return
    room = budget.limits.decoded_bytes - budget.work.decoded_bytes
    for opened in openpgp.find_openpgp(content, room, entity.names):
        if opened.is_cut:
            budget.note(kinds.LIMIT_DECODED_SIZE, path)
        for file in opened.files:
            names = openpgp.name_literal(file, entity.names)
            is_text = not entity.names and b"\0" not in file.content[:1024] and not openpgp.is_mime(file)
            kind = "text/plain" if is_text else "application/octet-stream"
            yield EmbeddedFile(_OF_OPENPGP, names, file.content, kind)


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


def _make_part(
    path: str,
    entity: Entity,
    content: bytes,
    kind: str | None = None,
    children: tuple[Part, ...] = (),
    signs: int = NO_SIGNS,
) -> Part:
    kind = kind or entity.types[0]
    return Part(path, entity.headers, kind, entity.charset, entity.disposition, entity.names, content, children, signs)


def _gunzip(decoded: DecodedBody) -> DecodedBody:
    stream = zlib.decompressobj(wbits=47)
    try:
        content = stream.decompress(decoded.content, _MOST_GUNZIPPED)
    except zlib.error:
        return DecodedBody(decoded.content, False)
    return DecodedBody(content, decoded.whole and stream.eof)


SMIME_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_FIELD_START = re.compile(rb"content-t", re.IGNORECASE)
_FIELD_START_SIZE = len(b"content-t")
_MOST_OCCURRENCES = 2_000
_LONGEST_GREETING = 200
_GREETINGS = frozenset(
    {
        b"this is a multi-part message in mime format",
        b"this is a multipart message in mime format",
        b"this is a mime-encapsulated message",
        b"this is a mime encoded message",
        b"this is a cryptographically signed message in mime format",
        b"this is an openpgp/mime signed message (rfc 2440 and 3156)",
        b"this is an openpgp/mime signed message (rfc 4880 and 3156)",
    }
)


class MessageParts:
    """All parts of one message: `flat` has every entity of every reading, depth first."""

    __slots__ = ("_budget", "_carriers", "_extra", "flat", "root", "trees")

    def __init__(self, raw: bytes, budget: ReadBudget) -> None:
        self._budget = budget
        self.trees: list[MimeTree] = []
        self._extra: dict[str, list[Part]] = {}
        self._carriers: dict[str, list[MimeNode]] = {}
        budget.take_part("1")
        sources: deque[tuple[bytes, str, int]] = deque([(raw, "1", 0)])
        while sources:
            source, path, depth = sources.popleft()
            tree = MimeTree(source, path, depth, budget)
            self.trees.append(tree)
            if path in self._carriers:
                self._carriers[path].append(tree.nodes[0])
            for node in tree.nodes:
                inner = self._read(node)
                if inner is not None:
                    sources.append((inner, f"{node.path}.1", node.depth + 1))
                    self._carriers[f"{node.path}.1"] = node.children
        self.root = self.trees[0].nodes[0]
        self.flat = self._flatten()
        self._add_suspicious_readings()

    def _read(self, node: MimeNode) -> bytes | None:
        """Read one node's content; return the bytes of a message inside it that must be read in turn."""
        if node.unread[1] > node.unread[0]:
            self._add(node, "header", node.source[node.unread[0] : node.unread[1]])
        if node.junk >= 0 and self._budget.take_alternative(node.end - node.junk, node.path):
            self._add(node, "from-junk", node.source[node.junk : node.end])
        for number, (start, end) in enumerate(node.outside):
            self._add_outside(node, "epilogue" if number else "preamble", start, end)
        if node.children:
            return None
        entity = node.entity
        encoding = entity.encodings[0]
        body = node.body
        if entity.is_multipart:
            return self._read_childless(node, body)
        if entity.is_message and encoding and node.depth < self._budget.limits.depth:
            decoded = decode_body(body, encoding)
            if self._budget.take_part(node.path) and self._budget.take_decoded(len(decoded.content), node.path):
                self._add_leaf(node, body if not decoded.whole else b"")
                return decoded.content
        self._add_leaf(node, body)
        return self._find_attached_message(node)

    def _find_attached_message(self, node: MimeNode) -> bytes | None:
        """Return the bytes of a message that is attached as a file or signed as one block: programs open both."""
        part = node.part
        if part is None or not part.content:
            return None
        inner = b""
        if part.is_named(".eml"):
            inner = part.content
        elif part.content_type in SMIME_TYPES or any(name.lower().endswith(".p7m") for name in part.names):
            inner = open_cms(part.content).content
        elif node.path in self._extra:
            return self._find_openpgp_message(node)
        if not inner or node.depth >= self._budget.limits.depth or not self._budget.take_part(node.path):
            return None
        return inner if self._budget.take_decoded(0 if inner is part.content else len(inner), node.path) else None

    def _find_openpgp_message(self, node: MimeNode) -> bytes | None:
        """Return the message in the clear of an OpenPGP message (RFC 3156), which is read in place of a file of it."""
        extra = self._extra[node.path]
        for part in extra:
            is_literal = part.path.startswith(f"{node.path}~{_OF_OPENPGP}")
            if is_literal and openpgp.is_mime(openpgp.LiteralFile("", part.content)):
                if node.depth >= self._budget.limits.depth or not self._budget.take_part(node.path):
                    return None
                extra.remove(part)
                return part.content
        return None

    def _read_childless(self, node: MimeNode, body: bytes) -> bytes | None:
        """Read a multipart without parts: it is a leaf, or encoded as a whole. Return decoded bytes to read in turn."""
        encoding = node.entity.encodings[0]
        decoded = decode_body(body, encoding) if encoding else DecodedBody(b"")
        self._budget.note(kinds.MIME_NO_PARTS, node.path)
        self._add_leaf(node, body)
        self.trees[-1].odd = True
        if b"--" not in decoded.content or node.depth >= self._budget.limits.depth:
            return None
        self._budget.note(kinds.MIME_ENCODED_MULTIPART, node.path)
        fields = b"".join(field.raw for field in node.entity.headers.fields if field.name == "content-type")
        return fields.rstrip(b"\r\n") + b"\r\n\r\n" + decoded.content if self._budget.take_part(node.path) else None

    def _add_leaf(self, node: MimeNode, body: bytes) -> None:
        node.part, *others = read_leaf(node.path, node.entity, body, self._budget)
        if others:
            self._extra.setdefault(node.path, []).extend(others)

    def _add_outside(self, node: MimeNode, label: str, start: int, end: int) -> None:
        if end - start <= 4:
            return
        text = node.source[start:end].strip()
        if not text or b" ".join(text[:_LONGEST_GREETING].lower().split()).rstrip(b".") in _GREETINGS:
            return
        if len(text) > _LONGEST_GREETING:
            self._budget.note(kinds.MIME_OUTSIDE_PARTS, node.path)
        self._add(node, label, text)

    def _add(self, node: MimeNode, label: str, content: bytes) -> None:
        if not self._budget.take_part(node.path):
            return
        plain = type(node.entity)()
        parts = read_leaf(f"{node.path}~{label}", plain, content, self._budget)
        self._extra.setdefault(node.path, []).extend(parts)

    def _flatten(self) -> tuple[Part, ...]:
        """Build containers from the leaves up, then list all parts depth first."""
        for tree in reversed(self.trees):
            for node in reversed(tree.nodes):
                if node.children or node.part is None:
                    children = tuple(child.part for child in node.children if child.part is not None)
                    content = node.part.content if node.part else b""
                    node.part = _make_part(node.path, node.entity, content, children=children)
        flat: list[Part] = []
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.part is not None:
                flat.append(node.part)
            flat.extend(self._extra.get(node.path, ()))
            waiting.extend(reversed(node.children))
        return tuple(flat)

    def _add_suspicious_readings(self) -> None:
        """Read odd sources again as a program would that believes no header; add the parts that are new."""
        found: list[Part] = []
        known: set[bytes] | None = None
        names = {name for part in self.flat for name in part.names}
        for tree in self.trees:
            hidden = _has_hidden_fields(tree)
            if not (tree.odd or hidden):
                continue
            if known is None:
                known = {part.content.strip() for part in self.flat if part.content}
            for other in reread(tree.source, self._budget, tree.list_closings()):
                if other.content.strip() in known and names.issuperset(other.names):
                    continue
                if other.label == "as-is" and names.issuperset(other.names):
                    continue
                if not self._budget.take_alternative(len(other.content), "message"):
                    self.flat += tuple(found)
                    return
                known.add(other.content.strip())
                names.update(other.names)
                if hidden:
                    self._budget.note(kinds.MIME_HIDDEN_PART, "message")
                path = f"1~{len(found) + 1}-{other.label}"
                found.append(Part(path, Headers(), other.content_type, other.charset, "", other.names, other.content))
        self.flat += tuple(found)


def _has_hidden_fields(tree: MimeTree) -> bool:
    """Return whether a content field stands at the beginning of a line that the tree did not read as a header."""
    source, start, count = tree.source, 0, 0
    known = [(node.start, node.end) for node in tree.nodes if _is_saved_mail(node)]
    for section, body in (*sorted((*tree.header_bytes, *known)), (len(source), len(source))):
        for place in _find_occurrences(source, start, section):
            count += 1
            if count > _MOST_OCCURRENCES or is_line_start(source, place):
                return True
        start = max(start, body)
    return False


def _is_saved_mail(node: MimeNode) -> bool:
    """Return whether a long part that is not encoded is a mailbox or a saved message, which has header fields of its
    own: as a file it is opened, and each message in it is read."""
    if node.entity.is_multipart or node.end - node.start < _LONG_MAIL or not node.entity.names:
        return False
    return _SAVED_MAIL.match(node.source, node.start) is not None


def _find_occurrences(source: bytes, start: int, end: int) -> Iterator[int]:
    """Yield where a content field may begin between two places."""
    place = _find_content_field(source, start, end)
    while place >= 0:
        yield place
        place = _find_content_field(source, place + 1, end)


def find_content_field(source: bytes, start: int, end: int) -> int:
    """Return where `content-t` in any case begins between two places, or -1. `_speedups.c` has the same."""
    match = _FIELD_START.search(source, max(0, start), max(0, end) + _FIELD_START_SIZE - 1)
    return match.start() if match else -1


_find_content_field = native.find_content_field if native else find_content_field


_LONG_MAIL = 1 << 20
_SAVED_MAIL = re.compile(
    rb"From [^\r\n]{0,300}\r?\n[\w-]{1,60}:|(?:Return-Path|Received|Delivered-To|From|Date|Message-ID|MIME-Version):",
    re.IGNORECASE,
)
# Fields that may stand only once (RFC 5322 section 3.6).
_SINGLE = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references"}
)

_ADDRESSED = frozenset({"from", "reply-to", "to", "cc"})


def read(raw: bytes) -> Message:
    """Read one message. It takes any bytes, in linear time."""
    return read_within(raw, ReadBudget())


def read_within(raw: bytes, budget: ReadBudget) -> Message:
    """Read one message within a budget that the caller can look at afterwards."""
    if (whole := restore_line_ends(raw)) is not raw:
        budget.note(kinds.MIME_BARE_CR, "1")
        raw = whole
    headers, end, parts = read_ordinary(raw, budget) or _read_parts(raw, budget)
    _check_header(headers, budget)
    addressed = [field for field in headers.fields if field.name in _ADDRESSED]
    senders = _read_addresses(addressed, ("from",), budget)
    reply_to = _read_addresses(addressed, ("reply-to",), budget)
    recipients = _read_addresses(addressed, ("to", "cc"), budget)
    texts, links, oddities = read_texts(parts)
    subject = headers.first("subject") or ""
    if len(subject) > MAX_SUBJECT:
        budget.note(kinds.LIMIT_TEXT_SIZE, "subject", f"{MAX_SUBJECT} of {len(subject)} characters read")
    return Message(
        raw=raw,
        headers=headers,
        header_end=end,
        parts=parts,
        texts=texts,
        links=links,
        subject=subject[:MAX_SUBJECT],
        senders=senders,
        reply_to=reply_to,
        recipients=recipients,
        defects=(*budget.defects, *oddities),
    )


def restore_line_ends(raw: bytes) -> bytes:
    """Return a message with CRLF where its lines end with CR alone, as old programs save it: whoever takes LF for the
    end of a line sees one line of header, so all who show the message read it in this way."""
    if raw.find(b"\n", 0, -2) >= 0 or raw.count(b"\r") < 2:
        return raw
    return b"\r\n".join(raw.removesuffix(b"\n").split(b"\r"))


# The header of a message, where its body begins, and all of its parts.
ReadParts = tuple[Headers, int, tuple[Part, ...]]


def _read_parts(raw: bytes, budget: ReadBudget) -> ReadParts:
    parts = MessageParts(raw, budget)
    return parts.root.entity.headers, parts.root.start, parts.flat


def read_ordinary(raw: bytes, budget: ReadBudget) -> ReadParts | None:
    """Return what `MessageParts` finds in a message that reads in one way only, in one native pass; None where anything
    is odd, large or ambiguous, or where the budget is not a fresh one of the default size."""
    if not native or budget.limits is not DEFAULT_LIMITS or budget.work.parts:
        return None
    found: tuple[Headers, int, tuple[Part, ...], tuple[int, int, int]] | None = native.read_ordinary(
        raw, Field, Headers, Part, decode_words, describe_known_leaf, describe_ordinary_leaf, _read_alone
    )
    if found is None:
        return None
    headers, start, parts, (fields, delimiters, decoded) = found
    work = budget.work
    work.parts, work.fields, work.delimiters = len(parts), fields, delimiters
    work.decoded_bytes = decoded
    return headers, start, parts


def _read_alone(path: str, entity: Entity, headers: Headers, body: bytes) -> Part | None:
    """Return the part of a leaf that is more than plain text; None if it has further readings or files, or is odd."""
    budget = ReadBudget()
    part, *others = read_leaf(path, guess_names(replace(entity, headers=headers)), body, budget)
    if others or budget.defects or part.content_type in SMIME_TYPES:
        return None
    return None if part.is_named(".eml", ".p7m") else part


def _check_header(headers: Headers, budget: ReadBudget) -> None:
    seen: dict[str, str] = {}
    for field in headers.fields:
        if field.name in _SINGLE and seen.setdefault(field.name, field.value) != field.value:
            budget.note(kinds.MIME_DUPLICATE_HEADER, "header", field.name)
    if not any(field.name for field in headers.fields):
        budget.note(kinds.MIME_NO_HEADER, "header")


def _read_addresses(fields: list[Field], names: tuple[str, ...], budget: ReadBudget) -> tuple[Address, ...]:
    found: list[Address] = []
    for field in fields:
        if field.name in names:
            some, more = headers.parse_addresses(unfold(field), budget.limits.addresses - len(found))
            found.extend(some)
            if more:
                budget.note(kinds.LIMIT_ADDRESSES, field.name)
    budget.work.addresses += len(found)
    return tuple(found)
