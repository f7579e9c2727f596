"""Command lines of SMTP clients (RFC 5321 section 4.1), read into values; for what cannot be read, the reply.

A line comes without its CRLF. Paths are taken apart no further than needed to find their end and their domain: whether
an address exists is the next hop's to say. Nothing with a control character in it gets through, so a line that is built
from these values is one line.

Parameters of MAIL and RCPT: which of them the client may use, and whether they make sense.

SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531); RET, ENVID, NOTIFY and ORCPT (RFC 3461) if the next hop has DSN.
"""

import re
from typing import Literal

import msgspec

from gatepost.names import normal_domain
from gatepost.smtp import replies
from gatepost.smtp.limits import Limits
from gatepost.smtp.replies import Reply

Verb = Literal[
    "BDAT", "DATA", "EHLO", "EXPN", "HELO", "HELP", "MAIL", "NOOP", "QUIT", "RCPT", "RSET", "STARTTLS", "VRFY",
    "XCLIENT", "XFORWARD",
]  # fmt: skip

# One quoted or unquoted piece of a path at a time; possessive, so that no text is read twice.
_PATH = re.compile(rb'<((?:"(?:[^"\\\x00-\x1f\x7f]|\\[ -~])*+"|[^"<>\s\x00-\x1f\x7f])*+)>(?:[ \t]+(.*))?', re.DOTALL)
_ROUTE = re.compile(rb"@[^:<>]*+:")
_PARAMETER = re.compile(rb"([A-Za-z0-9][A-Za-z0-9-]*+)(?:=([!-<>-~]++))?")
_CHUNK = re.compile(rb"(\d{1,19})(?:[ \t]+(LAST))?[ \t]*", re.IGNORECASE)
_NAME = re.compile(rb"[!-~]{1,255}")
_ATTRIBUTE = re.compile(rb"([A-Za-z_]+)=([!-~]*)")
_XTEXT = re.compile(rb"\+([0-9A-F]{2})")

