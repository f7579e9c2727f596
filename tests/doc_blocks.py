"""The code blocks of the documentation, for the tests that read or run them.

`sh` is what a reader runs against the service of `make serve`, in the folder of the checkout; `console` is for another
machine, for root, or for a program that need not be here, so it is read and not run.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/RESULTS.md")),
)
_BLOCK = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    """One block: its page, its language, its text without the indentation of a list, and its line."""

    page: str
    language: str
    code: str
    line: int

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(page: Path) -> list[CodeBlock]:
    """Return the code blocks of a page, in their order."""
    text = page.read_text("utf-8")
    return [
        CodeBlock(
            page.relative_to(ROOT).as_posix(),
            found[2],
            "".join(line.removeprefix(found[1]) for line in found[4].splitlines(keepends=True)),
            text.count("\n", 0, found.start()) + 1,
        )
        for found in _BLOCK.finditer(text)
    ]


BLOCKS = tuple(block for page in PAGES for block in read_blocks(page))


def blocks_of(*languages: str) -> list[CodeBlock]:
    """Return all blocks in one of these languages."""
    return [block for block in BLOCKS if block.language in languages]
