"""The reader is total: raw bytes, a small alphabet of MIME, and mutations of a well-formed message never raise."""

import random

from bench.nasty import message, mutation
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gatepost.mail.budget import DEFECTS, ReadBudget, ReadLimits
from gatepost.mail.reader import MessageParts, read

WORDS = (
    b"Content-Type: ", b"multipart/mixed", b"text/html", b"message/rfc822", b"; boundary=", b"b", b'"', b"--b",
    b"--b--",
    b"Content-Transfer-Encoding: ", b"base64", b"quoted-printable", b"x-uuencode", b"\r\n", b"\n", b"\r", b"\0", b" ",
    b"QUJD", b"=41", b"=", b"begin 644 x\n", b"#;VYE", b"=ybegin name=x\n", b"(", b"\\", b"From: ", b"=?utf-8?q?x?=",
    b"\xff",
)  # fmt: skip
ALPHABET = st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join)
SEED = (
    b"From: a@example.org\r\nSubject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n"
    b"Content-Type: application/zip; name=x.zip\r\nContent-Transfer-Encoding: base64\r\n\r\nQUJDREVGRw==\r\n--b--\r\n"
)


def check(raw: bytes) -> None:
    read_once = read(raw)
    assert read_once == read(raw)
    assert {defect.kind for defect in read_once.defects} <= {kind.id for kind in DEFECTS}
    paths = [part.path for part in read_once.parts]
    assert len(set(paths)) == len(paths)
    # Both are of the message as it was read: lines that ended with CR alone end with CRLF there.
    assert 0 <= read_once.header_end <= len(read_once.raw)
    assert read_once.raw == raw or read_once.raw.count(b"\r\n") == raw.count(b"\r")


@given(st.binary(max_size=300))
def test_raw_bytes(raw: bytes) -> None:
    check(raw)


@given(ALPHABET)
@settings(max_examples=300)
def test_small_alphabet(raw: bytes) -> None:
    check(raw)


@given(st.integers(0, 1 << 32))
@example(100_000)
@settings(max_examples=300)
def test_grammar_and_mutations(seed: int) -> None:
    dice = random.Random(seed)
    check(message(dice))
    check(mutation(SEED, dice))


@given(ALPHABET)
def test_identity_leaves_hold_every_word_that_was_sent(body: bytes) -> None:
    """Nothing after an ordinary header is lost."""
    raw = b"From: a@example.org\r\n\r\n" + body
    assert MessageParts(raw, ReadBudget()).flat[0].content == body


@given(st.integers(0, 1 << 32), st.integers(1, 6), st.integers(1, 4))
def test_any_limits(seed: int, parts: int, depth: int) -> None:
    budget = ReadBudget(
        ReadLimits(parts=parts, depth=depth, header_fields=3, header_bytes=200, alternatives=2, defects=2)
    )
    MessageParts(message(random.Random(seed)), budget)
    assert budget.work.parts <= parts
    assert budget.work.alternatives <= 2
