"""The checks of `sender/addresses`: the tricks, and what looks like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checks.readings import find_kinds, links_to, mail_from
from tests.known_senders import know_member

from gatepost.checks.reading import Reading
from gatepost.checks.sender.mailboxes import freemail_pose, from_field, measure_randomness, random_name, reply_to
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.mail.reader import read
from gatepost.names import Address


# Answers that go elsewhere.
def address(text: str) -> Address:
    local, _, domain = text.partition("@")
    return Address("", local, domain)


@pytest.mark.parametrize(
    ("sender", "reply", "kinds"),
    [
        ("ceo@corp.example", "ceo.private.office@gmail.com", ["sender:reply-to-freemail"]),
        ("info@corp.example", "someone@yahoo.com", ["sender:reply-to-freemail"]),
        ("ann@gmail.com", "bob@outlook.com", ["sender:reply-to-freemail"]),
        ("info@shop.example", "help@other.example", ["sender:reply-to-mismatch"]),
        ("info@shop.example", "help@shop.example", []),
        ("info@mail.shop.example", "help@shop.example", []),
        ("info@shop.example", "bounce@relay.example", []),  # the envelope's organisation
        ("info@shop.example", "me@recipient.example", []),  # back to the recipient's own
        ("ann.example@corp.example", "annexample@gmail.com", []),  # the same person
        ("info@shop.example", "info@shop.example", []),
        ("info@shop.example", "nowhere", []),
    ],
)
def test_reply_to(sender: str, reply: str, kinds: list[str]) -> None:
    message = Message(
        senders=(address(sender),), reply_to=(address(reply),), recipients=(address("x@recipient.example"),)
    )
    reading = Reading(message, Envelope("b@relay.example"))
    assert find_kinds(reply_to, reading) == kinds


@pytest.mark.parametrize(
    ("reply", "strength"),
    [
        ("ann@fdrdgqkyw.tewusi.makeup", 1.0),
        ("ann@tewusi.makeup", 0.6),
        ("ann@fdrdgqkyw.tewusi.shop", 0.74),
        ("ann@tewusi.shop", None),
        ("ann@fdrdgqkyw.tewusi.example", None),  # a ticket system
        ("ann@school.example", None),
        ("ann@gmail.com", None),
        ("ann@mail.shop.example", None),
    ],
)
def test_answers_to_a_throwaway_domain(reply: str, strength: float | None) -> None:
    message = Message(senders=(address("share@shop.example"),), reply_to=(address(reply),))
    found = [each.strength for each in reply_to(Reading(message)) if each.kind == "sender:throwaway-reply-to"]
    assert found == ([] if strength is None else [strength])


def test_a_known_list_may_set_it() -> None:
    headers = Headers((Field("list-post", "<mailto:l@lists.example>", b""),))
    message = Message(headers=headers, senders=(address("ann@corp.example"),), reply_to=(address("bob@gmail.com"),))
    assert find_kinds(reply_to, Reading(message)) == ["sender:reply-to-freemail"]
    assert list(reply_to(know_member(Reading(message)))) == []


@pytest.mark.parametrize(
    ("name", "reply", "kinds"),
    [
        ("Ann Example via dev", Address("Bob Other", "b1", "gmail.com"), ["sender:reply-to-freemail"]),
        ("Ann Example via dev", Address("Ann Example", "a1", "corp.example"), ["sender:reply-to-mismatch"]),
        ("Ann Example", Address("Ann Example", "a1", "gmail.com"), ["sender:reply-to-freemail"]),
        (" via dev", Address("", "", "gmail.com"), ["sender:reply-to-freemail"]),
    ],
)
def test_a_list_that_writes_for_somebody_else(name: str, reply: Address, kinds: list[str]) -> None:
    message = Message(senders=(Address(name, "dev", "lists.example"),), reply_to=(reply,))
    assert find_kinds(reply_to, Reading(message)) == kinds


# Offices at free mailboxes.
@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("Federal Bank Head Office", "gmail.com", ["sender:freemail-pose"]),
        ("FBI", "outlook.com", ["sender:freemail-pose"]),
        ("Payment Department", "yahoo.com", ["sender:freemail-pose"]),
        ("Account Support", "mail.ru", ["sender:freemail-pose"]),
        ("Federal Bank Head Office", "bank.example", []),
        ("Ann Court Example", "corp.example", []),
        ("Ann Example", "gmail.com", []),
        ("Ann Service", "gmail.com", []),  # one such word may be a name
        ("Flower Shop Studio", "gmail.com", []),
        ("", "gmail.com", []),
    ],
)
def test_freemail_pose(name: str, domain: str, kinds: list[str]) -> None:
    assert find_kinds(freemail_pose, mail_from(f"x@{domain}", name)) == kinds


# Names that a machine made up.
@pytest.mark.parametrize(
    ("label", "made_up"),
    [
        ("bqtirvjmdsvqgksnuycjuw", True),
        ("62nwxj8mam1", True),
        ("dhvow214r6dr", True),
        ("aLaZFLJt", True),
        ("rsrpcdskjp", True),
        ("cbsnews", False),
        ("freshrpms", False),
        ("sbcglobal", False),
        ("northstream", False),
        ("schmidtchen", False),
        ("angstschweiss", False),
        ("lightsout2024", False),
        ("FOXSportsFLASH", False),
        ("JohnMcGregorSmith", False),
        ("4chan", False),
        ("", False),
    ],
)
def test_randomness(label: str, made_up: bool) -> None:
    assert (measure_randomness(label) > 0) == made_up


@given(st.text(max_size=300))
def test_randomness_is_a_share(label: str) -> None:
    assert 0.0 <= measure_randomness(label) <= 1.0


@pytest.mark.parametrize(
    ("sender", "host", "kinds"),
    [
        ("info@bqtirvjmdsvqg.com", "corp.com", ["sender:random-domain"]),
        ("dhvow214r6dr@corp.com", "corp.com", ["sender:random-mailbox"]),
        ("info@corp.com", "www.bqtirvjmdsvqg.com", ["url:random-host"]),
        ("info@corp.com", "a2g2xrfuyfg45sslfsa3xsss.corp.com", ["url:random-host"]),
        ("info@corp.com", "www.corp.com", []),
        ("ticket-dhvow214r6dr@corp.com", "corp.com", []),  # a ticket
        ("info+dhvow214r6dr@corp.com", "corp.com", []),
        ("info@corp.com", "d15k2d11r6t6rl.cloudfront.net", []),  # a service's customers are named by it
        ("info@corp.com", "u26476144.ct.sendgrid.net", []),
    ],
)
def test_random_name(sender: str, host: str, kinds: list[str]) -> None:
    assert find_kinds(random_name, mail_from(sender, links=links_to(host))) == kinds


# From fields that name nobody, or several.
@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ("Microsoft account team", ["sender:invalid-from"]),
        ("Correios <x@correios>", ["sender:invalid-from"]),
        ("Temu <x@temu,com>", ["sender:invalid-from"]),
        ("x <x@bank.nosuchending>", ["sender:invalid-from"]),
        ("Kundenservice, <x@shop.com>", ["sender:invalid-from"]),
        ("a@one.com, b@two.com", ["sender:several-from"]),
        ("", ["sender:missing-from"]),
        ("Ann <ann@corp.com>", []),
        ("ann@corp.co.za", []),  # names are given out two levels deep there
        ("ann@mail.corp.com, bob@corp.com", []),
        ("root@server.local", []),
        ("root", []),
        ("Mail Delivery System <MAILER-DAEMON@mailhub0>", []),
        ("MAILER-DAEMON", []),
        ("Ann <ann@xn--bcher-kva.com>", []),
    ],
)
def test_from_field(field: str, kinds: list[str]) -> None:
    message = read(f"From: {field}\nTo: b@corp.com\nSubject: x\n\ntext\n".encode())
    assert find_kinds(from_field, Reading(message, Envelope("x@corp.com"))) == kinds


def test_a_forgotten_quote_says_less() -> None:
    message = read(b"From: Doe, Ann <ann@corp.com>\n\ntext\n")
    assert [(finding.kind, finding.strength) for finding in from_field(Reading(message))] == [
        ("sender:invalid-from", 0.3)
    ]


def test_a_report_may_have_no_sender() -> None:
    assert list(from_field(Reading(read(b"Subject: Undelivered\n\ntext\n")))) == []
