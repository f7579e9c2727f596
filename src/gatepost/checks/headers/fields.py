"""Header fields that are missing, faulty, forged or conspicuous, or written as no mail program writes them.

Beside single fields these are defects of the MIME structure, times that a message states in several places (Date, its
time zone, and the clock inside Outlook's identifiers), and programs that speak to our border themselves.
"""

import re
from calendar import timegm
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from gatepost.checks.known_names import is_freemail, is_under
from gatepost.checks.links.hosts import leads_home
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.envelope import measure_care
from gatepost.checks.sender.mailboxes import is_written_for
from gatepost.checks.sender.sending_host import MAX_HOPS, find_border_hop, is_from_stranger
from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, Finding
from gatepost.findings.strengths import coefficients
from gatepost.mail.budget import DEFECTS
from gatepost.mail.message import Field
from gatepost.names import Address, normal_domain, org_domain

_HOUR = 3_600
# Clocks are wrong by a time zone often, queues hold mail for up to five days; more than that is no accident.
_DATE_AHEAD = 26 * _HOUR
_DATE_BEHIND = 7 * 24 * _HOUR
_SHORTEST_DATE = 20
_DATE_MONTHS = {
    name: index for index, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)
}
_DATE_FORM = re.compile(
    r"\s{0,5}(?:[A-Za-z]{2,9},?\s{1,5}|[A-Za-z]{3},)?(\d{1,2})[\s-]{1,5}([A-Za-z]{3})[a-z]{0,6}[\s,-]{1,5}(\d{2,4})\s{1,5}(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"(?:\s{0,5}([+-]\d{4}))?"
)


@check(kinds.HEADER_DATE_AHEAD, kinds.HEADER_DATE_BEHIND, kinds.HEADER_NO_DATE, needs={"odd-date"})
def date_field(reading: Reading) -> Iterator[Finding]:
    """Dates that are far from when the mail was taken in (RFC 5322 section 3.6.1).

    A date in the future keeps a mail on top of the list; one years ago hides it or comes from a wrong clock. The Date
    is compared with the newest Received field, which a server of ours or of the provider wrote, else with the clock.
    """
    value, received = reading.fields.get("date"), reading.fields.get("received")
    tail = received.rpartition(";")[2][:100] if received else ""
    if is_of_that_day(value, received):
        return
    taken = parse_date(tail)
    if value is None or (written := parse_date(value[:100])) is None:
        if received or reading.envelope.remote_address:
            yield kinds.HEADER_NO_DATE.at("Date", value=value or "")
        return
    if taken is None and not reading.now:
        return
    apart = written - (taken if taken is not None else reading.now)
    if apart > _DATE_AHEAD:
        yield kinds.HEADER_DATE_AHEAD.at("Date", date=value, hours=round(apart / _HOUR))
    # Without a Received field this is old mail that is looked at again.
    elif taken is not None and apart < -_DATE_BEHIND:
        yield kinds.HEADER_DATE_BEHIND.at("Date", date=value, hours=round(-apart / _HOUR))


def is_of_that_day(date: str | None, received: str | None) -> bool:
    """Return whether a mail arrived on the day on which it was written, as nearly all do: `Tue, 10 Mar 2026`."""
    if not date or date[3:5] != ", " or len(date) <= _SHORTEST_DATE:
        return False
    return date[5:16] in (received.rpartition(";")[2][:100] if received else "")


def parse_date(text: str) -> float | None:
    """Return the moment of a Date field in seconds, None where it is not written as one."""
    match = _DATE_FORM.match(text)
    if not match or match[2].lower() not in _DATE_MONTHS:
        return None
    year = int(match[3])
    year += (2000 if year < 50 else 1900) if year < 1000 else 0
    offset = match[7] or "+0000"
    east = (int(offset[1:3]) * 60 + int(offset[3:])) * (-60 if offset[0] == "-" else 60)
    moment = (year, _DATE_MONTHS[match[2].lower()], int(match[1]), int(match[4]), int(match[5]), int(match[6] or 0))
    return timegm((*moment, 0, 0, 0)) - east if 1 <= moment[2] <= 31 and 1900 < year < 9999 else None


