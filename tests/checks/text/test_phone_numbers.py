"""The checks of `text/phone_numbers`: numbers that only people can read, and numbers as everybody writes them."""

import pytest
from tests.checks.readings import find_strengths, letter
from tests.known_senders import know_member, know_sender

from gatepost.checks.text.fraud import disguised_number, find_phone_number

CHARGE = "Your subscription has been renewed and $399 will be charged. To cancel, call our helpline at "


@pytest.mark.parametrize(
    "number",
    [
        "+1 (8O5) 5S5-O1OO",
        "1-8oo-555-o1oo",
        "8 0 5 5 5 5 0 1 0 0",
        "1-8-0-5-5-5-5-0-1-0-0",
        "eight zero five, five five five, zero one zero zero",
        "\uff18\uff10\uff15 \uff15\uff15\uff15 \uff10\uff11\uff10\uff10",
        "\u2467\u24ea\u2464 \u2464\u2464\u2464 \u24ea\u2460",
        "8\ufe0f\u20e30\ufe0f\u20e35\ufe0f\u20e3 5\ufe0f\u20e35\ufe0f\u20e35\ufe0f\u20e3 0\ufe0f\u20e3",
        "\U0001d7ea\U0001d7e2\U0001d7e7 \U0001d7e7\U0001d7e7\U0001d7e7 \U0001d7e2\U0001d7e3",
    ],
)
def test_disguised_numbers(number: str) -> None:
    (finding,) = disguised_number(letter(CHARGE + number))
    assert finding.strength == 1.0


@pytest.mark.parametrize(
    "number",
    [
        "(805) 555-0100",
        "+49 30 901820",
        "1-800-FLOWERS",
        "0800 555 0100",
        "extension 7",
        "one of our two offices",
        "the number on your card, 5 to 9",
        "version 1.2.3.4.5.6.7.8.9.10.11",
        "order 8O5",
    ],
)
def test_numbers_as_everybody_writes_them(number: str) -> None:
    assert list(disguised_number(letter(CHARGE + number))) == []


def test_it_takes_talk_of_a_charge_or_a_call() -> None:
    number = "+1 (8O5) 5S5-O1OO"
    assert find_strengths(disguised_number, letter(f"Please call us back at {number}")) == [0.5]
    assert find_strengths(disguised_number, letter(CHARGE + number + " word" * 1_000)) == [1.0]
    posted = letter(CHARGE + number, fields="List-Post: <mailto:l@l.example>\n")
    assert find_strengths(disguised_number, posted) == [1.0], "anybody can name a list"
    assert list(disguised_number(know_member(posted))) == []


def test_links_to_several_sites_help_a_known_sender_only() -> None:
    reading = letter(f"{CHARGE} +1 (8O5) 5S5-O1OO https://a.example/ https://b.example/")
    assert find_strengths(disguised_number, reading) == [1.0]
    assert find_strengths(disguised_number, know_sender(reading, aligned=False)) == [1.0]
    assert find_strengths(disguised_number, know_sender(reading)) == [0.4]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("call (805) 555-0100 now", "(805) 555-0100"),
        ("call +1(805)5550100 now", "+1(805)5550100"),
        ("call +1 – (805) - (555) - (0100) now", "+1 – (805) - (555) - (0100)"),
        ("f(805)5550100", ""),
        ("call 1-8o5-555-o1oo now", "1-8o5-555-o1oo"),
        ("call us", ""),
        ("1" * 5_000, ""),
        ("1 " * 5_000, "1 1 1 1 1 1 1 1 1 1 1 1"),
        ("one " * 5_000, "one one one one one one one one one one one one one one one"),
        ("(" * 5_000, ""),
    ],
)
def test_the_first_number_of_a_text(text: str, number: str) -> None:
    assert find_phone_number(text) == number
