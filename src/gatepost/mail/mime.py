"""The MIME structure of a message: the header of each entity, and the tree that they form.

`describe_entity` reads the header of one entity: type, boundary, charset, encoding, names (RFC 2045, RFC 2183, RFC
2231). Every field that may stand once may be there twice, and every name in several places. All values are kept; the
tree is built by the first one, and `odd` says that another program might choose differently. Values with parameters,
`multipart/mixed; boundary="x"`, mostly match one strict pattern. Anything else (comments, escapes, quotes that do not
close, a key twice, numbered pieces with gaps) is where mail programs disagree: such a value is `odd`, and
`Parameters.spellings` gives every value that some program would take for a parameter.

`MimeTree` goes from bytes to a tree of entities in one pass (RFC 2046 section 5.1), with offsets instead of copies.
Only lines that begin with `--` can end a part, so only those are looked at, each once, against a table of the
boundaries that are open. A line that is an outer boundary ends every part inside. Nothing recurses: open multiparts lie
on a stack, and nesting is a number with a limit.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import replace

from gatepost.findings import kinds
from gatepost.mail import headers
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.headers import HeaderSection, read_section, unfold
from gatepost.mail.message import MESSAGE_TYPES, Headers, Part
from gatepost.names import bound_file_name
from gatepost.speedups import native

_MOST_SPELLINGS = 24
_MOST_PAIRS = 500
_MOST_KNOWN = 80
_LETTER = r"[^\s;=()<>@,\\\"\[\]?]"
_STRICT = re.compile(
    rf"([\w!#$%&*+.^`|~-]++(?:/[\w!#$%&*+.^`|~-]++)?)\s*+((?:;\s*+(?:[\w.*%-]++\s*+=\s*+(?:\"[^\"\\]*+\"|(?!'){_LETTER}++)\s*+)?)*)\Z"
)
_PAIR = re.compile(rf"(?<![\w.*%-])([\w.*%-]++)\s*+=\s*+(?:\"([^\"\\]*+)\"|(?!')({_LETTER}++))")
_LOOSE = re.compile(r"(?<![^\s=;,()])([^\s=;,()]++)\s*+=\s*+(\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"?|[^;]*+)")
_PIECE = re.compile(r"([^*]+?)\*(?:(\d{1,3})(\*?))?")
_COMMENT = re.compile(r"\([^()]*\)")
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)))
_ENDS = re.compile(r"[;,\s()\"]")


class Parameters(msgspec.Struct, frozen=True):
    """A parsed value: `main` in lower case without parameters, `pairs` in order with names in lower case."""

    main: str
    pairs: tuple[tuple[str, str], ...]
    text: str
    odd: bool = False
    suspect: bool = False

    def has(self, piece: str) -> bool:
        """Return whether a parameter with this in its name can be there at all: a quick look before a slow one."""
        return self.odd or piece in self.text.lower()

    def get(self, name: str) -> str | None:
        """Return the parameter as RFC 2231 reads it, or None."""
        for key, value in self.pairs:
            if key == name:
                return value
        return next(_read_extended(self.pairs, name), None) if "*" in self.text else None

    def spellings(self, *names: str) -> tuple[str, ...]:
        """Return every value that some mail program would take for one of these parameters, each once."""
        found = {value: None for key, value in self.pairs if value and key in names}
        if "*" in self.text:
            found.update((value, None) for name in names for value in _read_extended(self.pairs, name))
        if self.odd:
            for name in names:
                found.update(dict.fromkeys(_find_loosely(self.text, name)))
        return tuple(found)[:_MOST_SPELLINGS]


def parse_parameters(text: str) -> Parameters:
    """Parse any value in linear time; results for short values are cached, since few come again and again."""
    return _parse_cached(text) if len(text) <= _MOST_KNOWN else _parse_parameters(text)


def _parse_parameters(text: str) -> Parameters:
    strict = _STRICT.match(text)
    if strict is not None:
        found = _PAIR.findall(strict[2])
        pairs = tuple((key.lower(), quoted or token) for key, quoted, token in found[:_MOST_PAIRS])
        keys = {key for key, _ in pairs}
        odd = len(keys) != len(set(pairs)) or len(found) > len(pairs)
        return Parameters(strict[1].lower(), pairs, text, odd, odd or any(key.startswith("boundary*") for key in keys))
    plain = _strip_comments(text)
    main, _, rest = plain.partition(";")
    if "=" in main:
        main, rest = re.split(r"[\s,;]", plain.strip(), maxsplit=1)[0], plain
    pairs = tuple((key.strip("'\"").lower(), _unquote(value)) for key, value in _LOOSE.findall(rest)[:_MOST_PAIRS])
    return Parameters(main.strip(" \t\r\"',").lower(), pairs, text, True, True)


_parse_cached = lru_cache(1024)(_parse_parameters)


def _unquote(value: str) -> str:
    value = value.strip()
    if value.startswith('"'):
        closing = value.endswith('"') and len(value) > 1
        return re.sub(r"\\(.)", r"\1", value[1:-1] if closing else value[1:])
    return value


def _strip_comments(text: str) -> str:
    """Return the text without comments, innermost first, in a bounded number of rounds."""
    for _ in range(4):
        shorter = _COMMENT.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text


def _read_extended(pairs: tuple[tuple[str, str], ...], name: str) -> Iterator[str]:
    """Yield the values that `name*`, `name*0` and `name*0*` spell, whole, in order of number and in order of place."""
    pieces: list[tuple[int, bool, str]] = []
    for key, value in pairs:
        match = _PIECE.fullmatch(key)
        if match is None or match[1] != name:
            continue
        if match[2] is None:
            yield _decode_percent(value)
        else:
            pieces.append((int(match[2]), bool(match[3]), value))
    seen: set[str] = set()
    for order in _order_pieces(pieces):
        for value in _join_pieces(order):
            if value not in seen:
                seen.add(value)
                yield value


def _order_pieces(pieces: list[tuple[int, bool, str]]) -> list[list[tuple[int, bool, str]]]:
    """Return the orders in which programs join the pieces: by number, and if numbers are wrong, by place."""
    numbers = [number for number, _, _ in pieces]
    if numbers == list(range(len(pieces))):
        return [pieces] if pieces else []
    by_number = sorted(pieces, key=lambda piece: piece[0])
    return [by_number, pieces, pieces[::-1], list({piece[0]: piece for piece in pieces}.values())]


def _join_pieces(pieces: list[tuple[int, bool, str]]) -> Iterator[str]:
    encoded = any(starred for _, starred, _ in pieces)
    joined = "".join(value for _, _, value in pieces)
    if encoded or "%" in joined or "''" in joined:
        yield _decode_percent(joined)
    if not encoded:
        yield joined


def _decode_percent(value: str) -> str:
    """Decode `utf-8'en'%e2%82%ac` (RFC 2231 section 4); the charset and language are often missing."""
    charset, quote, rest = value.partition("'")
    language, second, text = rest.partition("'")
    if not quote or not second or len(charset) > 40 or len(language) > 40:
        charset, text = "", value
    return decode_charset(unquote_to_bytes(text), charset or None)[0]


def _find_loosely(text: str, name: str) -> Iterator[str]:
    """Yield what follows each `name` and an equals sign, cut at each place where some program cuts it."""
    squeezed = text.replace("\\", "")
    for variant in {text: None, squeezed: None, _strip_comments(text): None, _strip_comments(squeezed): None}:
        low = variant.lower()
        start, count = 0, 0
        while count < 8 and (start := low.find(name, start)) >= 0:
            start += len(name)
            count += 1
            skipped = re.compile(r"\*?\d{0,3}\*?[\s()\\]{0,80}=").match(variant, start)
            if skipped:
                yield from _cut_value(variant[skipped.end() : skipped.end() + 1000].strip())


def _cut_value(value: str) -> Iterator[str]:
    for candidate in (value, value.partition(";")[0], _ENDS.split(value.lstrip("\"'"), maxsplit=1)[0]):
        bare = candidate.strip(" \t\"'")
        if bare:
            yield bare
    if value.startswith('"'):
        yield from filter(None, (value[1:].rpartition('"')[0], value[1:].partition('"')[0]))


def decode_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return file names with their encoded words decoded, without control bytes, each once."""
    cleaned = (bound_file_name(headers.decode_words(value[:4_000]).translate(_CONTROLS)).strip() for value in values)
    return tuple(dict.fromkeys(filter(None, cleaned)))


