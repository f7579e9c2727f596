"""The layout is the architecture: a module imports only from rows above its own, and nothing is named after nothing."""

import ast
from pathlib import Path

import gatepost

ROOT = Path(gatepost.__file__).parent

ROWS: tuple[tuple[str, ...], ...] = (
    ("names", "latin"),
    ("kinds",),
    ("strengths",),
    ("asking",),
    ("mail",),
    ("files",),
    ("textmodel",),
    ("auth",),
    ("lists",),
    ("questions",),
    ("acquaintance",),
    ("findings",),
    ("checks",),
    ("policy",),
    ("verdict",),
    ("analysis",),
    ("replay",),
    ("view",),
    ("settings",),
    ("config",),
    ("logs",),
    ("metrics",),
    ("ids",),
    ("store",),
    ("api",),
    ("guard",),
    ("abby",),
    ("service",),
    ("client",),
    ("cli",),
)
ROW = {name: index for index, row in enumerate(ROWS) for name in row}
NAMELESS = {"utils", "util", "helpers", "common", "misc", "tools"}


def modules() -> dict[str, Path]:
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.removeprefix("gatepost.") for name in names if name.startswith("gatepost.")}


def test_every_module_has_its_row() -> None:
    rooms = {name.split(".")[0] for name in modules()} - {"__init__", "__main__"}
    assert rooms <= ROW.keys(), f"say in ROWS where these belong: {rooms - ROW.keys()}"


def test_imports_run_one_way() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, path in modules().items()
        if (room := name.split(".")[0]) in ROW
        for target in imported(path)
        if target.split(".")[0] != room and ROW[target.split(".")[0]] >= ROW[room]
    ]
    assert not wrong


def test_modules_are_small_and_named() -> None:
    for name, path in modules().items():
        assert not NAMELESS & set(name.split(".")), f"{name} says nothing about what is inside"
        assert path.read_text("utf-8").count("\n") <= 400, f"{name} has over 400 lines: give its parts their own names"


def test_functions_are_short() -> None:
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 80, f"{name}.{node.name} has {length} lines"
