"""What is added to relayed mail and what is taken out: forgeries go, every other byte stays."""

import asyncio
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.analysis.report import Report
from gatepost.scanning.request import ScanResult, apply_edits
from gatepost.scanning.spool import Spool
from gatepost.smtp.trace import (
    MAX_FIELDS,
    MAX_HEADER,
    MAX_RESULTS,
    PIECE,
    Arrival,
    build_trace_fields,
    read_header,
)

ARRIVAL = Arrival("client.example", "192.0.2.1", "ESMTPS", "b@y.example", 1_700_000_000.0)
NAME = "gate.example"


def result(*tags: str) -> ScanResult:
    return ScanResult("0198c5a2-7c11-7d3e-9f00-0000000000ff", 1, 2, Report("bulk", "deliver", tags, 0, "why"))


def stripped(folder: Path, raw: bytes, memory: int) -> bytes:
    with Spool(folder, memory).new() as body:
        body.write(raw)
        asyncio.run(body.finish())
        header = read_header(next(body.chunks(MAX_HEADER), b""), NAME)
        return b"".join(apply_edits(body.chunks(PIECE), header.claims))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"A: b\r\n\r\nX-Gatepost-Id: body\r\n", None),
        (b"X-Gatepost-Verdict: clean\r\nA: b\r\n\r\nx", b"A: b\r\n\r\nx"),
        (b"A: b\r\nx-gatepost-anything : clean\r\n folded\r\n\tmore\r\nC: d\r\n\r\nx", b"A: b\r\nC: d\r\n\r\nx"),
        (b"X-Gatepost-Id: 1\r\nX-Gatepost-Id: 2\r\n", b""),
        (b"X-Gatepostal: kept\r\nNot-X-Gatepost-Id: kept\r\n\r\n", None),
        (b"Authentication-Results: gate.example; spf=pass\r\nA: b\r\n\r\n", b"A: b\r\n\r\n"),
        (b"Authentication-Results: (c) GATE.example 1; spf=pass\r\nA: b\r\n\r\n", b"A: b\r\n\r\n"),
        (b"Authentication-Results:\r\n gate.example; spf=pass\r\n\r\n", b"\r\n"),
        (b"Authentication-Results: other.example; spf=pass\r\n\r\n", None),
        (b"Authentication-Results: ; spf=pass\r\n\r\n", b"\r\n"),
        (b"A: b\r\njunk\r\nX-Gatepost-Id: 1\r\nC: d\r\n\r\n", b"A: b\r\njunk\r\nC: d\r\n\r\n"),
        (b" folds\r\nX-Gatepost-Id: 1\r\n\r\n", b"X-Stray-Line: folds\r\n\r\n"),
        (b"\tfolds\r\n\tagain\r\nA: b\r\n\r\n", b"X-Stray-Line:\tfolds\r\n\tagain\r\nA: b\r\n\r\n"),
        (b" \r\nA: b\r\n\r\n", b"X-Stray-Line: \r\nA: b\r\n\r\n"),
        (b"\r\nX-Gatepost-Id: body\r\n", None),
        (b"", None),
        (b"X-Gatepost-Id: no line end", None),
    ],
)
@pytest.mark.parametrize("memory", [1 << 20, 0])
def test_forged_fields_go_and_nothing_else(before: bytes, after: bytes | None, memory: int, tmp_path: Path) -> None:
    assert stripped(tmp_path, before, memory) == (before if after is None else after)


def test_pieces_of_a_large_message_join(tmp_path: Path) -> None:
    raw = b"A: b\r\nX-Gatepost-Id: " + b"x" * 300_000 + b"\r\nC: " + b"y" * 300_000 + b"\r\n\r\n" + b"z" * 3_000_000
    expected = b"A: b\r\nC: " + b"y" * 300_000 + b"\r\n\r\n" + b"z" * 3_000_000
    assert stripped(tmp_path, raw, 1000) == expected


