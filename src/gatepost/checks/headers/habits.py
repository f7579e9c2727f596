"""Header fields written as no mail program writes them, and programs that speak to our border themselves."""

import re
from collections.abc import Iterator

from gatepost import kinds
from gatepost.checks.headers.fields import parse_date
from gatepost.checks.known_names import is_under
from gatepost.checks.sender.sending_host import MAX_HOPS, find_border_hop, is_from_stranger
from gatepost.findings import Reading, check
from gatepost.kinds import Finding
from gatepost.mail.message import Field
from gatepost.names import Address, normal_domain
from gatepost.strengths import coefficients

MAX_FIELDS = 60
# RFC 5322 sections 3.3 and 4.3: a comma or a second blank may be missing, a zone may be a name; a zone there is.
_DATE = re.compile(
    r"\s{0,5}(?:[A-Za-z]{2,9},?\s{0,3})?\d{1,2}[ -]{1,3}[A-Za-z]{3,9}[ ,-]{1,3}\d{2,4} {1,3}"
    r"\d{1,2}:\d{1,2}(?::\d{1,2})? {0,3}(?:[+-]\d{3,4}|\"?[A-Za-z]{1,6})"
)
_GLUED = re.compile(r"[^\s\"(,<]<[^<>\s]{1,200}@|\"<[^<>\s]{1,200}@")
_PUNCTUATED = re.compile(r"[,;_*#!]{2,4} ?<[^<>\s]{1,200}@|[^\s,]\s{3,40}#?\w{1,12}\"? ?<[^<>\s]{1,200}@")
_ODD_MARKS = frozenset(",;_*#!")
_MISSPELLED = frozenset(
    {b"FROM", b"from", b"SUBJECT", b"subject", b"TO", b"to", b"DATE", b"date", b"FroM", b"SubJect", b"MESSAGE-ID"}
)
_WRITTEN = frozenset({"from", "subject", "to"})
_SCRIPT_FIELDS = ("x-php-originating-script", "x-php-script", "x-php-filename")
_RAW_SUBJECT = coefficients(kinds.HEADER_RAW_CHARACTERS, "subject")[0]
_GLUED_NAME = coefficients(kinds.HEADER_ODD_FROM, "glued")[0]


@check(
    kinds.HEADER_ODD_DATE,
    kinds.HEADER_ODD_FROM,
    kinds.HEADER_ODD_SPELLING,
    kinds.HEADER_RAW_CHARACTERS,
    kinds.HEADER_HIGH_PRIORITY,
    kinds.HEADER_SCRIPT,
)
def field_habits(reading: Reading) -> Iterator[Finding]:
    """Fields that a person's mail program would have written otherwise.

    Programs write what libraries made for it give them: a Date with its zone (RFC 5322 section 3.3), a blank between
    name and address, `Subject` with one capital, encoded words for what is not ASCII (RFC 2047). Mass-mailing tools
    paste a template: `From: Prize Desk ,_<x@y.example>`, `SUBJECT:`, raw bytes of whatever character set it had. Shops
    with mailers of their own make some of these mistakes, so each weighs little. A flag of high priority is set by
    hand, which hardly anybody does in a first letter. Mail that a web server's script sent says so
    (`X-PHP-Originating-Script`): shops and forms, and scripts on sites that were broken into.
    """
    fields = reading.fields
    date, written = fields.get("date"), fields.get("from", "")[:600]
    # What ends in a zone is written well enough.
    if date and date[-5:-4] not in ("+", "-") and not _DATE.match(date[:100]) and parse_date(date[:100]) is not None:
        yield kinds.HEADER_ODD_DATE.at("Date", value=date[:100])
    if strength := _measure_from(written):
        yield kinds.HEADER_ODD_FROM.at("From", strength=strength, value=written[:200])
    yield from _check_bytes(reading)
    if _is_flagged(reading):
        yield kinds.HEADER_HIGH_PRIORITY.at("X-Priority", subject=reading.message.subject)
    if script := next((name for name in _SCRIPT_FIELDS if name in fields), None):
        yield kinds.HEADER_SCRIPT.at("header", field=script, value=fields[script][:200])


