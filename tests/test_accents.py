"""The table says what the normal form says, or nothing."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.names import remove_accents

MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufe00-\ufe0f\ufeff]+")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Crème brûlée", "Creme brulee"),
        ("Größe\xa0Ærø, 5 £ © º", "Große Ærø, 5 £ © o"),
        ("", ""),
        ("½ cup", None),
        ("soft\xadhyphen", None),
        ("\0", None),
        ("Привет", None),
        ("e\u0301", None),
    ],
)
def test_accents_go_and_the_rest_stays(text: str, plain: str | None) -> None:
    assert remove_accents(text) == plain


@given(st.text(st.characters(max_codepoint=0x17F)))
def test_it_never_disagrees_with_the_normal_form(text: str) -> None:
    assert remove_accents(text) in (None, MARKS.sub("", unicodedata.normalize("NFKD", text)))
