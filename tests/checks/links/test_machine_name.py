"""Names that providers make from addresses."""

import pytest

from gatepost.checks.links.ip_hosts import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_MACHINE_NAME, URL_MACHINE_NAME
from gatepost.mail.message import Link, Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("142.132.167.72.host.provider.com", "142.132.167.72"),
        ("ip-203-0-113-9.vps.provider.co.uk", "203.0.113.9"),
        ("ec2-203-0-113-9.compute.provider.com", "203.0.113.9"),
        ("vps203-0-113-9.provider.com", "203.0.113.9"),
        ("static.203-0-113-9.provider.com", "203.0.113.9"),
        ("www.provider.com", ""),
        ("v10-0-22-4.docs.provider.com", ""),  # a version, or an address of nobody outside
        ("192-168-1-20.local.provider.com", ""),
        ("2026-11-10-2.files.provider.com", ""),  # a date
        ("203-0-113.provider.com", ""),
        ("1-800-555-1234.provider.com", ""),  # a telephone number
        ("203-0-113-9.com", ""),  # somebody bought that name
        ("203.0.113.9", ""),  # a bare address is another finding
    ],
)
def test_machine_names(host: str, address: str) -> None:
    link = Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html", ())
    reading = Reading(Message(senders=(Address("", "x", "shop.com"),), links=(link,)))
    found = [(finding.kind, finding.facts["address"], finding.about) for finding in check(reading)]
    assert found == ([(URL_MACHINE_NAME.id, address, f"https://{host}/")] if address else [])


@pytest.mark.parametrize(
    ("domain", "found"),
    [("ip-203-0-113-9.provider.com", [SENDER_MACHINE_NAME.id]), ("db-3.provider.com", []), ("", [])],
)
def test_senders(domain: str, found: list[str]) -> None:
    reading = Reading(Message(senders=(Address("", "root", domain),)))
    assert [finding.kind for finding in check(reading)] == found
