"""The checks of `sender/own_domains`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, find_strengths, mail_from
from tests.known_senders import NEVER, know_list, know_sender

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.authentication import own_domain, recipient_domain, self_sent
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address

# Own domains that are forged.
HOST = "8.8.8.8"
NONE = Authentication(HOST)
VOUCHED = Arc("pass", 1, ("google.com",), origin="pass")
SEALED = Arc("pass", 1, ("anybody.example",), origin="pass")


@pytest.mark.parametrize(
    ("domain", "seen", "trusted", "kinds"),
    [
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail")), False, ["sender:own-domain-spoof"]),
        ("mail.corp.example", Authentication(HOST, spf=Spf("fail")), False, ["sender:own-domain-spoof"]),
        ("corp.example", NONE, False, ["sender:own-domain-spoof"]),
        ("corp.example", Authentication("10.0.0.1", dmarc=Dmarc("fail")), False, ["sender:own-domain-spoof"]),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("none", spf_aligned=True)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail")), True, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("temperror")), False, []),  # an outage proves nothing
        ("corp.example", Authentication(HOST, spf=Spf("temperror")), False, []),
        ("corp.example", Authentication(HOST, dkim=(Dkim("temperror"),)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail"), arc=VOUCHED), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail"), arc=SEALED), False, ["sender:own-domain-spoof"]),
        ("corp.example", Authentication("10.0.0.1"), False, []),  # inside, and nothing published
        ("corp.example", Authentication(), False, []),  # a file: nobody knows who sent it
        ("other.example", Authentication(HOST, dmarc=Dmarc("fail")), False, []),
        ("", NONE, False, []),
    ],
)
def test_own_domain(domain: str, seen: Authentication, trusted: bool, kinds: list[str]) -> None:
    protected = Protected(own_domains=frozenset({"corp.example"}), host_trusted=trusted)
    reading = mail_from(f"ann@{domain}", authentication=seen, protected=protected)
    assert find_kinds(own_domain, reading) == kinds


# Mail from its own recipient.
PROVEN = Authentication(dmarc=Dmarc("pass", dkim_aligned=True))


@pytest.mark.parametrize(
    ("envelope", "recipient", "authentication", "kinds"),
    [
        ("x@evil.test", "ann@corp.example", Authentication(), ["sender:self-sent"]),
        ("x@evil.test", "ANN@corp.example", Authentication(), ["sender:self-sent"]),
        ("ann@corp.example", "ann@corp.example", Authentication(), []),
        ("x@evil.test", "ann@corp.example", PROVEN, []),
        ("x@evil.test", "bob@corp.example", Authentication(), []),
        ("", "ann@corp.example", Authentication(), []),  # the envelope is not known
    ],
)
def test_self_sent(envelope: str, recipient: str, authentication: Authentication, kinds: list[str]) -> None:
    message = Message(senders=(Address("", "ann", "corp.example"),), recipients=(Address("", "x", "other.example"),))
    reading = Reading(message, Envelope(envelope, (recipient,)), authentication)
    assert find_kinds(self_sent, reading) == kinds


# Sender names that show the recipient's own domain, and those that may.
def shown_as(name: str, sender: str, recipient: str = "ann@house.com", envelope: str = "") -> Reading:
    return mail_from(sender, name, envelope=Envelope(envelope or sender, (recipient,), "192.0.2.1"))


@pytest.mark.parametrize(
    ("name", "sender", "strength"),
    [
        ("house.com Webmail", "x@evil.com", 1.0),
        ("IT Support (HOUSE.COM)", "x@evil.com", 1.0),
        ("Voicemail | mail.house.com", "x@evil.com", 1.0),
        ("Mailbox: <house.com>", "x@evil.com", 1.0),
        ("house.com Tickets", "house@shop.zendesk.com", 1.0),  # anybody can write that
        ("Ann House", "x@evil.com", None),
        ("house.com", "carl@house.com", None),  # a colleague
        ("house.com alerts", "alerts@mail.house.com", None),
        ("house.com via Docs", "noreply@docs.com", 1.0),
        ("other.com Webmail", "x@evil.com", None),
        ("house.company", "x@evil.com", None),
        ("warehouse.com", "sales@evil.com", None),
        ("ann@house.com", "x@evil.com", None),  # an address is found as such
        ("Dr. Ann House, M.D.", "x@evil.com", None),
        ("", "x@evil.com", None),
    ],
)
def test_recipient_domain(name: str, sender: str, strength: float | None) -> None:
    found = [(finding.kind, finding.strength) for finding in recipient_domain(shown_as(name, sender))]
    assert found == ([("sender:recipient-domain", strength)] if strength else [])


def test_a_help_desk_that_the_company_has_hired_is_authenticated() -> None:
    reading = shown_as("house.com Tickets", "house@shop.zendesk.com")
    assert find_strengths(recipient_domain, know_sender(reading, NEVER)) == [0.4]
    stranger = know_sender(shown_as("house.com Tickets", "x@evil.com"), NEVER)
    assert find_strengths(recipient_domain, stranger) == [1.0]


def posted(name: str, domain: str) -> Reading:
    fields = {"list-post": "<mailto:l@lists.example>"}
    envelope = Envelope("l-bounces@lists.example", ("ann@house.com",))
    return mail_from(f"ann@{domain}", name, fields=fields, envelope=envelope)


def test_members_of_a_known_list_get_their_own_posts() -> None:
    reading = posted("", "house.com")
    assert find_kinds(self_sent, reading) == ["sender:self-sent"]
    assert not list(self_sent(know_list(reading)))


def test_a_known_list_may_show_the_recipients_domain() -> None:
    reading = posted("house.com Webmail", "lists.example")
    assert find_strengths(recipient_domain, reading) == [1.0]
    assert not list(recipient_domain(know_list(reading)))


def test_free_mail_is_not_the_recipients_own() -> None:
    assert not list(recipient_domain(shown_as("gmail.com Team", "x@evil.com", "ann@gmail.com")))


def test_a_recipient_in_the_header_counts_as_well() -> None:
    message = Message(senders=(Address("house.com", "x", "evil.com"),), recipients=(Address("", "ann", "house.com"),))
    assert find_kinds(recipient_domain, Reading(message)) == ["sender:recipient-domain"]


def test_the_own_domain_in_the_envelope_is_for_authentication_to_judge() -> None:
    assert not list(recipient_domain(shown_as("house.com", "x@evil.com", envelope="bounces@house.com")))
