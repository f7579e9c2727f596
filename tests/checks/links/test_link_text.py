"""Links that show one site and lead to another."""

import pytest

from gatepost.checks.links.link_text import check
from gatepost.findings import Reading
from gatepost.kinds import URL_TEXT_MISMATCH
from gatepost.mail.message import Link, Message


@pytest.mark.parametrize(
    ("shown", "host", "wrapped", "kinds"),
    [
        ("https://bank.example/login", "evil.test", (), [URL_TEXT_MISMATCH.id]),
        ("www.bank.example", "evil.test", (), [URL_TEXT_MISMATCH.id]),
        ("bank.example", "evil.test", (), [URL_TEXT_MISMATCH.id]),
        ("https://bank.example/login", "bank.example", (), []),
        ("www.bank.example", "login.bank.example", (), []),  # same owner
        ("www.bank.example", "bank.example", ("safelinks.protection.outlook.com",), []),
        ("shop.example", "click.mailer.test", ("shop.example",), []),
        ("Read more at bank.example today", "evil.test", (), []),  # prose
        ("Log in", "evil.test", (), []),
        ("www.bank.example", "url.za.m.mimecastprotect.com", (), []),  # a mail security product
        ("report.pdf", "files.test", (), []),  # a file name, not a site
        ("co.uk", "evil.test", (), []),
        ("", "evil.test", (), []),
    ],
)
def test_link_text(shown: str, host: str, wrapped: tuple[str, ...], kinds: list[str]) -> None:
    link = Link(f"https://{host}/", f"https://{host}/", host, shown, "1", "html", wrapped)
    assert [finding.kind for finding in check(Reading(Message(links=(link,))))] == kinds


@pytest.mark.parametrize(
    ("shown", "host", "strength"),
    [
        ("www.paypal.com", "evil.test", 1.0),  # a name that is imitated
        ("www.paypal.com", "click.mailer.test", 0.6),
        ("www.bank.example", "evil.test", 0.6),
        ("www.shop.example", "click.mailer.test", 0.3),  # a click counter
        ("www.shop.example", "shop.us1.list-manage.com", 0.3),
    ],
)
def test_strength(shown: str, host: str, strength: float) -> None:
    link = Link(f"https://{host}/", f"https://{host}/", host, shown, "1", "html")
    assert [finding.strength for finding in check(Reading(Message(links=(link,))))] == [strength]
