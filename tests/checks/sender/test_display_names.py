"""The checks of `sender/display_names`: the tricks, and what looks like them."""

import msgspec
import pytest
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
from gatepost.findings.kinds import (
    SENDER_BRAND_IMPERSONATION,
    SENDER_DECORATED_NAME,
    SENDER_DISGUISED_NAME,
    SENDER_DISPLAY_NAME_SPOOF,
    SENDER_INVISIBLE_CHARACTERS,
    SENDER_MIXED_SCRIPT_NAME,
    SENDER_PROTECTED_PERSON,
)
from gatepost.mail.message import Envelope, Field, Headers, Link, Message
from gatepost.names import Address
from gatepost.policy.rules import shipped_policy


# Names that show another address.
@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("billing@bank.example", "evil.test", [SENDER_DISPLAY_NAME_SPOOF.id]),
        ("Billing <billing@bank.example>", "evil.test", [SENDER_DISPLAY_NAME_SPOOF.id]),
        ("billing@bank.example", "bank.example", []),
        ("billing@bank.example", "mail.bank.example", []),  # same owner
        ("ann@bank.example via list", "lists.test", [SENDER_DISPLAY_NAME_SPOOF.id]),  # whoever says so
        ("Ann Example", "evil.test", []),
        ("Ann @ Example", "evil.test", []),
        ("", "evil.test", []),
        ("ann@bank.example", "", []),
    ],
)
def test_display_name(name: str, domain: str, kinds: list[str]) -> None:
    reading = Reading(Message(senders=(Address(name, "x", domain),)))
    assert [finding.kind for finding in display_name(reading)] == kinds


def test_a_service_or_list_that_shows_addresses_has_to_be_proven() -> None:
    """Anybody can write the domain of a service into From, or the name of a list into the header."""
    service = Reading(Message(senders=(Address("billing@bank.example", "x", "shop.zendesk.com"),)))
    assert [finding.strength for finding in display_name(service)] == [1.0]
    assert [finding.strength for finding in display_name(know_sender(service, NEVER))] == [0.4]
    fields = (Field("list-post", "<mailto:l@lists.test>", b""),)
    post = Reading(Message(headers=Headers(fields), senders=(Address("ann@bank.example", "l", "lists.test"),)))
    assert [finding.strength for finding in display_name(post)] == [1.0]
    assert [finding.strength for finding in display_name(know_list(post))] == [0.4]