IDENTIFIER_FORM = re.compile(r"\s*<[^<>\s@]{1,400}@[^<>\s@]{1,255}>")
_SPACES = re.compile(r"\s+")
# What the identifiers of large providers have in them.
PROVIDER_MARKS = ("@mail.gmail.com>", "@mail.yahoo.com>", ".prod.outlook.com>")
# Each of these providers signs all that it sends, for its own domain or for the customer's.
_PROVIDER_IDENTIFIER = re.compile(
    r"\s{0,9}<[^<>\s@]{10,200}@(mail\.gmail\.com|mail\.yahoo\.com|[\w.-]{1,80}\.prod\.outlook\.com)>", re.IGNORECASE
)


@check(
    kinds.HEADER_NO_MESSAGE_ID, kinds.HEADER_BAD_MESSAGE_ID, kinds.HEADER_BORROWED_MESSAGE_ID, needs={"odd-identifier"}
)
def message_id(reading: Reading) -> Iterator[Finding]:
    """Message identifiers that no mail program writes, or that are copied (RFC 5322 section 3.6.4: `<left@right>`,
    unique).

    Every mail program and nearly every script gives its messages one. Mass-mailing tools leave it out, or fill it
    badly, or write it in the manner of a large provider. `<CAF…@mail.gmail.com>` is written by Google's servers, which
    sign whatever they send: mail that has the identifier and no signature copied it, to look like a person's mail.
    Lists and gateways take signatures away, and old mail had none, so a copied identifier weighs little.
    """
    value = reading.fields.get("message-id")
    if value is None:
        # A draft in a file has neither envelope nor Received: nothing was left out, it was never sent.
        if reading.envelope.remote_address or reading.fields.get("received"):
            yield kinds.HEADER_NO_MESSAGE_ID.at("Message-ID", strength=measure_care(reading))
        return
    # Long ones are folded, and some old servers put a comment after.
    if not IDENTIFIER_FORM.match(value[:1000]) and not IDENTIFIER_FORM.match(_SPACES.sub("", value[:1000])):
        yield kinds.HEADER_BAD_MESSAGE_ID.at("Message-ID", value=value)
    found = _PROVIDER_IDENTIFIER.match(value[:400])
    if not found or reading.is_known_list or not reading.authentication.host or reading.authentication.arc.instances:
        return
    # A list or forwarder may have taken a signature away.
    if "dkim-signature" not in reading.fields:
        yield kinds.HEADER_BORROWED_MESSAGE_ID.at("Message-ID", provider=found[1])


MAX_RECIPIENTS = 50


@check(
    kinds.HEADER_NO_RECIPIENTS,
    kinds.HEADER_BLIND_COPY_REPLY,
    kinds.HEADER_BLIND_COPY_FREEMAIL,
    kinds.HEADER_ADDRESSED_TO_SENDER,
    needs={"unnamed-recipient"},
)
def hidden_recipients(reading: Reading) -> Iterator[Finding]:
    """Mail that names no recipient, or its own sender as the only one (RFC 5322 section 3.6.3 allows both).

    Senders who write to thousands at once put them all into the envelope. Clubs and families do so, too, and a letter
    to one person names that person. Frauds that begin a correspondence go further: the answers are to go to another
    free mailbox than the sender's, since the sender's own is closed after the first complaints, or belongs to somebody
    else. Whoever writes to a club by blind copy wants the answers in the mailbox from which they wrote; newsletters
    that hide their recipients come from a domain of their own and link to its site.
    """
    message = reading.message
    if not message.senders or reading.is_known_post:
        return
    sender, named = message.senders[0], [each for each in message.recipients[:MAX_RECIPIENTS] if each.domain]
    answers = next(
        (each for each in message.reply_to[:5] if each.domain and _make_key(each) != _make_key(sender)), None
    )
    if answers and is_written_for(sender, answers):
        return
    is_free = answers is not None and is_freemail(normal_domain(answers.domain))
    # A list has its own address in To and in Reply-To; it has no free mailbox.
    mine = {_make_key(sender), _make_key(answers)} if answers and is_free else {_make_key(sender)}
    if any(_make_key(each) not in mine for each in named):
        return
    if not named:
        yield kinds.HEADER_NO_RECIPIENTS.at("To", value=reading.fields.get("to", ""))
    elif answers:
        # A note to oneself has no other address for answers.
        yield kinds.HEADER_ADDRESSED_TO_SENDER.at("To", recipient=named[0], answers=answers)
    if answers and is_free:
        yield kinds.HEADER_BLIND_COPY_REPLY.at("Reply-To", answers=answers, sender=sender)
    elif not named and is_freemail(normal_domain(sender.domain)) and not reading.sites:
        yield kinds.HEADER_BLIND_COPY_FREEMAIL.at("To", sender=sender)


