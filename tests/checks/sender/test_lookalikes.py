"""The checks of `sender/lookalikes`: the tricks, and what looks like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks.sender.lookalikes import find_known_imitation, homograph, lookalike
from gatepost.findings import Protected, Reading
from gatepost.kinds import SENDER_HOMOGRAPH, SENDER_LOOKALIKE_DOMAIN, URL_HOMOGRAPH, URL_LOOKALIKE_DOMAIN
from gatepost.mail.message import Link, Message
from gatepost.names import Address, normal_domain


# Domains that imitate others.
@pytest.mark.parametrize(
    ("host", "of"),
    [
        ("paypa1.com", "PayPal"),
        ("rnicrosoft.com", "Microsoft"),
        ("pay-pal.com", "PayPal"),
        ("xn--pypal-4ve.com", "PayPal"),
        ("paypall.com", "PayPal"),
        ("paypla.com", "PayPal"),
        ("netflx.com", "Netflix"),
        ("secure-paypal-login.com", "PayPal"),
        ("paypalsupport.com", "PayPal"),
        ("ledger-live-update.com", "Ledger"),
        ("paypal.com.evil.test", "PayPal"),
        ("www.paypal.com.evil.test", "PayPal"),
        ("amazon.evil.test", "Amazon"),
        ("docusign.shop", "DocuSign"),
        ("paypal.com", ""),
        ("www.paypal.co.uk", ""),
        ("paypalobjects.com", ""),
        ("docusign.pl", ""),  # companies own their name in many countries
        ("amazonses.com", ""),
        ("googleusercontent.com", ""),
        ("telegraf.rs", ""),
        ("stripey.com", ""),
        ("discovery.com", ""),
        ("revolutionnine.org", ""),
        ("purchase.test", ""),
        ("citybank.com", ""),  # there are banks of that name
        ("apple-orchard.test", ""),
        ("github.zendesk.com", ""),  # a customer of the service
        ("morton.test", ""),
        ("192.0.2.1", ""),
        ("localhost", ""),
        ("", ""),
    ],
)
def test_well_known(host: str, of: str) -> None:
    seen = find_known_imitation(host)
    assert (seen.of if seen else "") == of


@pytest.mark.parametrize(
    ("domain", "found"),
    [
        ("exarnple-corp.test", True),
        ("example-c0rp.test", True),
        ("examplecorp.test", True),
        ("example-corp.shop", True),
        ("example-corp.com.evil.test", True),
        ("example-corp-invoices.test", True),
        ("partnerr.test", True),
        ("example-corp.test", False),
        ("mail.example-corp.test", False),
        ("partner.test", False),
        ("sample.test", False),
        ("corp.test", False),
        ("example.test", False),
        ("unrelated.test", False),
    ],
)
def test_own_and_partner_domains(domain: str, found: bool) -> None:
    protected = Protected(frozenset({"example-corp.test"}), frozenset({"partner.test"}))
    link = Link(f"https://{domain}/", f"https://{domain}/", domain, "", "1", "html")
    message = Message(senders=(Address("", "x", domain),), links=(link,))
    kinds = [finding.kind for finding in lookalike(Reading(message, protected=protected))]
    assert kinds == ([SENDER_LOOKALIKE_DOMAIN.id, URL_LOOKALIKE_DOMAIN.id] if found else [])


@given(st.text(max_size=80))
def test_any_host_is_judged(host: str) -> None:
    find_known_imitation(host)


# Hosts in look-alike letters.
@pytest.mark.parametrize(
    ("host", "imitation"),
    [
        ("аpple.com", True),  # Cyrillic а
        ("раураl.com", True),  # four Cyrillic letters and an l
        ("сосо.com", True),  # wholly Cyrillic, wholly Latin to the eye
        ("apple.com", False),
        ("münchen.de", False),
        ("пример.com", False),  # Russian that looks like nothing Latin
        ("例え.jp", False),
    ],
)
def test_homograph(host: str, imitation: bool) -> None:
    name = normal_domain(host)
    link = Link(f"https://{host}/", f"https://{name}/", name, "", "1", "html")
    message = Message(links=(link,), senders=(Address("", "x", name),))
    expected = [URL_HOMOGRAPH.id, SENDER_HOMOGRAPH.id] if imitation else []
    assert [finding.kind for finding in homograph(Reading(message))] == expected
