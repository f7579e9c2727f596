"""The checks of `sender/display_names`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, links_to, mail_from
from tests.known_senders import NEVER, know_list, know_sender

from gatepost.analysis.verdict import judge
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.mailboxes import (
    brand_name,
    decorated_name,
    display_name,
    protected_person,
    shown_domain,
)
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address
from gatepost.policy.rules import shipped_policy

LIST = {"list-post": "<mailto:l@lists.test>"}


# Names that show another address.
@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("billing@bank.example", "evil.test", ["sender:display-name-spoof"]),
        ("Billing <billing@bank.example>", "evil.test", ["sender:display-name-spoof"]),
        ("billing@bank.example", "bank.example", []),
        ("billing@bank.example", "mail.bank.example", []),  # same owner
        ("ann@bank.example via list", "lists.test", ["sender:display-name-spoof"]),  # whoever says so
        ("Ann Example", "evil.test", []),
        ("Ann @ Example", "evil.test", []),
        ("", "evil.test", []),
        ("ann@bank.example", "", []),
    ],
)
def test_display_name(name: str, domain: str, kinds: list[str]) -> None:
    assert find_kinds(display_name, mail_from(f"x@{domain}", name)) == kinds


def test_a_service_or_list_that_shows_addresses_has_to_be_proven() -> None:
    """Anybody can write the domain of a service into From, or the name of a list into the header."""
    service = mail_from("x@shop.zendesk.com", "billing@bank.example")
    assert find_strengths(display_name, service) == [1.0]
    assert find_strengths(display_name, know_sender(service, NEVER)) == [0.4]
    post = mail_from("l@lists.test", "ann@bank.example", fields=LIST)
    assert find_strengths(display_name, post) == [1.0]
    assert find_strengths(display_name, know_list(post)) == [0.4]


def test_who_writes_for_others_has_to_be_known() -> None:
    reading = mail_from("talk@lists.test", "PayPal ann@paypal.com via Talk", fields=LIST)
    for check in (display_name, brand_name):
        assert list(check(reading))
        assert list(check(know_sender(reading, NEVER))), "proven, and never seen before"
        assert not list(check(know_list(reading)))
        assert not list(check(know_sender(reading)))
    own = Protected(own_domains=frozenset({"lists.test"}))
    assert not list(brand_name(msgspec.structs.replace(know_sender(reading, NEVER), protected=own))), "an own group"
    assert list(brand_name(msgspec.structs.replace(reading, protected=own))), "anybody can write an own domain"


# The alias of a service for throw-away addresses leads to the sender that it names; a forger leads elsewhere.
@pytest.mark.parametrize(
    ("hosts", "strength"),
    [
        (["www.bank.example", "news.bank.example"], 0.5),
        (["www.bank.example", "pictures.example"], 0.5),
        (["www.bank.example", "evil.test", "other.test"], 1.0),
        (["evil.test"], 1.0),
        ([], 1.0),
    ],
)
def test_shown_address_that_is_linked_to(hosts: list[str], strength: float) -> None:
    reading = mail_from("x@alias.test", "billing@bank.example", links=links_to(*hosts))
    assert find_strengths(display_name, reading) == [1.0], "a forger can lead there as well"
    assert find_strengths(display_name, know_sender(reading, NEVER)) == [strength]


# Names that show a site, and those that are named after theirs.
@pytest.mark.parametrize(
    ("name", "address", "hosts", "strength"),
    [
        ("Crypto.com", "support@surveys.test", ["evil.test"], 1.0),
        ("IRS.gov Refunds", "x@evil.test", [], 1.0),
        ("Crypto.com", "crypto.desk@surveys.test", [], 0.4),
        ("Crypto.com", "support@surveys.test", ["www.crypto.com"], 1.0),
        ("Crypto.com", "support@shop.zendesk.com", [], 1.0),
        ("Crypto.com", "support@mail.crypto.com", [], None),
        ("Crypto.com", "support@crypto-mailing.test", [], None),
        ("CNNMoney.com", "alerts@mail.cnn.com", [], None),
        ("Garden-Tools.com", "news@gardentools.test", [], None),
        ("Ann at Gmail.com", "ann@a.test", [], None),
        ("ASP.NET News", "news@a.test", [], None),
        ("Ann via Crypto.com", "ann@a.test", [], 1.0),
        ("J.Smith", "j@a.test", [], None),
        ("Dr. No", "no@a.test", [], None),
        ("Ann", "ann@a.test", [], None),
    ],
)
def test_shown_domain(name: str, address: str, hosts: list[str], strength: float | None) -> None:
    assert find_strengths(shown_domain, mail_from(address, name, links=links_to(*hosts))) == (
        [] if strength is None else [strength]
    )


@pytest.mark.parametrize(
    ("address", "hosts", "field", "claimed", "authenticated", "known"),
    [
        ("support@surveys.test", ["www.crypto.com"], "", 1.0, 0.2, 0.2),
        ("support@surveys.test", ["www.crypto.com", "evil.test", "other.test"], "", 1.0, 1.0, 1.0),
        ("support@shop.zendesk.com", [], "", 1.0, 0.3, 0.3),
        ("support@surveys.test", [], "list-unsubscribe", 1.0, 1.0, 0.5),
        ("support@surveys.test", [], "", 1.0, 1.0, 1.0),
    ],
)
def test_who_may_show_a_site(
    address: str, hosts: list[str], field: str, claimed: float, authenticated: float, known: float
) -> None:
    fields = {field: "<mailto:u@surveys.test>"} if field else {}
    reading = mail_from(address, "Crypto.com", links=links_to(*hosts), fields=fields)
    assert find_strengths(shown_domain, reading) == [claimed]
    assert find_strengths(shown_domain, know_sender(reading, NEVER)) == [authenticated]
    assert find_strengths(shown_domain, know_sender(reading)) == [known]


def test_members_of_a_known_list_may_show_a_site() -> None:
    post = mail_from("l@lists.test", "Crypto.com", fields=LIST)
    assert find_strengths(shown_domain, post) == [1.0]
    assert not list(shown_domain(know_list(post)))


# Names dressed up.
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("V\u200be\u200bh\u200bicle", ["sender:invisible-characters"]),
        ("\U0001d5db\U0001d5fc\U0001d5fa\U0001d5f2", ["sender:invisible-characters"]),
        ("✅ BONUS", ["sender:decorated-name"]),
        ("➥➥ Vehicle", ["sender:decorated-name"]),
        ("*Thank_You#", ["sender:decorated-name"]),
        ("Ταμείο Κύματα+", []),
        ("#Consumer_Rewards#", ["sender:decorated-name"]),
        ("#ANN EXAMPLE#", []),  # as some universities write names
        ("ann_example", []),
        ("Ann *Annie* Example", []),
        ("~Ann~", []),
        ("*", []),
        ("Ϲоіnbаѕе", ["sender:mixed-script-name"]),
        ("Support aᥴcount team", ["sender:mixed-script-name"]),
        ("THΑLES Grοup", ["sender:mixed-script-name"]),
        ("Cергей Иванов", []),  # the first letter is of the other keyboard
        ("Сергей Petrov", []),
        ("µTorrent", []),
        ("東京Tower", []),
        ("Ann Example", []),
        ("Jörg Müller", []),
        ("Иван Иванов", []),
        ("日本郵便", []),
        ("می\u200cخواهم", []),  # Persian needs its joiner
        ("Shop™ – Café", []),
        ("", []),
    ],
)
def test_name_dress(name: str, kinds: list[str]) -> None:
    assert find_kinds(decorated_name, mail_from("x@a.example", name)) == kinds


# Company names on foreign senders.
def brand_kinds(name: str, address: str, *hosts: str, authenticated: bool = False) -> dict[str, float]:
    reading = know_sender(mail_from(address, name, links=links_to(*hosts)), NEVER, aligned=authenticated)
    return {finding.kind: finding.strength for finding in brand_name(reading)}


@pytest.mark.parametrize(
    ("name", "address", "strength"),
    [
        ("PayPal", "x@evil.test", 1.0),
        ("PayPal Service", "x@evil.test", 1.0),
        ("Microsoft account team", "x@evil.test", 1.0),
        ("Mcafee™", "x@evil.test", 1.0),
        ("Chase", "x@evil.test", 1.0),
        ("Ann from Ledger", "x@evil.test", 0.7),
        ("LEDGER LIVE", "x@evil.test", 1.0),
        ("Microsoft Drive", "x@evil.test", 1.0),
        ("IRS.GOVERNMENT", "x@evil.test", 1.0),
        ("Ledger Books Quarterly", "x@evil.test", 0.0),
        ("PayPal Team", "paypal.team@gmail.com", 1.0),
        ("Gmail Support", "gmail.support@gmail.com", 1.0),  # the brand's own free mail service is anybody's
        ("", "paypal@evil.test", 0.5),
        ("PayPal Invoices Fan Club Newsletter", "x@evil.test", 0.3),
        ("PayPal", "x@mail.paypal.com", 0.0),
        ("PayPal", "x@paypal.co.uk", 0.0),
        ("Amazon.co.jp", "x@amazon.co.jp", 0.0),
        ("Apple Card Support", "no_reply@post.applecard.apple", 0.0),
        ("Chase Jones", "chase@evil.test", 0.0),  # a person
        ("Apple Tree Nursery", "x@nursery.test", 0.0),
        ("Visa for Travellers", "x@travel.test", 0.0),
        ("Ann via DocuSign", "x@evil.test", 0.5),
        ("Ann Example", "ann@evil.test", 0.0),
        ("", "ann@evil.test", 0.0),
    ],
)
def test_brand_name(name: str, address: str, strength: float) -> None:
    assert brand_kinds(name, address).get("sender:brand-impersonation", 0.0) == pytest.approx(strength)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("PayPaI", True),
        ("РауРаl", True),
        ("P\u200bay\u200bPal", True),
        ("\U0001d5db\U0001d5fc\U0001d5fa\U0001d5f2 \U0001d5d7\U0001d5f2\U0001d5fd\U0001d5fc\U0001d601", True),
        ("PayPal", False),
        ("PAYPAL", False),
        ("Crédit Agricole", False),
        ("Credit Agricole", False),
        ("Пейпал", False),
    ],
)
def test_disguise(name: str, found: bool) -> None:
    assert ("sender:disguised-name" in brand_kinds(name, "x@evil.test")) == found


@pytest.mark.parametrize(
    ("hosts", "strength"),
    [
        (["www.paypal.com"], 0.3),
        (["evil.test"], 1.0),
        (["www.paypal.com", "help.paypal.com", "paypal.co.uk", "evil.test"], 1.0),  # beside another
    ],
)
def test_an_agency_that_leads_to_the_company_alone_says_less(hosts: list[str], strength: float) -> None:
    found = brand_kinds("PayPal", "x@agency.test", *hosts)
    assert found["sender:brand-impersonation"] == pytest.approx(strength)


@pytest.mark.parametrize(("authenticated", "strength"), [(False, 1.0), (True, 0.4)])
def test_a_mailing_service_says_less_where_it_is_authenticated(authenticated: bool, strength: float) -> None:
    found = brand_kinds("PayPal", "x@u1.ct.sendgrid.net", "evil.test", authenticated=authenticated)
    assert found["sender:brand-impersonation"] == pytest.approx(strength)


def test_a_comma_without_quotes_is_one_sender() -> None:
    senders = (Address("PayPal", "", ""), Address("Inc", "service", "paypal.com"))
    assert list(brand_name(Reading(Message(senders=senders)))) == []


# Outsiders with the names of people who are protected.
PROTECTED = Protected(own_domains=frozenset({"corp.example"}), people=(Address("Ann Director", "ann", "corp.example"),))


@pytest.mark.parametrize(
    ("name", "address", "kinds"),
    [
        ("Ann Director", "ann.director@gmail.com", ["sender:protected-person"]),
        ("Director, Ann", "x@evil.test", ["sender:protected-person"]),
        ("ANN  DIRECTOR", "x@evil.test", ["sender:protected-person"]),
        ("Аnn Dirеctor", "x@evil.test", ["sender:protected-person"]),  # Cyrillic letters
        ("Ann Director", "ann@corp.example", []),
        ("Ann Director", "Ann@Corp.Example", []),
        ("Ann Director", "ann.director@mail.corp.example", []),  # a namesake inside
        ("Ann Director-Smith", "x@evil.test", []),
        ("Ann", "x@evil.test", []),
        ("Bob Example", "x@evil.test", []),
        ("", "x@evil.test", []),
    ],
)
def test_protected_person(name: str, address: str, kinds: list[str]) -> None:
    assert find_kinds(protected_person, mail_from(address, name, protected=PROTECTED)) == kinds


def test_nobody_is_protected_by_default() -> None:
    assert list(protected_person(mail_from("x@evil.test", "Ann Director"))) == []


def test_the_readers_own_address_is_a_small_sign() -> None:
    """Scanners and calendars show it, lures as well; the envelope says whose address it is, not To."""
    sender = Address("ann@house.example", "notify", "service.test")
    message = Message(senders=(sender,), recipients=(Address("", "ann", "house.example"),))
    (elsewhere,) = display_name(Reading(message, Envelope("", ("carl@house.example",))))
    assert elsewhere.strength == 1.0
    (own,) = display_name(Reading(message, Envelope("", ("carl@house.example", "<Ann@House.Example>"))))
    assert own.strength == 0.25
    verdict = judge([own], [], shipped_policy())
    assert (verdict.verdict, verdict.score) == ("clean", 65)


def test_forwarders_that_are_proven_show_for_whom_they_write() -> None:
    reading = mail_from("x7@mozmail.com", "news@shop.test [via Relay]")
    (proven,) = find_strengths(display_name, know_sender(reading, NEVER))
    assert find_strengths(display_name, reading) == [1.0]
    assert proven < 1.0
