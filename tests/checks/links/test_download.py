"""Links that download."""

import pytest

from gatepost.checks.links.download import check
from gatepost.findings import Reading
from gatepost.kinds import URL_DOUBLE_EXTENSION, URL_DOWNLOAD
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
        ("https://evil.com/setup.exe", [URL_DOWNLOAD.id]),
        ("https://evil.com/a/invoice.zip?x=1", [URL_DOWNLOAD.id]),
        ("https://evil.com/invoice.pdf.js", [URL_DOUBLE_EXTENSION.id, URL_DOWNLOAD.id]),
        ("https://evil.com/invoice.pdf.html", [URL_DOUBLE_EXTENSION.id]),
        ("https://corp.com/report.pdf", []),
        ("https://shop.com/tool.exe", []),  # the sender's own
        ("https://corp.com/", []),
        ("https://exe.zip/", []),
        ("https://corp.com/exe", []),
        ("https://corp.com/page?file=setup.exe", []),
        ("https://corp.com/jquery.min.html", []),
    ],
)
def test_download(url: str, found: list[str]) -> None:
    assert kinds(link(url)) == found
