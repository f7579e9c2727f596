"""Names that a machine made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks.sender.random_name import check, randomness
from gatepost.findings import Reading
from gatepost.kinds import SENDER_RANDOM_DOMAIN, SENDER_RANDOM_MAILBOX, URL_RANDOM_HOST
from gatepost.mail.message import Link, Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("label", "made_up"),
    [
        ("bqtirvjmdsvqgksnuycjuw", True),
        ("62nwxj8mam1", True),
        ("dhvow214r6dr", True),
        ("aLaZFLJt", True),
        ("rsrpcdskjp", True),
        ("cbsnews", False),
        ("freshrpms", False),
        ("sbcglobal", False),
        ("northstream", False),
        ("schmidtchen", False),
        ("angstschweiss", False),
        ("lightsout2024", False),
        ("FOXSportsFLASH", False),
        ("JohnMcGregorSmith", False),
        ("4chan", False),
        ("", False),
    ],
)
def test_randomness(label: str, made_up: bool) -> None:
    assert (randomness(label) > 0) == made_up


@given(st.text(max_size=300))
def test_randomness_is_a_share(label: str) -> None:
    assert 0.0 <= randomness(label) <= 1.0


@pytest.mark.parametrize(
    ("sender", "host", "kinds"),
    [
        ("info@bqtirvjmdsvqg.com", "corp.com", [SENDER_RANDOM_DOMAIN.id]),
        ("dhvow214r6dr@corp.com", "corp.com", [SENDER_RANDOM_MAILBOX.id]),
        ("info@corp.com", "www.bqtirvjmdsvqg.com", [URL_RANDOM_HOST.id]),
        ("info@corp.com", "a2g2xrfuyfg45sslfsa3xsss.corp.com", [URL_RANDOM_HOST.id]),
        ("info@corp.com", "www.corp.com", []),
        ("ticket-dhvow214r6dr@corp.com", "corp.com", []),  # a ticket
        ("info+dhvow214r6dr@corp.com", "corp.com", []),
        ("info@corp.com", "d15k2d11r6t6rl.cloudfront.net", []),  # a service's customers are named by it
        ("info@corp.com", "u26476144.ct.sendgrid.net", []),
    ],
)
def test_random_name(sender: str, host: str, kinds: list[str]) -> None:
    local, _, domain = sender.partition("@")
    link = Link(f"https://{host}/", f"https://{host}/", host, "", "1", "html")
    reading = Reading(Message(senders=(Address("", local, domain),), links=(link,)))
    assert [finding.kind for finding in check(reading)] == kinds
