"""Lines of a stream: what a row becomes, and what is remembered of times."""

import msgspec
import pytest

from gatepost.abby import lists
from gatepost.abby.lists import EntryLineEncoder
from gatepost.api.lists import PublicListsEntry

ROW = ("key", "Shown", 'a "comment"\n', 0, 1_700_000_000_123, "key:x", None, 3, None)


def test_a_row_is_a_line() -> None:
    full = ("k", "\U0001f600", "", 1, 2, "cli", 4_000_000_000_000, 0, 1_700_000_000_123)
    raw = EntryLineEncoder()([ROW, full])
    assert raw.count(b"\n") == 2
    assert raw.endswith(b"\n")
    first, second = (msgspec.json.decode(line, type=PublicListsEntry) for line in raw.splitlines())
    assert first == PublicListsEntry(
        "Shown", 'a "comment"\n', "1970-01-01T00:00:00.000Z", "2023-11-14T22:13:20.123Z", "key:x", None, 3, None
    )
    assert (second.entry, second.expires) == ("\U0001f600", "2096-10-02T07:06:40.000Z")
    assert second.last_hit == "2023-11-14T22:13:20.123Z"


def test_times_that_are_all_different_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MAX_TIMES", 10)
    lines = EntryLineEncoder()
    rows = [("k", "k", "", number, number + 1, "cli", None, 0, None) for number in range(1_000)]
    found = [msgspec.json.decode(line) for line in lines(rows).splitlines()]
    assert [each["created"][-5:] for each in found[:3]] == [".000Z", ".001Z", ".002Z"]
    assert found[999]["modified"] == "1970-01-01T00:00:01.000Z"
    assert len(lines._times) <= 10