def _make_key(address: Address) -> tuple[str, str]:
    return address.local.casefold(), normal_domain(address.domain)


@check(*sorted(DEFECTS, key=lambda kind: kind.id), needs={"defect"})
def defects(reading: Reading) -> Iterator[Finding]:
    """Oddities of the message itself: broken or ambiguous MIME, and budgets that ran out while it was read.

    The readers note what was odd (`Message.defects`); this check turns each note into a finding. Honest mailers make
    some of these faults, so most weigh little; a budget that ran out means that something was not read.
    """
    for defect in reading.message.defects:
        kind = BY_ID[defect.kind]
        yield kind.at(defect.where, detail=defect.detail) if defect.detail else kind.at(defect.where)


MAX_SUBJECT = 500
_MANY_MARKS = 3
_MANY_CAPITALS = 10
_FEW_STYLED = 2
_STYLED_SHARE = 0.2
_MONEY_AMOUNT = re.compile(
    r"(?:[$€£]|usd|eur|us\$|r\$)\s?\d{1,3}(?:[.,\s]?\d{3}){0,4}|\d{2,9}(?:[.,]\d{2,3})?\s?(?:€|\$|£|eur|euro|usd|dollar)",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_STYLED_LETTERS = re.compile(r"[\U0001d400-\U0001d7ff\uff21-\uff5a\u24b6-\u24e9]")
_INVISIBLE_INSIDE = re.compile(r"(?<=[A-Za-z])[\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")
SUBJECT_BLANKS = "      "
_TAIL_LENGTH = 8
_MANY_CHANGES = 4
_RANDOM_TAIL = re.compile(r"(?<=[\w#-])[A-Za-z0-9]{8}\Z", re.ASCII)
_TAIL = re.compile(r"[ \t]{6}([^\s]{2,24})$")
_JOINED_WORD = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?![^\W_])")
_JOINED_WORDS = 3


@check(
    kinds.HEADER_SHOUTING_SUBJECT,
    kinds.HEADER_MONEY_SUBJECT,
    kinds.HEADER_STYLED_SUBJECT,
    kinds.HEADER_INVISIBLE_SUBJECT,
    kinds.HEADER_SUBJECT_TAIL,
    kinds.HEADER_RANDOM_TAIL,
    kinds.HEADER_JOINED_SUBJECT,
    needs={"odd-subject"},
)
def subject(reading: Reading) -> Iterator[Finding]:
    """Subjects that shout or carry marks: capitals, exclamation marks, money, styled letters, a number far behind.

    `!!! YOU WON $1,000,000 !!!` and `𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀 𝗼𝘂𝘁`. Styled letters exist in Unicode for formulas; in a subject they
    escape filters and stand out. Shops shout as well, a little: each sign weighs next to nothing. Invoices of proven
    senders have an amount in their subject. In
    `All channels free !!                     18441` the number makes each subject a different one, and a row of blanks
    pushes it out of sight; mail programs and people write one blank. `Valor bloqueado por segurancaI9c7b9CPfO` does the
    same without blanks; numbers of orders and tickets are capitals and digits, and stand in brackets or behind a word.
    `_Your_Reward_Has_Arrived_` has underscores for blanks, one at an end among them. Names of files have them between
    words, and a letter or an ending at either end.
    """
    subject = reading.message.subject[:MAX_SUBJECT]
    marks = subject.count("!") + subject.count("！")
    if marks >= _MANY_MARKS or "$$" in subject or _is_capitals(subject):
        yield kinds.HEADER_SHOUTING_SUBJECT.at("Subject", subject=subject)
    if _DIGIT.search(subject) and (match := _MONEY_AMOUNT.search(subject)) and not leads_home(reading):
        yield kinds.HEADER_MONEY_SUBJECT.at("Subject", amount=match.group())
    if not subject.isascii():
        if len(_STYLED_LETTERS.findall(subject)) > max(_FEW_STYLED, _STYLED_SHARE * len(subject)):
            yield kinds.HEADER_STYLED_SUBJECT.at("Subject", subject=ascii(subject))
        if _INVISIBLE_INSIDE.search(subject):
            yield kinds.HEADER_INVISIBLE_SUBJECT.at("Subject", subject=ascii(subject))
    if tail := _find_subject_tail(reading):
        yield kinds.HEADER_SUBJECT_TAIL.at("Subject", mark=tail)
    elif _RANDOM_TAIL.search(subject) and _is_random(subject[-_TAIL_LENGTH:]):
        yield kinds.HEADER_RANDOM_TAIL.at("Subject", mark=subject[-_TAIL_LENGTH:])
    if "_" in (subject[:1], subject[-1:]) and _is_joined(subject):
        yield kinds.HEADER_JOINED_SUBJECT.at("Subject", subject=subject)


