"""Build everything that a release has: `python -m tools.release dist`, which is `make release`.

A release is built from a tag: the tree has no changes, the tag `vVERSION` names its commit, and CHANGELOG.md has a
section of that version with a date. Otherwise nothing is built, and a sentence says what is missing. `--trial` builds
from the tree as it is, for a look at the files: its commit ends in `-trial`, and the notes say so.

What is built comes from a copy of the files that git knows, so that nothing else of the folder gets into a release:

| File | |
|---|---|
| `gatepost-V-*.whl`, `gatepost-V.tar.gz` | wheel and source distribution |
| `gatepost_V-1_ARCH.deb` | Debian package, where dpkg-deb is there |
| `gatepost-V-container.tar.gz` | what `docker build` needs, with the compose files |
| `gatepost-V-requirements.txt` | the lock file: the libraries that the tests ran with |
| `gatepost-V.cdx.json` | bill of materials (CycloneDX) |
| `RELEASE-NOTES.md` | the section of CHANGELOG.md, with the digests |
| `SHA256SUMS` | digests of all files |
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from gatepost import SCHEMA, __version__
from tools.audit import check_licences, write_bill
from tools.debian import PackageError, build_package

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\((?!https:)[^)]+\)")
_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


class ReleaseError(Exception):
    """Why there is no release, as a sentence that says what to do."""


def check_tree(root: Path, version: str) -> str:
    """Return the commit that a release is built from. Raises `ReleaseError` for a tree that none can be built from."""
    tag = f"v{version}"
    commit = _ask_git(root, "rev-parse", "--short=12", "HEAD")
    if changed := _ask_git(root, "status", "--porcelain").splitlines():
        raise ReleaseError(
            f"The tree has changes ({len(changed)} files, the first is {changed[0][3:]}): commit or stash them, or"
            " build with TRIAL=1."
        )
    if tag not in _ask_git(root, "tag", "--points-at", "HEAD").split():
        raise ReleaseError(
            f"The tag {tag} does not name this commit: git tag -s {tag} -m 'Gatepost {version}', or build with TRIAL=1."
        )
    if re.search(rf"(?m)^## {re.escape(version)} — \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text("utf-8")):
        return commit
    raise ReleaseError(f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD': write it, or build with TRIAL=1.")


def read_notes(changelog: str, version: str) -> str:
    """Return what the changelog says about a version; raises `ReleaseError` where that is nothing."""
    found = re.search(rf"(?ms)^## {re.escape(version)} — [^\n]+\n(.*?)(?=^## |\Z)", changelog)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md has no section of {version}.")
    return found[1].strip()


def copy_tree(root: Path, target: Path, commit: str) -> None:
    """Copy the files that git knows or would take, and say which commit they are."""
    listed = _ask_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        source = root / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    (target / "src" / "gatepost" / "commit.txt").write_text(f"{commit}\n", "ascii")


def list_context(root: Path) -> Iterator[Path]:
    """Yield the files of the container context: what the Containerfile copies, and what stands beside it."""
    wanted = ["contrib/container", "LICENSE"]
    for line in _COPY.findall((root / "contrib/container/Containerfile").read_text("utf-8")):
        wanted += line.split()
    for name in dict.fromkeys(wanted):
        path = root / name
        found = (file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        yield from sorted(found) if path.is_dir() else [path]


def write_context(root: Path, output: Path, prefix: str, when: int) -> None:
    """Write the container context as an archive whose bytes depend on its files alone."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in dict.fromkeys(list_context(root)):
            member = tarfile.TarInfo(f"{prefix}/{file.relative_to(root).as_posix()}")
            member.size, member.mtime = file.stat().st_size, when
            member.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            with file.open("rb") as stream:
                archive.addfile(member, stream)
    output.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def build_release(root: Path, output: Path, *, trial: bool, say: Callable[[str], None] = print) -> list[Path]:
    """Build a release into a folder, which is replaced; return its files. Raises `ReleaseError`."""
    if not (root / ".git").exists():
        raise ReleaseError("A release is built from a git checkout: clone the repository, and check out its tag.")
    head = _ask_git(root, "rev-parse", "--short=12", "HEAD")
    commit = f"{head}-trial" if trial else check_tree(root, __version__)
    notes = read_notes((root / "CHANGELOG.md").read_text("utf-8"), __version__)
    lock = root / "requirements" / "run.txt"
    if refused := check_licences(lock.read_text("utf-8")):
        raise ReleaseError(f"Licences that are not allowed: {', '.join(refused)}; see tools/audit.py.")
    when = int(_ask_git(root, "log", "-1", "--format=%ct"))
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    source = output / "source.work"
    try:
        copy_tree(root, source, commit)
        say("wheel and source distribution …")
        build_distributions(source, output)
        name = f"gatepost-{__version__}"
        write_context(source, output / f"{name}-container.tar.gz", f"{name}-container", when)
        shutil.copyfile(lock, output / f"{name}-requirements.txt")
        write_bill(lock, output / f"{name}.cdx.json")
        say("Debian package …")
        _build_debian(output, when, say)
    finally:
        shutil.rmtree(source, ignore_errors=True)
    (output / "RELEASE-NOTES.md").write_text(render_notes(notes, commit, output, trial=trial), "utf-8")
    files = sorted(output.iterdir())
    (output / "SHA256SUMS").write_text("".join(f"{_digest(file)}  {file.name}\n" for file in files), "utf-8")
    return sorted(output.iterdir())


