"""False hosts before the real one."""

import pytest

from gatepost.checks.links.url_form import check
from gatepost.findings import Reading
from gatepost.kinds import URL_USERINFO
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
        ("https://bank.com@evil.com/", [URL_USERINFO.id]),
        ("http://user:secret@evil.com/", [URL_USERINFO.id]),
        ("https://medium.com/@ann/story", []),
        ("https://corp.com/?mail=ann@corp.com", []),
        ("https://corp.com/", []),
        ("ftp://anonymous@ftp.corp.com/", []),
    ],
)
def test_userinfo(url: str, found: list[str]) -> None:
    assert kinds(link(url)) == found
