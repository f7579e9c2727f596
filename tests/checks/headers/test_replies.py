"""The checks of `headers/replies`: the tricks, and what looks like them."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.checks.headers.replies import fake_bounce, fake_reply
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FAKE_BOUNCE, HEADER_FAKE_REPLY
from gatepost.sender_history import SenderHistory

Letter = Callable[..., Reading]
AWAY = "https://elsewhere.example/x"


# Answers to nothing.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Please see the offer.", "Re: your order", AWAY, [HEADER_FAKE_REPLY.id]),
        ("Bitte ansehen.", "AW: Ihre Bestellung", AWAY, [HEADER_FAKE_REPLY.id]),
        ("Fine with me.\n\n> Shall we meet?", "Re: meeting", "", []),  # quotes what it answers
        ("Ann wrote:\nShall we meet?\n\nYes.", "RE: meeting", "", []),
        ("Regarding the offer", "Regarding the offer", "", []),
        ("Hello", "Reorganisation: next steps", "", []),
    ],
)
def test_fake_reply(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in fake_reply(reading) if finding.strength >= 0.5] == kinds


# Conversations that never were, and answers that merely lost their thread.
QUOTE = "Please pay today.\n\nFrom: Ann <ann@house.example>\nSent: Friday\nTo: Service\n\nWe will pay on Tuesday."
MET = SenderHistory(ready=True)


@pytest.mark.parametrize(
    ("text", "subject", "fields", "strength"),
    [
        (QUOTE, "Re: Invoice 88", "", 1.0),
        (QUOTE.replace("From:", "> Von:"), "AW: Rechnung 88", "", 1.0),
        (QUOTE, "Re: Invoice 88", "In-Reply-To: <1@house.example>\n", None),
        (QUOTE, "Re: Invoice 88", "References: <1@house.example>\n", None),
        (QUOTE, "Invoice 88", "", None),  # a forward, or a copy
        (QUOTE.replace("house.example", "sender.example"), "Re: Invoice 88", "", None),  # quotes itself
        ("Fine with me.\n\n> Shall we meet?", "Re: meeting", "", None),
    ],
)
def test_invented_thread(letter: Letter, text: str, subject: str, fields: str, strength: float | None) -> None:
    reading = msgspec.structs.replace(letter(text, subject, fields=fields), sender_history=MET)
    assert [finding.strength for finding in fake_reply(reading)] == ([] if strength is None else [strength])


def test_it_weighs_little_where_the_sender_may_be_known(letter: Letter) -> None:
    (finding,) = fake_reply(letter(QUOTE, "Re: Invoice 88"))
    assert finding.strength == 0.2


# Bounces, and mail that only looks like one.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Six messages could not reach you. Release them here.",
            "Mail delivery failed: returning message to sender",
            AWAY,
            [HEADER_FAKE_BOUNCE.id],
        ),
        ("Ihre Nachricht wartet. Hier ansehen.", "Unzustellbar: wichtige Nachricht", AWAY, [HEADER_FAKE_BOUNCE.id]),
        (
            "The following address failed: 550 5.1.1 user unknown",
            "Undelivered Mail Returned to Sender",
            AWAY,
            [],
        ),  # the server speaks
        (
            "Is the mail server broken?",
            "Re: Undelivered Mail Returned to Sender",
            AWAY,
            [],
        ),  # people who talk about one
        ("Your parcel was delivered.", "Delivered", AWAY, []),
    ],
)
def test_fake_bounce(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in fake_bounce(reading) if finding.strength >= 0.5] == kinds
