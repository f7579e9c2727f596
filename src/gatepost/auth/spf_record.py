"""An SPF record as read (RFC 7208 section 4.6.1 and sections 5 and 6).

The whole record is read before any of it is evaluated, because a fault anywhere in it makes the result `permerror`
(section 4.6). The bounds on size and number of terms are ours: what DNS can carry is far more than anyone needs.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal

import msgspec

from gatepost.auth import spf_macro
from gatepost.auth.spf_macro import Macro

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


class Record(msgspec.Struct, frozen=True):
    """Directives in their order, and the two modifiers that mean something."""

    mechanisms: tuple[Mechanism, ...] = ()
    redirect: Macro | None = None
    explanation: Macro | None = None


class RecordError(Exception):
    """Why a record cannot be read."""


def is_spf(text: str) -> bool:
    """Does this TXT record claim to be an SPF record (RFC 7208 section 4.5)?"""
    return bool(_VERSION.match(text))


def parse(text: str) -> Record | RecordError:
    """Read a record that `is_spf`."""
    try:
        return _parse(text)
    except RecordError as fault:
        return fault


def _parse(text: str) -> Record:
    if len(text) > MAX_RECORD:
        raise RecordError(f"record over {MAX_RECORD} octets")
    if not _PRINTABLE.fullmatch(text):
        raise RecordError("record with characters that are not printable ASCII")
    terms = text[6:].split()
    if len(terms) > MAX_TERMS:
        raise RecordError(f"record over {MAX_TERMS} terms")
    mechanisms: list[Mechanism] = []
    modifiers: dict[str, Macro] = {}
    for term in terms:
        if found := _MODIFIER.fullmatch(term):
            _add_modifier(found[1].lower(), found[2], modifiers)
        else:
            mechanisms.append(_mechanism(term))
    return Record(tuple(mechanisms), modifiers.get("redirect"), modifiers.get("exp"))


def _add_modifier(name: str, value: str, modifiers: dict[str, Macro]) -> None:
    if name not in ("redirect", "exp"):
        if spf_macro.parse(value, spf_macro.ALL_LETTERS) is None:
            raise RecordError(f"bad macro in {name}=")
        return
    if name in modifiers:
        raise RecordError(f"{name}= twice")
    modifiers[name] = _domain(name, value)


def _mechanism(term: str) -> Mechanism:
    found = _MECHANISM.fullmatch(term)
    if not found:
        raise RecordError(f"bad term {term[:40]}")
    result, name, rest = _QUALIFIERS[found[1]], found[2].lower(), found[3]
    match name:
        case "all" if not rest:
            return Mechanism("all", result)
        case "include" | "exists" if rest.startswith(":"):
            return Mechanism(name, result, _domain(name, rest[1:]))
        case "ptr" if not rest or rest.startswith(":"):
            return Mechanism("ptr", result, _domain(name, rest[1:]) if rest else None)
        case "a" | "mx" if not rest or rest[0] in ":/":
            return _addresses(name, result, rest)
        case "ip4" | "ip6" if rest.startswith(":"):
            return _network(name, result, rest[1:])
    raise RecordError(f"bad term {term[:40]}")


def _addresses(name: Literal["a", "mx"], result: Qualified, rest: str) -> Mechanism:
    """`a:host/24//64`: a slash may be part of the name too, so the lengths are taken from the end."""
    start = len(rest.rstrip("0123456789/"))
    # "host.example.123/24": digits before the first slash belong to the name.
    start = rest.find("/", start) if "/" in rest[start:] else len(rest)
    lengths = _LENGTHS.fullmatch(rest, start)
    if not lengths:
        raise RecordError(f"bad prefix length in {name}{rest[:40]}")
    length4, length6 = int(lengths[1] or 32), int(lengths[2] or 128)
    if length4 > 32 or length6 > 128:
        raise RecordError(f"prefix length out of range in {name}{rest[:40]}")
    target = _domain(name, rest[1:start]) if start else None
    return Mechanism(name, result, target, length4=length4, length6=length6)


def _network(name: Literal["ip4", "ip6"], result: Qualified, text: str) -> Mechanism:
    address, slash, length = text.partition("/")
    most = 32 if name == "ip4" else 128
    try:
        number = int(IPv4Address(address)) if name == "ip4" else _ip6(address)
    except AddressValueError:
        raise RecordError(f"bad address {address[:40]}") from None
    if slash and (not length.isdigit() or len(length) > 3 or int(length) > most or length != str(int(length))):
        raise RecordError(f"bad prefix length in {name}:{text[:40]}")
    bits = int(length) if slash else most
    if name == "ip4":
        return Mechanism("ip4", result, network=number, length4=bits)
    return Mechanism("ip6", result, network=number, length6=bits)


def _ip6(address: str) -> int:
    if "%" in address:
        raise AddressValueError(address)
    return int(IPv6Address(address))


def _domain(name: str, text: str) -> Macro:
    macro = spf_macro.parse_domain(text)
    if macro is None:
        raise RecordError(f"bad domain in {name} {text[:40]}")
    return macro
