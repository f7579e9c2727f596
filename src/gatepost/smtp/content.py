"""The message itself as it arrives: after DATA up to the lone dot (RFC 5321 section 4.5.2), or in chunks (RFC 3030).

Servers that take LF.LF, CR.CR or any mix of them for the end of a message let a sender smuggle a second one past a
server that does not (CVE-2023-51764 and its like). Here only CRLF.CRLF ends a message, and a message with any CR or LF
outside of CRLF, or with a NUL that a server behind us might drop, is refused whole: nothing of it can be passed on and
read differently there.
"""

import re

_END = b"\r\n.\r\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class LineEnds:
    """Watches bytes go by; `clean` while every CR and LF stood in a CRLF and no byte was NUL."""

    def __init__(self) -> None:
        self.clean = True
        self._after_cr = False

    def check(self, data: bytes) -> None:
        """Check the next piece."""
        if not self.clean or not data:
            return
        if self._after_cr:
            data = b"\r" + data
        self._after_cr = data.endswith(b"\r")
        pairs = data.count(b"\r\n")
        self.clean = data.count(b"\n") == pairs and data.count(b"\r") == pairs + self._after_cr and b"\0" not in data

    @property
    def sound(self) -> bool:
        """Whether the whole message was clean, and no CR waits for its LF."""
        return self.clean and not self._after_cr


def normalise_line_ends(raw: bytes) -> bytes:
    """A message as SMTP may carry it (RFC 5321 section 2.3.8): every line ends with CRLF, and only lines do.

    Mail that came over SMTP is like that already. What came over HTTP may not be, and a lone LF before a dot would let
    a next hop that takes LF for a line end read a second message out of the first.
    """
    pairs = raw.count(b"\r\n")
    if raw.count(b"\r") == pairs == raw.count(b"\n"):
        return raw
    return _LINE_END.sub(b"\r\n", raw)


def is_sound(raw: bytes) -> bool:
    """Whether a whole message could have come over SMTP: CR and LF stand only in CRLF, and there is no NUL."""
    ends = LineEnds()
    ends.check(raw)
    return ends.sound


class DotStream:
    """The bytes after DATA, without their dot-stuffing."""

    def __init__(self) -> None:
        self.ends = LineEnds()
        # As if an empty line had come before: a message may begin with a stuffed dot, or be nothing but the end.
        self._held = b"\r\n"
        self._skip = 2

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return what belongs to the message, and, once it has ended, what came behind the end."""
        whole = self._held + data
        end = whole.find(_END)
        if end >= 0:
            return self._unstuff(whole[: end + 2]), whole[end + len(_END) :]
        keep = next(length for length in range(min(len(_END), len(whole)), -1, -1) if whole.endswith(_END[:length]))
        self._held = whole[len(whole) - keep :]
        return self._unstuff(whole[: len(whole) - keep]), None

    def _unstuff(self, stuffed: bytes) -> bytes:
        self.ends.check(stuffed)
        text = stuffed.replace(b"\r\n.", b"\r\n")[self._skip :]
        self._skip = max(0, self._skip - len(stuffed))
        return text


class DotStuffer:
    """Dot-stuffs a message for the next hop; `end` is what must follow the last piece."""

    def __init__(self) -> None:
        self._tail = b"\r\n"

    def feed(self, data: bytes) -> bytes:
        """Return one piece, ready to be sent."""
        if not data:
            return b""
        joined = self._tail + data
        stuffed = joined.replace(b"\r\n.", b"\r\n..")[len(self._tail) :]
        self._tail = joined[-2:]
        return stuffed

    @property
    def end(self) -> bytes:
        """The lone dot, on a line of its own even if the message does not end with one."""
        return b".\r\n" if self._tail == b"\r\n" else b"\r\n.\r\n"