_IDENTITY = frozenset({"", "7bit", "8bit", "binary", "7-bit", "8-bit", "none", "identity", "8bits", "7bits", "utf-8"})
_ENCODINGS = {
    "base64": "base64",
    "quoted-printable": "quoted-printable",
    **dict.fromkeys(("uuencode", "x-uuencode", "uue", "x-uue", "uu", "x-uu"), "uuencode"),
    **dict.fromkeys(("yenc", "x-yenc", "yencode", "x-yencode"), "yenc"),
    **dict.fromkeys(("binhex", "binhex40", "x-binhex", "x-binhex40", "mac-binhex40", "binhex4"), "binhex"),
    **dict.fromkeys(("gzip64", "x-gzip64"), "gzip64"),
}
_STANDARD = frozenset({"base64", "quoted-printable"})
_HINTS = (
    ("gzip", "gzip64"),
    ("64", "base64"),
    ("quot", "quoted-printable"),
    ("print", "quoted-printable"),
    ("qp", "quoted-printable"),
    ("uu", "uuencode"),
    ("yenc", "yenc"),
    ("hex", "binhex"),
)


_MOST_NAMES = 32
_CUT = re.compile(rb"\0[^\"\r\n]*")
# What is longer than this in all is hardly ever met again.
_MOST_REMEMBERED = 200