def _measure_from(written: str) -> float:
    """Return how oddly From is written; nearly every one has a single blank between name and address."""
    before = written[: written.rfind("<")]
    if not before or (before[-1] == " " and "  " not in before and before[-2:-1] not in _ODD_MARKS):
        return 0.0
    return 1.0 if _PUNCTUATED.search(written) else _GLUED_NAME if _GLUED.search(written) else 0.0


def _check_bytes(reading: Reading) -> Iterator[Finding]:
    """Look at names and bytes as they were sent."""
    raw: dict[str, Field] = {}
    for field in reading.message.headers.fields[:MAX_FIELDS]:
        if field.name in _WRITTEN:
            if field.raw[: len(field.name)] in _MISSPELLED:
                yield kinds.HEADER_ODD_SPELLING.at("header", field=field.raw[: len(field.name)].decode("ascii"))
                return
            if not field.raw.isascii():
                raw.setdefault(field.name, field)
    # Mail of and to addresses that are not ASCII is sent with raw UTF-8 (RFC 6532).
    if raw and not any(map(_is_international, (*reading.message.senders[:5], *reading.message.recipients[:5]))):
        strength = _RAW_SUBJECT if raw.keys() == {"subject"} else 1.0
        yield kinds.HEADER_RAW_CHARACTERS.at("header", strength=strength, fields=", ".join(sorted(raw)))


def _is_international(address: Address) -> bool:
    return not address.local.isascii() or not address.domain.isascii() or "xn--" in address.domain


def _is_flagged(reading: Reading) -> bool:
    """Return whether a first letter says that it is urgent; conversations and lists pass such flags on."""
    fields = reading.fields
    if fields.get("x-priority", "3").strip()[:1] != "1" and fields.get("importance", "").strip().lower() != "high":
        return False
    return "in-reply-to" not in fields and "references" not in fields and not reading.is_discussion


_DESKTOP = re.compile(
    r"Microsoft (?:Office )?Outlook|Microsoft Windows Mail|Mozilla|Thunderbird|Apple Mail|iPhone Mail|iPad Mail|"
    r"The Bat!|Foxmail|QUALCOMM|Eudora|Becky|AOL \d|Pegasus|Lotus Notes",
    re.IGNORECASE,
)


@check(kinds.HOST_DESKTOP_PROGRAM)
def desktop_program(reading: Reading) -> Iterator[Finding]:
    """A desktop mail program that delivered to our border itself.

    Outlook, Thunderbird and their like hand mail to the provider of their user (RFC 6409), whose server adds a Received
    field before it passes the mail on. Mail that names such a program and was on no server before ours was sent by
    something else: a mass mailer on a rented or hijacked machine. The same holds for the first server of a forwarding
    address, where the field that it wrote is the lowest. The operator's own users deliver so where our border
    also takes their mail, so senders of own domains and trusted hosts are left out.
    """
    fields, host = reading.fields, reading.envelope.remote_address
    program = fields.get("x-mailer") or fields.get("user-agent")
    if not program or not host or reading.protected.host_trusted or not _DESKTOP.match(program.strip()[:80]):
        return
    hops = reading.message.headers.all("received")[:MAX_HOPS]
    # Our border may have put its own field on top already, and so may the servers of a forwarding address.
    if len(hops) > 1 or (hops and host not in hops[0]):
        found = reading.once(find_border_hop)
        if found is None or found[0] + 1 != len(hops) or not is_from_stranger(found[1], reading):
            return
        # Software of newsletters keeps the name of its author's program.
        if "list-unsubscribe" in fields:
            return
    senders = (normal_domain(sender.domain) for sender in reading.message.senders)
    if not any(is_under(sender, reading.protected.own_domains) for sender in senders):
        yield kinds.HOST_DESKTOP_PROGRAM.at("X-Mailer", program=program[:100], host=host)
