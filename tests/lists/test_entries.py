"""Keys that fit an index: short ones as they are, long ones cut, and never two entries under one key."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth.results import Authentication
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.entries import (
    MAX_KEY_BYTES,
    MAX_LOOKS,
    MAX_PHRASE_TEXT,
    FindingLimit,
    NormalForm,
    PhraseFinder,
    UnkeyedEntry,
    fold_phrase,
    limit_key,
    limit_keys,
)
from gatepost.lists.lookup import find_subjects
from gatepost.lists.rulings import Subject, rule_on
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.questions import Hit

URLS, PHRASES = BY_NAME["blocked-urls"], BY_NAME["blocked-phrases"]


@pytest.mark.parametrize("key", ["", "a", "x" * MAX_KEY_BYTES, "\u5b57" * (MAX_KEY_BYTES // 3), "\U0001f600" * 650])
def test_what_fits_stays(key: str) -> None:
    assert limit_key(key) == key


@given(st.text(alphabet="a\xe9\u5b57\U0001f600", min_size=0, max_size=6), st.integers(640, 3_000))
def test_what_is_cut_is_within_the_limit_and_longer_than_all_that_is_not(tail: str, count: int) -> None:
    for letter in ("a", "\xe9", "\u5b57", "\U0001f600", "\ud800"):
        key = letter * count + tail
        size, kept = len(key.encode("utf-8", "surrogatepass")), limit_key(key)
        if size <= MAX_KEY_BYTES:
            assert kept == key
        else:
            assert MAX_KEY_BYTES < len(kept.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES + 64
            assert kept != limit_key(key + "x")
            assert kept != limit_key(key[:-1])


def test_many_at_once() -> None:
    long = "x" * 5_000
    assert limit_keys(("a", "b")) == ("a", "b")
    assert limit_keys(("a", long)) == ("a", limit_key(long))
    assert limit_keys(()) == ()


def test_a_long_entry_is_shown_whole_and_deleted_by_its_spelling() -> None:
    written = "https://Example.com/" + "\u5b57" * 900
    entry = URLS.normalise(written)
    assert isinstance(entry, NormalForm)
    assert entry.shown == "example.com/" + "%E5%AD%97" * 900
    assert entry.key == limit_key(entry.shown) != entry.shown
    assert URLS.key(written) == entry.key
    assert URLS.key("x y" * 5_000) == limit_key("x y" * 5_000), "no link at all, and compared as it stands"


def test_a_long_link_is_matched_by_its_own_entry_and_no_other() -> None:
    path = "\u5b57" * 900
    mail = read(f"From: a@b.example\r\n\r\nhttps://example.com/{path}\r\n".encode())
    asked = find_subjects(mail, Envelope(), Authentication(), ())
    for stated, count in ((f"example.com/{path}", 1), (f"example.com/{path}x", 0), (f"example.com/{path[1:]}", 0)):
        entry = URLS.normalise(stated)
        assert isinstance(entry, NormalForm)
        keys = {key for subject in asked for key in subject.keys}
        assert (entry.key in keys) is bool(count)
        ruling = rule_on([Hit(URLS.name, "global", entry.key)], asked, authenticated=False)
        assert len(ruling.blocks) == count


def _find_phrases(listed: list[UnkeyedEntry], text: str) -> list[UnkeyedEntry]:
    return [entry for _, entry in PhraseFinder(listed).find([text])]


def _list_phrases(*shown: str) -> list[UnkeyedEntry]:
    return [UnkeyedEntry(PHRASES.name, "tenant", each, each) for each in shown]


@given(
    st.lists(st.text("ab _-!.é ", min_size=3, max_size=6).map(fold_phrase).filter(bool), max_size=8, unique=True),
    st.text("ab _-!.é ", max_size=40),
)
def test_phrases_are_found_where_a_plain_search_finds_them(phrases: list[str], text: str) -> None:
    """A phrase begins with a whole word, or with a sign, and no word goes on behind it."""
    folded = fold_phrase(text)
    expected = set()
    for phrase in phrases:
        first = re.match(r"\w+|", phrase)
        assert first is not None
        inside, behind = re.escape(phrase), r"(?![^\W_])" if phrase[-1].isalnum() else ""
        whole = rf"(?<!\w)(?={re.escape(first.group())}(?!\w))" if first.group() else ""
        if re.search(whole + inside + behind, folded):
            expected.add(phrase)
    assert {entry.shown for entry in _find_phrases(_list_phrases(*phrases), text)} == expected


def test_phrases_cost_what_the_text_is_long_however_many_they_are() -> None:
    few, many = PhraseFinder(_list_phrases("the b7")), PhraseFinder(_list_phrases(*(f"the b{i}" for i in range(500))))
    work = []
    for finder, words in ((few, 1_000), (many, 1_000), (many, 4_000)):
        assert list(finder.find(["the " * words])) == []
        work.append(finder.work)
    # 500 phrases have three lengths instead of one.
    assert work[1] == 3 * work[0]
    assert work[2] - work[1] == 4 * work[1]


def test_a_list_and_a_mail_that_are_made_for_each_other_end_at_a_limit() -> None:
    nested = _list_phrases(*("a " * length + "b" for length in range(1, 450)))
    finder = PhraseFinder(nested)
    with pytest.raises(FindingLimit, match="too many"):
        list(finder.find(["a " * 75_000]))
    assert finder.work < MAX_LOOKS + 1_000
    # The budget is that of a message: the next one is compared again.
    assert [entry for _, entry in finder.find(["a a b"])] == nested[1::-1]


def test_of_very_long_texts_the_beginning_is_compared_and_the_rest_is_a_limit() -> None:
    listed = _list_phrases("wire money")
    finding = PhraseFinder(listed).find(["wire money", "x" * MAX_PHRASE_TEXT, "wire money"])
    assert next(finding) == (0, listed[0])
    with pytest.raises(FindingLimit, match="too long"):
        next(finding)


def test_a_long_phrase_is_found_by_its_words() -> None:
    words = " ".join(f"\u5b57{number}" for number in range(200))
    entry = PHRASES.normalise(words.upper())
    assert isinstance(entry, NormalForm)
    run = "\u6f22" * 990
    long = PHRASES.normalise(f"{run} ende")
    assert isinstance(long, NormalForm)
    listed = [UnkeyedEntry(PHRASES.name, "global", each.key, each.shown) for each in (entry, long)]
    assert long.key != long.shown
    assert _find_phrases(listed, f"so: {run} Ende!") == [listed[1]]
    assert _find_phrases(listed, f"so: {words} und") == [listed[0]]
    assert _find_phrases(listed, f"so: {run[1:]} Ende!") == []
    assert Subject("text", long.key, "1").keys == (long.key,)


@pytest.mark.parametrize(
    "text", ["\U0001d416\U0001d408\U0001d411\U0001d404 money", "Wire\u2122 money", "\u03d3\u03f2\u03d4 money"]
)
def test_capitals_in_other_forms_are_folded(text: str) -> None:
    """Mathematical letters have no other case; in a phrase they would else stay capitals and match nothing."""
    phrase = fold_phrase(text)
    assert phrase == phrase.casefold() == fold_phrase(phrase)


def test_a_phrase_is_found_in_mathematical_capitals() -> None:
    assert fold_phrase("".join(chr(0x1D400 + ord(char) - 65) for char in "WIRE")) == "wire"
