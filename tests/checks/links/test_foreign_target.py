"""All links to one stranger."""

import pytest

from gatepost.checks.links.foreign_target import check
from gatepost.findings import Reading
from gatepost.kinds import URL_FOREIGN_TARGET
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
    ("urls", "sender", "found"),
    [
        (["https://evil.com/"], "x@shop.com", [URL_FOREIGN_TARGET.id]),
        (["https://a.evil.com/", "https://b.evil.com/"], "x@shop.com", [URL_FOREIGN_TARGET.id]),
        (["https://evil.com/", "https://shop.com/"], "x@shop.com", []),
        (["https://www.shop.com/"], "x@mail.shop.com", []),
        (["https://www.youtube.com/"], "x@shop.com", []),
        (["https://shop.us1.list-manage.com/"], "x@shop.com", []),
        (["https://news.com/"], "ann@gmail.com", []),  # what friends send
        ([], "x@shop.com", []),
    ],
)
def test_link_domains(urls: list[str], sender: str, found: list[str]) -> None:
    assert kinds(*map(link, urls), sender=sender) == found


def test_an_address_in_plain_text_says_nothing() -> None:
    assert kinds(link("https://evil.com/", source="text")) == []
