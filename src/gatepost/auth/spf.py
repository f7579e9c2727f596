"""SPF (RFC 7208): may this host send mail for that domain?

Which name is checked: the domain of MAIL FROM; for a bounce, which has none, `postmaster@` the HELO name (section
2.4). The HELO name itself is checked where MAIL FROM gave `none`, so that the ledger can still say something about
the host. DMARC looks at the former only.

A record is parsed as a whole (`parse_record`, sections 4.6.1, 5 and 6) before any of it is evaluated, because a fault
anywhere in it makes the result `permerror` (section 4.6). The bounds on size and number of terms are ours: DNS can
carry far more than any sender needs. A macro, `%{ir}.%{v}._spf.%{d2}` (section 7), becomes a name that depends on the
sender. Its text is parsed with the record, so that every fault of syntax is found before anything is asked; a macro
that was parsed can always be expanded.

The evaluation (`check_host`) is plain sequential code that asks as it goes. It is hemmed in on every side: 10 terms
that ask DNS, 2 of them in vain, 10 exchangers and 10 host names each (section 4.6.4), so that no record, however it
includes and redirects, costs more than `MAX_QUESTIONS` questions.
"""

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal
from urllib.parse import quote

import msgspec

from gatepost.auth.origin import IpAddress
from gatepost.auth.results import Result, Spf
from gatepost.auth.sending_host import (
    HOST_NOT_KNOWN,
    is_domain,
    is_queryable,
    parse_addresses,
    reverse_name,
)
from gatepost.names import MAX_HOST, normal_domain, strip_path
from gatepost.questions import Asking, Dns, DnsAnswer

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
    return name if len(name) <= MAX_HOST else name[-MAX_HOST - 1 :].partition(".")[2]


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
    """Return whether a label can be a top label (RFC 7208 section 7.1): letters, digits, inner hyphens; a letter."""
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
        if "%" in address:  # a zone of IPv6, which is none of the syntax here
            raise AddressValueError(address)
        number = int(IPv4Address(address) if name == "ip4" else IPv6Address(address))
    except AddressValueError:
        raise SpfRecordError(f"bad address {address[:40]}") from None
    if slash and (not length.isdigit() or len(length) > 3 or int(length) > most or length != str(int(length))):
        raise SpfRecordError(f"bad prefix length in {name}:{text[:40]}")
    bits = int(length) if slash else most
    if name == "ip4":
        return Mechanism("ip4", result, network=number, length4=bits)
    return Mechanism("ip6", result, network=number, length6=bits)


def _parse_domain(name: str, text: str) -> Macro:
    macro = parse_macro_domain(text)
    if macro is None:
        raise SpfRecordError(f"bad domain in {name} {text[:40]}")
    return macro


MAX_LOOKUPS = 10
MAX_VOID = 2
MAX_HOSTS = 10
# The record, ten `mx` with ten hosts each, and the names of the host for %{p}.
MAX_QUESTIONS = 1 + MAX_LOOKUPS * (1 + MAX_HOSTS) + (1 + MAX_HOSTS)
# RFC 5321 section 4.5.3.1 allows 64 and 255 octets; more is not put into macros.
MAX_LOCAL = 255


class SpfSender(msgspec.Struct, frozen=True):
    """Who is checked: the host, and what it said in HELO and MAIL FROM."""

    host: IpAddress
    local: str
    domain: str
    helo: str


class SpfCheck(msgspec.Struct, frozen=True):
    """The result of `check_host`; `explanation` is the name of the text that a `fail` is explained with."""

    result: Result
    reason: str = ""
    explanation: Macro | None = None
    domain: str = ""


class _CheckError(Exception):
    """The check as a whole ends here, however deep in includes."""

    def __init__(self, result: Result, reason: str) -> None:
        super().__init__(reason)
        self.outcome = SpfCheck(result, reason)


class _Check:
    """One check under way: who is checked, and what it has cost so far."""

    def __init__(self, sender: SpfSender) -> None:
        self.sender = sender
        self.lookups = 0
        self.voids = 0
        self.names: tuple[str, ...] | None = None
        self.leads_back: dict[str, bool] = {}

    def count_lookup(self) -> None:
        self.lookups += 1
        if self.lookups > MAX_LOOKUPS:
            raise _CheckError("permerror", f"over {MAX_LOOKUPS} terms that ask DNS")

    def count_void(self) -> None:
        self.voids += 1
        if self.voids > MAX_VOID:
            raise _CheckError("permerror", f"over {MAX_VOID} terms that ask DNS in vain")


