"""The header of one MIME entity: type, boundary, charset, encoding, names (RFC 2045, RFC 2183, RFC 2231).

Every field that may stand once may be there twice, and every name in several places. All values are kept; the tree is
built by the first one, and `odd` says that another program might choose differently.

Values with parameters, `multipart/mixed; boundary="x"`, mostly match one strict pattern. Anything else (comments,
escapes, quotes that do not close, a key twice, numbered pieces with gaps) is where mail programs disagree: such a value
is `odd`, and `Parameters.spellings` gives every value that some program would take for a parameter.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec.structs import replace

from gatepost.kinds import (
    MIME_DUPLICATE_HEADER,
    MIME_NONSTANDARD_ENCODING,
    MIME_ODD_CONTENT_TYPE,
    MIME_ODD_DISPOSITION,
    MIME_UNKNOWN_ENCODING,
)
from gatepost.mail import headers
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.headers import unfold
from gatepost.mail.message import Headers

_MOST_TEXT = 16_384
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
    """Parse a value. It takes any input, in linear time; the results for short values are cached, since few of them
    come again and again."""
    return _parse_cached(text) if len(text) <= _MOST_KNOWN else _parse_parameters(text)


@lru_cache(1024)
def _parse_cached(text: str) -> Parameters:
    return _parse_parameters(text)


def _parse_parameters(text: str) -> Parameters:
    strict = _STRICT.match(text)
    if strict is not None:
        found = _PAIR.findall(strict[2])
        pairs = tuple((key.lower(), quoted or token) for key, quoted, token in found[:_MOST_PAIRS])
        keys = {key for key, _ in pairs}
        odd = len(keys) != len(set(pairs)) or len(found) > len(pairs)
        return Parameters(strict[1].lower(), pairs, text, odd, odd or any(key.startswith("boundary*") for key in keys))
    text = text[:_MOST_TEXT]
    plain = _strip_comments(text)
    main, _, rest = plain.partition(";")
    if "=" in main:
        main, rest = re.split(r"[\s,;]", plain.strip(), maxsplit=1)[0], plain
    pairs = tuple((key.strip("'\"").lower(), _unquote(value)) for key, value in _LOOSE.findall(rest)[:_MOST_PAIRS])
    return Parameters(main.strip(" \t\r\"',").lower(), pairs, text, True, True)


def _unquote(value: str) -> str:
    value = value.strip()
    if value.startswith('"'):
        closing = value.endswith('"') and len(value) > 1
        return re.sub(r"\\(.)", r"\1", value[1:-1] if closing else value[1:])
    return value


def _strip_comments(text: str) -> str:
    """Return the text without comments, innermost first, in a bounded number of rounds, so that nesting costs
    nothing."""
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
    """Return the orders in which programs join the pieces: by number, and where numbers are missing or astray, by
    place."""
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
    """Yield what follows every occurrence of `name` and an equals sign, cut at each place where some program cuts
    it."""
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
    cleaned = (headers.decode_words(value[:4_000])[:1_000].translate(_CONTROLS).strip() for value in values)
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
        return self.types[0] in {"message/rfc822", "message/global", "message/news"}


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
            encodings.append(_strip_comment(field.value).lower())
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
            return _guess_names(replace(known, headers=headers))
    return _guess_names(_describe(headers, *given, where, budget, default))


@lru_cache(1024)
def _describe_alone(
    types: tuple[str, ...], dispositions: tuple[str, ...], encodings: tuple[str, ...], default: str
) -> Entity | None:
    """Return what short fields say; None where something is to be noted, which each message does for itself. The same
    few types and encodings come again and again."""
    budget = ReadBudget()
    found = _describe(Headers(), types, dispositions, encodings, "", budget, default)
    return None if budget.defects else found


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


def _strip_comment(value: str) -> str:
    return _COMMENT.sub("", value).strip() if "(" in value else value


def _normalise_type(main: str, default: str) -> str:
    """Return the content type; a value that is no type counts as unknown bytes, a missing one as the default."""
    main = main.strip()
    if not main:
        return default
    if main.startswith("multipart"):
        return main if "/" in main.rstrip("/") else "multipart/mixed"
    return main[:100] if "/" in main else {"text": "text/plain", "html": "text/html"}.get(main, main[:100])


def _has_duplicates(
    types: list[Parameters],
    dispositions: list[Parameters],
    encodings: tuple[str, ...],
    where: str,
    budget: ReadBudget,
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
        budget.note(MIME_DUPLICATE_HEADER, where, ", ".join(twice))
    return bool(twice)


def _has_odd_parameters(
    types: list[Parameters], dispositions: list[Parameters], where: str, budget: ReadBudget
) -> bool:
    odd_type = any(parsed.suspect for parsed in types)
    if odd_type:
        budget.note(MIME_ODD_CONTENT_TYPE, where, types[0].text)
    if any(parsed.suspect for parsed in dispositions):
        budget.note(MIME_ODD_DISPOSITION, where, dispositions[0].text)
    return odd_type


def _collect_names(types: list[Parameters], dispositions: list[Parameters]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for parsed in (*dispositions, *types):
        if parsed.has("name"):
            found.update(dict.fromkeys(decode_names(parsed.spellings("filename", "name"))))
    return tuple(found)[:_MOST_NAMES]


def _guess_names(entity: Entity) -> Entity:
    """Return the entity with the name under which mail programs save a file that has none: the end of its address
    (RFC 2557), or its description."""
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
                budget.note(MIME_NONSTANDARD_ENCODING, where, value)
        else:
            budget.note(MIME_UNKNOWN_ENCODING, where, value)
            hints += ("", *(name for hint, name in _HINTS if hint in value))
    known = not any(hints)
    return tuple(dict.fromkeys((*names, *hints))) or ("",), known
