"""The doctor in a process of its own, as the system page asks for it."""

from pathlib import Path

import pytest

from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import examination


@pytest.mark.variant
@pytest.mark.process
def test_the_doctor_says_what_it_found_and_takes_no_lock_away(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    with data.lock("abby"):
        rows = examination.examine_in_child(tmp_path / "config", tmp_path)
        again = examination.examine_in_child(tmp_path / "config", tmp_path)
    states = {row.what: row.state for row in rows}
    assert states["python"] == "ok"
    assert states["configuration"] == "fail"
    assert [row.what for row in again] == [row.what for row in rows]


@pytest.mark.process
def test_a_doctor_that_does_not_answer_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "SECONDS", 0.001)
    (row,) = examination.examine_in_child(tmp_path, tmp_path)
    assert (row.what, row.state) == ("examination", "fail")
    assert "gatepost doctor" in row.advice
