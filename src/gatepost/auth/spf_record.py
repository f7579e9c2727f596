"""SPF records (RFC 7208 section 4.6.1 and sections 5 and 6) and the macros in them (section 7), parsed.

The whole record is parsed before any of it is evaluated, because a fault anywhere in it makes the result `permerror`
(section 4.6). The bounds on size and number of terms are ours: DNS can carry far more than any sender needs.

A macro, `%{ir}.%{v}._spf.%{d2}`, becomes a name that depends on the sender. Its text is parsed once, with the record,
so that every fault of syntax is found before anything is asked; a macro that was parsed can always be expanded.
"""

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal
from urllib.parse import quote

import msgspec

from gatepost.auth.dns_names import MAX_NAME

NAME_LETTERS = "slodiphv"
ALL_LETTERS = "slodiphvcrt"
# What a macro may grow to; a name is cut to 253 characters, an explanation to this.
MAX_EXPANDED = 4_096

_MACRO = re.compile(r"%(?:([%_-])|\{([A-Za-z])([0-9]{0,9})([rR]?)([-.+,/_=]*)\})")
_ESCAPES = {"%": "%", "_": " ", "-": "%20"}


class MacroExpansion(msgspec.Struct, frozen=True):
    """`%{d2r-}`: a letter, how many right-hand parts (0: all), reversed or not, split at which characters."""

    letter: str
    parts: int = 0
    reverse: bool = False
    delimiters: str = "."
    escape: bool = False


Macro = tuple[str | MacroExpansion, ...]


def parse_macro(text: str, letters: str) -> Macro | None:
    """Read a macro-string; None where its syntax is wrong or a letter is not one of `letters`."""
    if "%" not in text:
        return (text,)
    pieces: list[str | MacroExpansion] = []
    end = 0
    for found in _MACRO.finditer(text):
        literal = text[end : found.start()]
        piece = _parse_piece(found, letters)
        if "%" in literal or piece is None:
            return None
        pieces += [literal, piece] if literal else [piece]
        end = found.end()
    if "%" in text[end:]:
        return None
    return (*pieces, text[end:]) if text[end:] else tuple(pieces)


def parse_macro_domain(text: str) -> Macro | None:
    """Read a domain-spec: a macro-string that ends in a macro or in a dot and a top label."""
    macro = parse_macro(text, NAME_LETTERS)
    if not macro or any(found.end() == len(text) for found in _MACRO.finditer(text)):
        return macro or None
    _, dot, top = text.removesuffix(".").rpartition(".")
    return macro if (dot and _is_top_label(top)) else None


def find_letters(macro: Macro) -> set[str]:
    """Return the macro letters that an expansion will need."""
    return {piece.letter for piece in macro if isinstance(piece, MacroExpansion)}


def expand_macro(macro: Macro, values: Mapping[str, str]) -> str:
    """Return the macro-string with the values put in."""
    pieces: list[str] = []
    room = MAX_EXPANDED
    for piece in macro:
        text = piece if isinstance(piece, str) else _expand_piece(piece, values)
        pieces.append(text[:room])
        room -= len(pieces[-1])
    return "".join(pieces)


def expand_macro_domain(macro: Macro, values: Mapping[str, str]) -> str:
    """Return the domain-spec with the values put in, cut from the left to what DNS takes (RFC 7208 section 7.3)."""
    name = expand_macro(macro, values).removesuffix(".").lower()
    while len(name) > MAX_NAME and "." in name:
        name = name.partition(".")[2]
    return name


def _parse_piece(found: re.Match[str], letters: str) -> str | MacroExpansion | None:
    escape, letter, parts, reverse, delimiters = found.groups()
    if escape:
        return _ESCAPES[escape]
    if letter.lower() not in letters or (parts and not int(parts)):
        return None
    return MacroExpansion(letter.lower(), int(parts or 0), bool(reverse), delimiters or ".", letter.isupper())


def _expand_piece(piece: MacroExpansion, values: Mapping[str, str]) -> str:
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
    """Return whether a label can be a top label (RFC 7208 section 7.1): letters, digits and inner hyphens, and not
    digits alone."""
    if not (label.isascii() and label.replace("-", "a").isalnum()):
        return False
    return "-" not in (label[0], label[-1]) and not label.isdigit()


MAX_RECORD = 8_192
MAX_TERMS = 512

Qualified = Literal["pass", "fail", "softfail", "neutral"]
MechanismName = Literal["all", "include", "a", "mx", "ptr", "ip4", "ip6", "exists"]

_QUALIFIERS: dict[str, Qualified] = {"": "pass", "+": "pass", "-": "fail", "~": "softfail", "?": "neutral"}
_VERSION = re.compile(r"v=spf1(?: |$)", re.IGNORECASE)
_PRINTABLE = re.compile(r"[ -~]*")
_MODIFIER = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)=(.*)")
_MECHANISM = re.compile(r"([-+?~]?)([A-Za-z][A-Za-z0-9]*)(.*)")
_LENGTHS = re.compile(r"(?:/(0|[1-9][0-9]{0,2}))?(?://(0|[1-9][0-9]{0,2}))?")