def _is_capitals(subject: str) -> bool:
    """Return whether there are words in capitals only, and many capitals: digits and most scripts have no case."""
    return " " in subject and subject.upper() == subject and sum(map(str.isupper, subject)) >= _MANY_CAPITALS


def _is_random(tail: str) -> bool:
    """Return whether capitals, small letters and digits change so often as nobody writes them; words that are put
    together (`2CurSeen`) have some small letters in a row."""
    sorts = ["d" if each.isdigit() else "u" if each.isupper() else "l" for each in tail]
    changes = sum(left != right for left, right in pairwise(sorts))
    return len(set(sorts)) > 2 and "lll" not in "".join(sorts) and changes >= _MANY_CHANGES


def _is_joined(subject: str) -> bool:
    """Return whether there are words with underscores between them, and no blank."""
    return not any(map(str.isspace, subject)) and len(_JOINED_WORD.findall(subject)) >= _JOINED_WORDS


def _find_subject_tail(reading: Reading) -> str:
    """Return the mark behind a row of blanks at the end of the subject, "" for none."""
    subject = reading.fields.get("subject", "").rstrip()[-200:]
    mark = _TAIL.search(subject) if SUBJECT_BLANKS in subject else None
    # A word behind blanks is layout; a mark has digits.
    return mark.group(1) if mark and any(character.isdigit() for character in mark.group(1)) else ""


# "+26637$", "+$1,989", "0.7495_BTC"
_CREDITED_SUM = re.compile(
    r"\+ ?(?:[$€£] ?\d[\d.,]{1,12}|\d[\d.,]{2,12} ?(?:[$€£]|USD|EUR|BTC))"
    r"|\d[.,]\d{2,8}[ _.]{1,3}(?:BTC|Bitcoin|ETH)(?![A-Za-z])"
)


@check(kinds.HEADER_CREDITED_SUM, needs={"sum-subject"})
def credited_sum(reading: Reading) -> Iterator[Finding]:
    """Subjects by which a free mailbox reports money that came in: `Your balance has been replenished +26637$`.

    Banks and payment services write so about an account of their own, from a domain of their own. People who write
    about money to people they know do not put a plus before it; answers of known senders, and known lists, are left
    out all the same.
    """
    subject = reading.message.subject[:MAX_SUBJECT]
    if (
        not ("+" in subject or "BTC" in subject or "Bitcoin" in subject or "ETH" in subject)
        or reading.is_known_post
        or reading.is_known_answer
    ):
        return
    match = _CREDITED_SUM.search(subject)
    if match and any(is_freemail(normal_domain(sender.domain)) for sender in reading.message.senders[:1]):
        yield kinds.HEADER_CREDITED_SUM.at("Subject", sum=match.group())


MAX_TRACES = 12
MAX_HOP_TEXT = 600
_SHORTEST_HOP = 40
# An address in brackets with a number over 255.
_IMPOSSIBLE_ADDRESS = re.compile(
    r"\[(?=\d{1,3}(?:\.\d{1,3}){3}\])[\d.]{0,12}?(?<!\d)(?:25[6-9]|2[6-9]\d|[3-9]\d\d)[.\]]"
)
_HOP_DATE = re.compile(r"\s{0,9}(?:[A-Z][a-z]{2},\s{1,3})?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) ")
_STAMP = len(" Tue, 10 Mar 2026")
_HOP_STAMP = re.compile(r" [A-Z][a-z]{2}, {1,2}\d{1,2} [A-Z][a-z]{2} \d{4}")
_HOP_MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())}
# Days by which clocks and time zones may disagree, with months taken for 31 days.
_HOP_LEEWAY = 4
_HOP_REPEATED, _HOP_OUT_OF_ORDER, _HOP_FORM = coefficients(
    kinds.HEADER_FORGED_RECEIVED, "repeated", "out_of_order", "form"
)
# It begins with letters: those are found quicker than a blank of any kind.
_HOP_BY = re.compile(r"by(?<=\sby)\s{1,3}([\w.-]{4,255})")
# Names with nothing before or between their dots; a bare address where qmail puts the name of the host.
_HOP_FAULTY = re.compile(r"\s{0,3}from\s{1,3}(?:\.\w|\d{1,3}(?:\.\d{1,3}){3} \(HELO )|[\s(]\.\.\w|\[\.\d")
_FAULT_MARKS = (" (HELO ", "..", "[.", "from .")


