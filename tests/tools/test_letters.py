"""The letters that the authors wrote: each is a message that can be read, and lures lead to no real site."""

from email import message_from_bytes
from pathlib import Path

import pytest
from tools.letters import COLLECTIONS, list_books, read_letters, write_corpus, write_message

from gatepost.cli.labelled_mail import read_labelled
from gatepost.mail.reader import read
from gatepost.names import is_ip

BOOKS = list_books()
LANGUAGES = "en de fr es it pt nl pl cs hu ro sv da fi tr ru ar zh ja ko".split()
ENOUGH = 40


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_enough_letters(language: str) -> None:
    kinds = [letter.kind == "ham" for letter in read_letters(language)]
    assert kinds.count(True) >= ENOUGH
    assert kinds.count(False) >= ENOUGH


@pytest.mark.parametrize("book", BOOKS)
def test_letters_are_messages(book: str) -> None:
    letters = read_letters(book)
    assert len({letter.text for letter in letters}) == len(letters), "no letter stands there twice"
    for letter in letters:
        message = read(write_message(letter))
        assert str(message.senders[0]).lower() == letter.split_sender()[1].lower()
        assert message.texts, letter.subject
        if letter.kind != "ham":
            hosts = {link.host for link in message.links if link.host and not is_ip(link.host)}
            assert all(host.endswith(".example") for host in hosts), (letter.subject, hosts)


def test_a_corpus_has_four_collections(tmp_path: Path) -> None:
    count = write_corpus(tmp_path)
    found = list(read_labelled([tmp_path]))
    assert len(found) == count
    assert {mail.corpus.partition("_")[0] for mail in found} == {f"letters-{each}" for each in COLLECTIONS}
    assert message_from_bytes(found[0].raw)["From"]
