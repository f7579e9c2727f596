"""SPF macros (RFC 7208 section 7): `%{ir}.%{v}._spf.%{d2}` becomes a name that depends on who sends.

Text is parsed once, when the record is, so that every fault of syntax is found before anything is asked. What parsed
can always be expanded.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from gatepost.auth.dnsname import MAX_NAME

NAME_LETTERS = "slodiphv"
ALL_LETTERS = "slodiphvcrt"
# What a macro may grow to; a name is cut to 253 characters, an explanation to this.
MAX_EXPANDED = 4_096

_MACRO = re.compile(r"%(?:([%_-])|\{([A-Za-z])([0-9]{0,9})([rR]?)([-.+,/_=]*)\})")
_ESCAPES = {"%": "%", "_": " ", "-": "%20"}


class Expand(msgspec.Struct, frozen=True):
    """`%{d2r-}`: a letter, how many right-hand parts (0: all), reversed or not, split at which characters."""

    letter: str
    parts: int = 0
    reverse: bool = False
    delimiters: str = "."
    escape: bool = False


Macro = tuple[str | Expand, ...]


def parse(text: str, letters: str) -> Macro | None:
    """Read a macro-string; None where its syntax is wrong or a letter is not one of `letters`."""
    if "%" not in text:
        return (text,)
    pieces: list[str | Expand] = []
    end = 0
    for found in _MACRO.finditer(text):
        literal = text[end : found.start()]
        piece = _piece(found, letters)
        if "%" in literal or piece is None:
            return None
        pieces += [literal, piece] if literal else [piece]
        end = found.end()
    if "%" in text[end:]:
        return None
    return (*pieces, text[end:]) if text[end:] else tuple(pieces)


def parse_domain(text: str) -> Macro | None:
    """Read a domain-spec: a macro-string that ends in a macro or in a dot and a top label."""
    macro = parse(text, NAME_LETTERS)
    if not macro or any(found.end() == len(text) for found in _MACRO.finditer(text)):
        return macro or None
    _, dot, top = text.removesuffix(".").rpartition(".")
    return macro if (dot and _is_top_label(top)) else None


def letters_in(macro: Macro) -> set[str]:
    """The macro letters that an expansion will need."""
    return {piece.letter for piece in macro if isinstance(piece, Expand)}


def expand(macro: Macro, values: Mapping[str, str]) -> str:
    """Put the values in."""
    pieces: list[str] = []
    room = MAX_EXPANDED
    for piece in macro:
        text = piece if isinstance(piece, str) else _expanded(piece, values)
        pieces.append(text[:room])
        room -= len(pieces[-1])
    return "".join(pieces)


def expand_domain(macro: Macro, values: Mapping[str, str]) -> str:
    """Put the values in and cut the name from the left to what DNS takes (RFC 7208 section 7.3)."""
    name = expand(macro, values).removesuffix(".").lower()
    while len(name) > MAX_NAME and "." in name:
        name = name.partition(".")[2]
    return name


def _piece(found: re.Match[str], letters: str) -> str | Expand | None:
    escape, letter, parts, reverse, delimiters = found.groups()
    if escape:
        return _ESCAPES[escape]
    if letter.lower() not in letters or (parts and not int(parts)):
        return None
    return Expand(letter.lower(), int(parts or 0), bool(reverse), delimiters or ".", letter.isupper())


def _expanded(piece: Expand, values: Mapping[str, str]) -> str:
    text = values.get(piece.letter, "")
    if piece.delimiters != ".":
        for delimiter in piece.delimiters:
            text = text.replace(delimiter, "\n")
        parts = text.split("\n")
    else:
        parts = text.split(".")
    if piece.reverse:
        parts.reverse()
    text = ".".join(parts[-piece.parts :])
    return quote(text, safe="") if piece.escape else text


def _is_top_label(label: str) -> bool:
    """RFC 7208 section 7.1: letters, digits and inner hyphens, and not digits alone."""
    if not (label.isascii() and label.replace("-", "a").isalnum()):
        return False
    return "-" not in (label[0], label[-1]) and not label.isdigit()