@check(kinds.HEADER_FORGED_RECEIVED, needs={"hop"})
def forged_received(reading: Reading) -> Iterator[Finding]:
    """Traces that no server left: Received fields that were made up (RFC 5321 section 4.4).

    A mass mailer puts a few Received fields under its mail, so that it seems to come from far away through well-known
    providers. Servers write what they see, so what they write can be true. Made-up fields have addresses that do not
    exist (`[302.17.4.9]`), stand there twice word for word, or were stamped days after the hop that came later. Clocks
    that are off by hours are common; the same hop in front of itself never is.
    """
    # The fields that are next to us were written by servers on our side.
    hops = [value[:MAX_HOP_TEXT] for value in reading.hops[:MAX_TRACES]]
    if len(hops) < 2:
        return
    # One look at all of them: few messages have such a hop.
    together = "\n".join(hops)
    if _IMPOSSIBLE_ADDRESS.search(together) and (impossible := next(filter(_IMPOSSIBLE_ADDRESS.search, hops), None)):
        yield kinds.HEADER_FORGED_RECEIVED.at("Received", why="an address that cannot be", field=impossible)
        return
    if why := _find_faulty_hop(reading, hops, together):
        yield kinds.HEADER_FORGED_RECEIVED.at("Received", strength=_HOP_FORM, why=why[0], field=why[1])
        return
    # A web interface of a provider's that is used by a program writes its hop twice.
    twice = [
        hop
        for hop, next_hop in (pairwise(hops) if len(set(hops)) < len(hops) else ())
        if len(hop) > _SHORTEST_HOP and hop == next_hop and " with HTTP" not in " ".join(hop.split())
    ]
    if twice:
        yield kinds.HEADER_FORGED_RECEIVED.at(
            "Received", strength=_HOP_REPEATED, why="the same hop twice", field=twice[0]
        )
        return
    # Most mail passes all of its servers on one day: `; Tue, 10 Mar 2026`.
    stamps = {hop[(place := hop.rfind(";") + 1) : place + _STAMP] for hop in hops}
    if len(stamps) == 1 and _HOP_STAMP.match(min(stamps)):
        return
    days = [_parse_hop_day(hop) for hop in hops]
    for (later, earlier), hop in zip(pairwise(days), hops[1:], strict=True):
        if later and earlier - later > _HOP_LEEWAY:
            yield kinds.HEADER_FORGED_RECEIVED.at(
                "Received", strength=_HOP_OUT_OF_ORDER, why="stamped days after the hop that followed it", field=hop
            )
            return


def _find_faulty_hop(reading: Reading, hops: list[str], together: str) -> tuple[str, str] | None:
    """Return a hop of a form that no server writes, or one that claims our own server before a stranger's."""
    if any(mark in together for mark in _FAULT_MARKS):
        for hop in hops[1:]:
            if any(mark in hop for mark in _FAULT_MARKS) and _HOP_FAULTY.search(hop):
                return "a form that no server writes", hop
    # What our border wrote: the stranger's address, and its own name.
    host = reading.envelope.remote_address
    if not host or f"[{host}]" not in hops[0] or reading.is_known_list:
        return None
    own = _HOP_BY.search(hops[0])
    if not own:
        return None
    owner, below = org_domain(own[1].lower()), _HOP_BY.search(hops[1])
    if "." not in owner or owner in hops[0][: own.start()].lower() or owner in reading.sender_domains:
        return None
    is_own = below is not None and org_domain(below[1].lower()) == owner
    return ("our own server, before that of a stranger", hops[1]) if is_own else None