class Entity(msgspec.Struct, frozen=True):
    """An entity's header, read. `types` and `encodings` hold every value that was given, the effective one first."""

    headers: Headers = Headers()
    types: tuple[str, ...] = ("text/plain",)
    boundaries: tuple[str, ...] = ()
    charset: str | None = None
    disposition: str = ""
    names: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ("",)
    odd: bool = False

    @property
    def is_multipart(self) -> bool:
        return self.types[0].startswith("multipart")

    @property
    def is_message(self) -> bool:
        return self.types[0] in MESSAGE_TYPES


def describe_entity(headers: Headers, where: str, budget: ReadBudget, default: str = "text/plain") -> Entity:
    """Read the fields that describe a body: type, boundary, charset, encoding, disposition, names."""
    types: list[str] = []
    dispositions: list[str] = []
    encodings: list[str] = []
    for field in headers.fields:
        name = field.name
        if name == "content-type":
            types.append(unfold(field))
        elif name == "content-transfer-encoding":
            value = field.value
            encodings.append((_COMMENT.sub("", value).strip() if "(" in value else value).lower())
        elif name == "content-disposition":
            dispositions.append(unfold(field))
            if b"\0" in field.raw:  # programs in C end a name there
                dispositions.append(_CUT.sub(b"", field.raw).decode("latin-1").partition(":")[2])
    if not types and not dispositions and not encodings:
        return Entity(headers=headers, types=(default,))
    given = (tuple(types), tuple(dispositions), tuple(encodings))
    # A boundary is another in each message.
    if sum(map(len, (*types, *dispositions, *encodings))) <= _MOST_REMEMBERED and "oundary" not in "".join(types):
        known = _describe_alone(*given, default)
        if known is not None:
            return guess_names(replace(known, headers=headers))
    return guess_names(_describe(headers, *given, where, budget, default))