def verify(host: IpAddress | None, mail_from: str, helo: str) -> Asking[tuple[Spf, Spf]]:
    """Check MAIL FROM, and HELO where that gave `none`; the results for both names."""
    if host is None:
        return Spf(reason=HOST_NOT_KNOWN), Spf(scope="helo", reason=HOST_NOT_KNOWN)
    sender = parse_sender(host, mail_from, helo)
    outcome = yield from check_host(sender)
    named = Spf(outcome.result, sender.domain, "mfrom" if strip_path(mail_from) else "helo", outcome.reason)
    if named.scope == "helo":
        return named, named
    if named.result != "none":
        return named, Spf(scope="helo", reason="not checked: MAIL FROM has a result")
    by_helo = parse_sender(host, "", helo)
    outcome = yield from check_host(by_helo)
    return named, Spf(outcome.result, by_helo.domain, "helo", outcome.reason)


def parse_sender(host: IpAddress, mail_from: str, helo: str) -> SpfSender:
    """Take MAIL FROM apart (RFC 7208 sections 2.4 and 4.3)."""
    path = strip_path(mail_from)
    helo = helo.strip()[:MAX_LOCAL]
    if not path:
        return SpfSender(host, "postmaster", normal_domain(helo), helo)
    local, _, domain = path.rpartition("@")
    return SpfSender(host, local[:MAX_LOCAL] or "postmaster", normal_domain(domain), helo)


def check_host(sender: SpfSender) -> Asking[SpfCheck]:
    """Evaluate the sender's domain: the check_host() function of RFC 7208 section 4."""
    if not is_domain(sender.domain):
        return SpfCheck("none", "not a domain name")
    try:
        return (yield from _evaluate_record(_Check(sender), sender.domain))
    except _CheckError as stop:
        return stop.outcome


def explain(sender: SpfSender, outcome: SpfCheck, now: float = 0, receiver: str = "unknown") -> Asking[str]:
    """Return the text with which the domain explains a `fail` (RFC 7208 section 6.2); "" where it gives none."""
    if outcome.result != "fail" or outcome.explanation is None:
        return ""
    check = _Check(sender)
    name = yield from _expand(check, outcome.explanation, outcome.domain)
    if not is_queryable(name):
        return ""
    (answer,) = yield (Dns(name, "TXT"),)
    if len(answer.records) != 1 or not answer.records[0].isascii():
        return ""
    text = parse_macro(answer.records[0][:MAX_RECORD], ALL_LETTERS)
    if text is None:
        return ""
    values = yield from _find_macro_values(check, outcome.domain, find_letters(text))
    return expand_macro(text, {**values, "c": str(sender.host), "r": receiver, "t": str(int(now))})


def _evaluate_record(check: _Check, domain: str) -> Asking[SpfCheck]:
    found = yield from _find_record(domain)
    if isinstance(found, SpfCheck):
        return found
    for mechanism in found.mechanisms:
        if (yield from _matches(check, mechanism, domain)):
            return SpfCheck(mechanism.result, f"matched {mechanism.name}", found.explanation, domain)
    if found.redirect is None:
        return SpfCheck("neutral", "nothing matched")
    check.count_lookup()
    target = yield from _expand(check, found.redirect, domain)
    outcome = (yield from _evaluate_record(check, target)) if is_queryable(target) else SpfCheck("none")
    return SpfCheck("permerror", "redirect leads to no record") if outcome.result == "none" else outcome


def _find_record(domain: str) -> Asking[SpfRecord | SpfCheck]:
    """Find and read the one record of a domain (RFC 7208 sections 4.4 and 4.5)."""
    (answer,) = yield (Dns(domain, "TXT"),)
    if answer.status == "failed":
        raise _CheckError("temperror", f"DNS failed for {domain}")
    records = [text for text in answer.records if is_spf(text)]
    if not records:
        return SpfCheck("none", "no such name" if answer.status == "no-name" else "no record")
    if len(records) > 1:
        raise _CheckError("permerror", f"{len(records)} records at {domain}")
    record = parse_record(records[0])
    if isinstance(record, SpfRecordError):
        raise _CheckError("permerror", str(record))
    return record


def _matches(check: _Check, mechanism: Mechanism, domain: str) -> Asking[bool]:
    """Return whether a mechanism matches the sending host (RFC 7208 section 5)."""
    host = check.sender.host
    match mechanism.name:
        case "all":
            return True
        case "ip4":
            return host.version == 4 and _is_within(int(host), mechanism.network, 32 - mechanism.length4)
        case "ip6":
            return host.version == 6 and _is_within(int(host), mechanism.network, 128 - mechanism.length6)
    check.count_lookup()
    target = domain
    if mechanism.target is not None:
        target = yield from _expand(check, mechanism.target, domain)
        if not target.isascii():  # RFC 8616 section 4: an international local part matches nothing
            return False
    if mechanism.name == "include":
        outcome = (yield from _evaluate_record(check, target)) if is_queryable(target) else SpfCheck("none")
        if outcome.result == "none":
            raise _CheckError("permerror", f"include of {target[:80]}, which has no record")
        return outcome.result == "pass"
    if not is_queryable(target):
        return False
    match mechanism.name:
        case "a":
            answers = yield (_ask_address(host, target),)
            return _is_any_within(check, mechanism, answers)
        case "mx":
            return (yield from _matches_mx(check, mechanism, target))
        case "exists":
            (answer,) = yield (Dns(target, "A"),)
            return bool(_check_records(check, answer))
    return (yield from _matches_ptr(check, target))


