"""The letters that the authors wrote: each is a message that can be read, and lures lead to no real site."""

import re
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.variants import one_in
from tools.labelled_mail import read_labelled
from tools.letters import COLLECTIONS, Way, choose_way, list_books, read_letters, read_ways, write_corpus, write_message

from gatepost.mail.reader import read
from gatepost.names import is_ip

BOOKS = list_books()
LANGUAGES = "en de fr es it pt nl pl cs hu ro sv da fi tr ru ar zh ja ko".split()
ENOUGH = 40
# Thousands of letters take long to read; every third of each file shows what is wrong with a file.
EVERY = 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_enough_letters(language: str) -> None:
    kinds = [letter.kind == "ham" for letter in read_letters(language)]
    assert kinds.count(True) >= ENOUGH
    assert kinds.count(False) >= ENOUGH


@pytest.mark.parametrize("book", one_in(5, BOOKS))
def test_letters_are_messages(book: str) -> None:
    letters = read_letters(book)
    assert len({letter.text for letter in letters}) == len(letters), "no letter stands there twice"
    for letter in letters[::EVERY]:
        message = read(write_message(letter))
        assert str(message.senders[0]).lower() == letter.split_sender()[1].lower()
        assert message.texts, letter.subject
    for letter in letters:
        hosts = set(re.findall(r"https?://([^/\s)\]?#:]+)", letter.text)) if letter.kind != "ham" else set()
        real = {host for host in hosts if not host.lower().endswith(".example") and not is_ip(host)}
        assert not real, letter.subject


@pytest.mark.variant
def test_a_corpus_has_four_collections(tmp_path: Path) -> None:
    count = write_corpus(tmp_path)
    found = list(read_labelled([tmp_path]))
    assert len(found) == count
    assert {mail.corpus.partition("_")[0] for mail in found} == {f"letters-{each}" for each in COLLECTIONS}
    assert message_from_bytes(found[0].raw)["From"]


ROUTE = "from mx.evil.test ([192.0.2.7]) by mx.house.example; Tue, 14 Oct 2025 09:12:00 +0000"
LINKED = (
    f"Received: {ROUTE}\r\nFrom: Bank <x@evil.test>\r\nReply-To: y@mail.test\r\nSubject: x\r\n\r\n"
    "See http://www.w3.org/ and https://site.evil.test/login\r\n"
)


def test_a_lure_comes_the_way_of_a_lure_and_an_honest_letter_that_of_wanted_mail(tmp_path: Path) -> None:
    """A letter keeps its words; a lure takes address and site of a real one, an honest letter keeps both."""
    rows = ["path\tcorpus\tlabel\tmail_from\tclient_ip\thelo"]
    for name, label, raw in (("a", "phish", LINKED), ("b", "phish", LINKED.partition("See")[0]), ("c", "ham", LINKED)):
        corpus = "foff_milter" if label == "ham" else "phishing_pot"
        (tmp_path / name).write_bytes(raw.encode())
        rows.append(f"{name}\t{corpus}\t{label}\tx@evil.test\t192.0.2.7\tmx.evil.test")
    (tmp_path / "INDEX.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    wanted, unwanted = read_ways([tmp_path])
    assert [way.site for way in (*wanted, *unwanted)] == ["site.evil.test", "site.evil.test", ""]
    assert unwanted[0] == Way(
        (("Received", ROUTE),),
        "192.0.2.7",
        "mx.evil.test",
        "x@evil.test",
        "x@evil.test",
        "y@mail.test",
        "site.evil.test",
    )
    for letter in read_letters("hu"):
        way = choose_way(letter, wanted, unwanted)
        message = read(write_message(letter, way))
        is_lure, hosts = letter.kind != "ham", {link.host for link in message.links if link.host}
        assert (str(message.senders[0]) == "x@evil.test") == is_lure
        assert not is_lure or hosts <= {"site.evil.test"}, letter.subject
        assert message.headers.all("received") == (ROUTE,)
