"""Tokens of JavaScript, and what its functions make of strings.

`tokenise` splits a script into strings (decoded), names with their dots, numbers and signs; comments are left out. The
functions and methods are those that scripts put strings together with. A list of strings is one string here, with a
mark between its pieces (`LIST_MARK`), so that `split`, `reverse` and `join` are replacements.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import unquote

import msgspec

from gatepost.mail.link_wrappers import decode_base64_text

TAIL = 20_000
MAX_VALUE = 200_000
LIST_MARK = "\x1f"

# Each repeats a class of characters, not a group: a group would cost memory for every character.
_TOKEN = re.compile(
    r"""//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+){0,9999}+(?:\*/)?"""
    r"""|"([^"\\\n]*+(?:\\.[^"\\\n]*+){0,9999}+)"?|'([^'\\\n]*+(?:\\.[^'\\\n]*+){0,9999}+)'?"""
    r"""|`([^`\\]*+(?:\\.[^`\\]*+){0,9999}+)`?"""
    r"""|([A-Za-z_$][\w$]*+(?:\s{0,4}\.\s{0,4}[A-Za-z_$][\w$]*+){0,99}+)|(\d[\w.]*+)|(\+=|[^\s\w])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_PERCENT_U = re.compile(r"%u([0-9a-fA-F]{4})")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "", "\n": ""}


class Token(msgspec.Struct, gc=False):
    """One token: `kind` is "s" for a string (its text decoded), "n" a name, "d" a number, "p" a sign."""

    kind: str
    text: str


def tokenise(source: str, most: int) -> Iterator[Token]:
    """Yield the first tokens of a script, and those at its end if there are more."""
    place = 0
    for count, match in enumerate(_TOKEN.finditer(source)):
        if count >= most:
            place = match.start()
            break
        yield from _make_token(match)
    if place:
        for match in islice(_TOKEN.finditer(source, max(place, len(source) - TAIL)), TAIL // 4):
            yield from _make_token(match)


def _make_token(match: re.Match[str]) -> Iterator[Token]:
    kind = match.lastindex
    if kind is None:
        return
    text = match.group(kind)[:MAX_VALUE]
    if kind <= 3:
        yield Token("s", _ESCAPE.sub(_unescape, text) if "\\" in text else text)
    else:
        yield Token("ndp"[kind - 4], "".join(text.split()) if kind == 4 else text)


def _unescape(match: re.Match[str]) -> str:
    digits = match.group(1) or match.group(2) or match.group(3)
    return make_character("0x" + digits) if digits else _LETTERS.get(match.group(4), match.group(4))


def make_character(number: str) -> str:
    try:
        code = int(number, 0)
    except ValueError:
        return ""
    return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code < 0x110000 else "\ufffd"


def is_string_function(name: str) -> bool:
    return name.lower().rpartition(".")[2] in {*STRING_DECODERS, "fromcharcode", "if", "while", "for", "switch"}


def _unescape_percent(value: str) -> str:
    return unquote(_PERCENT_U.sub(lambda match: make_character("0x" + match.group(1)), value))


def apply_method(name: str, value: str, arguments: list[str]) -> str:
    """Return the result of a method; an unknown one changes nothing, so that what is known is still seen."""
    first = arguments[0] if arguments else ""
    if name == "join":
        return value.replace(LIST_MARK, first if arguments else ",")
    if name == "split":
        return LIST_MARK.join(value) if arguments and not first else value.replace(first, LIST_MARK) if first else value
    if name == "reverse":
        return LIST_MARK.join(reversed(value.split(LIST_MARK)))
    if name == "concat":
        return value + "".join(arguments)
    if name in {"replace", "replaceall"} and len(arguments) > 1 and first:
        return value.replace(first, arguments[1])
    return value


STRING_METHODS = frozenset(
    {"join", "split", "reverse", "concat", "replace", "replaceall", "trim", "tostring", "tolowercase"}
)
STRING_DECODERS: dict[str, Callable[[str], str]] = {
    "atob": decode_base64_text,
    "unescape": _unescape_percent,
    "decodeuri": _unescape_percent,
    "decodeuricomponent": _unescape_percent,
    "string": str,
}
