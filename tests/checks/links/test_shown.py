"""The checks of `links/shown`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, letter, link, links_to, mail_from
from tests.known_senders import SELDOM, know_member, know_sender

from gatepost.analysis.verdict import judge
from gatepost.checks.links.urls import link_text, qr_codes
from gatepost.checks.reading import Reading
from gatepost.files.values import File
from gatepost.mail.links import Source
from gatepost.mail.message import Link
from gatepost.policy.rules import shipped_policy


# Links that show one site and lead to another.
@pytest.mark.parametrize(
    ("shown", "host", "wrapped", "kinds"),
    [
        ("https://bank.example/login", "evil.test", (), ["url:text-mismatch"]),
        ("www.bank.example", "evil.test", (), ["url:text-mismatch"]),
        ("bank.example", "evil.test", (), ["url:text-mismatch"]),
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
    links = [link(f"https://{host}/", shown, wrapped=wrapped)]
    assert find_kinds(link_text, mail_from(links=links)) == kinds


@pytest.mark.parametrize(
    ("shown", "host", "strength"),
    [
        ("www.paypal.com", "evil.test", 1.0),  # a name that is imitated
        ("www.paypal.com", "click.mailer.test", 0.6),
        ("www.bank.example", "evil.test", 0.6),
        ("www.shop.example", "click.mailer.test", 0.15),  # a click counter
        ("www.shop.example", "shop.us1.list-manage.com", 0.15),
    ],
)
def test_strength_of_a_mismatch(shown: str, host: str, strength: float) -> None:
    assert find_strengths(link_text, mail_from(links=links_to(host, shown=shown))) == [strength]


@pytest.mark.parametrize(
    ("shown", "field", "claimed", "proven"),
    [
        (
            "www.bank.example",
            "list-unsubscribe",
            0.6,
            0.07,
        ),  # mailing services count clicks, and the sender stands by it
        ("www.paypal.com", "list-unsubscribe", 1.0, 0.6),
        ("www.bank.example", "list-post", 0.6, 0.07),
        ("www.paypal.com", "list-post", 1.0, 1.0),
    ],
)
def test_mailing_services_and_lists_count_clicks_where_they_are_known(
    shown: str, field: str, claimed: float, proven: float
) -> None:
    links = links_to("evil.test", shown=shown)
    reading = mail_from("x@shop.example", links=links, fields={field: "<mailto:l@shop.example>"})
    known = know_sender(reading) if field == "list-unsubscribe" else know_member(reading)
    assert find_strengths(link_text, reading) == [claimed]
    assert find_strengths(link_text, known) == [proven]


# Links in QR codes.
def picture(source: Source, *hosts: str) -> Reading:
    links = tuple(Link(host, f"https://{host}/" if host else "", host, "", "1/a.png", source) for host in hosts)
    return Reading(files=(File("1/a.png", b"x", "png", "0" * 64, links=links),))


@pytest.mark.parametrize(
    ("reading", "hosts"),
    [
        (picture("qr", "evil.example"), ["evil.example"]),
        (picture("qr", "evil.example", "evil.example"), ["evil.example"]),
        (picture("qr", "a.example", "b.example"), ["a.example", "b.example"]),
        (picture("qr", ""), []),  # a code for a telephone number or an address book
        (picture("file", "a.example"), []),  # a link in a document is no code
        (picture("qr"), []),
        (Reading(), []),
    ],
)
def test_qr_code(reading: Reading, hosts: list[str]) -> None:
    found = list(qr_codes(reading))
    assert [finding.facts["leads_to"] for finding in found] == hosts
    assert {finding.kind for finding in found} <= {"url:qr-code"}
    assert all(finding.where == "1/a.png" and finding.about.startswith("https://") for finding in found)


# Codes to scan.
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your password will expire. Scan the QR code with your phone to verify your account.",
            "Two-factor update",
            "",
            ["text:qr-lure"],
        ),
        (
            (
                "Scannen Sie den QR-Code mit dem Handy: Dokument anzeigen. Ihr Konto wurde gesperrt. Bestätigen "
                "Sie Ihre Daten."
            ),
            "Wichtig",
            "",
            ["text:qr-lure"],
        ),
        ("Your ticket: scan the code at the entrance.", "Your ticket", HOME, []),
        ("The scanner in room 3 is broken.", "Scanner", "", []),
    ],
)
def test_qr_lure(text: str, subject: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(qr_codes, letter(text, subject, link=link), 0.5) == kinds


def test_tickets_with_codes() -> None:
    text = "Your ticket is attached. Scan the QR code at the gate. Sign in to view the document or to change the seat."
    ticket = letter(text, "Your ticket", link=HOME)
    codes = picture("qr", "t.sender.example").files
    with_code = msgspec.structs.replace(ticket, files=codes)
    judgement = judge(qr_codes(with_code), [], shipped_policy())
    assert judgement.decision == "deliver", "a code and a request to scan it do not hold a mail"
    strengths = [
        {finding.kind: finding.strength for finding in qr_codes(reading)}["text:qr-lure"]
        for reading in (
            with_code,
            know_sender(with_code, SELDOM),
            know_sender(with_code),
            know_sender(msgspec.structs.replace(ticket, files=(*codes, *picture("qr", "evil.example").files))),
        )
    ]
    assert strengths[0] == strengths[1] == strengths[3] >= 0.5
    assert strengths[2] < strengths[0] / 2
