"""The straight line: what is asked side by side, what is believed, and that nobody else's word counts."""

from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asking import run_in_steps
from tests.auth.resolver import Resolver
from tests.auth.signatures import make_key, make_record, sign

from gatepost.auth.dmarc import authenticate
from gatepost.auth.sending_host import find_sending_host
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.mail.reader import read
from gatepost.names import Address
from gatepost.questions import Dns, DnsAnswer

NOW = 1_750_000_000.0
ZONE = {
    "TXT example.com": "v=spf1 ip4:192.0.2.1 -all",
    "TXT _dmarc.example.com": "v=DMARC1; p=reject",
    "PTR 1.2.0.192.in-addr.arpa": "mx.example.com",
    "A mx.example.com": "192.0.2.1",
}
BORDER = Envelope("bob@example.com", ("ann@ours.example",), "192.0.2.1", "mx.example.com")


def message(*senders: str, received: tuple[str, ...] = (), others: tuple[Field, ...] = ()) -> Message:
    fields = (*(Field("received", value, f"Received: {value}\r\n".encode()) for value in received), *others)
    raw = b"".join(field.raw for field in fields) + b"\r\nHello\r\n"
    addresses = tuple(Address("", "bob", domain) for domain in senders or ("example.com",))
    return Message(raw=raw, headers=Headers(fields), header_end=len(raw) - 9, senders=addresses)


def test_everything_passes_in_two_round_trips() -> None:
    dns = Resolver(ZONE)
    found = dns.run(authenticate(message(), BORDER, NOW))
    assert (found.host, found.host_source) == ("192.0.2.1", "border")
    assert (found.spf.result, found.dmarc.result, found.iprev.result) == ("pass", "pass", "pass")
    assert (found.arc.result, found.dkim, found.aligned) == ("none", (), True)
    assert dns.trips == 2
    # The last two are asked for ahead, for mail that has no result for MAIL FROM or no DMARC record.
    assert sorted(dns.asked) == sorted([*ZONE, "TXT _dmarc.com", "TXT mx.example.com"])


def test_mail_without_records_needs_one_round_trip() -> None:
    dns = Resolver({})
    found = dns.run(authenticate(message(), BORDER, NOW))
    assert (found.spf.result, found.helo.result, found.dmarc.result) == ("none", "none", "none")
    assert len(set(dns.asked)) == 5
    assert dns.exchanges == 1


@pytest.mark.parametrize(
    ("envelope", "received", "trusted", "host", "source", "spf"),
    [
        (BORDER, (), (), "192.0.2.1", "border", "pass"),
        (Envelope("bob@example.com", remote_address="203.0.113.9"), (), (), "203.0.113.9", "border", "fail"),
        (Envelope("bob@example.com", remote_address="127.0.0.1"), (), (), "127.0.0.1", "border", "none"),
        (Envelope("bob@example.com"), ("from x (x [192.0.2.1]) by mx",), (), "192.0.2.1", "received", "pass"),
        (
            Envelope("bob@example.com", remote_address="10.0.0.5"),
            ("from x (x [192.0.2.1]) by mx",),
            (ip_network("10.0.0.0/8"),),
            "192.0.2.1",
            "received",
            "pass",
        ),
        (
            Envelope("bob@example.com", remote_address="203.0.113.9"),
            ("from x (x [192.0.2.1]) by mx",),
            (ip_network("10.0.0.0/8"),),
            "203.0.113.9",
            "border",
            "fail",
        ),
        (Envelope("bob@example.com"), (), (), "", "unknown", "none"),
    ],
)
def test_sending_host(
    envelope: Envelope,
    received: tuple[str, ...],
    trusted: Any,
    host: str,
    source: str,
    spf: str,
) -> None:
    mail = message(received=received)
    sending = find_sending_host(envelope, mail.headers.fields, trusted)
    found = Resolver(ZONE).run(authenticate(mail, envelope, NOW, sending))
    assert (found.host, found.host_source, found.spf.result) == (host, source, spf)


def test_failure_stays_apart_from_absence() -> None:
    failing = dict.fromkeys(ZONE, "FAILED")
    found = Resolver(failing).run(authenticate(message(), BORDER, NOW))
    assert (found.spf.result, found.dmarc.result, found.iprev.result) == ("temperror",) * 3
    found = Resolver({}).run(authenticate(message(), BORDER, NOW))
    assert (found.spf.result, found.dmarc.result, found.iprev.result) == ("none", "none", "permerror")