def _matches_mx(check: _Check, mechanism: Mechanism, target: str) -> Asking[bool]:
    (answer,) = yield (Dns(target, "MX"),)
    records = _check_records(check, answer)
    if len(records) > MAX_HOSTS:
        raise _CheckError("permerror", f"over {MAX_HOSTS} MX records at {target}")
    hosts = [record.rpartition(" ")[2].lower().removesuffix(".") for record in records]
    questions = tuple(_ask_address(check.sender.host, name) for name in hosts if is_queryable(name))
    if not questions:
        return False
    return _is_any_within(check, mechanism, (yield questions))


def _matches_ptr(check: _Check, target: str) -> Asking[bool]:
    """Evaluate `ptr`: return whether a name of the host that leads back to the host is at or below the target."""
    names = yield from _find_host_names(check)
    near = tuple(name for name in names if _is_at_or_below(name, target))
    return bool((yield from _validate_names(check, near)))


def _find_host_names(check: _Check) -> Asking[tuple[str, ...]]:
    """Return the names that the host's address claims; asked once in a check."""
    if check.names is None:
        (answer,) = yield (Dns(reverse_name(check.sender.host), "PTR"),)
        claimed = (name.lower().removesuffix(".") for name in answer.records[:MAX_HOSTS])
        check.names = tuple(name for name in claimed if is_queryable(name))
        if not answer.records and answer.status != "failed":
            check.count_void()
    return check.names


def _validate_names(check: _Check, names: tuple[str, ...]) -> Asking[tuple[str, ...]]:
    """Return those of the names that lead back to the host; a failure of DNS skips a name (RFC 7208 section 5.5)."""
    host = check.sender.host
    unknown = tuple(name for name in dict.fromkeys(names) if name not in check.leads_back)
    if unknown:
        answers = yield tuple(_ask_address(host, name) for name in unknown)
        for name, answer in zip(unknown, answers, strict=False):
            check.leads_back[name] = host in parse_addresses(answer)
    return tuple(name for name in names if check.leads_back.get(name))


def _is_any_within(check: _Check, mechanism: Mechanism, answers: tuple[DnsAnswer, ...]) -> bool:
    """Is the host near one of the addresses? The term is void where none of its names has one."""
    host = check.sender.host
    distance = 32 - mechanism.length4 if host.version == 4 else 128 - mechanism.length6
    for answer in answers:
        if answer.status == "failed":
            raise _CheckError("temperror", f"DNS failed for an address in {mechanism.name}")
        for found in parse_addresses(answer):
            if found.version == host.version and _is_within(int(host), int(found), distance):
                return True
    if not any(answer.records for answer in answers):
        check.count_void()
    return False


def _check_records(check: _Check, answer: DnsAnswer) -> tuple[str, ...]:
    if answer.status == "failed":
        raise _CheckError("temperror", "DNS failed")
    if not answer.records:
        check.count_void()
    return answer.records


def _expand(check: _Check, macro: Macro, domain: str) -> Asking[str]:
    if len(macro) == 1 and isinstance(macro[0], str):
        return macro[0].removesuffix(".").lower()
    values = yield from _find_macro_values(check, domain, find_letters(macro))
    return expand_macro_domain(macro, values)


def _find_macro_values(check: _Check, domain: str, letters: set[str]) -> Asking[dict[str, str]]:
    """Return what the macro letters stand for (RFC 7208 section 7.2)."""
    sender = check.sender
    dotted = str(sender.host) if sender.host.version == 4 else ".".join(format(int(sender.host), "032X"))
    return {
        "s": f"{sender.local}@{sender.domain}",
        "l": sender.local,
        "o": sender.domain,
        "d": domain,
        "i": dotted,
        "h": sender.helo,
        "v": "in-addr" if sender.host.version == 4 else "ip6",
        "p": (yield from _find_own_name(check, domain)) if "p" in letters else "",
    }


def _find_own_name(check: _Check, domain: str) -> Asking[str]:
    """Return the value of `%{p}`: the host's validated name, the one nearest to the domain where there are several."""
    names = yield from _validate_names(check, (yield from _find_host_names(check)))
    nearest = sorted(names, key=lambda name: (name != domain, not _is_at_or_below(name, domain)))
    return nearest[0] if nearest else "unknown"


def _ask_address(host: IpAddress, name: str) -> Dns:
    return Dns(name, "A" if host.version == 4 else "AAAA")


def _is_within(host: int, network: int, distance: int) -> bool:
    return (host ^ network) >> distance == 0


def _is_at_or_below(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")
