"""Mailboxes are split where they should be, and nowhere else."""

import mailbox
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.cli.scanners import Mail, files_in, messages_in, total_size

FROM = b"From ann@example.org Tue Nov 10 09:12:00 2026\n"


def split(tmp_path: Path, raw: bytes) -> list[Mail]:
    file = tmp_path / "box"
    file.write_bytes(raw)
    mails = list(messages_in([file]))
    assert sum(mail.consumed for mail in mails) == len(raw)
    return mails


@pytest.mark.parametrize(
    ("raw", "messages"),
    [
        (b"Subject: x\n\nbody\n", [b"Subject: x\n\nbody\n"]),
        (b"", [b""]),
        (FROM + b"A: 1\n\nx\n\n" + FROM + b"A: 2\n\ny\n", [b"A: 1\n\nx\n", b"A: 2\n\ny\n"]),
        # A paragraph that starts with "From " is no separator, nor is a From_ line without an empty one before it.
        (FROM + b"A: 1\n\nx\n\nFrom here on, all is well\n", [b"A: 1\n\nx\n\nFrom here on, all is well\n"]),
        (FROM + b"A: 1\n\nx\n" + FROM, [b"A: 1\n\nx\n" + FROM]),
        (FROM + b"A: 1\n\n>From x\n>>From y\n> From z\n", [b"A: 1\n\nFrom x\n>From y\n> From z\n"]),
        (FROM.replace(b"\n", b"\r\n") + b"A: 1\r\n\r\nx\r\n\r\n" + FROM + b"B: 1\n", [b"A: 1\r\n\r\nx\r\n", b"B: 1\n"]),
        (b"From - Tue Nov 10 09:12 +0100 2026\nA: 1\n", [b"A: 1\n"]),
        (b"From someone without a date\nA: 1\n", [b"From someone without a date\nA: 1\n"]),
    ],
)
def test_splitting(tmp_path: Path, raw: bytes, messages: list[bytes]) -> None:
    assert [mail.raw for mail in split(tmp_path, raw)] == messages


def test_it_agrees_with_the_standard_library(tmp_path: Path) -> None:
    texts = [b"Subject: %d\n\nhello\n\nFrom the hill\n" % number for number in range(5)]
    box = mailbox.mbox(str(tmp_path / "std"))
    for text in texts:
        box.add(text)
    box.close()
    assert [mail.raw for mail in messages_in([tmp_path / "std"])] == texts


def test_names_tell_messages_apart(tmp_path: Path) -> None:
    names = [mail.name for mail in split(tmp_path, FROM + b"A: 1\n\n" + FROM + b"B: 2\n")]
    assert [name.rpartition("#")[2] for name in names] == ["1", "2"]


def test_a_folder_is_everything_in_it_in_order(tmp_path: Path) -> None:
    for name in ("b/2.eml", "a/1.eml", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    assert [mail.raw for mail in messages_in([tmp_path])] == [b"a/1.eml", b"b/2.eml", b"c"]
    assert total_size([tmp_path]) == 15
    assert list(files_in([Path("-")])) == [Path("-")]


@given(st.lists(st.sampled_from([FROM, b"\n", b"From x\n", b">From y\n", b"A: b\n", b"\r\n", b"end"]), max_size=30))
def test_no_byte_is_lost_but_marks(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    mails = split(tmp_path_factory.mktemp("box"), b"".join(lines))
    assert len(mails) >= 1
    assert not any(mail.cut for mail in mails)


def test_a_message_of_short_lines_takes_little_more_than_its_size(tmp_path: Path) -> None:
    """A message of a stranger can have millions of lines; kept one by one, they took twenty times as much."""
    (tmp_path / "box").write_bytes(FROM + b"a\n" * 500_000)
    tracemalloc.start()
    try:
        (mail,) = messages_in([tmp_path / "box"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mail.raw == b"a\n" * 500_000
    assert peak < 6 * len(mail.raw)
