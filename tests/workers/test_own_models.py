"""The loader takes an operator's own models before any worker is sealed, and says what is wrong with one."""

from pathlib import Path

import pytest

from gatepost.textmodel.model import load_shipped_model, load_shipped_models
from gatepost.workers import loader


def test_without_a_folder_the_shipped_model_speaks(tmp_path: Path) -> None:
    assert loader._load_models("") == load_shipped_models()
    assert loader._load_models(str(tmp_path / "none")) == load_shipped_models()


def test_own_models_are_taken(tmp_path: Path) -> None:
    (tmp_path / "own.npz").write_bytes(load_shipped_model().to_bytes())
    models = loader._load_models(str(tmp_path))
    assert len(models.all_tenants.models) == 2


def test_a_broken_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "own.npz").write_bytes(b"nonsense")
    with pytest.raises(SystemExit, match="text models"):
        loader._load_models(str(tmp_path))