@given(
    st.lists(st.sampled_from([b"A: b\r\n", b" c\r\n", b"X-Gatepost-Id: 1\r\n", b"junk\r\n", b"\r\n", b"x"]), max_size=9)
)
def test_without_claims_no_byte_changes(lines: list[bytes]) -> None:
    raw = b"".join(lines)
    header = read_header(raw, NAME)
    kept = b"".join(apply_edits([raw], header.claims))
    cut = sum(claim.end - claim.start for claim in header.claims)
    assert len(kept) == len(raw) - cut + len(b"X-Stray-Line:") * raw.startswith(b" ")
    stray = b"X-Stray-Line:" if raw.startswith(b" ") else b""
    assert header.claims or kept == raw
    assert all(
        raw[claim.start : claim.end].lower().startswith(b"x-gatepost-") or claim.text == stray
        for claim in header.claims
    )
    fields = message_from_bytes(b"Ours: x\r\n" + kept, policy=policy.compat32)
    assert fields["Ours"] == "x", "nothing is said in a field of ours"


def test_what_is_added_reads_as_header_fields() -> None:
    top = build_trace_fields(result("list:blocked-senders", *(f"url:tag-{n}" for n in range(30))), NAME, ARRIVAL)
    assert all(len(line) <= 78 for line in top.split(b"\r\n"))
    message = message_from_bytes(top + b"\r\n", policy=policy.default)
    assert message.keys() == [
        "Authentication-Results",
        "X-Gatepost-Id",
        "X-Gatepost-Verdict",
        "X-Gatepost-Decision",
        "X-Gatepost-Tags",
        "Received",
    ]
    assert message["X-Gatepost-Id"] == "0198c5a2-7c11-7d3e-9f00-0000000000ff"
    assert (message["X-Gatepost-Verdict"], message["X-Gatepost-Decision"]) == ("bulk", "deliver")
    assert message["X-Gatepost-Tags"].split(", ")[1] == "url:tag-0"
    assert str(message["Authentication-Results"]).split() == ["gate.example;", "spf=none;", "dkim=none;", "dmarc=none"]
    assert " ".join(str(message["Received"]).split()) == (
        "from client.example ([192.0.2.1]) by gate.example with ESMTPS id 0198c5a2-7c11-7d3e-9f00-0000000000ff "
        "for <b@y.example>; Tue, 14 Nov 2023 22:13:20 -0000"
    )


@pytest.mark.parametrize("hostile", ["x) by evil", "a\r\nX-Evil: 1", "ä" * 300, "[192.0.2.1]", "", "(" * 300, "a;b"])
def test_a_client_writes_nothing_into_our_fields(hostile: str) -> None:
    arrival = Arrival(hostile, "2001:db8::1", "SMTP", hostile, 0.0)
    top = build_trace_fields(result(), NAME, arrival)
    message = message_from_bytes(top + b"\r\n", policy=policy.default)
    assert len(message.keys()) == 6
    assert "evil" not in " ".join(message.keys()).lower()
    assert str(message["Received"]).count("(") == 1
    assert "X-Gatepost-Tags: none\r\n" in top.decode()


def test_a_header_that_is_not_read_to_its_end_is_not_whole() -> None:
    """Claims in what was not read would be sent on. Hostile headers cost no more than long ones."""
    claim, hop = b"X-Gatepost-Verdict: clean\r\n", b"Received: x\r\n"
    for raw, whole, claims, hops in (
        (b"a:\r\n" * (MAX_FIELDS - 1) + b"\r\nbody", True, 0, 0),
        (b"a:\r\n" * (MAX_FIELDS + 1) + claim + b"\r\nbody", False, 0, 0),
        (hop * (MAX_FIELDS - 1) + b"\r\n" + hop, True, 0, MAX_FIELDS - 1),
        (hop * MAX_FIELDS + b"\r\n" + hop, True, 0, MAX_FIELDS),
        (hop * (MAX_FIELDS + 1) + b"\r\n" + hop, False, 0, MAX_FIELDS),
        (b"junk\r\n" * 200_000 + claim, False, 0, 0),
        (b"A: " + b"x" * MAX_HEADER + b"\r\n" + claim + b"\r\nbody", False, 0, 0),
        (claim * 150_000, False, MAX_FIELDS, 0),
        (b"A: b\r\n" + claim, True, 1, 0),
        (b"", True, 0, 0),
    ):
        header = read_header(raw, NAME)
        assert (header.whole, len(header.claims), header.hops) == (whole, claims, hops)


def test_of_many_results_few_are_read_and_the_others_left_out() -> None:
    raw = b"Authentication-Results: theirs.example; spf=pass\r\n" * 200 + b"\r\nbody"
    header = read_header(raw, NAME)
    assert (header.whole, len(header.claims)) == (True, 200 - MAX_RESULTS)
    assert b"".join(apply_edits([raw], header.claims)).count(b"theirs") == MAX_RESULTS
