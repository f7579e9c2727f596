"""Links to bare addresses."""

import pytest

from gatepost.checks.links.ip_hosts import check
from gatepost.findings import Reading
from gatepost.kinds import URL_IP_HOST
from gatepost.mail.message import Link, Message


@pytest.mark.parametrize(
    ("host", "kinds"),
    [
        ("8.8.8.8", [URL_IP_HOST.id]),
        ("[2606:4700::1111]", [URL_IP_HOST.id]),
        ("192.168.1.1", []),  # a router's own report
        ("127.0.0.1", []),
        ("[fe80::1]", []),
        ("4chan.example", []),
        ("1.2.3.4.example", []),
        ("", []),
    ],
)
def test_numeric_host(host: str, kinds: list[str]) -> None:
    link = Link(f"http://{host}/", f"http://{host}/", host, "", "1", "text")
    assert [finding.kind for finding in check(Reading(Message(links=(link, link))))] == kinds


def test_one_among_many_says_less() -> None:
    hosts = ("8.8.8.8", "a.example", "b.example", "c.example")
    links = tuple(Link(f"http://{host}/", f"http://{host}/", host, "", "1", "html") for host in hosts)
    assert [finding.strength for finding in check(Reading(Message(links=links)))] == [0.5]
