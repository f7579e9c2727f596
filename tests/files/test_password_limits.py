"""Many encrypted archives and many words that may be their passwords: bounded work, and what was not tried is said."""

import pytest
from tests.files.archives import test_rar, test_sevenzip, test_zip_archive
from tests.variants import one_in

from gatepost.checks.files.traits import archives
from gatepost.checks.reading import Reading
from gatepost.files.archives.passwords import MAX_CANDIDATES, MAX_COUNTED, PasswordCandidates
from gatepost.files.values import MAX_ATTEMPTS, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part, Text

SAMPLES = {
    "7z": test_sevenzip.sample("aes"),
    "7z with encrypted names": test_sevenzip.sample("aeshe"),
    "zip": test_zip_archive.sample("aes256"),
    "rar 5": test_rar.encrypted5(power=15),
    "rar 4": test_rar.encrypted4(),
}


def open_all(content: bytes, text: str, budget: UnpackBudget, count: int = 20) -> list[File]:
    """Return the archives of a mail that has the same one so many times, each with a few bytes of its own behind it."""
    parts = tuple(
        Part(str(number + 2), names=(f"invoice-{number}.bin",), content=content + b"%d" % number)
        for number in range(count)
    )
    texts = tuple(Text(str(number), "plain", part) for number, part in enumerate(text.split("\n\n")))
    found = find_files(Message(texts=texts, parts=parts), budget)
    return [file for file in found if "/invoice" in file.path and file.path.count("/") == 1]


def words(count: int) -> str:
    """Return texts that name so many words, twelve in each: of one text no more cues are looked at."""
    lines = [f"The password is word{number:03}x." for number in range(count)]
    return "\n\n".join("\n".join(lines[place : place + 12]) for place in range(0, count, 12))


@pytest.mark.parametrize("name", one_in(6, SAMPLES))
def test_twenty_archives_share_the_attempts_and_say_what_was_not_tried(name: str) -> None:
    budget = UnpackBudget()
    found = open_all(SAMPLES[name], words(200), budget)
    assert len(found) == 20
    assert budget.attempts <= MAX_ATTEMPTS
    assert all("encrypted" in file.unread for file in found)
    assert all(file.seen("untried-passwords") for file in found)
    # The last one had no attempts left: none of its words was tried.
    untried, all_words = found[-1].seen("untried-passwords")[0].split(" of ")
    assert untried == all_words


def test_no_password_is_tried_where_encryption_is_of_an_unknown_kind_and_that_is_said() -> None:
    budget = UnpackBudget()
    found = open_all(test_rar.newer(crypt=True), words(200), budget)
    assert budget.attempts == 0
    for file in found:
        assert "encrypted" in file.unread
        untried, all_words = file.seen("untried-passwords")[0].split(" of ")
        assert untried == all_words


def test_one_archive_with_few_words_was_tried_with_all() -> None:
    (file,) = open_all(SAMPLES["zip"], "It comes by telephone.", UnpackBudget(), 1)
    assert "encrypted" in file.unread
    assert file.seen("untried-passwords") == ()


def test_words_that_are_no_candidates_are_counted() -> None:
    (file,) = open_all(SAMPLES["zip"], words(200), UnpackBudget(), 1)
    untried, all_words = map(int, file.seen("untried-passwords")[0].split(" of "))
    assert 0 < all_words - untried <= MAX_CANDIDATES
    many = Message(texts=(Text("1", "plain", "x"),), parts=tuple(Part(str(n), names=(f"{n}.zip",)) for n in range(900)))
    assert PasswordCandidates(many).left_out <= MAX_COUNTED


def test_the_password_is_found_among_many_words() -> None:
    text = f"The password is 7361.\n\n{words(200)}"
    (file,) = open_all(SAMPLES["zip"], text, UnpackBudget(), 1)
    assert file.seen("opened-with-password") == ("7361",)
    assert file.seen("untried-passwords") == ()


@pytest.mark.variant
def test_the_finding_says_how_many_passwords_were_not_tried() -> None:
    content = SAMPLES["7z"]
    message = Message(
        texts=tuple(Text(str(number), "plain", part) for number, part in enumerate(words(200).split("\n\n"))),
        parts=(Part("2", names=("a.7z",), content=content),),
    )
    files = find_files(message, UnpackBudget())
    (finding,) = [each for each in archives(Reading(files=files)) if each.kind == "file:encrypted-archive"]
    assert finding.facts["untried"] == files[0].seen("untried-passwords")[0]
