"""Results that are kept beside the compiled modules: found again, and made anew when their sources have changed."""

import sys
from pathlib import Path

import pytest

from gatepost.kept_results import KeptResult


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


def kept(*sources: bytes) -> KeptResult:
    return KeptResult(__file__, "numbers", sources)


def test_a_result_is_found_again() -> None:
    assert kept(b"a", b"b").load() is None
    kept(b"a", b"b").save(b"1")
    assert kept(b"a", b"b").load() == b"1"


@pytest.mark.parametrize("sources", [(b"a",), (b"a", b"c"), (b"ab",), (b"b", b"a")])
def test_another_source_makes_another_result(sources: tuple[bytes, ...]) -> None:
    kept(b"a", b"b").save(b"1")
    assert kept(*sources).load() is None


def test_a_cut_or_foreign_file_is_none(folder: Path) -> None:
    kept(b"a").save(b"1")
    (file,) = [path for path in folder.rglob("*") if path.is_file()]
    assert file.stat().st_mode & 0o777 == 0o644
    for content in (b"", file.read_bytes()[:20], bytes(40)):
        file.write_bytes(content)
        assert kept(b"a").load() is None


def test_nothing_is_kept_where_python_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept(b"a").save(b"1")
    assert kept(b"a").load() is None
    assert not list(folder.rglob("*numbers*"))
