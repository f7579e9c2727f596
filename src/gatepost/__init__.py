"""Gatepost: an e-mail security service."""

from pathlib import Path

__version__ = "0.2.0"
# The number of the database schema of this build (`store/upgrading.py`).
SCHEMA = 32


def find_commit() -> str:
    """Return the commit that this build was made from, or nothing where that is not known.

    What `make release` builds has it in a file. In a checkout it is the commit that was checked out.
    """
    folder = Path(__file__).parent
    try:
        return (folder / "commit.txt").read_text("ascii").strip()
    except (OSError, ValueError):
        pass
    try:
        return _read_head(folder.parents[1] / ".git")[:12]
    except (OSError, ValueError, IndexError):
        return ""


def _read_head(git: Path) -> str:
    """Return the commit that HEAD names, from the files of git (gitrepository-layout(5)); raises `OSError`."""
    if git.is_file():  # of a worktree: "gitdir: PATH"
        git = git.parent / git.read_text("utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = git / (git / "commondir").read_text("utf-8").strip() if (git / "commondir").exists() else git
    if (shared / name).exists():
        return (shared / name).read_text("utf-8").strip()
    packed = (shared / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split(" ")[0] for line in packed if line.endswith(f" {name}")), "")


def describe_build() -> str:
    """Return version, schema and commit of this build, as `gatepost --version` prints them."""
    commit = find_commit()
    return f"{__version__} (schema {SCHEMA}{f', commit {commit}' if commit else ''})"
