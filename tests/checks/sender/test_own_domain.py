"""Own domains that are forged."""

import pytest

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.sender.own_domain import check
from gatepost.findings import Protected, Reading
from gatepost.kinds import SENDER_OWN_DOMAIN_SPOOF
from gatepost.mail.message import Message
from gatepost.names import Address

HOST = "8.8.8.8"
NONE = Authentication(HOST)


@pytest.mark.parametrize(
    ("domain", "seen", "trusted", "kinds"),
    [
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail")), False, [SENDER_OWN_DOMAIN_SPOOF.id]),
        ("mail.corp.example", Authentication(HOST, spf=Spf("fail")), False, [SENDER_OWN_DOMAIN_SPOOF.id]),
        ("corp.example", NONE, False, [SENDER_OWN_DOMAIN_SPOOF.id]),
        ("corp.example", Authentication("10.0.0.1", dmarc=Dmarc("fail")), False, [SENDER_OWN_DOMAIN_SPOOF.id]),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("none", spf_aligned=True)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail")), True, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("temperror")), False, []),  # an outage proves nothing
        ("corp.example", Authentication(HOST, spf=Spf("temperror")), False, []),
        ("corp.example", Authentication(HOST, dkim=(Dkim("temperror"),)), False, []),
        ("corp.example", Authentication(HOST, dmarc=Dmarc("fail"), arc=Arc("pass")), False, []),
        ("corp.example", Authentication("10.0.0.1"), False, []),  # inside, and nothing published
        ("corp.example", Authentication(), False, []),  # a file: nobody knows who sent it
        ("other.example", Authentication(HOST, dmarc=Dmarc("fail")), False, []),
        ("", NONE, False, []),
    ],
)
def test_own_domain(domain: str, seen: Authentication, trusted: bool, kinds: list[str]) -> None:
    protected = Protected(own_domains=frozenset({"corp.example"}), host_trusted=trusted)
    reading = Reading(Message(senders=(Address("", "ann", domain),)), authentication=seen, protected=protected)
    assert [finding.kind for finding in check(reading)] == kinds
