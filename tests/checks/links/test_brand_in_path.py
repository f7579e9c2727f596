"""Trusted names in foreign paths."""

import pytest

from gatepost.checks.links.brand_in_path import check
from gatepost.findings import Reading
from gatepost.kinds import URL_BRAND_IN_PATH
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
        ("http://evil.com/~x/www.paypal.com/login", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal.com/", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal/login.php", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal-login/index.html", [URL_BRAND_IN_PATH.id]),
        ("https://www.paypal.com/login", []),
        ("https://web.archive.org/web/www.paypal.com/", []),
        ("https://lists.com/archive/x1@mail.gmail.com/", []),
        ("https://news.com/2026/paypal-raises-its-fees-again-account-holders-angry", []),
        ("https://shop.com/brands/dewalt/", []),
        ("https://evil.com/?u=paypal.com/login", []),
        ("https://corp.com/login", []),
        ("https://corp.com/", []),
    ],
)
def test_brand_in_path(url: str, found: list[str]) -> None:
    assert kinds(link(url)) == found
