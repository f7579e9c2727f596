"""The check of `text/opening_letters`: the trick, and what looks like it."""

from collections.abc import Callable

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import know_list, know_member, know_sender

from gatepost.checks.reading import Reading
from gatepost.checks.text.fraud import opening_letter
from gatepost.mail.reader import read

COMPANY = "From: Ann <ann@shop.example>\nTo: bob@house.example\n"
FREE = "From: Ann <ann@gmail.com>\nTo: bob@house.example\n"
ELSEWHERE = COMPANY + "Reply-To: other@elsewhere.example\n"
ANSWER, LIST = "In-Reply-To: <1@a.example>\n", "List-Post: <mailto:l@a.example>\n"
BOTH = ["text:large-sum", "text:opening-letter"]


@pytest.mark.parametrize(
    ("header", "text", "kinds"),
    [
        (ELSEWHERE, "Good day dear friend, I am Mrs. Ann. I have a donation of $2,500,000 for you.", BOTH),
        (ELSEWHERE, "Did you receive my previous email? Kindly reply.", ["text:opening-letter"]),
        (FREE, "Dear friend, I have 10.5 million dollars for you, kindly reply for more details.", BOTH),
        (ELSEWHERE, "Haben Sie meine vorherige E-Mail erhalten? Antworten Sie mir bitte.", ["text:opening-letter"]),
        (ELSEWHERE, "Avez-vous reçu mon message ? Répondez-moi pour plus de détails.", ["text:opening-letter"]),
        (ELSEWHERE, "Вы получили мое письмо? Ответьте мне, дорогой друг.", ["text:opening-letter"]),
        (ELSEWHERE, "The sum is 850.000 EUR.", BOTH),
        # Names of conversations and lists that anybody can write, and further links.
        (FREE + ANSWER, "Dear friend, kindly reply about the 2,500,000 USD.", BOTH),
        (FREE + LIST, "Dear friend, kindly reply about the 2,500,000 USD.", BOTH),
        (ELSEWHERE, "Kindly reply: https://a.example/ https://b.example/ $2,500,000 for you", BOTH),
        # In one's own name, or about a small sum.
        (COMPANY, "Good day dear friend, I have a donation of $2,500,000 for you. Kindly reply.", []),
        (FREE, "Did you get my mail about the lamp?", []),
        (FREE, "The tickets are 45 euros.", []),
        (ELSEWHERE, "The order has been sent.", []),
        ("", "Dear friend, kindly reply about the 2,500,000 USD.", []),
    ],
)
def test_opening_letter(header: str, text: str, kinds: list[str]) -> None:
    raw = f"{header}Subject: x\nContent-Type: text/plain; charset=utf-8\n\n{text}\n"
    found = find_kinds(opening_letter, Reading(read(raw.encode())))
    assert found == kinds


@pytest.mark.parametrize(
    ("header", "prove", "found"),
    [
        (ANSWER, know_sender, False),
        (LIST, know_member, False),
        ("", know_sender, True),  # answers nothing
        ("", know_list, True),  # names no list
    ],
)
def test_conversations_of_people_and_lists_that_are_known(
    header: str, prove: Callable[[Reading], Reading], found: bool
) -> None:
    reading = Reading(
        read(f"{FREE}{header}Subject: x\n\nDear friend, kindly reply about the 2,500,000 USD.\n".encode())
    )
    assert bool(list(opening_letter(prove(reading)))) is found
