"""The checks of `headers/bulk_mail`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, link, mail_from
from tests.known_senders import SELDOM, know_list, know_sender

from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.headers.bulk_mail import advertising_label, bulk_mail, bulk_tools, measure_openness
from gatepost.checks.reading import Reading
from gatepost.mail.message import Message


# Mail that went to many.
@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"list-unsubscribe": "<https://shop.example/u>"}, ["bulk:unsubscribe"]),
        ({"list-unsubscribe": "<mailto:u@shop.example>", "list-unsubscribe-post": "x"}, ["bulk:unsubscribe"]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "<mailto:l@l.example>"}, ["bulk:discussion-list"]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "NO"}, ["bulk:unsubscribe"]),  # announcements only
        ({"precedence": "Bulk"}, ["bulk:precedence"]),
        ({"feedback-id": "1:2:3:mailer"}, ["bulk:mailing-service"]),
        ({"precedence": "first-class"}, []),
        ({"list-id": "<l.example>"}, []),
        ({"x-mailer": "Mutt"}, []),
        ({}, []),
    ],
)
def test_newsletter(fields: dict[str, str], kinds: list[str]) -> None:
    assert find_kinds(bulk_mail, mail_from(fields=fields)) == kinds


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        ("Unsubscribe", ["bulk:unsubscribe-link"]),
        ("Hier abmelden", ["bulk:unsubscribe-link"]),
        ("Read more", []),
        ("", []),
    ],
)
def test_a_link_to_unsubscribe(shown: str, kinds: list[str]) -> None:
    assert find_kinds(bulk_mail, mail_from(links=[link("https://shop.example/u", shown)])) == kinds


# Ways of advertising that subscribers accept: those of a sender that the tenant knows.
def advertised(domain: str) -> Reading:
    return mail_from(f"news@{domain}", fields={"list-unsubscribe": f"<https://{domain}/u>", "precedence": "bulk"})


def test_an_offer_to_unsubscribe_or_a_signature_is_no_proof_of_openness() -> None:
    claimed = advertised("shop.example")
    assert measure_openness(claimed) == 1.0
    for result in ("pass", "permerror", "none"):
        signed = Authentication(dkim=(Dkim(result, "shop.example"),))
        assert measure_openness(Reading(claimed.message, authentication=signed)) == 1.0
    assert measure_openness(know_sender(claimed, SELDOM)) == 1.0
    assert measure_openness(know_sender(claimed, aligned=False)) == 1.0
    assert measure_openness(Reading()) == 1.0


def test_a_known_sender_stands_by_its_mail_unless_its_mailbox_is_free() -> None:
    assert measure_openness(know_sender(advertised("shop.example"))) == 0.5
    assert measure_openness(know_sender(advertised("gmail.com"))) == 1.0


# Mail programs that are only claimed.
EXPRESS = {"x-mailer": "Microsoft Outlook Express 6.00.2800.1106"}
OLE = {"x-mimeole": "Produced By Microsoft MimeOLE V6.00"}
BAT = {"x-mailer": "The Bat! (v2.00.9) Personal"}
APPLE = {"x-mailer": "Apple Mail (2.3654.120.0.1.13)"}


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        (EXPRESS, ["header:forged-mailer"]),
        (EXPRESS | OLE | {"message-id": "<45a6b20$e8dea3c9@x>"}, ["header:forged-mailer"]),
        (BAT | {"message-id": "<817.60667578265184@thebat.net>"}, ["header:forged-mailer"]),
        (APPLE | {"message-id": "<12345@evil.test>"}, ["header:forged-mailer"]),
        ({"x-mailer": "6pHng"}, ["header:odd-mailer"]),
        ({"x-mailer": "2"}, ["header:odd-mailer"]),
        ({"x-mailer": "nobGVzTknRlXjDG2G4To7Uoft"}, ["header:odd-mailer"]),
        ({"x-mailer": "30JLOYbkCheIxkdNLLL7", "list-post": "<mailto:l@l.example>"}, ["header:odd-mailer"]),
        ({"x-mailer": "StrongMailEnterprise"}, []),
        ({"x-mailer": "PHPMailerLiteEdition5"}, []),
        (EXPRESS | OLE | {"message-id": "<001a01c1a2b3$c4d5e6f0$0100007f@host>"}, []),
        (EXPRESS | OLE | {"message-id": "<BAY1-DAV123@phx.gbl>"}, []),  # through Hotmail
        (BAT | {"message-id": "<1234567.20030714123456@corp.example>"}, []),
        (APPLE | {"message-id": "<9A2B4C6D-1234-5678-9ABC-DEF012345678@corp.example>"}, []),
        (EXPRESS | {"list-post": "<mailto:l@l.example>"}, ["header:forged-mailer"]),
        ({"x-mailer": "Microsoft Office Outlook 11", "thread-index": "AcY"}, []),
        ({"x-mailer": "MailUp"}, []),
        ({"x-mailer": "Mutt/1.5"}, []),
        ({"x-mailer": "exmh"}, []),
        ({"user-agent": "VM"}, []),
        ({}, []),
    ],
)
def test_forged_mailer(fields: dict[str, str], kinds: list[str]) -> None:
    assert find_kinds(bulk_tools, mail_from(fields=fields)) == kinds


def test_a_known_list_takes_fields_away() -> None:
    reading = mail_from(fields=EXPRESS | {"list-post": "<mailto:l@l.example>"})
    assert find_kinds(bulk_tools, know_list(reading, SELDOM)) == ["header:forged-mailer"]
    assert not list(bulk_tools(know_list(reading)))


# Templates that show through.
@pytest.mark.parametrize(
    ("name", "value", "kinds"),
    [
        ("x-mailer", "%XMAILER", ["header:unfilled-template"]),
        ("message-id", "<%MSGIDNemo@camf.example>", ["header:unfilled-template"]),
        ("reply-to", "reply-[nu_24]@shop.example", ["header:unfilled-template"]),
        ("from", "{{sender.name}} <x@shop.example>", ["header:unfilled-template"]),
        ("to", "##email##", ["header:unfilled-template"]),
        ("from", "Ann <ann%corp@relay.example>", []),  # percent routing of old
        ("to", "[dev] list <dev@lists.example>", []),
        ("from", "[name] changed <x@shop.example>", ["header:unfilled-template"]),
        ("message-id", "<a{b}c$d@corp.example>", []),
        ("message-id", "<000a$b1c2$d3@corp.example>", []),
        ("message-id", "<{4F2A-99}@corp.example>", []),
        ("subject", "Dear {First Name}", []),
        ("from", "Ann 100% <ann@corp.example>", []),
        ("x-mailer", "Foo [version 1.73]", []),
        ("to", "#general <general@corp.example>", []),
    ],
)
def test_template(name: str, value: str, kinds: list[str]) -> None:
    assert find_kinds(bulk_tools, mail_from(fields={name: value})) == kinds


# Subjects that are labelled, and those that only begin so.
@pytest.mark.parametrize(
    ("subject", "strengths"),
    [
        ("ADV: Grow your own", [1.0]),
        ("[ILUG] ADV: Grow your own", [1.0]),
        ("Advertisement: plants", [1.0]),
        ("未承諾広告※ お知らせ", [1.0]),
        ("(광고) 봄 세일", [0.4]),
        ("Advanced course", []),
        ("Adventure: a film", []),
        ("Re: the advertisement in the paper", []),
        ("광고주 여러분께", []),
        ("", []),
    ],
)
def test_advertising_label(subject: str, strengths: list[float]) -> None:
    found = list(advertising_label(Reading(Message(subject=subject))))
    assert [finding.kind for finding in found] == ["header:advertising-label"] * len(strengths)
    assert [finding.strength for finding in found] == strengths
