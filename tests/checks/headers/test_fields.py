"""The checks of `headers/fields`: the tricks, and what looks like them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checks.readings import find_kinds, letter
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.auth.results import Arc, Authentication
from gatepost.checks.headers.fields import credited_sum, date_field, forged_received, message_id, subject
from gatepost.checks.reading import Reading
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.mail.reader import read

# Dates far from the truth.
TAKEN = "from a by b; Tue, 10 Mar 2026 12:00:00 +0000"
NOW = 1_773_144_000.0  # the same moment


def dated(date: str | None, received: str | None = TAKEN, now: float = NOW) -> Reading:
    fields = [Field(name, value, b"") for name, value in (("received", received), ("date", date)) if value is not None]
    return Reading(Message(headers=Headers(tuple(fields))), now=now)


@pytest.mark.parametrize(
    ("date", "kinds"),
    [
        ("Thu, 12 Mar 2026 12:00:00 +0000", ["header:date-ahead"]),
        ("Tue, 19 Jan 2038 03:14:07 +0000", ["header:date-ahead"]),
        ("Sun, 1 Mar 2026 12:00:00 +0000", ["header:date-behind"]),
        ("Thu, 1 Jan 1970 00:00:00 +0000", ["header:date-behind"]),
        ("yesterday", ["header:no-date"]),
        ("Tue, 99 Foo 2026 12:00:00 +0000", ["header:no-date"]),
        (None, ["header:no-date"]),
        ("Tue, 10 Mar 2026 11:59:00 +0000", []),
        ("Tue, 10 Mar 2026 23:59:00 +1200", []),
        ("10 Mar 2026 12:00 -0800", []),
        ("Wed, 11 Mar 2026 09:00:00 +0000 (UTC)", []),  # a clock in the wrong time zone
        ("Thu, 5 Mar 2026 12:00:00 +0000", []),  # five days in a queue
        ("Tuesday, 10-Mar-26 12:00:00", []),
    ],
)
def test_date_field(date: str | None, kinds: list[str]) -> None:
    assert find_kinds(date_field, dated(date)) == kinds


def test_old_mail_without_received_is_old_mail() -> None:
    assert list(date_field(dated("Mon, 1 Jan 2001 00:00:00 +0000", None))) == []
    assert find_kinds(date_field, dated("Tue, 19 Jan 2038 03:14:07 +0000", None)) == ["header:date-ahead"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_date_is_read(date: str, received: str) -> None:
    list(date_field(dated(date, received)))


@given(st.from_regex(r"\d{1,2} (Jan|Feb|Dec) \d{2,4} \d{1,2}:\d{2}:\d{2} [+-]\d{4}", fullmatch=True))
def test_any_numbers_are_read(date: str) -> None:
    list(date_field(dated(date)))


# Message identifiers.
@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, ["header:no-message-id"]),
        ("", ["header:bad-message-id"]),
        ("<@>", ["header:bad-message-id"]),
        ("%MSGID", ["header:bad-message-id"]),
        ("<a@b@c>", ["header:bad-message-id"]),
        ("<a@b>", []),
        ("<a.b$c=d@mail.corp.example>", []),
        ("  <a@b>  ", []),
        ("<long-\r\n part@b>", []),
        ("<a@b> (added by postmaster@b)", []),
    ],
)
def test_message_id(value: str | None, kinds: list[str]) -> None:
    headers = Headers(() if value is None else (Field("message-id", value, b""),))
    reading = Reading(Message(headers=headers), Envelope(remote_address="192.0.2.1"))
    assert find_kinds(message_id, reading) == kinds


def test_a_draft_was_never_sent() -> None:
    assert list(message_id(Reading(Message()))) == []


# Identifiers in the manner of somebody else.
SENT = Authentication("192.0.2.1")
GOOGLE = "Message-ID: <CAFx7Qw+o2Qd0bqkz9@mail.gmail.com>\n"
LIST = "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        (GOOGLE, ["header:borrowed-message-id"]),
        ("Message-ID: <AM0PR01MB4711A@AM0PR01MB4711.eurprd01.prod.outlook.com>\n", ["header:borrowed-message-id"]),
        (GOOGLE + "DKIM-Signature: v=1; d=customer.example\n", []),
        (GOOGLE + "List-Id: <l.lists.example>\n", ["header:borrowed-message-id"]),
        (GOOGLE + LIST, ["header:borrowed-message-id"]),
        ("Message-ID: <4711@sender.example>\n", []),
        ("Message-ID: <x@notmail.gmail.com.example>\n", []),
        ("", ["header:no-message-id"]),  # nothing is borrowed where there is none
    ],
)
def test_borrowed_id(fields: str, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter("Hello", fields=fields), authentication=SENT)
    assert find_kinds(message_id, reading) == kinds


def test_a_known_list_may_have_taken_a_signature_away() -> None:
    reading = msgspec.structs.replace(letter("Hello", fields=GOOGLE + LIST), authentication=SENT)
    assert find_kinds(message_id, know_list(reading, SELDOM)) == ["header:borrowed-message-id"]
    assert not list(message_id(know_list(reading)))


def test_without_a_sending_host_nothing_is_claimed() -> None:
    reading = letter("Hello", fields=GOOGLE)
    assert not list(message_id(reading))
    forwarded = Authentication("192.0.2.1", arc=Arc("fail", 1))
    assert not list(message_id(msgspec.structs.replace(reading, authentication=forwarded)))


# Subjects that shout.
@pytest.mark.parametrize(
    ("text", "title", "link", "kinds"),
    [
        ("x", "YOU HAVE BEEN CHOSEN TODAY", "", ["header:shouting-subject"]),
        ("x", "Free!!! Now!!!", "", ["header:shouting-subject"]),
        ("x", "Claim your $1,000,000", "", ["header:money-subject"]),
        ("x", "𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀", "", ["header:styled-subject"]),
        ("x", "Pay\u200bPal no\u200btice", "", ["header:invisible-subject"]),
        ("x", "Minutes of the NATO seminar", "", []),
        ("x", "Great news!", "", []),
        ("x", "RFC 5322", "", []),
        ("x", "Budget 2026", "", []),
        ("x", "Grüße aus Köln", "", []),
    ],
)
def test_loud_subject(text: str, title: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(subject, letter(text, title, link=link), 0.5) == kinds


# Marks behind a row of blanks.
@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("All channels free !!                     18441", ["header:subject-tail"]),
        ("Get what you deserve            11.180", ["header:subject-tail"]),
        ("Hello      x7", ["header:subject-tail"]),
        ("Valor bloqueado por segurancaI9c7b9CPfO", ["header:random-tail"]),
        ("Your CashBack-0Q8a3ZxLUdE", ["header:random-tail"]),
        ("[Spambayes] 2CurSeen", []),
        ("Notes on mc2cMain", []),
        ("Order GT-2026-884713", []),
        ("Ticket ABC-12345678", []),
        ("The new iPhone15Pro", []),
        ("Your code is 0Q8a3ZxLUdE", ["header:random-tail"]),
        ("Your code is 8a3ZxLdE", []),  # a word of its own
        ("Minutes   of 10 November,  version 2", []),
        ("Agenda            tomorrow", []),  # a word is a layout
        ("Invoice 18441", []),
        ("_Your_Reward_Has_Arrived_", ["header:joined-subject"]),
        ("_hurry_up_!_Rewards_have_arrived!_", ["header:joined-subject"]),
        ("minutes_of_the_meeting.docx", []),
        ("_vti_bin", []),
        ("_minutes_ of the meeting", []),
        ("__init__", []),
        ("_", []),
        ("            18441", []),  # nothing before it: the blanks end with the field's name
        ("Hello      ", []),
        ("", []),
    ],
)
def test_subject_tail(title: str, found: list[str]) -> None:
    reading = Reading(read(f"From: a@b.example\nSubject: {title}\n\nHello\n".encode()))
    assert find_kinds(subject, reading) == found


def test_a_folded_subject_is_one_line() -> None:
    reading = Reading(read(b"From: a@b.example\nSubject: Quarterly figures and an outlook,\n\t part 2\n\nHello\n"))
    assert list(subject(reading)) == []


# Traces that no server left, and odd ones that some did.
NEAR = "Received: from mx.a.example (mx.a.example [192.0.2.1]) by mail.house.example; Tue, 10 Nov 2026 09:12:00 +0000\n"


def hop(address: str = "198.51.100.7", number: int = 1, date: str = "Tue, 10 Nov 2026 09:11:00 +0000") -> str:
    return f"Received: from desk (desk [{address}])\n by mx.a.example with ESMTPS id {number}; {date}\n"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (NEAR + hop("302.17.4.9"), "an address that cannot be"),
        (NEAR + hop("10.0.0.256"), "an address that cannot be"),
        (NEAR + hop("1.2.999.4"), "an address that cannot be"),
        (NEAR + hop() + hop(), "the same hop twice"),
        (NEAR + hop(date="Tue, 17 Nov 2026 09:11:00 +0000"), "stamped days after the hop that followed it"),
        (NEAR + hop(date="1 Jan 2031 00:00:00 +0000"), "stamped days after the hop that followed it"),
        (NEAR + hop(), ""),
        (NEAR + hop("255.255.255.255"), ""),
        (NEAR + hop("2001:db8::300"), ""),
        (NEAR + hop(number=1) + hop(number=2), ""),  # two hops on one machine
        (NEAR + hop(date="Wed, 11 Nov 2026 05:11:00 +0900"), ""),  # another time zone, and a clock that is off
        (NEAR.replace("10 Nov", "2 Nov") + hop(date="Sat, 31 Oct 2026 23:59:00 +0000"), ""),
        (NEAR + hop(date="Mon, 2 Nov 2026 09:11:00 +0000"), ""),  # lay in a queue for a week
        (NEAR + hop(date="no date"), ""),
        (hop("302.17.4.9"), ""),  # the only one is that of the border, which sees what it sees
        ("", ""),
    ],
)
def test_forged_trace(fields: str, why: str) -> None:
    assert [finding.facts["why"] for finding in forged_received(letter("Hello", fields=fields))] == [why] * bool(why)


BORDER = "Received: from line.example (line.example [192.0.2.1]) by mx.house.example; Tue, 10 Nov 2026 09:12:00 +0000\n"


@pytest.mark.parametrize(
    ("below", "fields", "found"),
    [
        ("from 192.0.2.9 (HELO mx.other.example) by smtp.shop.example with esmtp", "", 1),
        ("from .org (..icdc.example [.44]) by ..shop.example with ESMTP", "", 1),
        ("from mx.other.example by gate.house.example with ESMTP", "", 1),  # before a stranger had it
        ("from mx.other.example by gate.house.example with ESMTP", "List-Id: <l.lists.example>\n", 1),
        ("from mx.other.example by gate.house.example with ESMTP", "Resent-From: bob@house.example\n", 1),
        ("from mx.other.example by gate.house.example with ESMTP", "ARC-Seal: i=1\nPrecedence: list\n", 1),
        ("from mx.other.example by gate.house.example with ESMTP", LIST, 1),
        ("from unknown (HELO mx.other.example) (192.0.2.9) by smtp.shop.example with SMTP", "", 0),
        ("from mx.other.example (mx.other.example [192.0.2.9]) by line.example with ESMTP", "", 0),
    ],
)
def test_hops_that_no_server_wrote(below: str, fields: str, found: int) -> None:
    hop = f"Received: {below}; Tue, 10 Nov 2026 09:11:00 +0000\n"
    reading = letter("Hello", fields=BORDER + hop + fields)
    assert find_kinds(forged_received, reading) == ["header:forged-received"] * found


def test_a_known_list_took_a_post_from_our_own_server() -> None:
    hop = "Received: from mx.other.example by gate.house.example with ESMTP; Tue, 10 Nov 2026 09:11:00 +0000\n"
    assert not list(forged_received(know_list(letter("Hello", fields=BORDER + hop + LIST))))


def test_a_thousand_hops_are_not_read() -> None:
    reading = letter("Hello", fields="".join(hop(number=number) for number in range(1_000)) + hop("999.1.1.1"))
    assert not list(forged_received(reading))


# Money that a free mailbox reports.
@pytest.mark.parametrize(
    ("title", "sender", "fields", "found"),
    [
        ("Your balance has been replenished +26637$", "x@gmail.com", "", True),
        ("You got +$1,989 today", "x@yahoo.com", "", True),
        ("+29.433 USD waits", "x@outlook.com", "", True),
        ("Your balance has been replenished +26637$", "x@bank.example", "", False),
        ("Re: +26637$", "x@gmail.com", "In-Reply-To: <1@x>\n", True),
        ("Re: +26637$", "x@gmail.com", LIST, True),
        ("Call me at +49 30 123456", "x@gmail.com", "", False),
        ("Rent 650$ received", "x@gmail.com", "", False),
        ("C++ course, 120$", "x@gmail.com", "", False),
    ],
)
def test_credited_sum(title: str, sender: str, fields: str, found: bool) -> None:
    assert (
        find_kinds(credited_sum, letter("text", title, sender=sender, fields=fields)) == ["header:credited-sum"] * found
    )


def test_people_who_are_known_talk_about_money() -> None:
    answer = letter("text", "Re: +26637$", sender="x@gmail.com", fields="In-Reply-To: <1@x>\n")
    assert not list(credited_sum(know_sender(answer)))
    assert list(credited_sum(know_sender(answer, aligned=False)))
    assert list(credited_sum(know_sender(letter("text", "+26637$", sender="x@gmail.com")))), "answers nothing"
    posted = letter("text", "Re: +26637$", sender="x@gmail.com", fields=LIST)
    assert not list(credited_sum(know_member(posted)))
