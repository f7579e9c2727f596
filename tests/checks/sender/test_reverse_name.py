"""Names of hosts in DNS."""

import pytest

from gatepost.auth.results import Authentication, Iprev
from gatepost.checks.sender.host_names import check
from gatepost.findings import Reading
from gatepost.kinds import HOST_DYNAMIC_NAME, HOST_FALSE_NAME, HOST_NO_NAME


@pytest.mark.parametrize(
    ("iprev", "kinds"),
    [
        (Iprev("permerror"), [HOST_NO_NAME.id]),
        (Iprev("fail", "mail.bank.example"), [HOST_FALSE_NAME.id]),
        (Iprev("pass", "203-0-113-65.dsl.provider.example"), [HOST_DYNAMIC_NAME.id]),
        (Iprev("pass", "mail.provider.example"), []),
        (Iprev("temperror"), []),  # an outage says nothing
        (Iprev("none"), []),
    ],
)
def test_reverse_name(iprev: Iprev, kinds: list[str]) -> None:
    reading = Reading(authentication=Authentication("203.0.113.65", "border", iprev=iprev))
    assert [finding.kind for finding in check(reading)] == kinds


def test_a_host_from_received_is_not_judged() -> None:
    assert (
        list(check(Reading(authentication=Authentication("203.0.113.65", "received", iprev=Iprev("permerror"))))) == []
    )
