"""Near-copies are recognised, whatever was changed in between; different texts and short notes are not."""

import random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.near_duplicates import MIN_WORDS, RUN, SIZE, compute_signature, index_keys, is_near_duplicate

WORDS = [first + second + third for first in "bdfgklmnprst" for second in "aeiou" for third in "lmnrst"]
TEXT = random.Random(1).choices(WORDS, k=120)
OTHER = random.Random(2).choices(WORDS, k=120)


@pytest.mark.parametrize(
    "copy",
    [
        TEXT,
        ["dear", "ann", *TEXT],
        [*TEXT, "order", "4711"],
        [*TEXT[:60], "friend", *TEXT[61:]],
        [*TEXT[:30], "12345", *TEXT[30:]],
    ],
)
def test_near_copies_are_alike(copy: list[str]) -> None:
    assert is_near_duplicate(compute_signature(TEXT), compute_signature(copy))


@pytest.mark.parametrize("different", [OTHER, TEXT[:60] + OTHER[:100], list(reversed(TEXT))])
def test_other_texts_are_not(different: list[str]) -> None:
    assert not is_near_duplicate(compute_signature(TEXT), compute_signature(different))


@pytest.mark.parametrize("words", [TEXT, ["größe", "straße", *TEXT], ["слово"] * 7 + OTHER])
def test_the_signature_is_made_of_the_hashes_of_all_runs(words: list[str]) -> None:
    """Signatures are kept: those of today must be those of tomorrow, whatever way they are worked out."""
    runs = {crc32(" ".join(words[place : place + RUN]).encode()) for place in range(len(words) - RUN + 1)}
    assert list(compute_signature(words)) == sorted(runs)[:SIZE]


def test_a_short_note_has_no_signature() -> None:
    assert compute_signature(TEXT[: MIN_WORDS - 1]) == ()
    assert compute_signature(["4711"] * 100) == ()
    assert not is_near_duplicate((), ())


@given(st.lists(st.text(max_size=8), max_size=80))
def test_any_words_have_a_signature_or_none(words: list[str]) -> None:
    assert len(compute_signature(words)) in range(SIZE + 1)


@given(st.sets(st.integers(0, 20), max_size=SIZE), st.sets(st.integers(0, 20), max_size=SIZE))
def test_near_duplicates_have_a_key_in_common(one: set[int], other: set[int]) -> None:
    first, second = tuple(sorted(one)), tuple(sorted(other))
    if is_near_duplicate(first, second):
        assert set(index_keys(first)) & set(index_keys(second))


def test_a_signature_has_half_as_many_keys_as_hashes() -> None:
    assert index_keys(compute_signature(TEXT)) == compute_signature(TEXT)[: SIZE // 2]
