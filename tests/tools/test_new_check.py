"""The skeleton of a check: complete, importable, and refused where a name is bad or taken.

Checkouts are copied with the bytecode of this one, which is valid for files of the same time and size: to compile all
modules for each of them took longer than the tests.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.new_check import KINDS, POLICY, REGISTRY, ROOT, main


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of what the command reads and writes."""
    return copy_checkout(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, bytes]]:
    """One for names that are refused, since nothing is written then; and all that is in it."""
    root = copy_checkout(tmp_path_factory.mktemp("checkout"))
    return root, read_all(root)


def copy_checkout(root: Path) -> Path:
    shutil.copytree(ROOT / "src", root / "src")
    shutil.copytree(ROOT / "tests/checks", root / "tests/checks")
    shutil.copy(ROOT / "tests/known_senders.py", root / "tests")
    return root


def run_python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, *arguments]
    return subprocess.run(
        run, capture_output=True, text=True, env={"PYTHONPATH": str(root / "src")}, check=False, cwd=root
    )


def read_all(root: Path) -> dict[Path, bytes]:
    found = {path.relative_to(root): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if path.parent.name != "__pycache__"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sender/mailboxes.zero_width", "sender:zero-width"),
        pytest.param("headers/fields.a_first_one", "header:a-first-one", marks=pytest.mark.variant),
        pytest.param("links/urls.zz_last_one", "url:zz-last-one", marks=pytest.mark.variant),
        ("text/some_subject.boundary_prefix", "text:boundary-prefix"),
        pytest.param("files/traits.encrypted_thing", "file:encrypted-thing", marks=pytest.mark.variant),
    ],
)
def test_everything_is_written_and_fits_together(root: Path, name: str, kind: str) -> None:
    assert main([name, "--title", "A trick with a title of some length, which people read", "--strength"], root) == 0
    module, _, trick = name.partition(".")
    program = (
        "from gatepost.checks.registry import CHECKS\n"
        f"from gatepost.checks.{module.replace('/', '.')} import {trick}\n"
        "from gatepost.findings.kinds import BY_ID\n"
        "from gatepost.policy.rules import shipped_policy\n"
        "from gatepost.findings.strengths import calculations\n"
        "from gatepost.checks.composites import load_composites\n"
        "found = {kind for check in CHECKS for kind in check.kinds} | {kind for kind, _ in load_composites()}\n"
        f"kind = BY_ID[{kind!r}]\n"
        f"assert {trick} in CHECKS and {trick}.name == {trick!r} and {trick}.kinds == (kind,)\n"
        "found |= {BY_ID[each] for each in ('limit:rule-failed', 'text:carried-message', 'recipient:report-mailbox')}\n"
        "assert found == set(BY_ID.values()) and set(shipped_policy().kinds) == set(BY_ID)\n"
        "assert list(calculations()[kind.id].coefficients) == ['weak']\n"
        "print(kind.title)\n"
    )
    said = run_python(root, "-c", program)
    assert (said.stdout, said.stderr) == ("A trick with a title of some length, which people read\n", "")
    stem = kind.replace(":", "-")
    assert (root / f"tests/golden/attacks/{stem}.eml").exists()
    assert len(list((root / "tests/golden/twins").glob("*.eml"))) == 1


@pytest.mark.parametrize(
    "name", ["text/some_subject.some_trick", pytest.param("links/shown.some_trick", marks=pytest.mark.variant)]
)
def test_the_tests_run_and_the_style_is_right(root: Path, name: str) -> None:
    main([name, "--strength"], root)
    area, _, module = name.partition(".")[0].partition("/")
    test = f"tests/checks/{area}/test_{module}.py"
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "some_trick"]
    said = run_python(root, "-m", "pytest", *options, test)
    assert "2 passed" in said.stdout, said.stdout + said.stderr
    files = [f"src/gatepost/checks/{area}/{module}.py", test, str(REGISTRY)]
    for command in (["check"], ["format", "--check"]):
        said = run_python(root, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), *files)
        assert said.returncode == 0, said.stdout


@pytest.mark.process
def test_what_is_there_stays(root: Path) -> None:
    before = read_all(root)
    main(["links/urls.some_trick"], root)
    after = read_all(root)
    changed = {path for path in before if after[path] != before[path]}
    module, test = Path("src/gatepost/checks/links/urls.py"), Path("tests/checks/links/test_urls.py")
    assert changed == {KINDS, POLICY, module, test}
    for path in changed:
        lines = set(after[path].splitlines())
        gone = [line for line in before[path].splitlines() if line not in lines]
        # What a module imports from one other is one line.
        imported = [line.partition(b" import ")[0] for line in gone]
        assert set(imported) <= {b"from gatepost.checks.links.urls", b"from tests.checks.readings"}
        assert len(imported) == len(set(imported))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("userinfo", "is not area/module.trick, where area is one of sender, headers, links, text, files."),
        ("links/userinfo", "'links/userinfo' is not area/module.trick"),
        ("mime/parts.trick", "is not area/module.trick"),
        ("links/urls.Data-Link", "'Data-Link' is no name"),
        ("links/urls.a.b", "'a.b' is no name"),
        ("links/../evil.trick", "is no name"),
        ("links/urls.", "is no name"),
        ("links/.trick", "is no name"),
        ("links/urls.class", "'class' is no name"),
        ("links/utils.trick", "'utils' says nothing"),
        ("links/urls.new", "'new' says nothing"),
        ("links/urls.letter", "'letter' is a name that the code of a check uses itself."),
        ("headers/fields.lures", "There is a function lures already, in src/gatepost/checks/text/lures.py."),
        ("links/urls.org_domain", "There is something called org_domain already, in src/gatepost/checks/"),
        ("links/urls.redirect", "There is something called redirect already, in tests/checks/links/test_urls.py."),
        ("links/hosts.userinfo", "There is a kind url:userinfo already, in src/gatepost/findings/kinds.py."),
    ],
)
def test_bad_and_taken_names_are_refused(
    unchanged: tuple[Path, dict[Path, bytes]], capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    root, before = unchanged
    assert main([name], root) == 1
    assert reason in capsys.readouterr().err
    assert read_all(root) == before


@pytest.mark.process
def test_it_says_what_to_do_next(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["text/lures.some_trick"], root)
    said = capsys.readouterr().out
    assert "src/gatepost/checks/text/lures.py" in said
    assert "test_some_trick" in said
    assert "--regold" in said
    assert "make docs" in said
