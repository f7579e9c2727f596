"""Links that start at a well-known site."""

import pytest

from gatepost.checks.links.redirects import check
from gatepost.findings import Reading
from gatepost.kinds import URL_OPEN_REDIRECT
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
    ("host", "wrapped", "sender", "found"),
    [
        ("evil.com", ("www.google.com",), "x@shop.com", [URL_OPEN_REDIRECT.id]),
        (
            "evil.com",
            ("nam01.safelinks.protection.outlook.com", "www.google.com"),
            "x@shop.com",
            [URL_OPEN_REDIRECT.id],
        ),
        ("evil.com", (), "x@shop.com", []),
        ("evil.com", ("nam01.safelinks.protection.outlook.com",), "x@shop.com", []),
        ("shop.com", ("click.mailer.com",), "x@shop.com", []),  # a click counter
        ("news.com", ("www.google.com",), "alerts@google.com", []),
        ("accounts.google.com", ("www.google.com",), "x@shop.com", []),
        ("www.youtube.com", ("www.facebook.com",), "x@shop.com", []),
    ],
)
def test_redirect(host: str, wrapped: tuple[str, ...], sender: str, found: list[str]) -> None:
    assert kinds(link(f"https://{host}/", wrapped=wrapped), sender=sender) == found
