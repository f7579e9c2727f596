"""Signatures of DKIM and of its ARC sisters: their tags, and the bytes that they hash (RFC 6376 sections 3.2 to 3.5).

A tag list is the `name=value; name=value` of DKIM and ARC headers and of key records. Names are case-sensitive and
stand once; a name that stands twice makes the whole list invalid, and so does an empty place between two semicolons
(only one semicolon may trail). White space around names and values does not count, white space inside a value does, so
`t=1 2345` is not a number.

Reading never raises: the result is a `Signature` that can be verified, or a `Refusal` in the words of RFC 8601 section
2.7.1. "neutral" is a signature that cannot be processed, "permerror" one that the standards call failed, "policy" one
that could be verified but is not accepted. Domains may be written in Unicode (RFC 8616) and come out as A-labels.

Signatures are made over mail in canonical form, every line ending in CRLF. A message that was stored or handed over
with bare LF is put into that form first; a CR that stands alone is an ordinary byte and is signed as one. Everything
here is whole-buffer work on `bytes`, in passes that cannot go back. A large body goes through in pieces. A cut may
stand after any byte that is no white space: nothing on its left then depends on its right.

Several signatures mostly cover the same bytes. `SignedMessage` makes each field canonical once, and hashes the body
once for each combination of canonicalisation, hash and length; a message may ask for a few of those, not for many.
"""

import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import idna
import msgspec

from gatepost.mail.message import Field

ARC_FIELDS = ("arc-authentication-results", "arc-message-signature", "arc-seal")
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
    """Return a header field without the value of one tag, as a signature is made (section 3.7)."""
    name, colon, value = field.partition(b":")
    pieces = value.split(b";")
    for index, piece in enumerate(pieces):
        key, equals, _ = piece.partition(b"=")
        if equals and key.strip(b" \t\r\n") == tag:
            pieces[index] = key + equals
    return name + colon + b";".join(pieces)


FIELD_MAX = 32768
NAMES_MAX = 512
_TIME = re.compile(r"[0-9]{1,12}")
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
        _read_number(tags, "t")
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
    _check_times(_read_number(tags, "t"), _read_number(tags, "x"), now)
    if not rules.queries & split_words(tags.get("q", "dns/txt")):
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
        length=_read_number(tags, "l", "a length", _LENGTH),
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


def _read_number(tags: dict[str, str], name: str, what: str = "a time", form: re.Pattern[str] = _TIME) -> int | None:
    value = tags.get(name)
    if value is not None and not form.fullmatch(value):
        raise _UnreadableError("neutral", f"{name}= is not {what}")
    return None if value is None else int(value)


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


def split_words(value: str) -> set[str]:
    """Return the words of a list with colons between them."""
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
    """Return a name as DNS is asked for it, in lower case with A-labels (RFC 8616 section 2), or None."""
    if len(name) > 253:
        return None
    name = name.lower()
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    return name if len(name) <= 253 and _LABELS.fullmatch(name) else None


PIECE = 1 << 20
_WINDOW = 4096
_SHORT = 1 << 16
_SPACES = re.compile(rb"  +")
_INK = re.compile(rb"[^ \t\r\n]")


def normalise_line_ends(text: bytes) -> bytes:
    """Return the text with every line end as CRLF."""
    if text.count(b"\n") == text.count(b"\r\n"):
        return text
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _collapse_spaces(text: bytes) -> bytes:
    """Return the text with each run of spaces and tabs as one space.

    Matching runs is quick where they are long and few, as in indented mail, and slow where they are many. Halving them
    until one space is left costs a quick pass for each power of two, whatever the text is.
    """
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if len(text) <= _SHORT:
        return _SPACES.sub(b" ", text)
    while b"  " in text:
        text = _replace(text, b"  ", b" ")
    return text


def _replace(text: bytes, old: bytes, new: bytes) -> bytes:
    """Return the text with `old` replaced by `new`.

    `bytes.replace` looks through the text twice. Splitting looks once, but its list is too large for a large text.
    """
    return new.join(text.split(old)) if len(text) < 2 * PIECE else text.replace(old, new)


def canonicalise_simple_field(raw: bytes) -> bytes:
    """Return a header field as it is, without the line end that closes it (section 3.4.1)."""
    return normalise_line_ends(raw).removesuffix(b"\r\n")


def canonicalise_relaxed_field(raw: bytes) -> bytes:
    """Return a header field with a lower-case name, unfolded, single-spaced, without a line end (section 3.4.2)."""
    name, _, value = raw.partition(b":")
    return name.strip(b" \t\r\n").lower() + b":" + _relax_value(value)


def _relax_value(value: bytes) -> bytes:
    # split() would also split at a lone CR, VT and FF, and a long list of words costs many times its bytes.
    plain = value.count(b"\r") == value.count(b"\r\n") and b"\v" not in value and b"\f" not in value
    if plain and len(value) <= _SHORT:
        return b" ".join(value.split())
    return _collapse_spaces(value.replace(b"\r\n", b"").replace(b"\n", b"")).strip(b" ")


