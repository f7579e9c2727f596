"""Company names on foreign senders."""

import pytest

from gatepost.checks.sender.brand_name import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_BRAND_IMPERSONATION, SENDER_DISGUISED_NAME
from gatepost.mail.message import Link, Message
from gatepost.names import Address


def kinds(name: str, address: str, *hosts: str) -> dict[str, float]:
    local, _, domain = address.partition("@")
    links = tuple(Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html") for host in hosts)
    reading = Reading(Message(senders=(Address(name, local, domain),), links=links))
    return {finding.kind: finding.strength for finding in check(reading)}


@pytest.mark.parametrize(
    ("name", "address", "strength"),
    [
        ("PayPal", "x@evil.test", 1.0),
        ("PayPal Service", "x@evil.test", 1.0),
        ("Microsoft account team", "x@evil.test", 1.0),
        ("Mcafee™", "x@evil.test", 1.0),
        ("Chase", "x@evil.test", 1.0),
        ("Ann from Ledger", "x@evil.test", 0.7),
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
        ("Ann via DocuSign", "x@evil.test", 0.0),
        ("Ann Example", "ann@evil.test", 0.0),
        ("", "ann@evil.test", 0.0),
    ],
)
def test_brand_name(name: str, address: str, strength: float) -> None:
    assert kinds(name, address).get(SENDER_BRAND_IMPERSONATION.id, 0.0) == pytest.approx(strength)


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
    assert (SENDER_DISGUISED_NAME.id in kinds(name, "x@evil.test")) == found


def test_an_agency_that_leads_to_the_company_says_less() -> None:
    assert kinds("PayPal", "x@agency.test", "www.paypal.com")[SENDER_BRAND_IMPERSONATION.id] == pytest.approx(0.3)
    assert kinds("PayPal", "x@agency.test", "evil.test")[SENDER_BRAND_IMPERSONATION.id] == 1.0
    assert kinds("PayPal", "x@u1.ct.sendgrid.net", "evil.test")[SENDER_BRAND_IMPERSONATION.id] == pytest.approx(0.4)


def test_a_comma_without_quotes_is_one_sender() -> None:
    senders = (Address("PayPal", "", ""), Address("Inc", "service", "paypal.com"))
    assert list(check(Reading(Message(senders=senders)))) == []
