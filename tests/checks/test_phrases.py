"""What a message says, worked out once for all checks that ask."""

from tests.checks.readings import letter

from gatepost.checks.phrases import MAX_CHARS, Phrases, find_phrases, quote
from gatepost.checks.reading import Reading
from gatepost.mail.message import Message, Text


def search(*texts: str, subject: str = "") -> Phrases:
    parts = tuple(Text(str(number), "plain", text) for number, text in enumerate(texts))
    return find_phrases(Reading(Message(subject=subject, texts=parts)))


def test_it_is_worked_out_once() -> None:
    reading = letter("verify your account")
    assert find_phrases(reading) is find_phrases(reading)


def test_subject_and_text_are_read_and_told_apart() -> None:
    found = search("Please verify your account.", subject="Congratulations, you have won")
    assert found.of("credential") == ("verify your account",)
    assert found.in_subject == {"prize"}


def test_what_is_quoted_is_read_as_well() -> None:
    assert search("I got this:\n> verify your account\nIs it real?").of("credential") == ("verify your account",)
    assert search("> verify your\n> account").of("credential") == ("verify your account",)


def test_a_phrase_counts_once_and_in_its_order() -> None:
    found = search("unlock your account, verify your account, unlock your account")
    assert found.of("credential") == ("unlock your account", "verify your account")


def test_a_text_that_repeats_another_is_read_once() -> None:
    assert search("verify your account", "Verify  your account").text.count("verify") == 1


def test_a_very_long_text_is_read_to_its_limit() -> None:
    assert search("x " * MAX_CHARS + "verify your account").count_of("credential") == 0
    assert len(search("word " * MAX_CHARS).text) <= MAX_CHARS + 10


def test_some_of_the_phrases_are_shown() -> None:
    assert quote(map(str, range(10))) == "0; 1; 2; 3; 4; 5"
