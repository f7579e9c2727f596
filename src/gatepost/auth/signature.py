"""The tags of DKIM-Signature and of its ARC sisters (RFC 6376 section 3.5), and tag lists as such (section 3.2).

A tag list is the `name=value; name=value` of DKIM and ARC headers and of key records. Names are case-sensitive and
stand once; a name that stands twice makes the whole list invalid, and so does an empty place between two semicolons
(only one semicolon may trail). White space around names and values does not count, white space inside a value does, so
`t=1 2345` is not a number.

Reading never raises: the result is a `Signature` that can be verified, or a `Refusal` in the words of RFC 8601 section
2.7.1. "neutral" is a signature that cannot be processed, "permerror" one that the standards call failed, "policy" one
that could be verified but is not accepted. Domains may be written in Unicode (RFC 8616) and come out as A-labels.
"""

import binascii
import re
from typing import Literal

import idna
import msgspec

_BLANK = " \t\r\n"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def parse_tags(text: str) -> dict[str, str] | None:
    """Return the tags in their order, or None where the text is no tag list. It never raises and takes linear time."""
    pieces = text.split(";")
    if not pieces[-1].strip(_BLANK):
        pieces.pop()
    tags: dict[str, str] = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK)
        if not equals or name in tags or not _NAME.fullmatch(name):
            return None
        tags[name] = value.strip(_BLANK)
    return tags


def remove_blanks(value: str) -> str:
    """Return a value without its folding white space, as base64 is written (RFC 6376 section 2.10)."""
    return "".join(value.split()) if value.isascii() else value


def empty_tag(field: bytes, tag: bytes) -> bytes:
    """Return a header field with the value of one tag deleted and all else kept, as a signature is made (section
    3.7)."""
    name, colon, value = field.partition(b":")
    pieces = value.split(b";")
    for index, piece in enumerate(pieces):
        key, equals, _ = piece.partition(b"=")
        if equals and key.strip(b" \t\r\n") == tag:
            pieces[index] = key + equals
    return name + colon + b";".join(pieces)


FIELD_MAX = 32768
NAMES_MAX = 512
_NUMBER = re.compile(r"[0-9]{1,12}")
_LENGTH = re.compile(r"[0-9]{1,76}")
_LABELS = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*")
_QUOTED = re.compile(r"=([0-9A-F]{2})")
_FORMS = {"simple": False, "relaxed": True}
_KNOWN = frozenset({"rsa-sha1", "rsa-sha256", "ed25519-sha256"})
SKEW = 300
DAY = 86400


class SignatureRules(msgspec.Struct, frozen=True):
    """What is accepted. The defaults are today's rules; suites of older drafts are read with older ones."""

    algorithms: frozenset[str] = frozenset({"rsa-sha256", "ed25519-sha256"})
    versions: frozenset[str] = frozenset({"1"})
    queries: frozenset[str] = frozenset({"dns/txt"})
    least_bits: int = 1024


TODAY = SignatureRules()


class Refusal(msgspec.Struct, frozen=True):
    """A signature that is not verified, and why."""

    result: Literal["neutral", "policy", "permerror"]
    reason: str
    domain: str = ""
    selector: str = ""
    algorithm: str = ""


class Signature(msgspec.Struct, frozen=True):
    """A signature that can be verified. `names` are the signed fields in lower case, in their order; `length` is l=."""

    domain: str
    selector: str
    algorithm: str
    value: bytes
    body_hash: bytes = b""
    relaxed_header: bool = True
    relaxed_body: bool = True
    names: tuple[str, ...] = ()
    length: int | None = None
    identity: str = ""

    @property
    def kind(self) -> str:
        return self.algorithm.partition("-")[0]

    @property
    def hashing(self) -> str:
        return self.algorithm.partition("-")[2]


class _UnreadableError(Exception):
    """Carries a refusal out of the steps of one reading; never leaves this module."""

    def __init__(self, result: Literal["neutral", "policy", "permerror"], reason: str) -> None:
        self.result = result
        self.reason = reason


def read_field_tags(field: bytes) -> dict[str, str] | None:
    """Return the tags of a header field, None where it has no tag list or is unreasonably long."""
    if len(field) > FIELD_MAX:
        return None
    return parse_tags(field.partition(b":")[2].decode("utf-8", "replace"))


def read_dkim(tags: dict[str, str], now: float, rules: SignatureRules = TODAY) -> Signature | Refusal:
    """Read the tags of a DKIM-Signature."""
    if tags.get("v", "") not in rules.versions:
        return _refuse(tags, "neutral", "the signature has an unknown version")
    try:
        signature = _read_message_signature(tags, now, rules)
        identity = _read_identity(tags, signature.domain)
    except _UnreadableError as error:
        return _refuse(tags, error.result, error.reason)
    if "from" not in signature.names:
        return _refuse(tags, "permerror", "the From field is not signed")
    return msgspec.structs.replace(signature, identity=identity)


def read_arc_message(tags: dict[str, str], now: float, rules: SignatureRules = TODAY) -> Signature | Refusal:
    """Read the tags of an ARC-Message-Signature (RFC 8617 section 4.1.2): DKIM's without v=, and i= is a number.

    Without c= the published suite, and those who sign, mean relaxed; DKIM's own default would be simple.
    """
    try:
        signature = _read_message_signature({"c": "relaxed/relaxed", **tags}, now, rules)
    except _UnreadableError as error:
        return _refuse(tags, error.result, error.reason)
    if "arc-seal" in signature.names:
        return _refuse(tags, "permerror", "the message signature signs a seal")
    return signature