@lru_cache(1024)
def _describe_alone(
    types: tuple[str, ...], dispositions: tuple[str, ...], encodings: tuple[str, ...], default: str
) -> Entity | None:
    """Return what short fields say, which come again and again; None where something is to be noted."""
    budget = ReadBudget()
    found = _describe(Headers(), types, dispositions, encodings, "", budget, default)
    return None if budget.defects else found


# What `read_ordinary` of `_speedups.c` takes of a leaf: type, charset, disposition, names, encoding, the entity without
# its header, and whether it is a text without a name.
OrdinaryLeaf = tuple[str, str | None, str, tuple[str, ...], str, Entity, bool]


def describe_ordinary_leaf(kind: str | None, encoding: str | None, disposition: str | None) -> OrdinaryLeaf | None:
    """Return what the fields of an ordinary leaf say; None where they are odd, or where it is more than a leaf."""
    types = () if kind is None else (kind,)
    dispositions = () if disposition is None else (disposition,)
    encodings = () if encoding is None else (_COMMENT.sub("", encoding).strip().lower(),)
    budget = ReadBudget()
    found = _describe(Headers(), types, dispositions, encodings, "", budget, "text/plain")
    main, names = found.types[0], found.names
    if budget.defects or found.odd or len(found.encodings) > 1 or found.encodings[0] not in {"", *_STANDARD}:
        return None
    if main.startswith(("multipart", "message")) or len(names) > 1:
        return None
    is_text = main.startswith("text/") and not names
    return main, found.charset, found.disposition, names, found.encodings[0], found, is_text


describe_known_leaf = lru_cache(1024)(describe_ordinary_leaf)


def _describe(
    headers: Headers,
    type_texts: tuple[str, ...],
    disposition_texts: tuple[str, ...],
    encodings: tuple[str, ...],
    where: str,
    budget: ReadBudget,
    default: str,
) -> Entity:
    types, dispositions = list(map(parse_parameters, type_texts)), list(map(parse_parameters, disposition_texts))
    odd = _has_duplicates(types, dispositions, encodings, where, budget) | _has_odd_parameters(
        types, dispositions, where, budget
    )
    found, known = _resolve_encodings(encodings, where, budget)
    return Entity(
        headers,
        tuple(dict.fromkeys([_normalise_type(parsed.main, default) for parsed in types])) or (default,),
        tuple(dict.fromkeys([b for parsed in types if parsed.has("bound") for b in parsed.spellings("boundary")])),
        next(filter(None, [parsed.get("charset") for parsed in types]), None),
        dispositions[0].main if dispositions else "",
        _collect_names(types, dispositions),
        found,
        odd or not known,
    )


def _normalise_type(main: str, default: str) -> str:
    """Return the content type; a value that is no type counts as unknown bytes, a missing one as the default."""
    main = main.strip()
    if not main:
        return default
    if main.startswith("multipart"):
        return main if "/" in main.rstrip("/") else "multipart/mixed"
    return main[:100] if "/" in main else {"text": "text/plain", "html": "text/html"}.get(main, main[:100])


def _has_duplicates(
    types: list[Parameters], dispositions: list[Parameters], encodings: tuple[str, ...], where: str, budget: ReadBudget
) -> bool:
    if len(types) < 2 and len(dispositions) < 2 and len(encodings) < 2:
        return False
    values = {
        "Content-Type": {parsed.text for parsed in types},
        "Content-Disposition": {parsed.text for parsed in dispositions},
        "Content-Transfer-Encoding": set(encodings),
    }
    twice = [name for name, different in values.items() if len(different) > 1]
    if twice:
        budget.note(kinds.MIME_DUPLICATE_HEADER, where, ", ".join(twice))
    return bool(twice)


