"""Links through shorteners."""

import pytest

from gatepost.checks.links.redirects import check
from gatepost.findings import Reading
from gatepost.kinds import URL_SHORTENER
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
    ("url", "sender", "found"),
    [
        ("https://bit.ly/x", "x@shop.com", [URL_SHORTENER.id]),
        ("https://go.short.io/x", "x@shop.com", [URL_SHORTENER.id]),
        ("https://t.co/x", "x@shop.com", [URL_SHORTENER.id]),
        ("https://t.co/x", "x@t.co", []),
        ("https://habit.ly/x", "x@shop.com", []),
        ("https://bit.ly.corp.com/x", "x@shop.com", []),
        ("https://corp.com/bit.ly/x", "x@shop.com", []),
    ],
)
def test_shortener(url: str, sender: str, found: list[str]) -> None:
    assert kinds(link(url), sender=sender) == found


def test_a_picture_is_not_followed() -> None:
    assert kinds(link("https://bit.ly/x", source="image")) == []
