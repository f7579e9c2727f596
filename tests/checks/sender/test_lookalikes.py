"""The checks of `sender/lookalikes`: the tricks, and what looks like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checks.readings import find_kinds

from gatepost.checks.known_names import compile_names
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.lookalikes import (
    _find_inside,
    _index_labels,
    _index_trusted,
    _match_typo,
    find_known_imitation,
    homograph,
    lookalike,
)
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
    kinds = find_kinds(lookalike, Reading(message, protected=protected))
    assert kinds == (["sender:lookalike-domain", "url:lookalike-domain"] if found else [])


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
    expected = ["url:homograph", "sender:homograph"] if imitation else []
    assert find_kinds(homograph, Reading(message)) == expected


@given(
    st.lists(st.text("ab-", min_size=6, max_size=9), min_size=1, max_size=6, unique=True), st.text("ab-", max_size=20)
)
def test_of_names_inside_another_the_longest_at_the_first_place_is_found(names: list[str], label: str) -> None:
    found = compile_names(names).search(label)
    index = _index_labels(dict.fromkeys(names, "x"), frozenset(names), frozenset(names), ())
    assert _find_inside(label, index) == (found.group() if found else "")


def test_of_very_many_own_domains_all_but_the_longest_are_compared() -> None:
    many = frozenset(f"company{number:06d}.example" for number in range(40_000)) | {"treasury.example"}
    index = _index_trusted(many, frozenset())
    assert len(index.labels) == 25_000
    assert "treasury" in index.labels
    assert len(index.shortened) < 2_500 * 20


def list_near(name: str) -> set[str]:
    """What is one letter off: one more, one less, another one, two swapped; the first letter stays."""
    near = {name[:at] + name[at + 1 :] for at in range(1, len(name))}
    near |= {name[:at] + "x" + name[at:] for at in range(1, len(name) + 1)}
    near |= {name[:at] + "x" + name[at + 1 :] for at in range(1, len(name))}
    return (near | {name[:at] + name[at : at + 2][::-1] + name[at + 2 :] for at in range(1, len(name) - 1)}) - {name}


@pytest.mark.parametrize("name", ["paypal", "netflix", "facebook", "mastercard"])
def test_every_place_of_a_letter_is_compared(name: str) -> None:
    index = _index_labels({name: name}, frozenset({name}), frozenset(), [name])
    for near in sorted(list_near(name)):
        seen = _match_typo(near, index)
        assert seen is not None, near
        assert seen.of == name
    assert _match_typo(f"{name[0]}{name[1:][::-1]}", index) is None


def test_of_two_names_that_are_as_near_always_the_same_one_is_told() -> None:
    names = ["alfabank", "absabank", "alphabank"]
    told = {
        str(
            _match_typo("alsabank", _index_labels({name: name for name in names}, frozenset(names), frozenset(), order))
        )
        for order in (names, names[::-1])
    }
    assert len(told) == 1
