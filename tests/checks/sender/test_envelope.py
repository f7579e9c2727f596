"""The checks of `sender/envelope`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, mail_from
from tests.known_senders import SELDOM, know_list, know_sender

from gatepost.checks.headers.fields import message_id
from gatepost.checks.reading import Reading
from gatepost.checks.sender.envelope import envelope, malformed_envelope, measure_care
from gatepost.checks.sender.sending_host import host_names
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Envelope, Message
from gatepost.mail.reader import read

# Letters that pose as reports.
LETTER = "From: Shop <x@shop.com>\nSubject: Win\n\nhttps://evil.com/\n"


@pytest.mark.parametrize(
    ("text", "sender", "kinds"),
    [
        (LETTER, "", ["sender:null-sender"]),
        (LETTER, "<>", ["sender:null-sender"]),
        (LETTER, "x@shop.com", []),
        (LETTER.replace("https://evil.com/", "plain"), "", []),
        (LETTER.replace("Win", "Undeliverable: Win"), "", []),
        (LETTER.replace("Shop <x@shop.com>", "MAILER-DAEMON@shop.com"), "", []),
        (f"Auto-Submitted: auto-replied\n{LETTER}", "", ["sender:null-sender"]),
        (f"X-Failed-Recipients: ann@house.example\n{LETTER}", "", ["sender:null-sender"]),
        (f"List-Id: <l.lists.example>\n{LETTER}", "", ["sender:null-sender"]),
        (f"List-Post: <mailto:l@lists.example>\n{LETTER}", "", ["sender:null-sender"]),
        (f"Content-Type: message/rfc822\n{LETTER}", "", []),
    ],
)
def test_null_sender(text: str, sender: str, kinds: list[str]) -> None:
    reading = Reading(read(text.encode()), Envelope(sender, remote_address="192.0.2.1"))
    assert find_kinds(envelope, reading) == kinds


def test_a_known_list_may_leave_the_envelope_empty() -> None:
    posted = read(f"List-Post: <mailto:l@lists.example>\n{LETTER}".encode())
    reading = Reading(posted, Envelope("", remote_address="192.0.2.1"))
    assert find_kinds(envelope, know_list(reading, SELDOM)) == ["sender:null-sender"]
    assert not list(envelope(know_list(reading)))


def test_an_unknown_envelope_is_no_null_sender() -> None:
    assert list(envelope(Reading(read(LETTER.encode()), Envelope("")))) == []


# Envelope senders and From.
@pytest.mark.parametrize(
    ("sender", "domain", "fields", "kinds"),
    [
        ("someone@hotmail.com", "bank.example", {}, ["sender:envelope-freemail"]),
        ("nobody@server.example", "bank.example", {}, ["sender:envelope-script"]),
        ("www-data@server.example", "bank.example", {}, ["sender:envelope-script"]),
        ("x@other.example", "bank.example", {}, ["sender:return-path-mismatch"]),
        ("x@bank.example", "bank.example", {}, []),
        ("x@mail.bank.example", "bank.example", {}, []),
        ("root@bank.example", "bank.example", {}, []),
        ("bounce-123@other.example", "shop.example", {}, []),
        ("b+ann=corp.example@other.example", "shop.example", {}, []),  # VERP
        ("x@u1.sendgrid.net", "shop.example", {}, []),
        ("l@lists.example", "corp.example", {"list-id": "<l.lists.example>"}, ["sender:return-path-mismatch"]),
        ("l@lists.example", "corp.example", {"list-post": "<mailto:l@l.example>"}, ["sender:return-path-mismatch"]),
        ("x@other.example", "corp.example", {"precedence": "bulk"}, ["sender:return-path-mismatch"]),
        ("x@other.example", "corp.example", {"resent-from": "x@other.example"}, ["sender:return-path-mismatch"]),
        ("x@other.example", "corp.example", {"sender": "x@other.example"}, ["sender:return-path-mismatch"]),
        ("", "corp.example", {}, []),
        ("x@other.example", "", {}, []),
    ],
)
def test_return_path(sender: str, domain: str, fields: dict[str, str], kinds: list[str]) -> None:
    assert find_kinds(envelope, mail_from(f"x@{domain}", fields=fields, envelope=Envelope(sender))) == kinds


def test_known_senders_and_lists_have_envelopes_of_their_own() -> None:
    fields = {"list-post": "<mailto:l@lists.example>"}
    for sender in ("x@other.example", "x@gmail.com", "nobody@other.example"):
        reading = mail_from("x@corp.example", fields=fields, envelope=Envelope(sender))
        assert not list(envelope(know_sender(reading)))
        assert not list(envelope(know_list(reading)))
        for stranger in (know_sender(reading, SELDOM), know_sender(reading, aligned=False), know_list(reading, SELDOM)):
            assert len(list(envelope(stranger))) == 1


# Addresses of the envelope that are none.
@pytest.mark.parametrize(
    ("sender", "recipient", "kinds"),
    [
        ("plain", "bob@example.com", ["envelope:malformed-sender"]),
        ("a b@example.org", "bob@example.com", ["envelope:malformed-sender"]),
        (f"{'a' * 300}@example.org", "bob@example.com", ["envelope:malformed-sender"]),
        ("@example.org", "bob@example.com", ["envelope:malformed-sender"]),
        ("a@b@example.org", "bob@example.com", ["envelope:malformed-sender"]),
        ("ann@", "bob@example.com", ["envelope:malformed-sender"]),
        ("ann@exa mple.org", "bob@example.com", ["envelope:malformed-sender"]),
        ("ann@example.org", "", ["envelope:malformed-recipient"]),
        ("ann@example.org", "not an address", ["envelope:malformed-recipient"]),
        ("plain", "none", ["envelope:malformed-sender", "envelope:malformed-recipient"]),
        ("", "bob@example.com", []),
        ("<>", "bob@example.com", []),
        ("<ann@example.org>", "<bob@example.com>", []),
        ("ann@example.org", "Postmaster", []),
        ("b+bob=example.com@bounces.example.org", "bob@example.com", []),
        (f"bounce-{'0123456789' * 9}@bounces.example.org", "bob@example.com", []),
        ("ann..ann.@docomo.example", "bob@example.com", []),
        ('"ann example"@example.org', "bob@example.com", []),
        ("ann@[192.0.2.1]", "bob@[IPv6:2001:db8::1]", []),
        ("pelé@exämple.example", "bob@a_b.example", []),
        ("srs0=ab=cd=example.org=ann@forward.example", "bob@localhost", []),
        ("MAILER-DAEMON", "bob@localhost", []),  # the empty sender, as sendmail files it
    ],
)
def test_malformed_envelope(sender: str, recipient: str, kinds: list[str]) -> None:
    reading = Reading(Message(), Envelope(sender, (recipient,)))
    assert find_kinds(malformed_envelope, reading) == kinds


def test_many_malformed_recipients_are_one_finding() -> None:
    reading = Reading(Message(), Envelope("ann@example.org", ("x",) * 1_000))
    assert len(list(malformed_envelope(reading))) == 1


# Reports on delivery that bring nothing, and letters that only look like one or bring something.
RETURNED = "From: MAILER-DAEMON@mx.example\nSubject: Returned\n"
REPORT = f"{RETURNED}Content-Type: multipart/report; boundary=b\n"
REFUSED = "<ann@example.org>: host mx.example.org said: 550 5.1.1 User unknown"


@pytest.mark.parametrize(
    ("head", "text", "sender", "expected"),
    [
        (REPORT, "text", "", 0.5),
        (REPORT, "text", "MAILER-DAEMON", 0.5),
        (REPORT, "text", "ann@example.org", 1.0),
        (RETURNED, "text", "mailer-daemon", 1.0),
        (RETURNED, REFUSED, "mailer-daemon", 0.5),
        ("From: Ann <ann@example.org>\nSubject: Returned\n", REFUSED, "", 1.0),
        # What its reader could be caught by.
        (f"{REPORT}Reply-To: eve@evil.example\n", "text", "", 1.0),
        (RETURNED, f"{REFUSED} https://evil.com/", "", 1.0),
        (RETURNED, f"{REFUSED} www.evil.com/login", "", 1.0),
        (f"{RETURNED}Content-Type: text/html\n", f'{REFUSED} <a href="http://evil.com/">more</a>', "", 1.0),
        (RETURNED, f"{REFUSED}. Our bank details have changed", "", 1.0),
        (f"{RETURNED}Content-Type: text/plain; name=a.pdf\n", REFUSED, "", 1.0),
    ],
)
def test_reports_that_bring_nothing(head: str, text: str, sender: str, expected: float) -> None:
    message = read(f"{head}\n{text}\n".encode())
    files = find_files(message, UnpackBudget())
    reading = Reading(message, Envelope(sender, ("ann@house.example",), "192.0.2.1", "192.0.2.1"), files=files)
    assert measure_care(reading) == expected
    assert {finding.strength for finding in (*host_names(reading), *message_id(reading))} == {expected}