def read_arc_seal(tags: dict[str, str], rules: SignatureRules = TODAY) -> Signature | Refusal:
    """Read the tags of an ARC-Seal (RFC 8617 section 4.1.3): it signs the ARC fields, always relaxed, and no body."""
    if "h" in tags:
        return _refuse(tags, "permerror", "the seal has a list of fields")
    try:
        _read_time(tags, "t")
        return Signature(
            domain=(domain := _read_domain(tags)),
            selector=_read_selector(tags, domain),
            algorithm=_read_algorithm(tags, rules),
            value=_read_base64(tags, "b"),
        )
    except _UnreadableError as error:
        return _refuse(tags, error.result, error.reason)


def _read_message_signature(tags: dict[str, str], now: float, rules: SignatureRules) -> Signature:
    relaxed_header, relaxed_body = _read_canonicalisation(tags.get("c", "simple/simple"))
    _check_times(_read_time(tags, "t"), _read_time(tags, "x"), now)
    if not rules.queries & _split_words(tags.get("q", "dns/txt")):
        raise _UnreadableError("neutral", "the key is to be found in an unknown way")
    return Signature(
        domain=(domain := _read_domain(tags)),
        selector=_read_selector(tags, domain),
        algorithm=_read_algorithm(tags, rules),
        value=_read_base64(tags, "b"),
        body_hash=_read_base64(tags, "bh"),
        relaxed_header=relaxed_header,
        relaxed_body=relaxed_body,
        names=_read_names(tags),
        length=_read_length(tags),
    )


def _refuse(tags: dict[str, str], result: Literal["neutral", "policy", "permerror"], reason: str) -> Refusal:
    return Refusal(
        result,
        reason,
        domain=normalise_dns_name(tags.get("d", "")) or "",
        selector=normalise_dns_name(tags.get("s", "")) or "",
        algorithm=tags["a"] if tags.get("a") in _KNOWN else "",
    )


def _read_algorithm(tags: dict[str, str], rules: SignatureRules) -> str:
    algorithm = tags.get("a", "")
    if algorithm in rules.algorithms:
        return algorithm
    if algorithm == "rsa-sha1":
        # RFC 8301 section 3.1: such signatures have permanently failed.
        raise _UnreadableError("permerror", "rsa-sha1 is not accepted any more")
    raise _UnreadableError("neutral", "the signature has an unknown algorithm")


def _read_canonicalisation(value: str) -> tuple[bool, bool]:
    header, _, body = value.partition("/")
    if header not in _FORMS or (body or "simple") not in _FORMS or value.endswith("/"):
        raise _UnreadableError("neutral", "the signature has an unknown canonicalisation")
    return _FORMS[header], _FORMS[body or "simple"]


def _check_times(made: int | None, expires: int | None, now: float) -> None:
    if made is not None and expires is not None and expires <= made:
        raise _UnreadableError("neutral", "the signature expires before it was made")
    if expires is not None and now > expires + SKEW:
        raise _UnreadableError("policy", "the signature has expired")
    if made is not None and made > now + DAY:
        raise _UnreadableError("policy", "the signature is from the future")


def _read_time(tags: dict[str, str], name: str) -> int | None:
    value = tags.get(name)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value):
        raise _UnreadableError("neutral", f"{name}= is not a time")
    return int(value)


def _read_length(tags: dict[str, str]) -> int | None:
    value = tags.get("l")
    if value is None:
        return None
    if not _LENGTH.fullmatch(value):
        raise _UnreadableError("neutral", "l= is not a length")
    return int(value)


def _read_base64(tags: dict[str, str], name: str) -> bytes:
    try:
        octets = binascii.a2b_base64(remove_blanks(tags.get(name, "")), strict_mode=True)
    except ValueError:
        octets = b""
    if not octets:
        raise _UnreadableError("neutral", f"{name}= is missing or is not base64")
    return octets


def _read_names(tags: dict[str, str]) -> tuple[str, ...]:
    if "h" not in tags:
        raise _UnreadableError("neutral", "the list of signed fields is missing")
    names = tuple(name for part in tags["h"].split(":") if (name := part.strip().lower()))
    if len(names) > NAMES_MAX:
        raise _UnreadableError("policy", f"more than {NAMES_MAX} fields are listed as signed")
    return names


def _split_words(value: str) -> set[str]:
    return {word.strip() for word in value.split(":")}


def _read_domain(tags: dict[str, str]) -> str:
    domain = normalise_dns_name(tags.get("d", ""))
    if not domain or "." not in domain:
        raise _UnreadableError("neutral", "d= is not a domain")
    return domain


def _read_selector(tags: dict[str, str], domain: str) -> str:
    selector = normalise_dns_name(tags.get("s", ""))
    if not selector or not normalise_dns_name(f"{selector}._domainkey.{domain}"):
        raise _UnreadableError("neutral", "s= is not a selector")
    return selector


def _read_identity(tags: dict[str, str], domain: str) -> str:
    """Return i= as local@domain; its domain must be at or below d=."""
    if "i" not in tags:
        return f"@{domain}"
    # RFC 6376 section 2.11: octets in hexadecimal, white space dropped.
    plain = _QUOTED.sub(lambda found: chr(int(found[1], 16)), remove_blanks(tags["i"]))
    local, _, name = plain.rpartition("@")
    host = normalise_dns_name(name)
    if not host or not f".{host}".endswith(f".{domain}"):
        raise _UnreadableError("permerror", "i= is not within d=")
    return f"{local}@{host}"


def normalise_dns_name(name: str) -> str | None:
    """Return a name as it is asked for in DNS, in lower case with A-labels (RFC 8616 section 2), None where it is
    none."""
    if len(name) > 253:
        return None
    name = name.lower()
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    return name if len(name) <= 253 and _LABELS.fullmatch(name) else None