def render_notes(notes: str, commit: str, output: Path, *, trial: bool) -> str:
    """Return the release notes: what this is, what is new, and the digests of the files. Links to pages of the
    repository would lead nowhere from there: their text stays."""
    lines = [f"# Gatepost {__version__}", "", f"Commit {commit}, database schema {SCHEMA}."]
    if trial:
        lines += ["", "**A trial build: no release, and not built from a tag.**"]
    pages = "The pages that are named here are in `docs` of the source distribution."
    lines += ["", pages, "", _LINK.sub(r"\1", notes), "", "## Files", "", "| File | SHA-256 |", "|---|---|"]
    lines += [f"| {file.name} | `{_digest(file)}` |" for file in sorted(output.iterdir())]
    return "\n".join(lines) + "\n"


def build_distributions(source: Path, output: Path) -> None:
    """Build wheel and source distribution of a folder. Raises `ReleaseError`."""
    # Without a time of our own: whoever builds a wheel from the source distribution gets the same bytes.
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    for kind in ("--wheel", "--sdist"):
        options = (kind, "--no-build-isolation", "-q", "-p", sys.executable, "-o", output)
        command = [Path(sys.executable).parent / "uv", "build", *options]
        done = subprocess.run(
            [*map(str, command)], cwd=source, capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            raise ReleaseError(f"{kind[2:]} was not built: {done.stderr.strip()}")
    (output / ".gitignore").unlink(missing_ok=True)


def _build_debian(output: Path, when: int, say: Callable[[str], None]) -> None:
    if not shutil.which("dpkg-deb"):
        say("not built: the Debian package, since dpkg-deb is not here")
        return
    os.environ["SOURCE_DATE_EPOCH"] = str(when)
    try:
        build_package(next(output.glob("*.whl")), output)
    except PackageError as fault:
        raise ReleaseError(str(fault)) from None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _ask_git(root: Path, *arguments: str) -> str:
    asked = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise ReleaseError(f"git {arguments[0]} failed: {asked.stderr.strip()}")
    return asked.stdout.rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--trial", action="store_true", help="build from the tree as it is")
    options = parser.parse_args()
    try:
        files = build_release(ROOT, options.output.absolute(), trial=options.trial)
    except ReleaseError as fault:
        sys.exit(str(fault))
    for file in files:
        print(f"{file.stat().st_size:>12,}  {file.name}")


if __name__ == "__main__":
    main()
