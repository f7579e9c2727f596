"""Identifiers in the manner of somebody else."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.auth.results import Arc, Authentication
from gatepost.checks.headers.message_id import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_BORROWED_MESSAGE_ID, HEADER_NO_MESSAGE_ID

Letter = Callable[..., Reading]

SENT = Authentication("192.0.2.1")
GOOGLE = "Message-ID: <CAFx7Qw+o2Qd0bqkz9@mail.gmail.com>\n"


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        (GOOGLE, [HEADER_BORROWED_MESSAGE_ID.id]),
        ("Message-ID: <AM0PR01MB4711A@AM0PR01MB4711.eurprd01.prod.outlook.com>\n", [HEADER_BORROWED_MESSAGE_ID.id]),
        (GOOGLE + "DKIM-Signature: v=1; d=customer.example\n", []),
        (GOOGLE + "List-Id: <l.lists.example>\n", []),
        (GOOGLE + "List-Post: <mailto:l@lists.example>\n", []),
        ("Message-ID: <4711@sender.example>\n", []),
        ("Message-ID: <x@notmail.gmail.com.example>\n", []),
        ("", [HEADER_NO_MESSAGE_ID.id]),  # nothing is borrowed where there is none
    ],
)
def test_borrowed_id(letter: Letter, fields: str, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter("Hello", fields=fields), authentication=SENT)
    assert [finding.kind for finding in check(reading)] == kinds


def test_without_a_sending_host_nothing_is_claimed(letter: Letter) -> None:
    reading = letter("Hello", fields=GOOGLE)
    assert not list(check(reading))
    forwarded = Authentication("192.0.2.1", arc=Arc("fail", 1))
    assert not list(check(msgspec.structs.replace(reading, authentication=forwarded)))
