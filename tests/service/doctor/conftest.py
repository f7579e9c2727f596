"""A data folder as a first start makes it, and what the doctor has read there."""

from pathlib import Path

import pytest

from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import ExaminedFiles, read_files


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path)


@pytest.fixture
def read(data: DataFolder) -> ExaminedFiles:
    return read_files(prepare(data, None))
