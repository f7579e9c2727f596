"""Pages, forms and senders on services for anybody."""

import pytest

from gatepost.checks.links.free_names import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_FREE_HOSTING, URL_FORM_SERVICE, URL_FREE_HOSTING
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
        ("https://x.web.app/login", "x@shop.com", [URL_FREE_HOSTING.id]),
        ("https://storage.googleapis.com/b/x.html", "x@shop.com", [URL_FREE_HOSTING.id]),
        ("https://forms.office.com/r/x", "x@shop.com", [URL_FORM_SERVICE.id]),
        ("https://shop.com/", "noreply@x-1.firebaseapp.com", [SENDER_FREE_HOSTING.id]),
        ("https://x-1.firebaseapp.com/", "noreply@x-1.firebaseapp.com", [SENDER_FREE_HOSTING.id]),
        ("https://shop.com/", "x@shop.com", []),
        ("https://www.google.com/", "x@shop.com", []),
        ("https://notweb.app/", "x@shop.com", []),
        ("https://form.typeform.com/x", "x@typeform.com", []),  # the service itself
        ("https://shop.com/", "ann@yandex.ru", []),
    ],
)
def test_hosted_page(url: str, sender: str, found: list[str]) -> None:
    assert kinds(link(url), sender=sender) == found
