"""SMTP replies (RFC 5321 section 4.2): three digits and text, with an enhanced status code (RFC 3463) before the text.

What we say ourselves is written here once, and says nothing about the software or what went on inside. Replies of the
next hop are passed on as they are, but for control characters, and get a status code where they have none.
"""

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

MAX_LINES = 100
MAX_LINE = 1_000

ENHANCED_STATUS = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?: |$)")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_LINE = re.compile(rb"([2-5]\d\d)([ -]?)(.*)", re.DOTALL)


class SmtpReply(msgspec.Struct, frozen=True):
    """A code, and the text of each line with the enhanced status code in front."""

    code: int
    lines: tuple[bytes, ...] = (b"",)

    @property
    def positive(self) -> bool:
        return 200 <= self.code < 300

    @property
    def text(self) -> str:
        """The first line for people, without the enhanced status code."""
        line = self.lines[0] if self.lines else b""
        return ENHANCED_STATUS.sub(b"", line, count=1).decode("ascii", "replace")

    def encode(self) -> bytes:
        """As it goes over the wire."""
        *first, last = self.lines or (b"",)
        start = b"%d" % self.code
        return b"".join([*(start + b"-" + line + b"\r\n" for line in first), start + b" " + last + b"\r\n"])


def reply(code: int, text: str) -> SmtpReply:
    return SmtpReply(code, (text.encode("ascii"),))