def test_who_writes_for_others_has_to_be_known() -> None:
    sender = Address("PayPal ann@paypal.com via Talk", "talk", "lists.test")
    fields = (Field("list-post", "<mailto:talk@lists.test>", b""),)
    reading = Reading(Message(headers=Headers(fields), senders=(sender,)))
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
    links = tuple(Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html") for host in hosts)
    reading = Reading(Message(senders=(Address("billing@bank.example", "x", "alias.test"),), links=links))
    assert [finding.strength for finding in display_name(reading)] == [1.0], "a forger can lead there as well"
    assert [finding.strength for finding in display_name(know_sender(reading, NEVER))] == [strength]


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
    local, _, domain = address.partition("@")
    links = tuple(Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html") for host in hosts)
    reading = Reading(Message(senders=(Address(name, local, domain),), links=links))
    assert [finding.strength for finding in shown_domain(reading)] == ([] if strength is None else [strength])


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
    local, _, domain = address.partition("@")
    links = tuple(Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html") for host in hosts)
    headers = Headers((Field(field, "<mailto:u@surveys.test>", b""),) if field else ())
    reading = Reading(Message(headers=headers, senders=(Address("Crypto.com", local, domain),), links=links))
    found = [
        [finding.strength for finding in shown_domain(each)]
        for each in (reading, know_sender(reading, NEVER), know_sender(reading))
    ]
    assert found == [[claimed], [authenticated], [known]]


def test_members_of_a_known_list_may_show_a_site() -> None:
    headers = Headers((Field("list-post", "<mailto:l@lists.test>", b""),))
    post = Reading(Message(headers=headers, senders=(Address("Crypto.com", "l", "lists.test"),)))
    assert [finding.strength for finding in shown_domain(post)] == [1.0]
    assert not list(shown_domain(know_list(post)))


# Names dressed up.
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("V\u200be\u200bh\u200bicle", [SENDER_INVISIBLE_CHARACTERS.id]),
        ("\U0001d5db\U0001d5fc\U0001d5fa\U0001d5f2", [SENDER_INVISIBLE_CHARACTERS.id]),
        ("✅ BONUS", [SENDER_DECORATED_NAME.id]),
        ("➥➥ Vehicle", [SENDER_DECORATED_NAME.id]),
        ("*Thank_You#", [SENDER_DECORATED_NAME.id]),
        ("#Consumer_Rewards#", [SENDER_DECORATED_NAME.id]),
        ("#ANN EXAMPLE#", []),  # as some universities write names
        ("ann_example", []),
        ("Ann *Annie* Example", []),
        ("~Ann~", []),
        ("*", []),
        ("Ϲоіnbаѕе", [SENDER_MIXED_SCRIPT_NAME.id]),
        ("Support aᥴcount team", [SENDER_MIXED_SCRIPT_NAME.id]),
        ("THΑLES Grοup", [SENDER_MIXED_SCRIPT_NAME.id]),
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
    assert [
        finding.kind for finding in decorated_name(Reading(Message(senders=(Address(name, "x", "a.example"),))))
    ] == kinds


# Company names on foreign senders.
def brand_kinds(name: str, address: str, *hosts: str, authenticated: bool = False) -> dict[str, float]:
    local, _, domain = address.partition("@")
    links = tuple(Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html") for host in hosts)
    reading = Reading(Message(senders=(Address(name, local, domain),), links=links))
    reading = know_sender(reading, NEVER, aligned=authenticated)
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
    assert brand_kinds(name, address).get(SENDER_BRAND_IMPERSONATION.id, 0.0) == pytest.approx(strength)


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
    assert (SENDER_DISGUISED_NAME.id in brand_kinds(name, "x@evil.test")) == found


def test_an_agency_that_leads_to_the_company_says_less() -> None:
    assert brand_kinds("PayPal", "x@agency.test", "www.paypal.com")[SENDER_BRAND_IMPERSONATION.id] == pytest.approx(0.3)
    assert brand_kinds("PayPal", "x@agency.test", "evil.test")[SENDER_BRAND_IMPERSONATION.id] == 1.0


def test_links_to_the_company_beside_another_do_not_help() -> None:
    hosts = ("www.paypal.com", "help.paypal.com", "paypal.co.uk", "evil.test")
    assert brand_kinds("PayPal", "x@agency.test", *hosts)[SENDER_BRAND_IMPERSONATION.id] == 1.0


@pytest.mark.parametrize(("authenticated", "strength"), [(False, 1.0), (True, 0.4)])
def test_a_mailing_service_says_less_where_it_is_authenticated(authenticated: bool, strength: float) -> None:
    found = brand_kinds("PayPal", "x@u1.ct.sendgrid.net", "evil.test", authenticated=authenticated)
    assert found[SENDER_BRAND_IMPERSONATION.id] == pytest.approx(strength)


def test_a_comma_without_quotes_is_one_sender() -> None:
    senders = (Address("PayPal", "", ""), Address("Inc", "service", "paypal.com"))
    assert list(brand_name(Reading(Message(senders=senders)))) == []


# Outsiders with the names of people who are protected.
PROTECTED = Protected(own_domains=frozenset({"corp.example"}), people=(Address("Ann Director", "ann", "corp.example"),))


@pytest.mark.parametrize(
    ("name", "address", "kinds"),
    [
        ("Ann Director", "ann.director@gmail.com", [SENDER_PROTECTED_PERSON.id]),
        ("Director, Ann", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),
        ("ANN  DIRECTOR", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),
        ("Аnn Dirеctor", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),  # Cyrillic letters
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
    local, _, domain = address.partition("@")
    reading = Reading(Message(senders=(Address(name, local, domain),)), protected=PROTECTED)
    assert [finding.kind for finding in protected_person(reading)] == kinds


def test_nobody_is_protected_by_default() -> None:
    assert list(protected_person(Reading(Message(senders=(Address("Ann Director", "x", "evil.test"),))))) == []


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
    message = Message(senders=(Address("news@shop.test [via Relay]", "x7", "mozmail.com"),))
    (claimed,) = display_name(Reading(message))
    (proven,) = display_name(know_sender(Reading(message), NEVER))
    assert proven.strength < claimed.strength == 1.0
