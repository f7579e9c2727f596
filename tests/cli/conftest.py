"""The command line in this process, and a data folder as a first start makes it."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from gatepost.cli import main
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("scan", file)` gives exit code, standard output and standard error."""

    def called(*arguments: object, stdin: bytes | io.StringIO = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatepost", *map(str, arguments)])
        typed = io.TextIOWrapper(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", typed)
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepare(DataFolder(tmp_path / "data"), None)
    return tmp_path / "data"