def pass_on(theirs: SmtpReply) -> SmtpReply:
    """Return the next hop's reply as ours. 421 would mean that we close: to the client it is a failure for now."""
    if theirs.code == 421:
        return NEXT_HOP_LOST
    if not 200 <= theirs.code < 600 or 300 <= theirs.code < 400:
        return NEXT_HOP_CONFUSED
    generic = b"%d.0.0 " % (theirs.code // 100)
    lines = tuple(_CONTROL.sub(b"?", line)[:MAX_LINE] for line in theirs.lines)
    return SmtpReply(theirs.code, tuple(line if ENHANCED_STATUS.match(line) else generic + line for line in lines))


class ReplyReader:
    """Puts the lines of a server back together into replies. Raises `ValueError` for what is no reply."""

    def __init__(self) -> None:
        self._rest = b""
        self._code = 0
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> list[SmtpReply]:
        """The replies that are whole now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE * 4:
            raise ValueError("a line that does not end")
        return [found for line in lines if (found := self._line(line.removesuffix(b"\r")))]

    @property
    def empty(self) -> bool:
        """Whether no reply is half read."""
        return not self._rest and not self._lines

    def _line(self, line: bytes) -> SmtpReply | None:
        match = _LINE.fullmatch(line)
        if not match or (self._lines and int(match[1]) != self._code) or len(self._lines) >= MAX_LINES:
            raise ValueError("something that is no SMTP reply")
        self._code = int(match[1])
        self._lines.append(match[3])
        if match[2] == b"-":
            return None
        lines, self._lines = tuple(self._lines), []
        return SmtpReply(self._code, lines)


OK = reply(250, "2.0.0 Ok")
BYE = reply(221, "2.0.0 Bye")
HELP = reply(214, "2.0.0 See RFC 5321")
CANNOT_VERIFY = reply(252, "2.0.0 Send some mail, I will try my best")
GO_AHEAD_TLS = reply(220, "2.0.0 Ready to start TLS")
SEND_DATA = reply(354, "End data with <CR><LF>.<CR><LF>")
SENDER_OK = reply(250, "2.1.0 Ok")
RECIPIENT_OK = reply(250, "2.1.5 Ok")

UNKNOWN = reply(500, "5.5.2 Command not recognized")
SYNTAX = reply(501, "5.5.4 Syntax error in parameters")
BAD_SENDER = reply(501, "5.1.7 Bad sender address syntax")
UNKNOWN_RECIPIENT = reply(550, "5.1.1 No such recipient here")
ROUTED_RECIPIENT = reply(550, "5.7.1 Mail is not routed by way of this host")
BAD_RECIPIENT = reply(501, "5.1.3 Bad recipient address syntax")
NOT_IMPLEMENTED = reply(502, "5.5.1 Command not implemented")
OUT_OF_ORDER = reply(503, "5.5.1 Bad sequence of commands")
UNKNOWN_PARAMETER = reply(555, "5.5.4 Unsupported parameter")
NEEDS_UTF8 = reply(553, "5.6.7 Address needs SMTPUTF8")
NEEDS_TLS = reply(530, "5.7.0 Must issue a STARTTLS command first")
NOT_ALLOWED = reply(550, "5.7.0 Not authorized")
NOT_OWN_SENDER = reply(550, "5.7.1 This host or user may not send for the domain of the sender")
NO_RECIPIENTS = reply(554, "5.5.1 No valid recipients")

LINE_TOO_LONG = reply(500, "5.5.2 Line too long")
BARE_LINE_END = reply(500, "5.5.2 Lines end with <CR><LF>")
BARE_IN_MESSAGE = reply(550, "5.6.0 Message contains NUL or bare <CR> or <LF>")
UNINVITED = reply(503, "5.5.0 Improper use of pipelining")
EARLY_TALKER = reply(554, "5.5.0 Improper use of pipelining")
TOO_LARGE = reply(552, "5.3.4 Message size exceeds limit")
TOO_MANY_RECIPIENTS = reply(452, "4.5.3 Too many recipients")
SEPARATELY = reply(452, "4.5.3 Send to this recipient separately")
LOOP = reply(554, "5.4.6 Too many hops")
LONG_HEADER = reply(554, "5.6.0 Header section is too long")
EMPTY = reply(550, "5.6.0 Message is empty")

FULL = reply(451, "4.3.2 Busy, try again later")
TOO_MANY_SESSIONS = reply(451, "4.3.2 Too many sessions, try again later")
NO_ROOM = reply(452, "4.3.1 Insufficient storage, try again later")
TRY_LATER = reply(451, "4.3.0 Temporary failure, try again later")
UNDECIDED = reply(451, "4.7.0 Try again later")
OVER_LIMIT = reply(451, "4.7.1 Sending limit exceeded, try again later")
NO_NEXT_HOP = reply(451, "4.3.5 Not configured to deliver")
NEXT_HOP_DOWN = reply(451, "4.4.1 Next hop not available, try again later")
NEXT_HOP_LOST = reply(451, "4.4.2 Connection to next hop lost, try again later")
UNVERIFIED_RECIPIENT = reply(451, "4.4.3 Recipient cannot be verified now, try again later")
NEXT_HOP_CONFUSED = reply(451, "4.3.0 Next hop gave no usable answer, try again later")

TOO_MANY_CONNECTIONS = reply(421, "4.7.0 Too many connections")
TOO_MANY_COMMANDS = reply(421, "4.7.0 Too many commands")
TOO_MANY_ERRORS = reply(421, "4.7.0 Too many errors")
TIMED_OUT = reply(421, "4.4.2 Timeout exceeded")
STOPPING = reply(421, "4.3.2 Service shutting down")
BROKEN = reply(421, "4.3.0 Temporary failure")

# Replies by which mail waits with its sender for a reason that lies here, and not with the sender or by a limit that
# the operator has set.
Deferral = Literal["slots", "sessions", "spool", "failure", "undecided", "route", "nextHop", "recipients"]
DEFERRALS: dict[SmtpReply, Deferral] = {
    FULL: "slots",
    TOO_MANY_SESSIONS: "sessions",
    NO_ROOM: "spool",
    TRY_LATER: "failure",
    UNDECIDED: "undecided",
    NO_NEXT_HOP: "route",
    NEXT_HOP_DOWN: "nextHop",
    NEXT_HOP_LOST: "nextHop",
    NEXT_HOP_CONFUSED: "nextHop",
    UNVERIFIED_RECIPIENT: "recipients",
}


def find_deferral(said: Iterable[SmtpReply]) -> Deferral | None:
    """Return why one of these replies puts mail off, if one does for a reason of ours."""
    return next((DEFERRALS[each] for each in said if 400 <= each.code < 500 and each in DEFERRALS), None)


def accepted_reply(ggrid: str) -> SmtpReply:
    """Return the reply to a message that was taken over; it does not say whether it was held or dropped."""
    return reply(250, f"2.6.0 Accepted, reference {ggrid}")


def refused_reply(ggrid: str) -> SmtpReply:
    """Return the reply to a message that the policy refuses."""
    return reply(550, f"5.7.1 Message refused, reference {ggrid}")
