"""The value of a field with parameters: `multipart/mixed; boundary="x"` (RFC 2045 section 5.1, RFC 2231).

Ordinary values match one strict pattern. Anything else (comments, escapes, quotes that do not close, a key twice,
numbered pieces with gaps) is where mail programs disagree: such a value is `odd`, and `spellings` gives every value
that some program would take for a parameter.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec

from gatepost.mail import words
from gatepost.mail.charset import decode as decode_charset

_MOST_TEXT = 16_384
_MOST_SPELLINGS = 24
_MOST_PAIRS = 500
_MOST_KNOWN = 80
_LETTER = r"[^\s;=()<>@,\\\"\[\]?]"
_STRICT = re.compile(
    rf"([\w!#$%&*+.^`|~-]++(?:/[\w!#$%&*+.^`|~-]++)?)\s*+((?:;\s*+(?:[\w.*%-]++\s*+=\s*+(?:\"[^\"\\]*+\"|(?!'){_LETTER}++)\s*+)?)*)\Z"
)
_PAIR = re.compile(rf"([\w.*%-]++)\s*+=\s*+(?:\"([^\"\\]*+)\"|(?!')({_LETTER}++))")
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
        """Whether a parameter with this in its name can be there at all: a quick look before a slow one."""
        return self.odd or piece in self.text.lower()

    def get(self, name: str) -> str | None:
        """The parameter as RFC 2231 reads it, or None."""
        for key, value in self.pairs:
            if key == name:
                return value
        return next(_extended(self.pairs, name), None) if "*" in self.text else None

    def spellings(self, *names: str) -> tuple[str, ...]:
        """Every value that some mail program would take for one of these parameters, each once."""
        found = {value: None for key, value in self.pairs if value and key in names}
        if "*" in self.text:
            found.update((value, None) for name in names for value in _extended(self.pairs, name))
        if self.odd:
            for name in names:
                found.update(dict.fromkeys(_loosely(self.text, name)))
        return tuple(found)[:_MOST_SPELLINGS]


def parse(text: str) -> Parameters:
    """Parse a value. Total and linear. Short ones are few and come again and again."""
    return _known(text) if len(text) <= _MOST_KNOWN else _parse(text)


@lru_cache(1024)
def _known(text: str) -> Parameters:
    return _parse(text)


def _parse(text: str) -> Parameters:
    strict = _STRICT.match(text)
    if strict is not None:
        found = _PAIR.findall(strict[2])
        pairs = tuple((key.lower(), quoted or token) for key, quoted, token in found[:_MOST_PAIRS])
        keys = {key for key, _ in pairs}
        odd = len(keys) != len(set(pairs)) or len(found) > len(pairs)
        return Parameters(strict[1].lower(), pairs, text, odd, odd or any(key.startswith("boundary*") for key in keys))
    text = text[:_MOST_TEXT]
    plain = _without_comments(text)
    main, _, rest = plain.partition(";")
    if "=" in main:
        main, rest = re.split(r"[\s,;]", plain.strip(), maxsplit=1)[0], plain
    pairs = tuple((key.strip("'\"").lower(), _unquoted(value)) for key, value in _LOOSE.findall(rest)[:_MOST_PAIRS])
    return Parameters(main.strip(" \t\r\"',").lower(), pairs, text, True, True)


def _unquoted(value: str) -> str:
    value = value.strip()
    if value.startswith('"'):
        closing = value.endswith('"') and len(value) > 1
        return re.sub(r"\\(.)", r"\1", value[1:-1] if closing else value[1:])
    return value


def _without_comments(text: str) -> str:
    """The text without comments, innermost first; a bounded number of rounds, so that nesting costs nothing."""
    for _ in range(4):
        shorter = _COMMENT.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text


def _extended(pairs: tuple[tuple[str, str], ...], name: str) -> Iterator[str]:
    """The values that `name*`, `name*0` and `name*0*` spell, whole, in order of number and in order of place."""
    pieces: list[tuple[int, bool, str]] = []
    for key, value in pairs:
        match = _PIECE.fullmatch(key)
        if match is None or match[1] != name:
            continue
        if match[2] is None:
            yield _percent(value)
        else:
            pieces.append((int(match[2]), bool(match[3]), value))
    seen: set[str] = set()
    for order in _orders(pieces):
        for value in _readings(order):
            if value not in seen:
                seen.add(value)
                yield value


def _orders(pieces: list[tuple[int, bool, str]]) -> list[list[tuple[int, bool, str]]]:
    """The orders in which programs join the pieces: by number, and where numbers are missing or astray, by place."""
    numbers = [number for number, _, _ in pieces]
    if numbers == list(range(len(pieces))):
        return [pieces] if pieces else []
    by_number = sorted(pieces, key=lambda piece: piece[0])
    return [by_number, pieces, pieces[::-1], list({piece[0]: piece for piece in pieces}.values())]


def _readings(pieces: list[tuple[int, bool, str]]) -> Iterator[str]:
    encoded = any(starred for _, starred, _ in pieces)
    joined = "".join(value for _, _, value in pieces)
    if encoded or "%" in joined or "''" in joined:
        yield _percent(joined)
    if not encoded:
        yield joined


def _percent(value: str) -> str:
    """`utf-8'en'%e2%82%ac` (RFC 2231 section 4): the charset and language are often missing."""
    charset, quote, rest = value.partition("'")
    language, second, text = rest.partition("'")
    if not quote or not second or len(charset) > 40 or len(language) > 40:
        charset, text = "", value
    return decode_charset(unquote_to_bytes(text), charset or None)[0]


def _loosely(text: str, name: str) -> Iterator[str]:
    """What follows every occurrence of `name` and an equals sign, cut at each place where some program cuts it."""
    squeezed = text.replace("\\", "")
    for variant in {text: None, squeezed: None, _without_comments(text): None, _without_comments(squeezed): None}:
        low = variant.lower()
        start, count = 0, 0
        while count < 8 and (start := low.find(name, start)) >= 0:
            start += len(name)
            count += 1
            skipped = re.compile(r"\*?\d{0,3}\*?[\s()\\]{0,80}=").match(variant, start)
            if skipped:
                yield from _cuts(variant[skipped.end() : skipped.end() + 1000].strip())


def _cuts(value: str) -> Iterator[str]:
    for candidate in (value, value.partition(";")[0], _ENDS.split(value.lstrip("\"'"), maxsplit=1)[0]):
        bare = candidate.strip(" \t\"'")
        if bare:
            yield bare
    if value.startswith('"'):
        yield from filter(None, (value[1:].rpartition('"')[0], value[1:].partition('"')[0]))


def decoded_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """File names with their encoded words decoded, without control bytes, each once."""
    cleaned = (words.decode(value[:4_000])[:1_000].translate(_CONTROLS).strip() for value in values)
    return tuple(dict.fromkeys(filter(None, cleaned)))
