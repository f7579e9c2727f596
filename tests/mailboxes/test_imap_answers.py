"""What an IMAP server answers is bounded, and no word of it becomes part of a command that touches other messages."""

import pytest
from bench.fuzz.foreign_readers import ANSWERS, read_mailbox

from gatepost.mailboxes import removal

DONE = b"TAG OK done\r\n"
START = (
    b"* OK ready\r\n",
    b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n" + DONE,
    b"+ \r\n",
    DONE,
    b"* CAPABILITY IMAP4rev1 MOVE UIDPLUS\r\n" + DONE,
    DONE,  # LIST: INBOX alone
    DONE,  # EXAMINE
)
SIZE = b"* 1 FETCH (UID 7 RFC822.SIZE 5)\r\n" + DONE
MESSAGE = b"* 1 FETCH (UID 7 BODY[] {5}\r\nhello)\r\n" + DONE


def answer(*pieces: bytes) -> bytes:
    return ANSWERS.join((*START, *pieces))


def test_a_message_is_found_moved_and_deleted() -> None:
    found, fault = read_mailbox(answer(b"* SEARCH 7\r\n" + DONE, SIZE, MESSAGE, *[DONE] * 6))
    assert [(copy.uid, copy.likeness) for copy in found] == [("7", "exact")]
    assert not fault


@pytest.mark.parametrize("uids", [b"1:*", b"*", b"7:9", b"7,9", b"-7", b"\xd9\xa7", b"7)", b"12345678901"])
def test_of_what_a_search_finds_numbers_alone_are_used(uids: bytes) -> None:
    """Of a range, one message would be compared and all would be moved."""
    found, fault = read_mailbox(answer(b"* SEARCH " + uids + b"\r\n" + DONE, SIZE, MESSAGE, *[DONE] * 6))
    assert (found, fault) == ((), "")


@pytest.mark.parametrize("size", [removal.MAX_ANSWER + 1, 1 << 40, 10**30])
def test_a_literal_is_not_believed_to_be_of_any_size(size: int) -> None:
    found, fault = read_mailbox(answer(b"* SEARCH 7\r\n" + DONE, SIZE, b"* 1 FETCH (BODY[] {%d}\r\nhello" % size))
    assert not found
    assert "an answer of more than 65 MiB" in fault


def test_lines_without_end_are_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command begins anew: a mailbox with many folders has many short answers."""
    lines = b"* LIST () NIL a\r\n" * 100
    monkeypatch.setattr(removal, "MAX_ANSWER", len(lines))
    _, fault = read_mailbox(ANSWERS.join((*START[:5], lines + b"* LIST () NIL a\r\n" + DONE)))
    assert "an answer of more than" in fault
    found, fault = read_mailbox(answer(b"* SEARCH 7\r\n" + DONE, SIZE, MESSAGE, *[DONE] * 6))
    assert len(found) == 1
    assert not fault


def test_a_literal_in_place_of_a_line_is_nothing() -> None:
    found, fault = read_mailbox(answer(b"* SEARCH {1}\r\n7\r\n" + DONE, SIZE, MESSAGE))
    assert (found, fault) == ((), "")
    capability = (*START[:4], b"* CAPABILITY {4}\r\nMOVE\r\n" + DONE)
    assert read_mailbox(ANSWERS.join(capability)) == ((), "is on a server with neither MOVE nor UIDPLUS")
