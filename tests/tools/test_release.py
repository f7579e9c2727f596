"""A release is built from a tag of a clean tree, and says what is missing where there is none."""

import gzip
import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.doc_blocks import ROOT
from tools import release
from tools.release import ReleaseError

from gatepost import SCHEMA, __version__, describe_build, find_commit

DATED = f"# Changes\n\n## {__version__} — 2026-11-17\n\nSomething new.\n\n## 0.1.0 — 2026-01-01\n\nOld.\n"
MAX_WORDS = 800


def git(folder: Path, *arguments: str) -> None:
    settings = ("user.name=A", "user.email=a@example.org", "tag.gpgsign=false", "commit.gpgsign=false")
    own = [word for each in settings for word in ("-c", each)]
    subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository."""
    folder = tmp_path / "checkout"
    (folder / "src" / "gatepost").mkdir(parents=True)
    (folder / "src" / "gatepost" / "__init__.py").write_text("")
    (folder / "CHANGELOG.md").write_text(DATED)
    (folder / ".gitignore").write_text("/data/\n")
    (folder / "data").mkdir()
    (folder / "data" / "token").write_text("secret")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.mark.process
def test_a_clean_tree_with_its_tag_is_taken(checkout: Path) -> None:
    git(checkout, "tag", f"v{__version__}")
    assert re.fullmatch(r"[0-9a-f]{12}", release.check_tree(checkout, __version__))


@pytest.mark.process
def test_what_is_missing_is_said(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match=r"The tag v\S+ does not name this commit: git tag .* TRIAL=1"):
        release.check_tree(checkout, __version__)
    git(checkout, "tag", f"v{__version__}")
    (checkout / "new.py").write_text("")
    with pytest.raises(ReleaseError, match=r"The tree has changes \(1 files, the first is new\.py\).*TRIAL=1"):
        release.check_tree(checkout, __version__)
    (checkout / "new.py").unlink()
    (checkout / "CHANGELOG.md").write_text(DATED.replace("2026-11-17", "unreleased"))
    git(checkout, "commit", "-qam", "undated")
    git(checkout, "tag", "-f", f"v{__version__}")
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md has no section"):
        release.check_tree(checkout, __version__)


@pytest.mark.process
def test_only_what_git_knows_is_copied(checkout: Path, tmp_path: Path) -> None:
    release.copy_tree(checkout, tmp_path / "copy", "0123456789ab")
    assert not (tmp_path / "copy" / "data").exists()
    assert (tmp_path / "copy" / "src/gatepost/commit.txt").read_text() == "0123456789ab\n"


def test_without_git_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="git checkout"):
        release.build_release(tmp_path, tmp_path / "dist", trial=True)
    assert not (tmp_path / "dist").exists()


def test_the_notes_are_one_section() -> None:
    assert release.read_notes(DATED, __version__) == "Something new."
    with pytest.raises(ReleaseError, match="no section of 9"):
        release.read_notes(DATED, "9.9.9")


def test_the_notes_have_no_links_that_lead_nowhere(tmp_path: Path) -> None:
    notes = "See [Upgrading](docs/upgrading.md#now) and [CEL](https://cel.dev)."
    rendered = release.render_notes(notes, "0123456789ab", tmp_path, trial=False)
    assert "See Upgrading and [CEL](https://cel.dev)." in rendered


def test_the_changelog_has_a_section_of_this_version_that_a_user_can_read() -> None:
    notes = release.read_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__)
    assert "### When you upgrade" in notes
    assert len(notes.split()) <= MAX_WORDS, "shorten it: details belong to the pages"


@pytest.mark.variant
def test_the_container_context_has_what_is_copied(tmp_path: Path) -> None:
    release.write_context(ROOT, tmp_path / "one.tar.gz", "context", 1_700_000_000)
    release.write_context(ROOT, tmp_path / "two.tar.gz", "context", 1_700_000_000)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        names = set(archive.getnames())
    wanted = ("pyproject.toml", "requirements/run.txt", "src/gatepost/__init__.py", "tools/hatch_build.py")
    beside = (f"contrib/container/{name}" for name in ("Containerfile", "compose.yaml", "cluster/compose.yaml"))
    assert {f"context/{name}" for name in (*wanted, *beside)} <= names


def test_a_build_knows_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gatepost"
    package.mkdir()
    monkeypatch.setattr("gatepost.__file__", str(package / "__init__.py"))
    assert find_commit() == ""
    (package / "commit.txt").write_text("0123456789ab\n")
    assert find_commit() == "0123456789ab"
    monkeypatch.undo()
    assert describe_build().startswith(f"{__version__} (schema {SCHEMA}")


@pytest.mark.process
@pytest.mark.variant
def test_the_source_distribution_makes_the_same_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    release.copy_tree(ROOT, tmp_path / "source", "0123456789ab")
    release.build_distributions(tmp_path / "source", tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    (sources,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    options = ("--wheel", "--no-build-isolation", "-q", "-p", sys.executable, "-o", tmp_path / "again")
    build = [Path(sys.executable).parent / "uv", "build", *options, sources]
    subprocess.run([*map(str, build)], cwd=tmp_path, check=True)
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.long
def test_a_trial_is_built_whole(tmp_path: Path) -> None:
    files = {file.name for file in release.build_release(ROOT, tmp_path / "trial", trial=True)}
    name = f"gatepost-{__version__}"
    assert {f"{name}.tar.gz", f"{name}.cdx.json", f"{name}-container.tar.gz", "RELEASE-NOTES.md", "SHA256SUMS"} <= files
    assert any(file.endswith(".whl") for file in files)
    for line in (tmp_path / "trial" / "SHA256SUMS").read_text().splitlines():
        digest, _, file = line.partition("  ")
        assert hashlib.sha256((tmp_path / "trial" / file).read_bytes()).hexdigest() == digest
    with zipfile.ZipFile(next((tmp_path / "trial").glob("*.whl"))) as wheel:
        assert wheel.read("gatepost/commit.txt").strip().endswith(b"-trial")
    with gzip.open(tmp_path / "trial" / f"{name}.tar.gz") as packed:
        assert b"-trial" in packed.read()
    assert "A trial build" in (tmp_path / "trial" / "RELEASE-NOTES.md").read_text()