def _canonicalise_relaxed(text: bytes) -> bytes:
    return _replace(_collapse_spaces(normalise_line_ends(text)), b" \r\n", b"\r\n")


def canonicalise_body(raw: bytes, start: int, *, relaxed: bool) -> Iterator[bytes]:
    """Yield the body that begins at `start`, canonical, in pieces of about `PIECE` (sections 3.4.3 and 3.4.4)."""
    form = _canonicalise_relaxed if relaxed else normalise_line_ends
    ink = _find_ink_end(raw, start)
    for low, high in _cut_pieces(raw, start, ink):
        yield form(raw[low:high])
    blank = _strip_empty_lines(form(raw[ink:] + b"\r\n"))
    # An empty body is one empty line when simple and nothing when relaxed.
    if ink > start or blank or not relaxed:
        yield blank + b"\r\n"


def canonicalise_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body in relaxed form that comes in pieces of any size (section 3.4.4)."""
    blank: list[bytes] = []
    has_ink = False
    for piece in pieces:
        ink = len(piece.rstrip(b" \t\r\n"))
        if ink:
            has_ink = True
            yield _canonicalise_relaxed(b"".join((*blank, piece[:ink])))
            blank = []
        blank.append(piece[ink:])
    rest = _strip_empty_lines(_canonicalise_relaxed(b"".join((*blank, b"\r\n"))))
    if has_ink or rest:
        yield rest + b"\r\n"


def _find_ink_end(raw: bytes, start: int) -> int:
    """Return where the last byte ends that is no white space, looking from the end and copying little."""
    end = len(raw)
    while end > start:
        low = max(start, end - _WINDOW)
        if kept := len(raw[low:end].rstrip(b" \t\r\n")):
            return low + kept
        end = low
    return start


def _cut_pieces(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        found = _INK.search(raw, start + PIECE, end)
        cut = found.end() if found else end
        yield start, cut
        start = cut


def _strip_empty_lines(blank: bytes) -> bytes:
    """Return the white space after the last ink without the empty lines that end it; spaces or lone CRs may be left."""
    return blank.replace(b"\r\n", b"\n").rstrip(b"\n").replace(b"\n", b"\r\n")


BODIES_MAX = 4


class BodyHash(msgspec.Struct, frozen=True):
    """The hash of the canonical body, or of its first bytes, and how long the whole is."""

    digest: bytes
    length: int


class SignedMessage:
    """One message for all its signatures, DKIM's and ARC's. `hashed` counts the bytes that were hashed of its body."""

    def __init__(self, raw: bytes, header_end: int, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.hashed = 0
        self._raw = raw
        self._body_start = header_end
        self._bodies: dict[tuple[bool, str, int | None], BodyHash] = {}
        self._relaxed: dict[int, bytes] = {}
        self._names = [field.name for field in fields]
        self._places: dict[str, list[int]] = {}

    def places(self, name: str) -> list[int]:
        """Return where the fields of a name stand, the topmost first. Most mail is not signed and needs no index."""
        if not self._places and name in self._names:
            for place, each in enumerate(self._names):
                self._places.setdefault(each, []).append(place)
        return self._places.get(name, [])

    def relaxed(self, place: int) -> bytes:
        """Return a field in relaxed form."""
        if place not in self._relaxed:
            self._relaxed[place] = canonicalise_relaxed_field(self.fields[place].raw)
        return self._relaxed[place]

    def header(self, names: tuple[str, ...], own: int, *, relaxed: bool) -> bytes:
        """Return what a signature in the field `own` over the named fields is made of (RFC 6376 section 3.7).

        A name that stands twice means the two lowest fields, from the bottom up; one that finds no field signs that
        there is none.
        """
        left: dict[str, list[int]] = {}
        lines = []
        for name in names:
            if name not in left:
                left[name] = [place for place in self.places(name) if place != own]
            if left[name]:
                place = left[name].pop()
                lines.append(self.relaxed(place) if relaxed else canonicalise_simple_field(self.fields[place].raw))
        lines.append(self.unsigned(own, relaxed=relaxed))
        return b"\r\n".join(lines)

    def unsigned(self, own: int, *, relaxed: bool) -> bytes:
        """Return the field of a signature itself, with b= empty."""
        form = canonicalise_relaxed_field if relaxed else canonicalise_simple_field
        return form(empty_tag(self.fields[own].raw, b"b"))

    def body(self, hashing: str, length: int | None, *, relaxed: bool) -> BodyHash | None:
        """Return the body's hash; None once too many different ones were asked for."""
        key = (relaxed, hashing, length)
        if key not in self._bodies:
            if len(self._bodies) >= BODIES_MAX:
                return None
            self._bodies[key] = self._hash_body(hashing, length, relaxed)
        return self._bodies[key]

    def _hash_body(self, hashing: str, length: int | None, relaxed: bool) -> BodyHash:
        digest = hashlib.new(hashing, usedforsecurity=False)
        total = 0
        for piece in canonicalise_body(self._raw, self._body_start, relaxed=relaxed):
            digest.update(piece if length is None else piece[: max(0, length - total)])
            total += len(piece)
        self.hashed += total
        return BodyHash(digest.digest(), total)
