"""Readers of formats: what they take, what they pass over, and that no input raises through them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.feeds.sealed_reading import FeedFault, FeedItems, FeedPlan, read_csv, read_json_lines, read_plain
from gatepost.lists.catalogue import BY_NAME


def items(name: str = "blocked-urls", most: int = 1_000) -> FeedItems:
    return FeedItems(BY_NAME[name], "test", most)


def csv_plan(**options: Any) -> FeedPlan:
    return FeedPlan(BY_NAME["blocked-urls"], "test", 1_000, "csv", **options)


def test_plain_text_with_remarks_and_junk() -> None:
    found = items()
    body = (
        b"\xef\xbb\xbf# remark\r\n; other\r\nhxxps://Evil.Example/a # why\r\n\r\nb.example ; SBL1\nnot it!\n\xff\xfe\n"
    )
    read_plain(body + b"x" * 20_000 + b"\nb.example", found, "url")
    assert list(found.entries) == ["evil.example/a", "b.example"]
    assert (found.read, found.invalid, found.repeated) == (6, 3, 1)
    assert found.entries["evil.example/a"].comment.startswith("test, 20")
    assert found.entries["evil.example/a"].comment.endswith(": why")
    assert [each.reason for each in found.rejected][1:] == ["is not UTF-8", "is longer than 10,000 bytes"]


def test_phrases_keep_what_looks_like_a_remark() -> None:
    found = items("blocked-phrases")
    read_plain(b"wire # today\n", found, "phrase")
    assert list(found.entries) == ["wire # today"]


def test_csv_by_number_and_by_name() -> None:
    found = items()
    read_csv(b'1,"a.example"\n2,"b.exa""mple"\n3\n', found, csv_plan(column=2))
    assert list(found.entries) == ["a.example"]
    assert found.invalid == 2
    named = items()
    body = b"# made today\n# id;URL;x\n1;c.example;2\n#4;no.example;1\n"
    read_csv(body, named, csv_plan(column="url", delimiter=";", header=True))
    assert list(named.entries) == ["c.example"]
    numbered = items()
    read_csv(b"url\nd.example\n", numbered, csv_plan(header=True))
    assert list(numbered.entries) == ["d.example"]
    with pytest.raises(FeedFault, match="no column 'host'"):
        read_csv(body, items(), csv_plan(column="host", header=True))


def test_a_quote_that_nobody_closes_does_not_swallow_the_feed() -> None:
    found = items()
    read_csv(b'"open\n' + b"a.example\n" * 30_000, found, csv_plan())
    assert found.invalid >= 1
    assert "a.example" in found.entries


def test_lines_of_json() -> None:
    found = items()
    lines = [{"ioc": {"url": "a.example"}}, {"ioc": {"url": ["b.example", "c.example", 3]}}, {"ioc": 1}, [1]]
    read_json_lines("\n".join(map(json.dumps, lines)).encode() + b"\n{broken\n" + b"[" * 9_000, found, "ioc.url")
    assert list(found.entries) == ["a.example", "b.example", "c.example"]
    assert found.invalid == 5


def test_more_entries_than_allowed_end_the_run() -> None:
    with pytest.raises(FeedFault, match="more than 2 entries"):
        read_plain(b"a.example\nb.example\nb.example\nc.example\n", items(most=2), "url")


@given(st.binary(max_size=300))
def test_no_body_raises_anything_but_a_fault(body: bytes) -> None:
    found = items()
    read_plain(body, found, "url")
    read_json_lines(body, found, "a")
    read_csv(body, found, csv_plan())
    assert found.read == found.invalid + len(found.entries) + found.repeated
