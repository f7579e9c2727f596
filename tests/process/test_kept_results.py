"""Results that are kept beside the compiled modules: found again, and made anew when their sources have changed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gatepost.process.kept_results import KeptResult, keep_expressions


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


EXPRESSIONS: tuple[tuple[str | bytes, int], ...] = (
    (r"(?P<year>\d{4})-(?P<month>\d\d)|(never)", 0),
    (r"[\ud800-\udfff]|[а-я]++(?=x)", re.IGNORECASE),
    (rb"a(?:b|c)*+\xff", re.DOTALL | re.VERBOSE),
    (r"(?i:x)(?>y)", re.ASCII),
)


def test_kept_expressions_are_those_that_the_interpreter_compiles(folder: Path) -> None:
    usual: list[re.Pattern[Any]] = [re.compile(pattern, flags) for pattern, flags in EXPRESSIONS]
    for _start in range(2):
        re.purge()
        with keep_expressions(__file__):
            found: list[re.Pattern[Any]] = [re.compile(pattern, flags) for pattern, flags in EXPRESSIONS]
        assert found == usual, "equal patterns have equal programs"
        assert [each.groupindex for each in found] == [each.groupindex for each in usual]
    re.purge()
    assert len(list(folder.rglob("kept-expressions*"))) == 1
    match = found[0].search("of 2026-11")
    assert match
    assert match.groupdict() == {"year": "2026", "month": "11"}
    assert match.lastgroup == "month"


def test_no_expression_is_parsed_at_the_second_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise AssertionError("it was kept")

    for is_second in (False, True):
        re.purge()
        with monkeypatch.context() as patched:
            if is_second:
                patched.setattr("re._parser.parse", refuse)
            with keep_expressions(__file__):
                assert re.compile("kept+").match("keptt")
    with keep_expressions(__file__), pytest.raises(re.error):
        re.compile("(")


def test_the_analysis_is_imported_without_numpy() -> None:
    """It takes a tenth of a loader's start; native code and the kept model have no use for it."""
    code = "import sys, gatepost.workers.warmup; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"
