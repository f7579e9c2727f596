"""The syntax trees of the package, for tests that read its source: parsed once in a process, all at once.

They have hundreds of thousands of nodes that refer to each other. The collector of cycles would go through all of them
again and again while more are made, which takes longer than to parse them, so it rests meanwhile. Files with tests that
use this are given to one worker of a parallel run (`TOGETHER` in `tests/conftest.py`).
"""

import ast
import gc
from functools import cache
from pathlib import Path

import gatepost

ROOT = Path(gatepost.__file__).parent


def parse_source(path: Path) -> ast.Module:
    """The tree of a file of the package."""
    return _parse_all()[path][0]


def walk_source(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file of the package."""
    return _parse_all()[path][1]


@cache
def _parse_all() -> dict[Path, tuple[ast.Module, tuple[ast.AST, ...]]]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
        return {path: (tree, tuple(ast.walk(tree))) for path, tree in trees.items()}
    finally:
        if was_enabled:
            gc.enable()
