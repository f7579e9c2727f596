"""From fields that name nobody, or several."""

import pytest

from gatepost.checks.sender.from_field import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_INVALID_FROM, SENDER_MISSING_FROM, SENDER_SEVERAL_FROM
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read


@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ("Microsoft account team", [SENDER_INVALID_FROM.id]),
        ("Correios <x@correios>", [SENDER_INVALID_FROM.id]),
        ("Temu <x@temu,com>", [SENDER_INVALID_FROM.id]),
        ("x <x@bank.nosuchending>", [SENDER_INVALID_FROM.id]),
        ("Kundenservice, <x@shop.com>", [SENDER_INVALID_FROM.id]),
        ("a@one.com, b@two.com", [SENDER_SEVERAL_FROM.id]),
        ("", [SENDER_MISSING_FROM.id]),
        ("Ann <ann@corp.com>", []),
        ("ann@corp.co.za", []),  # names are given out two levels deep there
        ("ann@mail.corp.com, bob@corp.com", []),
        ("root@server.local", []),
        ("root", []),
        ("Mail Delivery System <MAILER-DAEMON@mailhub0>", []),
        ("MAILER-DAEMON", []),
        ("Ann <ann@xn--bcher-kva.com>", []),
    ],
)
def test_from_field(field: str, kinds: list[str]) -> None:
    message = read(f"From: {field}\nTo: b@corp.com\nSubject: x\n\ntext\n".encode())
    assert [finding.kind for finding in check(Reading(message, Envelope("x@corp.com")))] == kinds


def test_a_forgotten_quote_says_less() -> None:
    message = read(b"From: Doe, Ann <ann@corp.com>\n\ntext\n")
    assert [(finding.kind, finding.strength) for finding in check(Reading(message))] == [(SENDER_INVALID_FROM.id, 0.3)]


def test_a_report_may_have_no_sender() -> None:
    assert list(check(Reading(read(b"Subject: Undelivered\n\ntext\n")))) == []
