"""iprev: the four results of RFC 8601 section 2.7.3, and the bound on names."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth.sending_host import MAX_REVERSE_NAMES, verify_iprev
from gatepost.questions import DnsAnswer

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
def test_results(resolver: Callable[..., Any], host: str, zone: dict[str, Any], result: str, name: str) -> None:
    found = resolver(zone).run(verify_iprev(ip_address(host)))
    assert (found.result, found.name) == (result, name)


def test_names_are_bounded(resolver: Callable[..., Any]) -> None:
    dns = resolver({PTR: tuple(f"h{n}.example" for n in range(1_000))})
    dns.run(verify_iprev(ip_address("192.0.2.1")))
    assert (len(dns.asked), dns.trips) == (1 + MAX_REVERSE_NAMES, 2)


def test_unknown_host(resolver: Callable[..., Any]) -> None:
    dns = resolver({})
    assert (dns.run(verify_iprev(None)).result, dns.asked) == ("none", [])


@given(st.lists(st.lists(st.text(), max_size=4), max_size=12))
def test_no_answer_makes_it_raise(answers: list[list[str]]) -> None:
    asking = verify_iprev(ip_address("192.0.2.1"))
    texts = iter(answers)
    questions = next(asking)
    try:
        while True:
            questions = asking.send(tuple(DnsAnswer("found", tuple(next(texts, ["a.example"]))) for _ in questions))
    except StopIteration as stop:
        found = stop.value
    assert found.result in {"pass", "fail", "permerror"}