def test_claims_of_others_change_nothing() -> None:
    claims = (
        Field("authentication-results", "mx.ours.example; dmarc=pass; spf=pass", b"Authentication-Results: x\r\n"),
        Field("received-spf", "pass", b"Received-SPF: pass\r\n"),
        Field("x-spam-status", "No", b"X-Spam-Status: No\r\n"),
    )
    envelope = Envelope("bob@example.com", (), "203.0.113.9", "evil.example")
    with_claims = Resolver(ZONE).run(authenticate(message(others=claims), envelope, NOW))
    assert with_claims == Resolver(ZONE).run(authenticate(message(), envelope, NOW))
    assert (with_claims.dmarc.result, with_claims.dmarc.policy) == ("fail", "reject")


def test_two_authors_prove_nothing_for_each_other() -> None:
    zone = {**ZONE, "TXT _dmarc.bank.test": "v=DMARC1; p=reject"}
    found = Resolver(zone).run(authenticate(message("example.com", "bank.test"), BORDER, NOW))
    assert (found.dmarc.result, found.dmarc.domain, found.aligned) == ("fail", "bank.test", False)


def test_helo_speaks_where_mail_from_has_nothing_to_say() -> None:
    zone = {**ZONE, "TXT mx.example.com": "v=spf1 a -all"}
    envelope = Envelope("bob@silent.test", (), "192.0.2.1", "mx.example.com")
    found = Resolver(zone).run(authenticate(message("example.com"), envelope, NOW))
    assert (found.spf.result, found.helo.result, found.helo.domain) == ("none", "pass", "mx.example.com")
    # DMARC looks at MAIL FROM only (RFC 9989 section 4.4.2).
    assert (found.dmarc.result, found.dmarc.spf_aligned) == ("fail", False)


def test_bounce_is_proven_by_its_helo() -> None:
    zone = {**ZONE, "TXT mx.example.com": "v=spf1 a -all"}
    envelope = Envelope("<>", (), "192.0.2.1", "mx.example.com")
    found = Resolver(zone).run(authenticate(message(), envelope, NOW))
    assert (found.spf.result, found.spf.scope, found.dmarc.result) == ("pass", "helo", "pass")


def test_signature_proves_the_author_where_spf_cannot() -> None:
    key = make_key("ed25519")
    plain = b"From: bob@mail.example.org\r\nTo: ann@ours.example\r\nSubject: s\r\nDate: d\r\n\r\nHello\r\n"
    signed = read(sign(plain, key))
    zone = {
        "TXT sel._domainkey.example.org": make_record(key),
        "TXT _dmarc.example.org": "v=DMARC1; p=reject; sp=quarantine",
        "TXT forwarder.test": "v=spf1 ip4:192.0.2.1 -all",
    }
    dns = Resolver(zone)
    found = dns.run(authenticate(signed, Envelope("srs@forwarder.test", (), "192.0.2.1", "mx"), NOW))
    assert [(each.result, each.domain) for each in found.dkim] == [("pass", "example.org")]
    assert (found.spf.result, found.dmarc.result, found.dmarc.policy) == ("pass", "pass", "quarantine")
    assert (found.dmarc.spf_aligned, found.dmarc.dkim_aligned, found.aligned) == (False, True, True)
    assert dns.trips == 2


RECORDS = st.sampled_from(["v=spf1 mx a ?all", "v=DMARC1; p=reject", "10 a.example", "192.0.2.1"]) | st.text()
STATUSES = st.sampled_from(["found", "no-data", "no-name", "failed"])
ANSWERS = st.builds(DnsAnswer, STATUSES, st.lists(RECORDS, max_size=3).map(tuple))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.text(), st.text(), st.text(), st.lists(st.text(max_size=40), max_size=3))
def test_nothing_makes_it_raise(data: st.DataObject, sender: str, helo: str, remote: str, received: list[str]) -> None:
    envelope = Envelope(sender, (), data.draw(st.sampled_from([remote, "192.0.2.1", "2001:db8::1"])), helo)
    values = tuple(text.encode("utf-8", "replace").decode() for text in received)
    asking = authenticate(message(sender, "example.com", received=values), envelope, NOW)

    def answer(questions: tuple[Dns, ...]) -> tuple[DnsAnswer, ...]:
        assert all(question.name.isascii() and 0 < len(question.name) <= 253 for question in questions)
        return tuple(data.draw(ANSWERS) for _ in questions)

    found = run_in_steps(asking, answer)
    assert found.host_source in {"border", "received", "unknown"}
