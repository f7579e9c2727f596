"""Command lines of SMTP clients (RFC 5321 section 4.1), read into values; for what cannot be read, the reply.

A line comes without its CRLF. Paths are taken apart no further than needed to find their end and their domain: whether
an address exists is the next hop's to say. Nothing with a control character in it gets through, so a line that is built
from these values is one line.

`check_sender` and `check_recipient` say which parameters of MAIL and RCPT a client may use: SIZE (RFC 1870), BODY
(RFC 6152), SMTPUTF8 (RFC 6531); RET, ENVID, NOTIFY and ORCPT (RFC 3461) if the next hop has DSN.

`SmtpLimits` says how much of everything a session may have.
"""

import re
from typing import Literal

import msgspec

from gatepost.api.scanning import MAX_BODY
from gatepost.names import normal_domain
from gatepost.smtp import replies
from gatepost.smtp.replies import SmtpReply

Verb = Literal[
    "BDAT", "DATA", "EHLO", "EXPN", "HELO", "HELP", "MAIL", "NOOP", "QUIT", "RCPT", "RSET", "STARTTLS", "VRFY",
    "XCLIENT", "XFORWARD",
]  # fmt: skip

# One quoted or unquoted piece of a path at a time; possessive, so that no text is read twice.
_QUOTED = rb'"(?>[^"\\\x00-\x1f\x7f]|\\[ -~])*+"'
_PATH = re.compile(rb"<((?>" + _QUOTED + rb'|[^"<>\s\x00-\x1f\x7f])*+)>(?:[ \t]+(.*))?', re.DOTALL)
_ROUTE = re.compile(rb"\A@[A-Za-z0-9.,@_-]++:")
# Comments, quoted pairs outside of quotes, a second "@" and a quoted domain are legal nowhere (RFC 5321 section 4.1.2),
# and servers that take them differ on whose mailbox it is: ours and its tenant must be those of the next hop.
_MAILBOX = re.compile(rb"(?>" + _QUOTED + rb'|[^"()\\@])++@(?>[A-Za-z0-9._\x80-\xff-]++|\[[!-Z^-~]++\])')
_ROUTED = re.compile(r"[%!@]")  # in a local part: user%host, host!user, "user@host"
_PARAMETER = re.compile(rb"([A-Za-z0-9][A-Za-z0-9-]*+)(?:=([!-<>-~]++))?")
_CHUNK = re.compile(rb"(\d{1,19})(?:[ \t]+(LAST))?[ \t]*", re.IGNORECASE)
_NAME = re.compile(rb"[!-~]{1,255}")
# A value has at most 255 octets, of which xtext makes three each.
_ATTRIBUTE = re.compile(rb"([A-Za-z_]{1,32})=([!-~]{0,765})")
_XTEXT = re.compile(rb"\+([0-9A-F]{2})")