def _parse_hop_day(hop: str) -> int:
    """Return the day on which a server says it had the message, as a number that grows; 0 where it says none."""
    found = _HOP_DATE.match(hop, hop.rfind(";") + 1)
    if not found or found[2] not in _HOP_MONTHS:
        return 0
    return (int(found[3]) * 12 + _HOP_MONTHS[found[2]]) * 31 + int(found[1])


# A computer takes both from one clock; a letter that waits in the outbox gets both when it is sent.
_APART = _HOUR + 600
_LARGEST_ZONE = 14
QUARTERS = frozenset({"00", "15", "30", "45"})
_ZONE = re.compile(r"[+-](\d\d)(\d\d)\s{0,3}(?:\(|\Z)")
_OUTLOOK_ID = re.compile(r"\s{0,3}<([0-9a-f]{0,4})([0-9a-f]{8})\$([0-9a-f]{8})\$[0-9a-f]{8}@", re.IGNORECASE)
_COUNTER = 4
# A Windows FILETIME counts tenths of microseconds from 1601 on.
_TICKS, _EPOCH = 10_000_000, 11_644_473_600


@check(kinds.HEADER_ODD_ZONE, kinds.HEADER_CLOCKS_DIFFER, kinds.HEADER_FORGED_MESSAGE_ID, needs={"odd-clock"})
def clocks(reading: Reading) -> Iterator[Finding]:
    """Clocks that disagree within one header, and time zones that no country has.

    Outlook and Outlook Express write the time into each Message-ID: `<000b01c7b892$e7c7b770$5f0aa8c0@pc1>` holds a
    counter of four digits and a FILETIME, which is the moment of the Date field. Mass mailers copy the form and fill it
    with other digits, or compute it for another time zone. Zones are whole quarters of an hour up to fourteen hours
    (RFC 5322 section 3.3): `-0540` is none. Gateways and lists pass both fields on as they are. Programs other than
    Microsoft's do not write such identifiers.
    """
    date = reading.fields.get("date", "").strip()[:100]
    if (zone := _ZONE.search(date)) and (zone[2] not in QUARTERS or int(zone[1]) > _LARGEST_ZONE):
        yield kinds.HEADER_ODD_ZONE.at("Date", date=date)
    identifier = reading.fields.get("message-id", "")
    found = _OUTLOOK_ID.match(identifier) if "$" in identifier else None
    if not found:
        return
    program = reading.fields.get("x-mailer", "").strip()
    # Lists may take the name of the program away; the form they leave as it was.
    is_named = program.startswith("Microsoft") or (not program and reading.is_known_list)
    is_forged = len(found[1]) != _COUNTER or not is_named
    if is_forged:
        yield kinds.HEADER_FORGED_MESSAGE_ID.at("Message-ID", value=identifier[:100], program=program[:80])
    written = parse_date(date)
    apart = abs(int(found[2] + found[3], 16) / _TICKS - _EPOCH - written) if written is not None else 0.0
    # Programs of list members write such identifiers with a clock of their own; there one of the two is enough.
    if apart > _APART and not (is_forged and reading.is_known_list):
        yield kinds.HEADER_CLOCKS_DIFFER.at("Message-ID", date=date, hours=round(apart / _HOUR))


_CHARSET = re.compile(r"charset\s{0,3}=\s{0,3}\"?([\w-]{2,20})", re.IGNORECASE)
_OTHER_ALPHABETS = frozenset(
    "windows-1250 windows-1251 windows-1253 windows-1255 windows-1256 iso-8859-2 iso-8859-5 iso-8859-7 koi8-r koi8-u "
    "gb2312 gbk gb18030 big5 euc-kr ks_c_5601-1987 shift_jis".split()
)
_ENOUGH_TEXT = 60


@check(kinds.HEADER_FOREIGN_CHARSET, needs={"foreign-charset"})
def foreign_charset(reading: Reading) -> Iterator[Finding]:
    """A character set of another alphabet for a text that has none of its letters.

    Mail programs declare what a text needs: for plain English that is us-ascii or utf-8, even where the program of a
    Russian or Chinese writer has koi8-r or gb2312 as its default. Mass-mailing tools declare the character set of their
    maker. Some old programs did so as well, and their users wrote a line or two in English, so short texts are left
    out.
    """
    charset = find_foreign_charset(reading.fields.get("content-type", "")[:500])
    if not charset or reading.is_known_post:
        return
    texts = [text.visible for text in reading.message.texts[:4] if not text.attached]
    if sum(map(len, texts)) >= _ENOUGH_TEXT and all(map(str.isascii, texts)) and reading.message.subject.isascii():
        yield kinds.HEADER_FOREIGN_CHARSET.at("Content-Type", charset=charset)


