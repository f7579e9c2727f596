"""What is added on top of relayed mail, and what is taken out of it; every other byte stays as it came.

Added: Authentication-Results (RFC 8601), the X-Gatepost fields and a Received field (RFC 5321 section 4.4). Taken out:
fields that claim to be ours. A message whose first line begins with white space would continue the last of our fields
in its own words: that line becomes a field of its own. Intake has refused every message with line ends other than CRLF,
so fields are found by simple means, and no other reading of the header has fields that this one has not. Mail that is
released from the quarantine leaves through the same functions.

A message that is delivered with a warning gets a mark before its subject, such as `[SPAM] `. The mark goes before what
stands there, which stays as it came, encoded words included. A mark of other letters than ASCII is an encoded word
itself (RFC 2047). White space between two encoded words is not shown (section 6.2), so the space behind such a mark is
inside of it where another encoded word follows.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from email.utils import formatdate

import msgspec

from gatepost.analysis.report import Report
from gatepost.auth.origin import is_login
from gatepost.auth.results import format_header, is_forged
from gatepost.scanning.request import Edit, ScanResult, received_id

PREFIX = b"x-gatepost-"
AUTHENTICATION = b"authentication-results"
BLANKS = (b" ", b"\t")
STRAY = b"X-Stray-Line:"
MAX_HEADER = 1 << 20
# Fields and other lines that are read of a header, which is done on the event loop, and results of authentication whose
# claims are read; further ones are left out.
MAX_FIELDS = 2_000
MAX_RESULTS = 20
WIDTH = 76
PIECE = 256 << 10
# A field, with its name; a line that is none; or what is left without a line end.
_HEADER_PART = re.compile(rb"([!-9;-~]++)[ \t]*+:[^\r\n]*+(?>\r\n[ \t][^\r\n]*+)*+\r\n|[^\r\n]*+\r\n|[\s\S]++")
# The fields that are looked at, in a section whose every line ends with CRLF; each begins behind the end of a line.
_RELEVANT = re.compile(
    rb"\n(((?i:received|subject|authentication-results|x-gatepost-[!-9;-~]*+))[ \t]*+:"
    rb"[^\r\n]*+(?>\r\n[ \t][^\r\n]*+)*+)(?=\r\n)"
)
_ODD = re.compile(r"[^!-~]|[()\\;<>\[\]\"]")


class Arrival(msgspec.Struct, frozen=True):
    """How a message came in: what the Received field says."""

    helo: str
    address: str
    protocol: str
    recipient: str
    now: float


class Header(msgspec.Struct, frozen=True):
    """The header section as it came: `claims` are the changes after which nothing in it claims to be ours, `hops` the
    Received fields, `subjects` where each Subject field begins, with its bytes. One that is longer than what is read of
    it is not `whole`: it may hold more claims, and must not be sent on. `queue_id` is that of the host that wrote the
    topmost Received field, "" if it names none; `logged_in` says that by this field the client there had logged in."""

    claims: tuple[Edit, ...]
    hops: int
    whole: bool = True
    queue_id: str = ""
    logged_in: bool = False
    subjects: tuple[tuple[int, bytes], ...] = ()


def build_trace_fields(result: ScanResult, hostname: str, arrival: Arrival, *, outbound: bool = False) -> bytes:
    """Return the fields that go on top of a message that is delivered. An outbound one tells the world no verdict."""
    report = result.report
    if outbound:
        return format_field("X-Gatepost-Id", [result.ggrid]) + _received_field(result.ggrid, hostname, arrival)
    fields = build_result_fields(result.ggrid, report, hostname)
    if report.action is not None and not report.action.failed:
        fields += (format_field("X-Gatepost-Action", [report.action.name]),)
    return b"".join(fields) + _received_field(result.ggrid, hostname, arrival)


def build_release_fields(
    ggrid: str, report: Report, hostname: str, arrival: Arrival, release_id: str, now: float, *, outbound: bool = False
) -> bytes:
    """Return the fields that go on top of a message that was held and is released: those of a delivered one, and the id
    and the time of the release. Who released it is in the audit trail, and none of a recipient's business."""
    released = format_field("X-Gatepost-Released", [f"id={release_id};", formatdate(now)])
    fields = (format_field("X-Gatepost-Id", [ggrid]),) if outbound else build_result_fields(ggrid, report, hostname)
    return b"".join(fields) + released + _received_field(ggrid, hostname, arrival)


def build_result_fields(ggrid: str, report: Report, hostname: str) -> tuple[bytes, ...]:
    """Return the fields that say what was found, each with its line ends."""
    return (
        format_header(hostname, report.authentication),
        format_field("X-Gatepost-Id", [ggrid]),
        format_field("X-Gatepost-Verdict", [report.verdict]),
        format_field("X-Gatepost-Decision", [report.decision]),
        format_field("X-Gatepost-Tags", [f"{tag}," for tag in report.tags[:-1]] + list(report.tags[-1:]) or ["none"]),
    )


def read_header(raw: bytes, hostname: str) -> Header:
    """Read the header section of a message, or as much of it as a header may have: its first `MAX_HEADER` bytes
    suffice."""
    claims = [Edit(0, 0, STRAY)] if raw.startswith(BLANKS) else []
    subjects: list[tuple[int, bytes]] = []
    hops = results = 0
    queue_id, logged_in = "", False
    fields, is_whole = _find_relevant(raw[:MAX_HEADER])
    for place, name, field in fields:
        if name == b"received":
            if not hops:
                queue_id, logged_in = received_id(field), is_login(field.partition(b":")[2].decode("latin-1"))
            hops += 1
        results += name == AUTHENTICATION
        if is_claim(name, field, results, hostname):
            claims.append(Edit(place, place + len(field)))
        elif name == b"subject":
            subjects.append((place, field))
    return Header(tuple(claims), hops, is_whole, queue_id, logged_in, tuple(subjects))


