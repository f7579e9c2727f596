"""Messages that were judged wrongly, kept for the next training."""

from pathlib import Path

from gatepost.textmodel.model import FEEDBACK_FOLDER, save_feedback, take_feedback_back


def test_a_message_is_kept_once_on_the_side_that_was_said_last(tmp_path: Path) -> None:
    first = save_feedback(tmp_path, b"From: a\r\n\r\nx", True)
    assert save_feedback(tmp_path, b"From: a\r\n\r\nx", True) == first
    assert [file.name for file in (tmp_path / FEEDBACK_FOLDER / "ham").iterdir()] == [first]
    save_feedback(tmp_path, b"From: a\r\n\r\nx", False)
    assert list((tmp_path / FEEDBACK_FOLDER / "ham").iterdir()) == []
    assert (tmp_path / FEEDBACK_FOLDER / "spam" / first).read_bytes() == b"From: a\r\n\r\nx"


def test_what_was_said_by_mistake_is_taken_back(tmp_path: Path) -> None:
    raw = b"From: a\r\n\r\nx"
    name = save_feedback(tmp_path, raw, True)
    sides = [tmp_path / FEEDBACK_FOLDER / side / name for side in ("ham", "spam")]
    take_feedback_back(tmp_path, name.removesuffix(".eml"), wanted=False)
    assert [each.exists() for each in sides] == [False, True]
    take_feedback_back(tmp_path, name.removesuffix(".eml"), wanted=None)
    assert [each.exists() for each in sides] == [False, False]
    take_feedback_back(tmp_path, name.removesuffix(".eml"), wanted=True)
    assert [each.exists() for each in sides] == [False, False], "what was never kept is not made"
