"""The layout is the architecture: imports run one way, and what holds secrets loads nothing that parses mail.

`docs/internals/architecture.md` describes the packages. A module imports only from layers above its own in `LAYERS`.
Every form of import counts, also those inside functions and those for type checkers.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.source_trees import ROOT, parse_source, walk_source

from gatepost.findings.kinds import TITLES

LAYERS: tuple[tuple[str, ...], ...] = (
    ("speedups", "ids", "times", "questions"),
    ("process",),
    ("names", "near_duplicates", "findings"),
    ("policy",),
    ("plugins",),
    ("mail",),
    ("pages",),
    ("files", "auth"),
    ("lists", "textmodel", "view"),
    ("settings",),
    ("checks",),
    ("analysis",),
    ("store",),
    ("api", "events"),
    ("rejudge", "scanning", "client", "migration", "mailboxes"),
    ("feeds",),
    ("workers", "smtp"),
    ("guard", "learning", "milter", "drop_in", "digests"),
    ("abby",),
    ("web",),
    ("service",),
    ("cli",),
    ("__main__",),
)
LAYER = {name: index for index, layer in enumerate(LAYERS) for name in layer}
# Services that hold secrets or tenants' data, and what they may not load: everything that reads hostile bytes.
PLAIN = (
    *("store", "events", "scanning", "digests", "guard", "smtp", "milter", "drop_in", "abby", "web"),
    *("client", "api", "rejudge", "settings", "mailboxes"),
)
PARSERS = ("checks", "files", "pages", "textmodel", "analysis", "mail", "auth", "view")
PLAIN_DATA = {"mail", "mail.message", "mail.sender_history", "auth", "auth.results", "view", "view.values"}
PLAIN_DATA |= {"analysis", "analysis.report", "analysis.verdict"}  # values, and judging by findings and lists
# Hashes of bytes, and signatures over them: they are made where the keys are, and no worker has those.
PLAIN_DATA |= {"auth.signature", "auth.signing", "auth.dmarc_record"}
PLAIN_DATA |= {"auth.origin"}  # networks of the settings, and one expression for a field
PLAIN_DATA |= {"checks", "checks.known_names"}  # lists of names, and pure functions of a name
# The worker's own modules: guard starts them in other processes and never imports them.
WORKER = {"workers.worker", "workers.loader", "workers.warmup"}

MAX_LINES, MAX_FUNCTION_LINES, MAX_DEPTH = 800, 80, 3
# Modules by subject: a module with one reader belongs to that reader, as a rule. What these list has one by its nature.
MAX_MODULES, MAX_WITH_ONE_READER = 422, 45
# What the package may have in all, and at its root. These numbers only fall: a feature pays for its lines elsewhere.
MAX_LINES_IN_ALL, MAX_LOOSE_MODULES = 113_607, 8
REGISTRIES = {"checks.registry", "web.registry", "files.documents.dispatch", "files.archives.unpack"}
MEANINGLESS = {"utils", "util", "helpers", "common", "misc", "tools"}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES: dict[str, Path] = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def _nodes(name: str) -> tuple[ast.AST, ...]:
    """Every node of a module."""
    return walk_source(MODULES[name])


def _targets(node: ast.AST) -> Iterator[str]:
    """The modules of this package that one import statement loads, without the `gatepost.` before them."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "relative imports are not used"
        base = node.module or ""
        names = [f"{base}.{alias.name}" for alias in node.names] if base.split(".")[0] == "gatepost" else []
    else:
        return
    for name in names:
        inside = name.removeprefix("gatepost.")
        if name == inside:
            continue
        if inside not in MODULES:
            inside = inside.rpartition(".")[0]
        if inside in MODULES:
            yield inside


@cache
def _imports(name: str) -> frozenset[str]:
    return frozenset(target for node in _nodes(name) for target in _targets(node)) - {name}


@cache
def _imports_at_load(name: str) -> frozenset[str]:
    """Without imports inside functions and those for type checkers: what loading the module loads."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(parse_source(MODULES[name]).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        found.update(_targets(node))
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found) - {name}


def _package(name: str) -> str:
    return name.partition(".")[0]


def _closure(starts: set[str]) -> set[str]:
    """All modules that loading these loads, the packages above each included."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name in found or name not in MODULES:
            continue
        found.add(name)
        waiting.extend(_imports_at_load(name))
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


def _parsers_in(names: set[str]) -> list[str]:
    return sorted(name for name in names if _package(name) in PARSERS and name not in PLAIN_DATA)


