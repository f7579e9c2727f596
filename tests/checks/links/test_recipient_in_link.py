"""Links that carry the recipient's address."""

import base64

import pytest

from gatepost.checks.links.recipient_in_link import check
from gatepost.findings import Reading
from gatepost.kinds import URL_RECIPIENT_ADDRESS
from gatepost.mail.message import Envelope, Link, Message
from gatepost.names import Address

ENCODED = base64.b64encode(b"ann@corp.example").decode().rstrip("=")


@pytest.mark.parametrize(
    ("url", "strength"),
    [
        ("https://evil.com/login#ann@corp.example", 1.0),
        (f"https://evil.com/x#{ENCODED}", 1.0),
        ("https://evil.com/login?e=ann@corp.example", 0.3),
        ("https://evil.com/login?e=ann%40corp.example", 0.3),
        (f"https://evil.com/{ENCODED}/x", 0.3),
        ("https://shop.com/login#ann@corp.example", 0.0),  # the sender's own site
        ("https://mailer.com/unsubscribe?e=ann@corp.example", 0.0),
        ("https://evil.com/login#bob@corp.example", 0.0),
        ("https://evil.com/ann", 0.0),
        ("https://evil.com/", 0.0),
    ],
)
def test_recipient_in_link(url: str, strength: float) -> None:
    host = url.partition("://")[2].partition("/")[0]
    link = Link(url, url, host, "", "1", "html")
    message = Message(senders=(Address("", "x", "shop.com"),), links=(link,))
    found = list(check(Reading(message, Envelope("x@shop.com", ("<Ann@corp.example>",)))))
    assert [(finding.kind, finding.strength) for finding in found] == (
        [(URL_RECIPIENT_ADDRESS.id, strength)] if strength else []
    )


def test_without_recipients_there_is_nothing_to_find() -> None:
    link = Link("https://evil.com/@", "https://evil.com/@", "evil.com", "", "1", "html")
    assert list(check(Reading(Message(links=(link,)), Envelope("x@shop.com", ("", "<>"))))) == []
