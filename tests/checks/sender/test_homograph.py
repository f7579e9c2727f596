"""Hosts in look-alike letters."""

import pytest

from gatepost.checks.sender.homograph import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_HOMOGRAPH, URL_HOMOGRAPH
from gatepost.mail.message import Link, Message
from gatepost.names import Address, normal_domain


@pytest.mark.parametrize(
    ("host", "imitation"),
    [
        ("аpple.com", True),  # Cyrillic а
        ("раураl.com", True),  # four Cyrillic letters and an l
        ("сосо.com", True),  # wholly Cyrillic, wholly Latin to the eye
        ("apple.com", False),
        ("münchen.de", False),
        ("пример.com", False),  # Russian that looks like nothing Latin
        ("例え.jp", False),
    ],
)
def test_homograph(host: str, imitation: bool) -> None:
    name = normal_domain(host)
    link = Link(f"https://{host}/", f"https://{name}/", name, "", "1", "html")
    message = Message(links=(link,), senders=(Address("", "x", name),))
    expected = [URL_HOMOGRAPH.id, SENDER_HOMOGRAPH.id] if imitation else []
    assert [finding.kind for finding in check(Reading(message))] == expected
