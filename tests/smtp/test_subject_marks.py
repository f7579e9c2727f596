"""Marks before subjects: seen by mail programs as they are meant, once, and nothing else of the subject changes."""

from email import message_from_bytes, policy

import pytest

from gatepost.scanning.request import apply_edits, order_edits
from gatepost.smtp.trace import mark_subjects, read_header

LONG = "word " * 14


def marked(raw: bytes, mark: str, shown: str = "") -> bytes:
    edits, field = mark_subjects(read_header(raw, "gate.example"), mark, shown)
    ordered = order_edits(edits, len(raw))
    assert ordered is not None
    return field + b"".join(apply_edits([raw], ordered))


@pytest.mark.parametrize(
    ("subject", "mark", "shown"),
    [
        (b" hello", "[SPAM] ", "[SPAM] hello"),
        (b"hello", "[SPAM]", "[SPAM] hello"),
        (b"", "[SPAM] ", "[SPAM]"),
        (b" ", "[SPAM] ", "[SPAM] "),
        (b" =?utf-8?q?gr=C3=BC=C3=9Fe?=", "[SPAM] ", "[SPAM] grüße"),
        (b" =?utf-8?q?gr=C3=BC=C3=9Fe?=", "[СПАМ] ", "[СПАМ] grüße"),
        (b" plain", "[СПАМ] ", "[СПАМ] plain"),
        (b"\r\n\tfolded", "[SPAM] ", "[SPAM]\tfolded"),
        (f" {LONG}end".encode(), "[SPAM] ", f"[SPAM] {LONG}end"),
        (b" " + b"x" * 900, "[SPAM] ", "[SPAM] " + "x" * 900),
    ],
)
def test_what_a_reader_sees(subject: bytes, mark: str, shown: str) -> None:
    raw = marked(b"A: b\r\nSubject:" + subject + b"\r\nC: d\r\n\r\nbody\r\n", mark)
    message = message_from_bytes(raw, policy=policy.default)
    assert message["Subject"] == shown
    assert (message["A"], message["C"], message.get_payload()) == ("b", "d", "body\r\n")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert not [line for line in raw.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.strip()]


def test_a_subject_with_the_mark_stays() -> None:
    raw = b"Subject: [spam] x\r\n\r\n"
    assert marked(raw, "[SPAM] ", "[spam] x") == raw
    encoded = b"Subject: =?utf-8?b?W1NQQU1dIHg=?=\r\n\r\n"
    assert marked(encoded, "[SPAM] ", "[SPAM] x") == encoded
    assert marked(raw, "", "x") == raw
    # A second field that some mail programs show is marked, whatever the first one says.
    assert b"Subject: [SPAM] y" in marked(b"Subject: [SPAM] x\r\nSubject: y\r\n\r\n", "[SPAM]", "[SPAM] x")


def test_without_a_subject_the_mark_is_one_and_of_several_all_get_it() -> None:
    assert marked(b"A: b\r\n\r\n", "[SPAM] ") == b"Subject: [SPAM]\r\nA: b\r\n\r\n"
    assert marked(b"Subject: x\r\nsubject : y\r\n\r\n", "[S]") == b"Subject: [S] x\r\nsubject : [S] y\r\n\r\n"