PATH_COMMANDS = {b"MAIL": b"FROM:", b"RCPT": b"TO:"}
# What may stand without a domain: the sender of a bounce, and whom every host has.
_ALONE = {b"MAIL": b"", b"RCPT": b"postmaster"}
HTTP_VERBS = frozenset({b"CONNECT", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT"})


class SmtpLimits(msgspec.Struct, frozen=True):
    """Every bound of an SMTP session: bytes, counts and seconds.

    RFC 5321 section 4.5.3.1 says how much a server must take, section 4.5.3.2 how long each side should wait.
    """

    command_line: int = 2_048
    path: int = 512
    message: int = MAX_BODY
    recipients: int = 1_000
    # Commands in one session; those in a row that bring no mail forward; those that were wrong.
    commands: int = 20_000
    idle_commands: int = 100
    errors: int = 10
    hops: int = 100
    # A command line must be whole within `command_wait`, and something of the message must come within `data_wait`.
    command_wait: float = 300.0
    data_wait: float = 180.0
    # A message may take `data_grace` seconds, more at this many bytes for each further one, and `data_most` at most.
    data_grace: float = 300.0
    data_rate: int = 1_024
    # Whatever came before, so many bytes a second must come in each `data_grace` seconds.
    data_floor: int = 256
    data_most: float = 3_600.0
    # A client that speaks before the greeting is no mail server (RFC 5321 section 4.3.1); known hosts do not wait.
    greeting_pause: float = 0.2
    handshake: float = 30.0
    per_address: int = 50
    # Sessions with a message under way, of which each tenant has its share.
    sessions: int = 200
    place_wait: float = 2.0
    # Bytes of all messages that are on their way in.
    spooled: int = 2 << 30
    stop: float = 45.0


class Command(msgspec.Struct, frozen=True):
    """A command without arguments, or with one that is free text."""

    verb: Verb
    argument: str = ""


class PathCommand(msgspec.Struct, frozen=True):
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


class InvalidCommand(msgspec.Struct, frozen=True):
    """A line that is no valid command, with its reply. `hostile` is what no mail program sends."""

    reply: SmtpReply
    hostile: bool = False


ParsedCommand = Command | PathCommand | Chunk | Attributes | InvalidCommand

_PLAIN = {b"DATA", b"RSET", b"STARTTLS", b"QUIT"}
_FREE = {b"NOOP", b"HELP", b"VRFY", b"EXPN"}
_KNOWN_ELSEWHERE = {b"AUTH", b"ETRN", b"TURN", b"SEND", b"SAML", b"SOML", b"ATRN", b"BURL"}


def parse_command(line: bytes, limits: SmtpLimits) -> ParsedCommand:
    verb, _, rest = line.partition(b" ")
    verb, rest = verb.rstrip().upper(), rest.strip(b" \t")
    if verb in PATH_COMMANDS:
        return _parse_path(verb, rest, limits)
    if verb in _PLAIN:
        return InvalidCommand(replies.SYNTAX) if rest else Command(verb.decode())  # type: ignore[arg-type]
    if verb in _FREE:
        return Command(verb.decode())  # type: ignore[arg-type]
    if verb in (b"EHLO", b"HELO"):
        return _parse_hello(verb, rest)
    if verb == b"BDAT":
        return _parse_chunk(rest)
    if verb in (b"XCLIENT", b"XFORWARD"):
        return _parse_attributes(verb, rest)
    if verb in _KNOWN_ELSEWHERE:
        return InvalidCommand(replies.NOT_IMPLEMENTED)
    return InvalidCommand(replies.UNKNOWN, hostile=verb in HTTP_VERBS)


def _parse_hello(verb: bytes, rest: bytes) -> ParsedCommand:
    if not _NAME.fullmatch(rest):
        return InvalidCommand(replies.SYNTAX)
    return Command("EHLO" if verb == b"EHLO" else "HELO", rest.decode("ascii"))


def _parse_path(verb: bytes, rest: bytes, limits: SmtpLimits) -> ParsedCommand:
    bad = InvalidCommand(replies.BAD_SENDER if verb == b"MAIL" else replies.BAD_RECIPIENT)
    word = PATH_COMMANDS[verb]
    if not rest.upper().startswith(word):
        return InvalidCommand(replies.SYNTAX)
    match = _PATH.fullmatch(rest[len(word) :].lstrip(b" \t"))
    if not match:
        return bad
    # RFC 5321 section 4.1.1.3: a source route is accepted and ignored.
    path = _ROUTE.sub(b"", match[1], count=1)
    address = _decode(path) if _MAILBOX.fullmatch(path) or path.lower() == _ALONE[verb] else None
    if address is None or len(match[1]) > limits.path:
        return bad
    parameters = _parse_parameters(match[2] or b"")
    if parameters is None:
        return InvalidCommand(replies.SYNTAX)
    return PathCommand("MAIL" if verb == b"MAIL" else "RCPT", address, parameters)


def _decode(raw: bytes) -> str | None:
    """Return an address; None for one that is no UTF-8, or has control characters beyond those of ASCII in it."""
    try:
        address = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return address if address.isprintable() else None


def is_address(verb: Literal["MAIL", "RCPT"], address: str) -> bool:
    """Whether this is one address, and nothing besides, once it stands in a command."""
    line = f"{verb} {PATH_COMMANDS[verb.encode()].decode()}<{address}>"
    found = parse_command(line.encode("utf-8", "replace"), SmtpLimits())
    return isinstance(found, PathCommand) and found.address == address and not found.parameters


def _parse_parameters(rest: bytes) -> dict[str, str] | None:
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


def _parse_chunk(rest: bytes) -> ParsedCommand:
    match = _CHUNK.fullmatch(rest)
    # How many bytes follow is not known: whatever comes next is not to be taken for commands.
    return Chunk(int(match[1]), bool(match[2])) if match else InvalidCommand(replies.SYNTAX, hostile=True)


def _parse_attributes(verb: bytes, rest: bytes) -> ParsedCommand:
    values: dict[str, str | None] = {}
    for piece in rest.split():
        match = _ATTRIBUTE.fullmatch(piece)
        if not match:
            return InvalidCommand(replies.SYNTAX)
        values[match[1].decode().upper()] = _decode_xtext(match[2])
    if not values:
        return InvalidCommand(replies.SYNTAX)
    return Attributes("XCLIENT" if verb == b"XCLIENT" else "XFORWARD", values)


def _decode_xtext(raw: bytes) -> str | None:
    """A value in xtext (RFC 1891 section 5) without control characters; the two words in brackets say "unknown"."""
    if raw.upper() in (b"[UNAVAILABLE]", b"[TEMPUNAVAIL]", b""):
        return None
    text = _XTEXT.sub(lambda match: bytes([int(match[1], 16)]), raw).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)


def encode_xtext(text: str) -> bytes:
    """Encode a value in xtext (RFC 1891 section 5)."""
    return b"".join(
        bytes([octet]) if 33 <= octet <= 126 and octet not in b"+=" else b"+%02X" % octet for octet in text.encode()
    )


_MAIL = frozenset({"SIZE", "BODY", "SMTPUTF8"})
_MAIL_DSN = frozenset({"RET", "ENVID"})
_RCPT_DSN = frozenset({"NOTIFY", "ORCPT"})


def check_sender(mail: PathCommand, theirs: dict[str, str], size_limit: int, *, extended: bool) -> SmtpReply | None:
    """Return the reply to a MAIL that is refused. `theirs` are the next hop's extensions; HELO allows no parameters."""
    parameters = mail.parameters
    known = _MAIL | _MAIL_DSN if "DSN" in theirs else _MAIL
    if not parameters.keys() <= known or (parameters and not extended):
        return replies.UNKNOWN_PARAMETER
    if not _are_well_formed(parameters):
        return replies.SYNTAX
    if "SMTPUTF8" in parameters and "SMTPUTF8" not in theirs:
        return replies.UNKNOWN_PARAMETER
    if not mail.address.isascii() and "SMTPUTF8" not in parameters:
        return replies.NEEDS_UTF8
    return replies.TOO_LARGE if int(parameters.get("SIZE", "0")) > size_limit else None


def check_recipient(
    rcpt: PathCommand, theirs: dict[str, str], *, international: bool, may_route: bool
) -> SmtpReply | None:
    """Return the reply to a RCPT that is refused. A next hop that trusts us would send what a stranger has routed to
    the host that the local part names: it would be an open relay."""
    if not rcpt.parameters.keys() <= (_RCPT_DSN if "DSN" in theirs else frozenset()):
        return replies.UNKNOWN_PARAMETER
    if not may_route and _ROUTED.search(rcpt.address.rpartition("@")[0]):
        return replies.ROUTED_RECIPIENT
    return None if rcpt.address.isascii() or international else replies.NEEDS_UTF8


def _are_well_formed(parameters: dict[str, str]) -> bool:
    size, body, ret = parameters.get("SIZE", "0"), parameters.get("BODY", "7BIT"), parameters.get("RET", "HDRS")
    return (
        size.isdigit()
        and len(size) <= 20
        and body.upper() in ("7BIT", "8BITMIME")
        and parameters.get("SMTPUTF8", "") == ""
        and ret.upper() in ("HDRS", "FULL")
        and len(parameters.get("ENVID", "x")) <= 100
    )
