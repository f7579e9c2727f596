"""The command line in this process, on a data folder as a first start makes it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.command_line import run_command

from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepare(DataFolder(tmp_path / "data"), None)
    return tmp_path / "data"


@pytest.fixture
def run(data: Path) -> Run:
    """`run("tenant", "list")` gives exit code, standard output and standard error, on the data folder."""
    return lambda *words, **more: run_command(*words, "--data", data, **more)
