"""Every limit is reached, named, and costs work that grows no faster than the message. Work is counted, not timed."""

from collections.abc import Callable

import pytest

from gatepost.findings.kinds import MIME_BARE_CR, MIME_NUL
from gatepost.mail.budget import DEFECTS, ReadBudget, ReadLimits
from gatepost.mail.reader import MessageParts, read_within

HEAD = b"From: a@example.org\r\n"
MIXED = HEAD + b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
GZIPPED = b"Content-Transfer-Encoding: x-gzip64\r\n\r\n"

CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "100,000 parts": (lambda: MIXED + b"--b\r\n\r\nx\r\n" * 100_000, "limit:parts"),
    "depth 10,000 of multiparts": (
        lambda: (
            HEAD
            + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(10_000))
        ),
        "limit:depth",
    ),
    "depth 10,000 of messages": (lambda: HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 10_000, "limit:depth"),
    "a header of 50 MiB": (lambda: HEAD + b"X: " + b"a" * (50 << 20) + b"\r\n\r\nx", "limit:header-size"),
    "100,000 fields": (lambda: HEAD + b"X: y\r\n" * 100_000 + b"\r\nx", "limit:header-fields"),
    "60,000 recipients": (lambda: b"To: " + b"u@example.org, " * 60_000 + b"\r\n\r\nx", "limit:addresses"),
    "an encoded word of 5 MB": (
        lambda: b"Subject: =?utf-8?b?" + b"QUJD" * 1_250_000 + b"?=\r\n\r\nx",
        "limit:header-size",
    ),
    "50,000 encoded words": (lambda: b"Subject: " + b"=?utf-8?q?a?= " * 50_000 + b"\r\n\r\nx", "limit:encoded-words"),
    "5,000,000 lines of dashes": (lambda: MIXED + b"--\r\n" * 5_000_000, "limit:boundaries"),
    "300,000 prefixes of the boundary": (lambda: MIXED + b"--bx\r\n" * 300_000, "mime:boundary-prefix"),
    "250,000 lines that could begin a part": (
        lambda: MIXED + b" --x\r\n" * 250_000 + b" --y\r\nContent-Type: text/plain; name=a.exe\r\n\r\nMZ",
        "limit:alternatives",
    ),
    "base64 too large to read in every way": (
        lambda: HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n" + b"QQ==" * 1_000_000,
        "limit:alternatives",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_limit_is_named_and_work_is_bounded(name: str) -> None:
    make, kind = CASES[name]
    raw = make()
    budget = ReadBudget()
    message = read_within(raw, budget)
    assert kind in {defect.kind for defect in message.defects}
    limits, work = budget.limits, budget.work
    assert work.parts <= limits.parts
    assert work.fields <= limits.all_header_fields + limits.header_fields
    assert work.delimiters <= limits.delimiters + 20
    assert work.alternatives <= limits.alternatives
    assert work.addresses <= 3 * limits.addresses
    assert work.decoded_bytes <= len(raw) + limits.alternative_bytes
    assert len(message.defects) <= limits.defects + len(DEFECTS)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: MIXED + b"--b\r\n\r\nhello\r\n" * n,
        lambda n: MIXED + b"--bx\r\n" * n,
        lambda n: MIXED + b"\r--b\rContent-Type: text/plain" * n,
        lambda n: HEAD + b"\r\n" + b"begin 644 a\r\n#;VYE\r\n" * n,
        lambda n: HEAD + b"\r\n" + b"--x\r\nContent-Type: text/plain\r\n\r\nhello\r\n" * n,
    ],
)
def test_twice_the_message_is_at_most_twice_the_work(make: Callable[[int], bytes]) -> None:
    def work(size: int) -> int:
        budget = ReadBudget()
        MessageParts(make(size), budget)
        done = budget.work
        return done.parts + done.fields + done.delimiters + done.decoded_bytes + done.alternative_bytes + done.segments

    assert work(400) <= 2.2 * work(200)


def test_what_is_past_the_limit_of_parts_is_still_scanned() -> None:
    raw = MIXED + b"--b\r\n\r\nx\r\n" * 20 + b"--b\r\n\r\nthe last one\r\n--b--"
    parts = MessageParts(raw, ReadBudget(ReadLimits(parts=10))).flat
    assert b"the last one" in parts[-1].content


def test_what_is_too_deep_is_still_scanned() -> None:
    raw = HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 20 + b"\r\nthe deepest one"
    parts = MessageParts(raw, ReadBudget(ReadLimits(depth=5))).flat
    assert len(parts) == 6
    assert b"the deepest one" in parts[-1].content


def test_what_is_past_the_limit_of_a_header_is_still_scanned() -> None:
    raw = HEAD + b"X: y\r\n" * 200 + b"Y: the last one\r\n\r\nbody"
    parts = MessageParts(raw, ReadBudget(ReadLimits(header_fields=10))).flat
    assert [part.path for part in parts] == ["1", "1~header"]
    assert b"the last one" in parts[1].content
    assert parts[0].content == b"body"


def test_decoded_size_has_a_limit() -> None:
    budget = ReadBudget(ReadLimits(decoded_bytes=1000))
    parts = MessageParts(MIXED + b"--b\r\n\r\n" + b"x" * 900 + b"\r\n--b\r\n\r\n" + b"y" * 900, budget).flat
    assert [len(part.content) for part in parts] == [0, 900, 0]
    assert "limit:decoded-size" in {defect.kind for defect in budget.defects}


def test_compressed_content_expands_no_further_than_allowed() -> None:
    import base64
    import gzip

    bomb = base64.encodebytes(gzip.compress(bytes(64 << 20)))
    budget = ReadBudget()
    parts = MessageParts(HEAD + GZIPPED + bomb, budget).flat
    assert max(len(part.content) for part in parts) <= 16 << 20
    assert "mime:broken-base64" in {defect.kind for defect in budget.defects}


def test_defects_are_capped_but_no_kind_is_lost() -> None:
    budget = ReadBudget(ReadLimits(defects=3))
    for number in range(10):
        budget.note(MIME_NUL, f"1.{number}")
    budget.note(MIME_BARE_CR, "1")
    assert [defect.kind for defect in budget.defects] == ["mime:nul"] * 3 + ["limit:defects", "mime:bare-cr"]
