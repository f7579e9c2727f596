"""The sending host: what the border said, else the first address past our own relays; and iprev, the four results of
RFC 8601 section 2.7.3 with the bound on names."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.asking import run_asking
from tests.auth.resolver import Resolver

from gatepost.auth.sending_host import MAX_HOPS, MAX_REVERSE_NAMES, SendingHost, find_sending_host, verify_iprev
from gatepost.mail.message import Envelope, Field
from gatepost.questions import DnsAnswer

RELAYS = (ip_network("198.51.100.0/24"), ip_network("2001:db8:5::/48"), ip_network("10.0.0.0/8"))


def fields(*values: str) -> tuple[Field, ...]:
    return tuple(Field("received", value, b"") for value in values)


def shown(found: SendingHost) -> tuple[str, str, str]:
    return str(found.address or ""), found.helo, found.source


@pytest.mark.parametrize(
    ("value", "address", "helo"),
    [
        ("from a.example (b.example [192.0.2.1]) by mx with ESMTP id 1; Mon", "192.0.2.1", "a.example"),  # Postfix
        ("from a.example (unknown [IPv6:2001:db8::1]) by mx with ESMTPS", "2001:db8::1", "a.example"),
        ("from [203.0.113.9] (unknown [192.0.2.1]) by mx with SMTP", "192.0.2.1", "[203.0.113.9]"),  # said an address
        ("from b.example ([192.0.2.1]:4711 helo=a.example) by mx with esmtp (Exim 4)", "192.0.2.1", "a.example"),
        ("from [192.0.2.1] (port=4711 helo=a.example) by mx with esmtp", "192.0.2.1", "a.example"),
        ("from [192.0.2.1] (helo=[203.0.113.9]) by mx with esmtp", "192.0.2.1", "203.0.113.9"),
        ("from unknown (HELO a.example) (192.0.2.1) by mx with SMTP", "192.0.2.1", "a.example"),  # qmail
        ("from unknown (HELO 203.0.113.9) (me@192.0.2.1) by mx with SMTP", "192.0.2.1", "203.0.113.9"),
        ("from a.example (192.0.2.1) by mx (10.0.0.2) with Microsoft SMTP Server", "192.0.2.1", "a.example"),
        ("from a.example (IDENT:203.0.113.9@b.example [192.0.2.1]) by mx (8.9.3/8.9.3)", "192.0.2.1", "a.example"),
        ("from a.example (b [192.0.2.1]) (using TLSv1.3 with cipher X (256/256 bits)) by mx", "192.0.2.1", "a.example"),
        ("from a.example ([192.0.2.1]) by mx [203.0.113.9] with SMTP", "192.0.2.1", "a.example"),
        ("from by (b.example [192.0.2.1]) by mx", "192.0.2.1", "by"),
        ("FROM a.example (b.example [192.0.2.1])\r\n\tBY mx", "192.0.2.1", "a.example"),
        ("from 192.0.2.1 by mx with HTTP", "192.0.2.1", "192.0.2.1"),
        ("from a (::ffff:192.0.2.1) by mx", "192.0.2.1", "a"),
        ("from a [192.0.2.1] by mx with SMTP", "192.0.2.1", "a"),
        ("from a [203.0.113.9] (b [192.0.2.1]) by mx with SMTP", "192.0.2.1", "a"),  # said more than a name
    ],
)
def test_shapes_of_received(value: str, address: str, helo: str) -> None:
    assert shown(find_sending_host(Envelope(), fields(value))) == (address, helo, "received")


FROM_STRANGER = "from evil.example (x [192.0.2.66]) by mx.ours.example"
STRANGER = ("192.0.2.66", "evil.example", "received")
FORGED = "from bank.example (bank.example [203.0.113.1]) by evil.example"


@pytest.mark.parametrize(
    ("envelope", "received", "found"),
    [
        (Envelope(remote_address="192.0.2.1", helo="h"), [FORGED], ("192.0.2.1", "h", "border")),
        (Envelope(remote_address="::ffff:192.0.2.1"), [FORGED], ("192.0.2.1", "", "border")),
        (Envelope(remote_address="127.0.0.1"), [FORGED], ("127.0.0.1", "", "border")),  # what the border says, stands
        (Envelope(remote_address="198.51.100.7", helo="r"), [FROM_STRANGER, FORGED], STRANGER),
        (Envelope(remote_address="198.51.100.7", helo="r"), [], ("198.51.100.7", "r", "border")),
        (Envelope(remote_address="10.1.1.1"), ["from r (r [198.51.100.2]) by q", FROM_STRANGER], STRANGER),
        (Envelope(), ["from r (r [IPv6:2001:db8:5::1]) by q", FROM_STRANGER, FORGED], STRANGER),
        (Envelope(), ["from localhost (localhost [127.0.0.1]) by mx (amavis)", FROM_STRANGER], STRANGER),
        (Envelope(), ["by mx.ours.example (Postfix, from userid 0) id 1", FROM_STRANGER], STRANGER),
        (Envelope(), ["(qmail 1 invoked from network); Mon", FROM_STRANGER], STRANGER),
        (Envelope(), ["from joe by mx with local (Exim 4)", FROM_STRANGER], STRANGER),
        (Envelope(), ["from pop [203.0.113.9] by mx with POP3 (fetchmail-5.9.0)", FROM_STRANGER], STRANGER),
        # A hop that recorded no address hides who sent: what stands below it is a stranger's word.
        (Envelope(helo="h"), ["from evil.example by mx with SMTP", FORGED], ("", "h", "unknown")),
        (Envelope(), [], ("", "", "unknown")),
        (Envelope(remote_address="not an address"), [FROM_STRANGER], STRANGER),
        (Envelope(), ["from r (r [198.51.100.2]) by q"] * 3, ("", "", "unknown")),
    ],
)
def test_past_trusted_relays(envelope: Envelope, received: list[str], found: tuple[str, str, str]) -> None:
    assert shown(find_sending_host(envelope, fields(*received), RELAYS)) == found


def test_hops_are_bounded() -> None:
    trusted = ["from r (r [198.51.100.2]) by q"]
    assert find_sending_host(Envelope(), fields(*trusted * (MAX_HOPS - 1), FROM_STRANGER), RELAYS).source == "received"
    assert find_sending_host(Envelope(), fields(*trusted * MAX_HOPS, FROM_STRANGER), RELAYS).source == "unknown"


def test_results_of_others_are_not_read() -> None:
    claims = (
        Field("authentication-results", "mx; iprev=pass policy.iprev=203.0.113.5", b""),
        Field("x-originating-ip", "[203.0.113.5]", b""),
        Field("received-spf", "pass client-ip=203.0.113.5", b""),
    )
    assert find_sending_host(Envelope(), claims).source == "unknown"


PIECES = st.sampled_from(
    ["from", "by", "with", "local", "(", ")", "[", "]", "192.0.2.1", "helo=", "HELO ", "x", " ", "::", "\\"]
)


@given(st.lists(st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join), max_size=4))
def test_any_text_is_read(values: list[str]) -> None:
    assert find_sending_host(Envelope(), fields(*values), RELAYS).source in {"received", "unknown"}


PTR = "PTR 1.2.0.192.in-addr.arpa"
PTR6 = "PTR 1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"


@pytest.mark.parametrize(
    ("host", "zone", "result", "name"),
    [
        ("192.0.2.1", {PTR: "mx.example.", "A mx.example": "192.0.2.1"}, "pass", "mx.example"),
        ("192.0.2.1", {PTR: "MX.Example", "A mx.example": ("203.0.113.9", "192.0.2.1")}, "pass", "mx.example"),
        ("192.0.2.1", {PTR: ("a.example", "b.example"), "A b.example": "192.0.2.1"}, "pass", "b.example"),
        ("2001:db8::1", {PTR6: "mx.example", "AAAA mx.example": "2001:DB8:0::1"}, "pass", "mx.example"),
        ("192.0.2.1", {PTR: "mx.example", "A mx.example": "192.0.2.2"}, "fail", "mx.example"),
        ("192.0.2.1", {PTR: "mx.example"}, "fail", "mx.example"),
        ("192.0.2.1", {PTR: "mx.example", "AAAA mx.example": "2001:db8::1"}, "fail", "mx.example"),
        ("192.0.2.1", {PTR: "FAILED"}, "temperror", ""),
        ("192.0.2.1", {PTR: "mx.example", "A mx.example": "FAILED"}, "temperror", "mx.example"),
        (
            "192.0.2.1",
            {PTR: ("a.example", "b.example"), "A a.example": "FAILED", "A b.example": "192.0.2.1"},
            "pass",
            "b.example",
        ),
        ("192.0.2.1", {}, "permerror", ""),
        ("192.0.2.1", {"A 1.2.0.192.in-addr.arpa": "192.0.2.1"}, "permerror", ""),
        ("192.0.2.1", {PTR: ("", "a..b", "x" * 300)}, "permerror", ""),
        ("192.0.2.1", {PTR: "mx.example", "A mx.example": "not an address"}, "fail", "mx.example"),
    ],
)
def test_results(host: str, zone: dict[str, Any], result: str, name: str) -> None:
    found = Resolver(zone).run(verify_iprev(ip_address(host)))
    assert (found.result, found.name) == (result, name)


def test_names_are_bounded() -> None:
    dns = Resolver({PTR: tuple(f"h{n}.example" for n in range(1_000))})
    dns.run(verify_iprev(ip_address("192.0.2.1")))
    assert (len(dns.asked), dns.trips) == (1 + MAX_REVERSE_NAMES, 2)


def test_unknown_host() -> None:
    dns = Resolver({})
    assert (dns.run(verify_iprev(None)).result, dns.asked) == ("none", [])


@given(st.lists(st.lists(st.text(), max_size=4), max_size=12))
def test_no_answer_makes_it_raise(answers: list[list[str]]) -> None:
    texts = iter(answers)
    asking = verify_iprev(ip_address("192.0.2.1"))
    found = run_asking(asking, lambda _: DnsAnswer("found", tuple(next(texts, ["a.example"]))))
    assert found.result in {"pass", "fail", "permerror"}
