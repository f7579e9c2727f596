"""Messages that were judged wrongly, kept for the next training."""

from pathlib import Path

from gatepost.textmodel.feedback import FOLDER, keep


def test_a_message_is_kept_once_on_the_side_that_was_said_last(tmp_path: Path) -> None:
    first = keep(tmp_path, b"From: a\r\n\r\nx", True)
    assert keep(tmp_path, b"From: a\r\n\r\nx", True) == first
    assert [file.name for file in (tmp_path / FOLDER / "ham").iterdir()] == [first]
    keep(tmp_path, b"From: a\r\n\r\nx", False)
    assert list((tmp_path / FOLDER / "ham").iterdir()) == []
    assert (tmp_path / FOLDER / "spam" / first).read_bytes() == b"From: a\r\n\r\nx"
