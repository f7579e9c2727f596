"""Conversations that never were, and answers that merely lost their thread."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.checks.headers.fake_reply import check
from gatepost.findings import Reading
from gatepost.sender_history import SenderHistory

Letter = Callable[..., Reading]

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
    assert [finding.strength for finding in check(reading)] == ([] if strength is None else [strength])


def test_it_weighs_little_where_the_sender_may_be_known(letter: Letter) -> None:
    (finding,) = check(letter(QUOTE, "Re: Invoice 88"))
    assert finding.strength == 0.2
