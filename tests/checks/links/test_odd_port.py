"""Links to unusual doors."""

import pytest

from gatepost.checks.links.url_form import check
from gatepost.findings import Reading
from gatepost.kinds import URL_ODD_PORT
from gatepost.mail.message import Link, Message
from gatepost.names import Address


def link(url: str, shown: str = "", source: str = "html", wrapped: tuple[str, ...] = ()) -> Link:
    host = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2].partition(":")[0]
    return Link(url, url, host, shown, "1", source, wrapped)  # type: ignore[arg-type]


def kinds(*links: Link, sender: str = "x@shop.com") -> list[str]:
    local, _, domain = sender.partition("@")
    reading = Reading(Message(senders=(Address("", local, domain),), links=links))
    return [finding.kind for finding in check(reading)]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://evil.com:4080/login", [URL_ODD_PORT.id]),
        ("https://evil.com:8443/", [URL_ODD_PORT.id]),
        ("http://evil.com:81?x", [URL_ODD_PORT.id]),
        ("https://corp.com/", []),
        ("https://corp.com/a:80/b", []),
        ("https://corp.com/?x=a:8080", []),
        ("https://corp.com/#:8080", []),
    ],
)
def test_odd_port(url: str, found: list[str]) -> None:
    assert kinds(link(url)) == found