def _find_relevant(start: bytes) -> tuple[Sequence[tuple[int, bytes, bytes]], bool]:
    """Return place, name in lower case and bytes of every field that matters here, and whether the section is whole.
    Most header sections are ordinary ones, of which one expression finds these few fields."""
    end = start.find(b"\r\n\r\n") + 2
    head = start[:end]
    lines = head.count(b"\r\n")
    if end >= 2 and not head.startswith(b"\r\n") and head.count(b"\n") == head.count(b"\r") == lines <= MAX_FIELDS:
        found = _RELEVANT.finditer(b"\n" + head)
        return [(each.start(1) - 1, each[2].lower(), each[1] + b"\r\n") for each in found], True
    return find_relevant_slowly(start)


def find_relevant_slowly(start: bytes) -> tuple[Sequence[tuple[int, bytes, bytes]], bool]:
    """The same for any bytes."""
    position, fields = 0, []
    for part in split_header(start, MAX_FIELDS):
        position = part.end()
        if part[1] is not None:
            fields.append((part.start(), part[1].lower(), part[0]))
    return fields, start.startswith(b"\r\n", position) or (position >= len(start) < MAX_HEADER)


def split_header(head: bytes, most: int) -> Iterator[re.Match[bytes]]:
    """Yield the parts of a header section up to the empty line behind it, so many at most: fields, whose name is the
    first group, and lines that are none."""
    position = 0
    for _ in range(most):
        part = None if head.startswith(b"\r\n", position) else _HEADER_PART.match(head, position)
        if part is None:
            return
        yield part
        position = part.end()


def is_claim(name: bytes, raw: bytes, results: int, hostname: str) -> bool:
    """Whether a field, with its name in lower case, claims to be ours; `results` is how many results of authentication
    there are up to this field."""
    is_result = name == AUTHENTICATION and (results > MAX_RESULTS or is_forged(raw, hostname))
    return is_result or name.startswith(PREFIX)


def _received_field(ggrid: str, hostname: str, arrival: Arrival) -> bytes:
    literal = f"IPv6:{arrival.address}" if ":" in arrival.address else sanitise_word(arrival.address)
    words = [
        f"from {sanitise_word(arrival.helo) or 'unknown'}",
        *([f"([{literal}])"] if literal else ()),
        f"by {sanitise_word(hostname)}",
        f"with {arrival.protocol}",
        f"id {ggrid}",
    ]
    if arrival.recipient and arrival.recipient.isascii() and not _ODD.search(arrival.recipient):
        words.append(f"for <{arrival.recipient}>")
    words[-1] += ";"
    return format_field("Received", [*words, formatdate(arrival.now)])


def sanitise_word(text: str) -> str:
    """A word that can end neither a comment nor the field. Address literals keep their brackets off."""
    return _ODD.sub("?", text.strip("[]"))[:255]


def format_field(name: str, words: list[str]) -> bytes:
    """Return a header field of ASCII words, folded."""
    lines = [f"{name}:"]
    for word in words:
        if len(lines[-1]) + len(word) >= WIDTH and lines[-1] != "\t":
            lines.append("\t" + word)
        else:
            lines[-1] += f" {word}"
    return ("\r\n".join(lines) + "\r\n").encode("ascii", "replace")


# RFC 5322 section 2.1.1 recommends lines of at most 78 characters.
SUBJECT_WIDTH = 78
# Subject fields that are marked; there may be one, and mail programs show the first or the last of several.
MAX_SUBJECTS = 20
_VALUE = re.compile(rb"([^:]*+:)([ \t]*+)([^\r\n]*+)")


def mark_subjects(header: Header, mark: str, subject: str) -> tuple[tuple[Edit, ...], bytes]:
    """Return the edits that put the mark before every subject, and a field for a message that has none. `subject` is
    what people see now: one that begins with the mark is left as it is, unless there are others."""
    word = mark.strip()
    is_marked = subject.strip().casefold().startswith(word.casefold()) and len(header.subjects) < 2
    if not word or is_marked:
        return (), b""
    if not header.subjects:
        return (), b"Subject: " + encode_mark(word) + b"\r\n"
    return tuple(_mark(start, raw, word) for start, raw in header.subjects[:MAX_SUBJECTS]), b""


def encode_mark(word: str) -> bytes:
    """Return a mark as it stands in a header field."""
    if word.isascii():
        return word.encode("ascii")
    return b"=?utf-8?B?" + base64.b64encode(word.encode("utf-8", "replace")) + b"?="


def _mark(start: int, raw: bytes, word: str) -> Edit:
    """Return the edit of one field: the mark goes right behind the colon."""
    match = _VALUE.match(raw)
    assert match is not None  # the field was found by its name and colon
    name, blank, line = match.groups()
    text = encode_mark(word)
    if not word.isascii() and line.startswith(b"=?"):
        text = encode_mark(word + " ")
    place = start + len(name)
    if not line:
        return Edit(place, place, b" " + text)
    # The line is folded where it would become long; a line of blanks alone would be no continuation.
    long = len(name) + len(text) + len(blank) + len(line) + 1 > SUBJECT_WIDTH
    between = b"\r\n" if long else b""
    return Edit(place, place, b" " + text + between + (b"" if blank else b" "))
