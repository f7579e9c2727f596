"""Traces that no server left, and odd ones that some did."""

from collections.abc import Callable

import pytest

from gatepost.checks.headers.forged_received import check
from gatepost.findings import Reading

Letter = Callable[..., Reading]

NEAR = "Received: from mx.a.example (mx.a.example [192.0.2.1]) by mail.house.example; Tue, 10 Nov 2026 09:12:00 +0000\n"


def hop(address: str = "198.51.100.7", number: int = 1, date: str = "Tue, 10 Nov 2026 09:11:00 +0000") -> str:
    return f"Received: from desk (desk [{address}])\n by mx.a.example with ESMTPS id {number}; {date}\n"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (NEAR + hop("302.17.4.9"), "an address that cannot be"),
        (NEAR + hop("10.0.0.256"), "an address that cannot be"),
        (NEAR + hop("1.2.999.4"), "an address that cannot be"),
        (NEAR + hop() + hop(), "the same hop twice"),
        (NEAR + hop(date="Tue, 17 Nov 2026 09:11:00 +0000"), "stamped days after the hop that followed it"),
        (NEAR + hop(date="1 Jan 2031 00:00:00 +0000"), "stamped days after the hop that followed it"),
        (NEAR + hop(), ""),
        (NEAR + hop("255.255.255.255"), ""),
        (NEAR + hop("2001:db8::300"), ""),
        (NEAR + hop(number=1) + hop(number=2), ""),  # two hops on one machine
        (NEAR + hop(date="Wed, 11 Nov 2026 05:11:00 +0900"), ""),  # another time zone, and a clock that is off
        (NEAR.replace("10 Nov", "2 Nov") + hop(date="Sat, 31 Oct 2026 23:59:00 +0000"), ""),
        (NEAR + hop(date="Mon, 2 Nov 2026 09:11:00 +0000"), ""),  # lay in a queue for a week
        (NEAR + hop(date="no date"), ""),
        (hop("302.17.4.9"), ""),  # the only one is that of the border, which sees what it sees
        ("", ""),
    ],
)
def test_forged_trace(letter: Letter, fields: str, why: str) -> None:
    assert [finding.facts["why"] for finding in check(letter("Hello", fields=fields))] == [why] * bool(why)


def test_a_thousand_hops_are_not_read(letter: Letter) -> None:
    reading = letter("Hello", fields="".join(hop(number=number) for number in range(1_000)) + hop("999.1.1.1"))
    assert not list(check(reading))