class Mechanism(msgspec.Struct, frozen=True):
    """One directive. `target` is None for the domain that the record is at; `network` is the address of ip4 and ip6."""

    name: MechanismName
    result: Qualified = "pass"
    target: Macro | None = None
    network: int = 0
    length4: int = 32
    length6: int = 128


class SpfRecord(msgspec.Struct, frozen=True):
    """Directives in their order, and the two modifiers that mean something."""

    mechanisms: tuple[Mechanism, ...] = ()
    redirect: Macro | None = None
    explanation: Macro | None = None


class SpfRecordError(Exception):
    """Why a record cannot be read."""


def is_spf(text: str) -> bool:
    """Does this TXT record claim to be an SPF record (RFC 7208 section 4.5)?"""
    return bool(_VERSION.match(text))


def parse_record(text: str) -> SpfRecord | SpfRecordError:
    """Read a record that `is_spf`."""
    try:
        return _parse_record(text)
    except SpfRecordError as fault:
        return fault


def _parse_record(text: str) -> SpfRecord:
    if len(text) > MAX_RECORD:
        raise SpfRecordError(f"record over {MAX_RECORD} octets")
    if not _PRINTABLE.fullmatch(text):
        raise SpfRecordError("record with characters that are not printable ASCII")
    terms = text[6:].split()
    if len(terms) > MAX_TERMS:
        raise SpfRecordError(f"record over {MAX_TERMS} terms")
    mechanisms: list[Mechanism] = []
    modifiers: dict[str, Macro] = {}
    for term in terms:
        if found := _MODIFIER.fullmatch(term):
            _add_modifier(found[1].lower(), found[2], modifiers)
        else:
            mechanisms.append(_parse_mechanism(term))
    return SpfRecord(tuple(mechanisms), modifiers.get("redirect"), modifiers.get("exp"))


def _add_modifier(name: str, value: str, modifiers: dict[str, Macro]) -> None:
    if name not in ("redirect", "exp"):
        if parse_macro(value, ALL_LETTERS) is None:
            raise SpfRecordError(f"bad macro in {name}=")
        return
    if name in modifiers:
        raise SpfRecordError(f"{name}= twice")
    modifiers[name] = _parse_domain(name, value)


def _parse_mechanism(term: str) -> Mechanism:
    found = _MECHANISM.fullmatch(term)
    if not found:
        raise SpfRecordError(f"bad term {term[:40]}")
    result, name, rest = _QUALIFIERS[found[1]], found[2].lower(), found[3]
    match name:
        case "all" if not rest:
            return Mechanism("all", result)
        case "include" | "exists" if rest.startswith(":"):
            return Mechanism(name, result, _parse_domain(name, rest[1:]))
        case "ptr" if not rest or rest.startswith(":"):
            return Mechanism("ptr", result, _parse_domain(name, rest[1:]) if rest else None)
        case "a" | "mx" if not rest or rest[0] in ":/":
            return _parse_addresses(name, result, rest)
        case "ip4" | "ip6" if rest.startswith(":"):
            return _parse_network(name, result, rest[1:])
    raise SpfRecordError(f"bad term {term[:40]}")


def _parse_addresses(name: Literal["a", "mx"], result: Qualified, rest: str) -> Mechanism:
    """Parse `a:host/24//64`. A slash may be part of the name too, so the lengths are taken from the end."""
    start = len(rest.rstrip("0123456789/"))
    # "host.example.123/24": digits before the first slash belong to the name.
    start = rest.find("/", start) if "/" in rest[start:] else len(rest)
    lengths = _LENGTHS.fullmatch(rest, start)
    if not lengths:
        raise SpfRecordError(f"bad prefix length in {name}{rest[:40]}")
    length4, length6 = int(lengths[1] or 32), int(lengths[2] or 128)
    if length4 > 32 or length6 > 128:
        raise SpfRecordError(f"prefix length out of range in {name}{rest[:40]}")
    target = _parse_domain(name, rest[1:start]) if start else None
    return Mechanism(name, result, target, length4=length4, length6=length6)


def _parse_network(name: Literal["ip4", "ip6"], result: Qualified, text: str) -> Mechanism:
    address, slash, length = text.partition("/")
    most = 32 if name == "ip4" else 128
    try:
        number = int(IPv4Address(address)) if name == "ip4" else _parse_ip6(address)
    except AddressValueError:
        raise SpfRecordError(f"bad address {address[:40]}") from None
    if slash and (not length.isdigit() or len(length) > 3 or int(length) > most or length != str(int(length))):
        raise SpfRecordError(f"bad prefix length in {name}:{text[:40]}")
    bits = int(length) if slash else most
    if name == "ip4":
        return Mechanism("ip4", result, network=number, length4=bits)
    return Mechanism("ip6", result, network=number, length6=bits)


def _parse_ip6(address: str) -> int:
    if "%" in address:
        raise AddressValueError(address)
    return int(IPv6Address(address))


def _parse_domain(name: str, text: str) -> Macro:
    macro = parse_macro_domain(text)
    if macro is None:
        raise SpfRecordError(f"bad domain in {name} {text[:40]}")
    return macro
