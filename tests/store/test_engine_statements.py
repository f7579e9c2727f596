"""One spelling for both engines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.store.engine import in_sqlite, storable


@pytest.mark.parametrize(
    ("statement", "spelt"),
    [
        ("SELECT 1 WHERE a = $1 AND b = $12", "SELECT 1 WHERE a = ?1 AND b = ?12"),
        ("WHERE key = ANY($2) FOR UPDATE", "WHERE key IN carray(?2)"),
        ("FROM t FOR KEY SHARE", "FROM t"),
        ("$1::bigint[], $2::text", "?1, ?2"),
        ("SET v = GREATEST(v + 1, $1)", "SET v = max(v + 1, ?1)"),
    ],
)
def test_in_sqlite(statement: str, spelt: str) -> None:
    assert in_sqlite(statement) == spelt


@given(st.text(alphabet=st.characters(codec=None) | st.sampled_from("\0\ud800\udfff\U0001f600")))
def test_storable_text_is_utf8_without_nul_and_stays(text: str) -> None:
    kept = storable(text)
    assert "\0" not in kept
    assert kept.encode().decode() == kept == storable(kept)
    if text.isascii() and "\0" not in text:
        assert kept == text