PATH_COMMANDS = {b"MAIL": b"FROM:", b"RCPT": b"TO:"}
HTTP_VERBS = frozenset({b"CONNECT", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT"})


class Command(msgspec.Struct, frozen=True):
    """A command without arguments, or with one that is free text."""

    verb: Verb
    argument: str = ""


class Path(msgspec.Struct, frozen=True):
    """MAIL or RCPT. `address` is what stood between the brackets, `parameters` by their upper-case names."""

    verb: Verb
    address: str
    parameters: dict[str, str]

    @property
    def domain(self) -> str:
        """The address's domain in normal form, "" where it has none."""
        return normal_domain(self.address.rpartition("@")[2]) if "@" in self.address else ""


class Chunk(msgspec.Struct, frozen=True):
    """BDAT (RFC 3030)."""

    size: int
    last: bool


class Attributes(msgspec.Struct, frozen=True):
    """XCLIENT or XFORWARD: names in upper case, values decoded; None is an attribute that is not available."""

    verb: Verb
    values: dict[str, str | None]


class Nonsense(msgspec.Struct, frozen=True):
    """No command of ours. `hostile` is what no mail program says."""

    reply: Reply
    hostile: bool = False


Parsed = Command | Path | Chunk | Attributes | Nonsense

_PLAIN = {b"DATA", b"RSET", b"STARTTLS", b"QUIT"}
_FREE = {b"NOOP", b"HELP", b"VRFY", b"EXPN"}
_KNOWN_ELSEWHERE = {b"AUTH", b"ETRN", b"TURN", b"SEND", b"SAML", b"SOML", b"ATRN", b"BURL"}


def parse(line: bytes, limits: Limits) -> Parsed:
    """Read one line."""
    verb, _, rest = line.partition(b" ")
    verb, rest = verb.rstrip().upper(), rest.strip(b" \t")
    if verb in PATH_COMMANDS:
        return _path(verb, rest, limits)
    if verb in _PLAIN:
        return Nonsense(replies.SYNTAX) if rest else Command(verb.decode())  # type: ignore[arg-type]
    if verb in _FREE:
        return Command(verb.decode())  # type: ignore[arg-type]
    if verb in (b"EHLO", b"HELO"):
        return _hello(verb, rest)
    if verb == b"BDAT":
        return _chunk(rest)
    if verb in (b"XCLIENT", b"XFORWARD"):
        return _attributes(verb, rest)
    if verb in _KNOWN_ELSEWHERE:
        return Nonsense(replies.NOT_IMPLEMENTED)
    return Nonsense(replies.UNKNOWN, hostile=verb in HTTP_VERBS)


def _hello(verb: bytes, rest: bytes) -> Parsed:
    if not _NAME.fullmatch(rest):
        return Nonsense(replies.SYNTAX)
    return Command("EHLO" if verb == b"EHLO" else "HELO", rest.decode("ascii"))


def _path(verb: bytes, rest: bytes, limits: Limits) -> Parsed:
    bad = Nonsense(replies.BAD_SENDER if verb == b"MAIL" else replies.BAD_RECIPIENT)
    word = PATH_COMMANDS[verb]
    if not rest.upper().startswith(word):
        return Nonsense(replies.SYNTAX)
    match = _PATH.fullmatch(rest[len(word) :].lstrip(b" \t"))
    if not match:
        return bad
    # RFC 5321 section 4.1.1.3: a source route is accepted and ignored.
    address = _decoded(_ROUTE.sub(b"", match[1], count=1) if match[1].startswith(b"@") else match[1])
    if address is None or len(match[1]) > limits.path or not _plausible(address, verb):
        return bad
    parameters = _parameters(match[2] or b"")
    if parameters is None:
        return Nonsense(replies.SYNTAX)
    return Path("MAIL" if verb == b"MAIL" else "RCPT", address, parameters)


def _plausible(address: str, verb: bytes) -> bool:
    """A bounce has no sender; every recipient has a name, and only postmaster may stand without a domain."""
    local, at, domain = address.rpartition("@")
    if not at:
        return address == "" if verb == b"MAIL" else address.lower() == "postmaster"
    return bool(local and domain)


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _parameters(rest: bytes) -> dict[str, str] | None:
    """Parameters by name; None where one is no parameter or stands twice."""
    found: dict[str, str] = {}
    for piece in rest.split():
        match = _PARAMETER.fullmatch(piece)
        if not match:
            return None
        name = match[1].decode().upper()
        if name in found:
            return None
        found[name] = (match[2] or b"").decode()
    return found


def _chunk(rest: bytes) -> Parsed:
    match = _CHUNK.fullmatch(rest)
    # How many bytes follow is not known: whatever comes next is not to be taken for commands.
    return Chunk(int(match[1]), bool(match[2])) if match else Nonsense(replies.SYNTAX, hostile=True)


def _attributes(verb: bytes, rest: bytes) -> Parsed:
    values: dict[str, str | None] = {}
    for piece in rest.split():
        match = _ATTRIBUTE.fullmatch(piece)
        if not match:
            return Nonsense(replies.SYNTAX)
        values[match[1].decode().upper()] = _attribute(match[2])
    if not values:
        return Nonsense(replies.SYNTAX)
    return Attributes("XCLIENT" if verb == b"XCLIENT" else "XFORWARD", values)


def _attribute(raw: bytes) -> str | None:
    """A value in xtext (RFC 1891 section 5) without control characters; the two words in brackets say "unknown"."""
    if raw.upper() in (b"[UNAVAILABLE]", b"[TEMPUNAVAIL]", b""):
        return None
    text = _XTEXT.sub(lambda match: bytes([int(match[1], 16)]), raw).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)


def xtext(text: str) -> bytes:
    """The other way round."""
    return b"".join(
        bytes([octet]) if 33 <= octet <= 126 and octet not in b"+=" else b"+%02X" % octet for octet in text.encode()
    )


_MAIL = frozenset({"SIZE", "BODY", "SMTPUTF8"})
_MAIL_DSN = frozenset({"RET", "ENVID"})
_RCPT_DSN = frozenset({"NOTIFY", "ORCPT"})


def sender_fault(mail: Path, theirs: dict[str, str], size_limit: int, *, extended: bool) -> Reply | None:
    """What is wrong with MAIL, if anything. `theirs` is what the next hop can; after HELO there are no parameters."""
    parameters = mail.parameters
    known = _MAIL | _MAIL_DSN if "DSN" in theirs else _MAIL
    if not parameters.keys() <= known or (parameters and not extended):
        return replies.UNKNOWN_PARAMETER
    if not _well_formed(parameters):
        return replies.SYNTAX
    if "SMTPUTF8" in parameters and "SMTPUTF8" not in theirs:
        return replies.UNKNOWN_PARAMETER
    if not mail.address.isascii() and "SMTPUTF8" not in parameters:
        return replies.NEEDS_UTF8
    return replies.TOO_LARGE if int(parameters.get("SIZE", "0")) > size_limit else None


def recipient_fault(rcpt: Path, theirs: dict[str, str], *, international: bool) -> Reply | None:
    """What is wrong with RCPT, if anything."""
    if not rcpt.parameters.keys() <= (_RCPT_DSN if "DSN" in theirs else frozenset()):
        return replies.UNKNOWN_PARAMETER
    return None if rcpt.address.isascii() or international else replies.NEEDS_UTF8


def _well_formed(parameters: dict[str, str]) -> bool:
    size, body, ret = parameters.get("SIZE", "0"), parameters.get("BODY", "7BIT"), parameters.get("RET", "HDRS")
    return (
        size.isdigit()
        and len(size) <= 20
        and body.upper() in ("7BIT", "8BITMIME")
        and parameters.get("SMTPUTF8", "") == ""
        and ret.upper() in ("HDRS", "FULL")
        and len(parameters.get("ENVID", "x")) <= 100
    )