@lru_cache(1024)
def find_foreign_charset(declared: str) -> str:
    """Return the character set of another alphabet that a Content-Type field declares, "" for none."""
    charset = _CHARSET.search(declared)
    return charset[1] if charset and charset[1].lower() in _OTHER_ALPHABETS else ""


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
# What is looked at where it is there.
RARE_FIELDS = ("x-priority", "importance", *_SCRIPT_FIELDS)
_RAW_SUBJECT = coefficients(kinds.HEADER_RAW_CHARACTERS, "subject")[0]
_GLUED_NAME = coefficients(kinds.HEADER_ODD_FROM, "glued")[0]


@check(
    kinds.HEADER_ODD_DATE,
    kinds.HEADER_ODD_FROM,
    kinds.HEADER_ODD_SPELLING,
    kinds.HEADER_RAW_CHARACTERS,
    kinds.HEADER_HIGH_PRIORITY,
    kinds.HEADER_SCRIPT,
    needs={"odd-field"},
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


def has_plain_from(written: str) -> bool:
    """Return whether From has no name, or a single blank between name and address, as nearly every one has."""
    before = written[: written.rfind("<")]
    return not before or (before[-1] == " " and "  " not in before and before[-2:-1] not in _ODD_MARKS)


def _measure_from(written: str) -> float:
    """Return how oddly From is written."""
    if has_plain_from(written):
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
    people = (*reading.message.senders[:5], *reading.message.recipients[:5])
    if raw and all(each.local.isascii() and each.domain.isascii() and "xn--" not in each.domain for each in people):
        strength = _RAW_SUBJECT if raw.keys() == {"subject"} else 1.0
        yield kinds.HEADER_RAW_CHARACTERS.at("header", strength=strength, fields=", ".join(sorted(raw)))


def _is_flagged(reading: Reading) -> bool:
    """Return whether a first letter says that it is urgent; conversations and lists pass such flags on."""
    fields = reading.fields
    if fields.get("x-priority", "3").strip()[:1] != "1" and fields.get("importance", "").strip().lower() != "high":
        return False
    return not (reading.is_known_answer or reading.is_known_post)


_DESKTOP = re.compile(
    r"Microsoft (?:Office )?Outlook|Microsoft Windows Mail|Mozilla|Thunderbird|Apple Mail|iPhone Mail|iPad Mail|"
    r"The Bat!|Foxmail|QUALCOMM|Eudora|Becky|AOL \d|Pegasus|Lotus Notes",
    re.IGNORECASE,
)


@check(kinds.HOST_DESKTOP_PROGRAM, needs={"program"})
def desktop_program(reading: Reading) -> Iterator[Finding]:
    """A desktop mail program that delivered to our border itself.

    Outlook, Thunderbird and their like hand mail to the provider of their user (RFC 6409), whose server adds a Received
    field before it passes the mail on. Mail that names such a program and was on no server before ours was sent by
    something else: a mass mailer on a rented or hijacked machine. The same holds for the first server of a forwarding
    address, where the field that it wrote is the lowest. The operator's own users deliver so where our border
    also takes their mail, so senders of own domains and trusted hosts are left out.
    """
    host = reading.envelope.remote_address
    program = next((each for each in reading.programs if _DESKTOP.match(each[:80])), "")
    if not program or not host or reading.protected.host_trusted:
        return
    hops = reading.hops[:MAX_HOPS]
    # Our border may have put its own field on top already, and so may the servers of a forwarding address.
    if len(hops) > 1 or (hops and host not in hops[0]):
        found = reading.once(find_border_hop)
        if found is None or found[0] + 1 != len(hops) or reading.is_known_list:
            return
        if not is_from_stranger(found[1], reading):
            return
        # Software of newsletters keeps the name of its author's program.
        if reading.is_known_newsletter:
            return
    senders = (normal_domain(sender.domain) for sender in reading.message.senders)
    if not any(is_under(sender, reading.protected.own_domains) for sender in senders):
        yield kinds.HOST_DESKTOP_PROGRAM.at("X-Mailer", program=program[:100], host=host)
