"""Messages that were judged wrongly, kept for the next training."""

from pathlib import Path

from gatepost.textmodel.model import FEEDBACK_FOLDER, save_feedback


def test_a_message_is_kept_once_on_the_side_that_was_said_last(tmp_path: Path) -> None:
    first = save_feedback(tmp_path, b"From: a\r\n\r\nx", True)
    assert save_feedback(tmp_path, b"From: a\r\n\r\nx", True) == first
    assert [file.name for file in (tmp_path / FEEDBACK_FOLDER / "ham").iterdir()] == [first]
    save_feedback(tmp_path, b"From: a\r\n\r\nx", False)
    assert list((tmp_path / FEEDBACK_FOLDER / "ham").iterdir()) == []
    assert (tmp_path / FEEDBACK_FOLDER / "spam" / first).read_bytes() == b"From: a\r\n\r\nx"
