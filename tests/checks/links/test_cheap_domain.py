"""Endings where names cost nothing."""

import pytest

from gatepost.checks.links.free_names import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_CHEAP_ENDING, URL_CHEAP_ENDING
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
        ("https://x.icu/", "x@shop.com", [URL_CHEAP_ENDING.id]),
        ("https://shop.com/", "x@x.click", [SENDER_CHEAP_ENDING.id]),
        ("https://x.top/", "x@x.top", [SENDER_CHEAP_ENDING.id, URL_CHEAP_ENDING.id]),
        ("https://shop.com/", "x@shop.com", []),
        ("https://top.com/", "x@click.com", []),
        ("https://shop.de/xyz.top", "x@shop.co.uk", []),
        ("https://192.0.2.1/", "x", []),
    ],
)
def test_cheap_domain(url: str, sender: str, found: list[str]) -> None:
    assert kinds(link(url), sender=sender) == found


def test_some_endings_say_less() -> None:
    (finding,) = check(Reading(Message(senders=(Address("", "x", "a.shop"),))))
    assert 0 < finding.strength < 1
