"""Readers of formats: what they take, what they pass over, and that no input raises through them."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.feeds.formats import (
    FeedFault,
    FeedItems,
    FeedPlan,
    PartKind,
    PartSaid,
    ReadPart,
    TaxiiPage,
    date_header,
    parse_pattern,
    read_bundle,
    read_csv,
    read_event,
    read_json_lines,
    read_misp,
    read_part,
    read_plain,
    read_taxii,
)
from gatepost.lists.catalogue import BY_NAME

UID = "5a1b2c3d-0000-4000-8000-000000000001"


def items(name: str = "blocked-urls", most: int = 1_000) -> FeedItems:
    return FeedItems(BY_NAME[name], "test", most)


def csv_plan(**options: Any) -> FeedPlan:
    return FeedPlan(BY_NAME["blocked-urls"], "test", 1_000, "csv", **options)


def reading(found: FeedItems) -> ReadPart:
    """A reader of parts in this process, which the service never has."""

    async def read(what: PartKind, body: bytes, since: int) -> PartSaid:
        return read_part(csv_plan(), found, what, body, since)

    return read


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


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("[url:value = 'http://a.example/x']", [("url", "http://a.example/x")]),
        ("[domain-name:value='a.example']", [("host", "a.example")]),
        (" [ ipv4-addr:value = '192.0.2.1' ] ", [("address", "192.0.2.1")]),
        (
            "[ipv6-addr:value IN ('2001:db8::1', '2001:db8::2')]",
            [("address", "2001:db8::1"), ("address", "2001:db8::2")],
        ),
        ("[file:hashes.'SHA-256' = 'ab']", [("sha256", "ab")]),
        ("[email-addr:value = 'it\\'s@a.example']", [("email", "it's@a.example")]),
        ("[url:value = 'a' OR domain-name:value = 'b']", [("url", "a"), ("host", "b")]),
        ("[url:value = 'a'] OR [domain-name:value = 'b']", [("url", "a"), ("host", "b")]),
        ("[url:value = 'a' OR file:name = 'x.exe']", [("url", "a")]),
        ("[file:name = 'x.exe']", None),
        ("[url:value = 'a' AND domain-name:value = 'b']", None),
        ("[url:value = 'a'] AND [domain-name:value = 'b']", None),
        ("[url:value = 'a'] FOLLOWEDBY [url:value = 'b']", None),
        ("[url:value LIKE 'a%']", None),
        ("[url:value != 'a']", None),
        ("[NOT url:value = 'a']", None),
        ("[url:value = 'a'] WITHIN 5 SECONDS", None),
        ("[url:value = 'a", None),
        ("[url:value = 'a'", None),
        ("url:value = 'a'", None),
        ("[url:value IN ('a'", None),
        ("[]", None),
        ("", None),
    ],
)
def test_patterns(pattern: str, values: list[tuple[str, str]] | None) -> None:
    assert parse_pattern(pattern) == (None if values is None else tuple(values))


@given(st.text(alphabet="[]()='\\, OR IN url:value\"x", max_size=200))
def test_no_pattern_raises(pattern: str) -> None:
    found = parse_pattern(pattern)
    assert found is None or all(isinstance(value, str) for _, value in found)


def indicator(pattern: str, **fields: Any) -> dict[str, Any]:
    return {"type": "indicator", "pattern": pattern, "pattern_type": "stix", "name": "lure", **fields}


def test_a_bundle() -> None:
    objects = [
        indicator("[url:value = 'http://a.example/x']"),
        indicator("[domain-name:value = 'old.example']", valid_until="2020-01-01T00:00:00Z"),
        indicator("[domain-name:value = 'b.example']", valid_until="2090-01-01T00:00:00Z"),
        indicator("[ipv4-addr:value = '192.0.2.1']"),
        indicator("[domain-name:value = 'when.example']", valid_until="tomorrow"),
        indicator("[url:value LIKE '%']"),
        indicator("rule x {}", pattern_type="yara"),
        indicator("[domain-name:value = 'gone.example']", modified="2026-01-02", revoked=True),
        indicator("[domain-name:value = 'gone.example']", modified="2026-01-01"),
        {"type": "indicator", "pattern": 5},
        {"type": "malware", "name": "m"},
        "text",
    ]
    found = items()
    read_bundle(json.dumps({"type": "bundle", "id": "bundle--1", "objects": objects}).encode(), found)
    assert list(found.entries) == ["a.example/x", "b.example"]
    assert found.entries["b.example"].expires == 3_786_912_000_000
    assert found.entries["a.example/x"].comment.endswith(": lure")
    assert found.revoked == {"gone.example"}
    assert (found.expired, found.other, found.invalid) == (1, 3, 3)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"type":"report"}', b"[" * 5_000, b'{"type":"bundle","objects":5}']
)
def test_what_is_no_bundle(body: bytes) -> None:
    with pytest.raises(FeedFault) as caught:
        read_bundle(body, items())
    assert caught.value.refused


def event(*attributes: dict[str, Any], objects: list[Any] | None = None) -> bytes:
    return json.dumps({"Event": {"info": "campaign", "Attribute": attributes, "Object": objects or []}}).encode()


def test_a_misp_event() -> None:
    def attribute(kind: str, value: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "value": value, "to_ids": True, **more}

    body = event(
        attribute("url", "http://a.example/"),
        attribute("domain|ip", "b.example|192.0.2.1"),
        attribute("hostname", "c.example", to_ids=False),
        attribute("domain", "gone.example", deleted=True),
        attribute("md5", "00"),
        {"type": "url"},
        objects=[{"Attribute": [attribute("hostname", "d.example")]}],
    )
    found = items()
    read_event(body, found)
    assert list(found.entries) == ["a.example", "b.example", "d.example"]
    assert found.revoked == {"gone.example"}
    assert found.invalid == 1
    networks = items("blocked-ips")
    read_event(body, networks)
    assert list(networks.entries) == ["192.0.2.1"]


def test_a_misp_folder_is_read_from_the_newest_on_and_only_events_are_fetched() -> None:
    other = UID[:-1] + "2"
    manifest = {UID: {"timestamp": "20"}, other: {"timestamp": 10}, "../../etc/passwd": {"timestamp": 30}, "x": 5}
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        f"{UID}.json": event({"type": "url", "value": "a.example", "to_ids": True}),
        f"{other}.json": event({"type": "url", "value": "b.example", "to_ids": True}),
    }
    asked: list[str] = []

    async def part(name: str) -> bytes:
        asked.append(name)
        return files[name]

    found = items()
    assert asyncio.run(read_misp(part, reading(found), 0)) == 20
    assert asked == ["manifest.json", f"{UID}.json", f"{other}.json"]
    assert list(found.entries) == ["a.example", "b.example"]
    assert found.invalid == 2
    asked.clear()
    assert asyncio.run(read_misp(part, reading(items()), 10)) == 20
    assert asked == ["manifest.json", f"{UID}.json"]
    files[f"{UID}.json"] = b"<html>"
    with pytest.raises(FeedFault, match="no MISP event"):
        asyncio.run(read_misp(part, reading(items()), 0))


def test_whoever_reads_a_manifest_names_no_paths() -> None:
    async def lie(_what: PartKind, _body: bytes, _since: int) -> PartSaid:
        return PartSaid(events=(UID, "../../etc/passwd"))

    asked: list[str] = []

    async def part(name: str) -> bytes:
        asked.append(name)
        return b""

    with pytest.raises(FeedFault, match="no uuid"):
        asyncio.run(read_misp(part, lie, 0))
    assert asked == ["manifest.json"]


def test_a_taxii_collection_page_by_page() -> None:
    pages = [
        TaxiiPage(
            json.dumps({"more": True, "next": "n1", "objects": [indicator("[url:value = 'a.example']")]}).encode()
        ),
        TaxiiPage(
            json.dumps({"more": True, "objects": [indicator("[url:value = 'b.example']")]}).encode(),
            "2026-01-01T00:00:00Z",
        ),
        TaxiiPage(b"{}", ""),
    ]
    asked: list[str] = []

    async def get(url: str) -> TaxiiPage:
        asked.append(url)
        return pages[len(asked) - 1]

    found = items()
    position = asyncio.run(read_taxii("https://t.example/api/collections/1/", get, reading(found), ""))
    assert position == "2026-01-01T00:00:00Z"
    assert list(found.entries) == ["a.example", "b.example"]
    assert asked[0] == "https://t.example/api/collections/1/objects/?match%5Btype%5D=indicator&limit=1000"
    assert "next=n1" in asked[1]
    assert "added_after=2026-01-01" in asked[2]
    assert "next=" not in asked[2]


def test_taxii_pages_without_an_end() -> None:
    async def again(_url: str) -> TaxiiPage:
        return TaxiiPage(b'{"more": true, "next": "same"}')

    with pytest.raises(FeedFault, match="does not say how"):
        asyncio.run(read_taxii("https://t.example/1", again, reading(items()), ""))
    assert date_header({"x-taxii-date-added-last": "2026-01-01T00:00:00Z"}) == "2026-01-01T00:00:00Z"
    assert date_header({"x-taxii-date-added-last": "x\r\ny"}) == ""


@given(st.binary(max_size=300))
def test_no_body_raises_anything_but_a_fault(body: bytes) -> None:
    found = items()
    read_plain(body, found, "url")
    read_json_lines(body, found, "a")
    read_csv(body, found, csv_plan())
    for reader in (read_bundle, read_event):
        with pytest.raises(FeedFault):
            reader(body, found)
    assert found.read == found.invalid + len(found.entries) + found.repeated