def test_every_package_has_its_layer() -> None:
    packages = {_package(name) for name in MODULES} - {"__init__"}
    assert packages == set(LAYER), f"say in LAYERS where these belong: {packages ^ set(LAYER)}"


def test_imports_run_one_way() -> None:
    wrong = [
        f"{name} imports {target}"
        for name in MODULES
        for target in _imports(name)
        if _package(target) != _package(name) and LAYER.get(_package(target), -1) >= LAYER.get(_package(name), 99)
    ]
    assert not wrong


def test_no_module_imports_itself_in_a_circle() -> None:
    """Inside a package as well, and an import inside a function does not hide it."""
    state: dict[str, int] = {}
    circles: list[list[str]] = []

    def visit(name: str, path: list[str]) -> None:
        if state.get(name) == 1:
            circles.append([*path[path.index(name) :], name])
        if name in state:
            return
        state[name] = 1
        for target in sorted(_imports(name)):
            visit(target, [*path, name])
        state[name] = 2

    for name in MODULES:
        visit(name, [])
    assert not circles


@pytest.mark.parametrize("package", PLAIN)
def test_services_load_no_parser(package: str) -> None:
    starts = {name for name in MODULES if _package(name) == package}
    assert not _parsers_in(_closure(starts) - WORKER)
    assert not _closure(starts) & WORKER


def test_what_is_loaded_is_what_the_imports_say() -> None:
    """In a fresh process, for the parts that run as services, and for a command that only reads storage."""
    starts = [*sorted(name for name in MODULES if _package(name) in PLAIN), "cli.accounts"]
    code = "import importlib, sys\n"
    code += f"for name in {starts!r}: importlib.import_module('gatepost.' + name)\n"
    code += "print(*(name[9:] for name in sys.modules if name.startswith('gatepost.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "store.store" in loaded
    assert not _parsers_in(set(loaded))
    assert not WORKER & set(loaded)


def test_kinds_are_values() -> None:
    """The id of a kind stands in `kinds.py` (and in the policy), and everywhere else it is that value."""
    allowed = {"findings.kinds"}
    wrong = [
        f"{name}:{node.lineno} {node.value}"
        for name in MODULES
        if name not in allowed and _package(name) not in ("mail", "files")
        for node in _nodes(name)
        if isinstance(node, ast.Constant) and node.value in TITLES
    ]
    assert not wrong


def test_modules_have_a_size_and_a_name() -> None:
    for name, path in MODULES.items():
        assert not MEANINGLESS & set(name.split(".")), f"{name} says nothing about what is inside"
        assert name.count(".") < MAX_DEPTH, f"{name} lies too deep"
        assert path.read_text("utf-8").count("\n") <= MAX_LINES, f"{name} has over {MAX_LINES} lines"


def test_modules_are_few_and_most_have_several_readers() -> None:
    readers: dict[str, set[str]] = {name: set() for name, path in MODULES.items() if path.name != "__init__.py"}
    for name in MODULES:
        for target in _imports(name) & readers.keys():
            readers[target].add(name)
    lonely = [name for name, by in readers.items() if len(by) == 1 and not by & REGISTRIES]
    assert len(MODULES) <= MAX_MODULES
    assert len(lonely) <= MAX_WITH_ONE_READER, lonely


def test_the_package_keeps_its_size() -> None:
    lines = sum(path.read_text("utf-8").count("\n") for path in MODULES.values())
    assert lines <= MAX_LINES_IN_ALL
    loose = [name for name, path in MODULES.items() if path.parent == ROOT and name != "__init__"]
    assert len(loose) <= MAX_LOOSE_MODULES, loose


@pytest.mark.variant
def test_protocols_have_several_users() -> None:
    """A Protocol that one place names is the class that is passed there. A bound of type variables has many users."""
    declared = {
        node.name: name
        for name in MODULES
        for node in _nodes(name)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases)
    }
    uses = Counter(
        node.id for name in MODULES for node in _nodes(name) if isinstance(node, ast.Name) and node.id in declared
    )
    uses.update(
        word
        for name in MODULES
        for node in _nodes(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200
        for word in declared.keys() & set(re.findall(r"\w+", node.value))
    )
    bounds = {
        ast.unparse(keyword.value)
        for name in MODULES
        for node in _nodes(name)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TypeVar"
        for keyword in node.keywords
        if keyword.arg == "bound"
    }
    assert declared
    assert [f"{module}.{name}" for name, module in declared.items() if uses[name] < 2 and name not in bounds] == []


def test_functions_are_short() -> None:
    for name in MODULES:
        for node in _nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {length} lines"
