"""Edits of a message that comes in pieces: the same as on the whole of it, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from gatepost.scanning.request import Edit, apply_edits, order_edits


@given(
    st.binary(max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.binary(max_size=4)), max_size=6),
    st.integers(1, 70),
)
def test_pieces_make_no_difference(raw: bytes, places: list[tuple[int, int, bytes]], size: int) -> None:
    edits = order_edits((Edit(*place) for place in places), len(raw))
    if edits is None:
        return
    expected, position = b"", 0
    for edit in edits:
        expected += raw[position : edit.start] + edit.text
        position = edit.end
    expected += raw[position:]
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert b"".join(apply_edits(pieces, edits)) == expected


def test_what_overlaps_or_lies_outside_is_refused() -> None:
    assert order_edits([Edit(2, 4), Edit(3, 5)], 9) is None
    assert order_edits([Edit(2, 10)], 9) is None
    assert order_edits([Edit(4, 2)], 9) is None
    assert order_edits([Edit(4, 9), Edit(0, 4)], 9) == (Edit(0, 4), Edit(4, 9))