def _has_odd_parameters(
    types: list[Parameters], dispositions: list[Parameters], where: str, budget: ReadBudget
) -> bool:
    odd_type = any(parsed.suspect for parsed in types)
    if odd_type:
        budget.note(kinds.MIME_ODD_CONTENT_TYPE, where, types[0].text)
    if any(parsed.suspect for parsed in dispositions):
        budget.note(kinds.MIME_ODD_DISPOSITION, where, dispositions[0].text)
    return odd_type


def _collect_names(types: list[Parameters], dispositions: list[Parameters]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for parsed in (*dispositions, *types):
        if parsed.has("name"):
            found.update(dict.fromkeys(decode_names(parsed.spellings("filename", "name"))))
    return tuple(found)[:_MOST_NAMES]


def guess_names(entity: Entity) -> Entity:
    """Return the entity with the name that programs give a nameless file: its address (RFC 2557) or description."""
    if entity.names or not entity.types[0].startswith("application/"):
        return entity
    fields = [field for field in entity.headers.fields if field.name in ("content-location", "content-description")]
    names = decode_names(tuple(unfold(field).strip().rpartition("/")[2] for field in fields[:2]))
    return replace(entity, names=names) if names else entity


def _resolve_encodings(values: tuple[str, ...], where: str, budget: ReadBudget) -> tuple[tuple[str, ...], bool]:
    """Return every encoding that the fields name or hint at, and whether all of them were known."""
    if len(values) == 1 and values[0] in _STANDARD:
        return (values[0],), True
    names: list[str] = []
    hints: list[str] = []
    for value in values:
        if value in _IDENTITY:
            hints.append("")
        elif value in _ENCODINGS:
            names.append(_ENCODINGS[value])
            if value not in _STANDARD:
                budget.note(kinds.MIME_NONSTANDARD_ENCODING, where, value)
        else:
            budget.note(kinds.MIME_UNKNOWN_ENCODING, where, value)
            hints += ("", *(name for hint, name in _HINTS if hint in value))
    known = not any(hints)
    return tuple(dict.fromkeys((*names, *hints))) or ("",), known


_MOST_COMPARED = 8
_DELIMITER_COST = 20  # lines that are only compared
_LONGEST_LINE = 1000
_NONE: frozenset[bytes] = frozenset()


def find_delimiter(
    source: bytes, at: int, opened: frozenset[bytes], closed: frozenset[bytes], prefixes: tuple[bytes, ...], most: int
) -> tuple[int, int, bool]:
    """Return the next line feed before `--` and one of the boundaries `opened` or `closed`, or the end of one, or a
    line that begins with one of `prefixes`; -1 where there is none.

    Then how many lines that begin with `--` were looked at; after `most` of them the place is that of the next one,
    and the last value False. `_speedups.c` has the same.
    """
    taken = 0
    at = source.find(b"\n--", max(0, at))
    while at >= 0 and taken < most:
        taken += 1
        eol = source.find(b"\n", at + 3)
        end = eol if eol >= 0 else len(source)
        line = source[at + 3 : min(end, at + _LONGEST_LINE)].rstrip(b" \t\r")
        plain = line.removesuffix(b"--")
        if line in opened or line in closed or plain in opened or plain in closed or line.startswith(prefixes):
            return at, taken, True
        at = source.find(b"\n--", end)
    return at, taken, False


_find_delimiter = native.find_delimiter if native else find_delimiter


class MimeNode:
    """One entity while the tree is built: where its body lies in its source."""

    __slots__ = tuple("children depth end ended entity junk outside part path source start unread".split())

    def __init__(self, source: bytes, path: str, depth: int, entity: Entity, section: HeaderSection) -> None:
        self.source = source
        self.path = path
        self.depth = depth
        self.entity = entity
        self.start = section.body
        self.end = len(source)
        self.unread = section.unread
        self.junk = section.junk
        self.outside: list[tuple[int, int]] = []
        self.ended = False
        self.children: list[MimeNode] = []
        self.part: Part | None = None

    @property
    def body(self) -> bytes:
        return self.source[self.start : self.end]


class MimeTree:
    """The entities of one source in order. `odd` says that another program might see other ones."""

    __slots__ = tuple("_boundaries _budget _closed _is_after_end _names _stack header_bytes nodes odd source".split())

    def __init__(self, source: bytes, path: str, depth: int, budget: ReadBudget) -> None:
        self.source = source
        self.nodes: list[MimeNode] = []
        self.odd = False
        self.header_bytes: list[tuple[int, int]] = []
        self._budget = budget
        self._stack: list[MimeNode] = []
        self._boundaries: dict[bytes, int] = {}
        self._names: frozenset[bytes] = frozenset()
        self._closed: set[bytes] = set()
        self._is_after_end = False
        self._open(0, path, depth, "text/plain")
        self._scan()

    def list_closings(self) -> frozenset[bytes]:
        """Return the boundaries that have ended, of multiparts for which only one was declared."""
        ended = (node.entity.boundaries for node in self.nodes if node.ended)
        return frozenset(names[0].encode("utf-8", "replace").rstrip(b" \t\r") for names in ended if len(names) == 1)

    def _open(self, position: int, path: str, depth: int, default: str, parent: MimeNode | None = None) -> None:
        """Open the entity at `position`, and those that begin right inside it."""
        budget = self._budget
        while True:
            is_part = parent is not None and parent.entity.is_multipart
            section = read_section(self.source, position, self._names, path, budget, is_part=is_part)
            entity = describe_entity(section.headers, path, budget, default)
            self.odd |= section.odd or entity.odd
            self.header_bytes.append((position, section.body))
            node = MimeNode(self.source, path, depth, entity, section)
            self.nodes.append(node)
            if parent is not None:
                parent.children.append(node)
            self._stack.append(node)
            if entity.is_multipart:
                self._enter(node)
                return
            if not (entity.is_message and entity.encodings[0] == ""):
                return
            if depth >= budget.limits.depth:
                budget.note(kinds.LIMIT_DEPTH, path)
                return
            if not budget.take_part(path):
                return
            position, depth, path, default, parent = section.body, depth + 1, f"{path}.1", "text/plain", node

    def _enter(self, node: MimeNode) -> None:
        """Look for the boundary of a multipart from now on."""
        boundaries = node.entity.boundaries
        if node.depth >= self._budget.limits.depth:
            self._budget.note(kinds.LIMIT_DEPTH, node.path)
            return
        if not boundaries:
            self._budget.note(kinds.MIME_MISSING_BOUNDARY, node.path)
            self.odd = True
            return
        if len(boundaries) > 1:
            self._budget.note(kinds.MIME_COMPETING_BOUNDARIES, node.path, " | ".join(boundaries))
            self.odd = True
        boundary = boundaries[0].encode("utf-8", "replace").rstrip(b" \t\r")
        if boundary in self._boundaries:
            self._budget.note(kinds.MIME_SAME_BOUNDARY, node.path)
            self.odd = True
        self._boundaries[boundary] = len(self._stack) - 1
        self._names = frozenset(self._boundaries)

    def _scan(self) -> None:
        source, budget = self.source, self._budget
        work, most = budget.work, budget.limits.delimiters
        position, at = self._stack[-1].start, -1
        while self._boundaries:
            prefixes = () if self.odd else tuple(self._names)
            closed = frozenset(self._closed) if self._closed and not self._is_after_end else _NONE
            compared = len(self._names) + len(closed)
            at, taken, is_delimiter = _find_delimiter(
                source, position - 1, self._names, closed, prefixes, (most - work.delimiters) // compared
            )
            work.delimiters += taken * compared + (_DELIMITER_COST if is_delimiter else 0)
            if at < 0 or (not is_delimiter and not budget.take_delimiter("message")):
                break
            eol = source.find(b"\n", at + 3)
            position = after = eol + 1 if eol >= 0 else len(source)
            line = source[at + 3 : min(after, at + _LONGEST_LINE)].rstrip(b" \t\r\n")
            if line in self._boundaries:
                if not self._begin_part(line, at, after):
                    return
                position = max(after, self._stack[-1].start)
            elif line.endswith(b"--") and line[:-2] in self._boundaries:
                self._finish(line[:-2], at, after)
            else:
                self._compare(line)
        else:
            at = source.find(b"\n--", position - 1) if self._closed else -1
        if self._closed and at >= 0:
            self._check_after_end(at)
        if any(node.entity.is_multipart and node.children and not node.ended for node in self._stack):
            budget.note(kinds.MIME_MISSING_END, "message")
        self._close(0, len(source))

    def _begin_part(self, boundary: bytes, at: int, after: int) -> bool:
        """Begin the next part of the multipart that has this boundary."""
        node = self._end_part(boundary, at)
        if not self._budget.take_part(node.path):
            # What is left is one part, so that its bytes are scanned all the same.
            rest = MimeNode(self.source, f"{node.path}.{len(node.children) + 1}", node.depth + 1, Entity(), _NO_HEADER)
            rest.start = after
            node.children.append(rest)
            self.nodes.append(rest)
            self._close(0, len(self.source))
            return False
        default = "message/rfc822" if node.entity.types[0] == "multipart/digest" else "text/plain"
        self._open(after, f"{node.path}.{len(node.children) + 1}", node.depth + 1, default, node)
        return True

    def _finish(self, boundary: bytes, at: int, after: int) -> None:
        """End the multipart that has this boundary; what follows is its epilogue."""
        node = self._end_part(boundary, at)
        node.outside.append((after, -1))
        node.ended = True
        self._closed.add(boundary)
        self._forget(self._boundaries[boundary])

    def _close(self, index: int, end: int) -> None:
        for node in self._stack[index:]:
            node.end = max(node.start, end)
            node.outside = [(start, stop if stop >= 0 else max(start, end)) for start, stop in node.outside]
        self._forget(index)
        del self._stack[index:]

    def _forget(self, index: int) -> None:
        """Stop looking for boundaries of the nodes from `index` on; a boundary that they hid counts again."""
        if not self._boundaries or max(self._boundaries.values()) < index:
            return
        self._boundaries = {name: place for name, place in self._boundaries.items() if place < index}
        for place, node in enumerate(self._stack[:index]):
            if node.entity.is_multipart and node.entity.boundaries and not node.ended:
                name = node.entity.boundaries[0].encode("utf-8", "replace").rstrip(b" \t\r")
                self._boundaries.setdefault(name, place)
        self._names = frozenset(self._boundaries)

    def _compare(self, line: bytes) -> None:
        """Note a line that begins with an open boundary and goes on, or that is a boundary which has ended."""
        if not self.odd and line.startswith(tuple(self._boundaries)):
            self._budget.note(kinds.MIME_BOUNDARY_PREFIX, "message", ascii(line[:80]))
            self.odd = True
        elif self._closed and (line in self._closed or line.removesuffix(b"--") in self._closed):
            self._budget.note(kinds.MIME_PART_AFTER_END, "message")
            self.odd = self._is_after_end = True

    def _check_after_end(self, at: int) -> None:
        """Note a boundary that comes back after everything has ended."""
        for boundary in list(self._closed)[:_MOST_COMPARED]:
            if self.source.find(b"\n--" + boundary, at) >= 0:
                self._budget.note(kinds.MIME_PART_AFTER_END, "message")
                self.odd = True

    def _end_part(self, boundary: bytes, at: int) -> MimeNode:
        """End the part before a delimiter whose line feed, which belongs to it, is at `at`. Return the multipart."""
        index = self._boundaries[boundary]
        node = self._stack[index]
        self._close(index + 1, at - 1 if at > 0 and self.source[at - 1] == 0x0D else max(at, 0))
        if not node.children:
            node.outside.append((node.start, max(node.start, at)))
        return node


_NO_HEADER = HeaderSection(Entity().headers, 0)
