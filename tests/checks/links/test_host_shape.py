"""Shapes of host names."""

import pytest

from gatepost.checks.links.url_form import check
from gatepost.findings import Reading
from gatepost.kinds import URL_DEEP_SUBDOMAIN, URL_MANY_HYPHENS
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
        ("https://a.b.c.d.evil.com/", [URL_DEEP_SUBDOMAIN.id]),
        ("https://secure-login-for-your-account.com/", [URL_MANY_HYPHENS.id]),
        ("https://www.corp.com/", []),
        ("https://a.b.corp.co.uk/", []),
        ("https://my-other-shop.com/", []),
        ("https://a.b.c.d.google.com/", []),
        ("https://a.b.c.d.akamaihd.net/", []),
        ("https://us-east1-team-one-386404.cloudfunctions.net/", []),  # hosted pages are named by machines
        ("https://192.0.2.1/", []),
        ("https://xn--a-b-c-d-e-1ga.com/", []),
    ],
)
def test_host_shape(url: str, found: list[str]) -> None:
    assert kinds(link(url)) == found
