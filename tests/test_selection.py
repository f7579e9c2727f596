"""Which tests `make test-fast` and `make test` leave out: they are counted, also where workers collect them, and other
targets run them; no test that counts as fast starts a process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.ports import free_port
from tests.started_processes import starts_process

ROOT = Path(__file__).parents[1]


def test_what_is_left_out_is_said() -> None:
    names = ("files/test_attacks.py", "files/test_bombs.py", "scanning/test_spool.py")
    options = ["-n", "1", "--fast", "-k", "nothing_of_this_name", *(f"tests/{name}" for name in names)]
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert "LEFT TO make test: 2, make test-variants: 7, make test-long: 14" in said


# Files of which all is left out, each with the one that shows the same without so many processes.
ELSEWHERE = {
    "blackbox/test_cores.py": "abby/test_cores.py",
    "service/test_leaving.py": "feeds/test_sealed_reading.py",
    "tools/test_wheel.py": "tools/test_release.py",
}


def test_every_test_that_is_left_out_has_another_one_beside_it() -> None:
    """A file is not left out as a whole, but where another one has its subject."""
    marked = [
        file for file in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.(variant|long)", file.read_text())
    ]
    assert len(marked) > 20
    for file in marked:
        text = file.read_text("utf-8")
        assert not re.search(r"^pytestmark.*mark\.(variant|long)", text, re.MULTILINE), file
        left = len(re.findall(r"^@pytest\.mark\.(variant|long)$", text, re.MULTILINE))
        if len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)) == left:
            assert (ROOT / "tests" / ELSEWHERE[str(file.relative_to(ROOT / "tests"))]).exists()


def run_as_here(*options: object) -> str:
    """What pytest prints for files elsewhere, with the configuration and the plug-in of these tests."""
    own = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "tests.conftest")
    command = [sys.executable, "-m", "pytest", *map(str, (*own, *options))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_engines_take_turns(tmp_path: Path) -> None:
    """Each of eight tests on two engines runs on one of them, and both engines are used; a pair that is marked already
    stays as it is."""
    marked = 'pytest.param("postgresql", marks=pytest.mark.variant)'
    text = (
        "import pytest\n"
        '@pytest.mark.parametrize("number", range(8))\n@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])\n'
        "def test_on(engine, number): pass\n"
        f'@pytest.mark.parametrize("engine", ["sqlite", {marked}])\ndef test_marked(engine): pass\n'
    )
    (tmp_path / "test_engines.py").write_text(text)
    said = run_as_here("--collect-only", "-q", tmp_path)
    chosen = re.findall(r"test_on\[(?:(\w+)-(\d)|(\d)-(\w+))\]", said)
    assert sorted(before or after for _, after, before, _ in chosen) == [*"01234567"]
    assert {before or after for before, _, _, after in chosen} == {"sqlite", "postgresql"}
    assert "test_marked[sqlite]" in said
    assert "LEFT TO make test-variants: 9" in said


def test_the_portions_of_variants_are_all_there_are() -> None:
    """Each folder and file of tests is in one portion: those that are named exist, and the last has the others."""
    checks = (ROOT / ".ci/run").read_text("utf-8")
    (given,) = re.findall(r"^portions=\((.*)\)$", checks, re.MULTILINE)
    named = [place for portion in re.findall(r'"([^"]*)"', given) for place in portion.split()]
    assert len(set(named)) == len(named)
    assert all((ROOT / place).exists() for place in named)
    script = checks[checks.index("portions=") : checks.index("for portion in")] + 'echo "$rest"'
    rest = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    places = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    files = {f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py")}
    assert (places | files) <= {*named, *rest}
    assert set(named).isdisjoint(rest)


def test_the_checks_of_a_change_run_them() -> None:
    checks, targets = (ROOT / ".ci/run").read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    assert "\nmake test\n" in checks
    assert 'make test-variants ARGS="$portion"' in checks
    assert re.search(r'echo "not run: variants of \$portion ', checks)
    assert '$(if $(VARIANTS),-m "not long")' in targets
    assert re.search(r"then make test-long; else echo \"not run: ", checks)
    assert re.search(r"^test-variants: ", targets, re.MULTILINE)
    assert re.search(r"^test-long: ", targets, re.MULTILINE)


class Starter:
    """Starts a process, far from the test that uses it."""

    @property
    def ended(self) -> int:
        return subprocess.run([sys.executable, "-c", ""], check=False).returncode


@pytest.fixture
def ended() -> int:
    return Starter().ended


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_process_is_found_in_a_fixture(ended: int, request: pytest.FixtureRequest) -> None:
    assert ended == 0
    assert starts_process(request.node)


def test_a_process_is_found_behind_a_class_and_a_property(request: pytest.FixtureRequest) -> None:
    assert Starter().ended == 0
    assert starts_process(request.node)


def test_postgresql_is_found_by_the_engine(engine: str, request: pytest.FixtureRequest) -> None:
    assert starts_process(request.node) == (engine == "postgresql")


def test_what_starts_nothing_is_fast(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert free_port() > 0  # of a module that is followed
    assert not starts_process(request.node)


@pytest.mark.process
def test_a_test_can_say_so(request: pytest.FixtureRequest) -> None:
    assert starts_process(request.node)


def test_a_fast_test_that_starts_a_process_fails(tmp_path: Path) -> None:
    """Its code shows nothing: what it runs is a text."""
    run = "    exec(\"import subprocess; subprocess.run(['true'], check=True)\")\n"
    text = f"import pytest\n\ndef test_it():\n{run}\n@pytest.mark.process\ndef test_marked():\n{run}"
    (tmp_path / "test_hidden.py").write_text(text)
    said = run_as_here(tmp_path)
    assert "it counts as fast and started ['true']" in said
    assert "2 passed, 1 error" in said
