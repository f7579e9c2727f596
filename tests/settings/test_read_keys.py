"""Every key of the configuration is read by something that it decides: a key that nobody reads would be documented,
accepted and without effect.

Reads are found in the source by a small inference of types. It knows annotations of parameters, attributes and results,
assignments and loops, and follows the fields of sections from there. What it cannot follow counts as no read, so a key
that is read in an unusual way fails here; then annotate the reader.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from tests.source_trees import ROOT, walk_source

from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section

# Keys that nothing reads after the files were accepted, with the reason.
UNREAD = {
    ("FeedSettings", "allow_http"): "it only decides whether a URL is accepted",
    ("StaticApiTokenSettings", "made"): "it is for people: the web interface shows what the file says",
}

Sections = frozenset[type[Section]]
NONE: Sections = frozenset()
# Functions whose result has in it what they were given.
PASSING = frozenset({"enumerate", "list", "tuple", "sorted", "reversed", "filter", "zip", "values", "replace"})


def sections_in(annotation: object) -> Sections:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return frozenset({annotation})
    return NONE.union(*map(sections_in, get_args(annotation)))


def collect_fields() -> dict[type[Section], dict[str, Sections]]:
    """The fields of every section of both files, each with the sections inside of it."""
    found: dict[type[Section], dict[str, Sections]] = {}
    waiting: list[type[Section]] = [GuardSettings, AbbySettings]
    while waiting:
        section = waiting.pop()
        if section not in found:
            found[section] = {name: sections_in(field.annotation) for name, field in section.model_fields.items()}
            waiting += [inner for several in found[section].values() for inner in several]
    return found


FIELDS = collect_fields()
# A parameter for a section takes those that are derived from it.
NAMED: dict[str, Sections] = {
    base.__name__: frozenset(each for each in FIELDS if issubclass(each, base))
    for section in FIELDS
    for base in section.__mro__
    if issubclass(base, Section) and base is not Section
}


class Module:
    """The source of one module, and what its names stand for."""

    def __init__(self, path: Path) -> None:
        self.nodes = walk_source(path)
        aliases = [alias for node in self.nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
        self._aliases = {alias.asname: alias.name for alias in aliases if alias.asname}
        self.names: dict[str, Sections] = {}

    def of_annotation(self, annotation: ast.expr | None) -> Sections:
        found = NONE
        for node in ast.walk(annotation) if annotation else ():
            text = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else ""
            if isinstance(text, str):
                found = found.union(*(NAMED.get(self._aliases.get(word, word), NONE) for word in text.split(" | ")))
        return found


@cache
def modules() -> dict[Path, Module]:
    return {path: Module(path) for path in sorted(ROOT.rglob("*.py"))}


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def pair_up(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


@cache
def shared_names() -> tuple[dict[str, Sections], dict[str, Sections]]:
    """What attributes of any class, and results of any function, can be, by their names."""
    attributes: dict[str, Sections] = {}
    results: dict[str, Sections] = {}
    for fields in FIELDS.values():
        for name, inner in fields.items():
            attributes[name] = attributes.get(name, NONE) | inner
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        name = each.target.id
                        attributes[name] = attributes.get(name, NONE) | module.of_annotation(each.annotation)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                results[node.name] = results.get(node.name, NONE) | module.of_annotation(node.returns)
                annotated = {each.arg: module.of_annotation(each.annotation) for each in parameters(node)}
                given = {name: known for name, known in annotated.items() if known}
                for target, value in assignments(ast.walk(node)) if given else ():
                    if isinstance(target, ast.Attribute) and isinstance(value, ast.Name) and value.id in given:
                        attributes[target.attr] = attributes.get(target.attr, NONE) | given[value.id]
    return attributes, results


def assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from pair_up(target, node.value)
        elif isinstance(node, ast.NamedExpr):
            yield node.target, node.value
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.target, node.iter


def infer(node: ast.expr, names: dict[str, Sections]) -> Sections:
    """The sections that an expression can be, or can hold."""
    attributes, results = shared_names()
    match node:
        case ast.Name(id=name):
            return names.get(name, NONE)
        case ast.Attribute(value=value, attr=name):
            if not (owners := infer(value, names)):
                return attributes.get(name, NONE)
            found = NONE.union(*(FIELDS.get(owner, {}).get(name, NONE) for owner in owners))
            return found or (results.get(name, NONE) if any(hasattr(owner, name) for owner in owners) else NONE)
        case ast.Call(func=function, args=arguments):
            name = getattr(function, "id", getattr(function, "attr", ""))
            if name in PASSING:
                inside = [function.value] if isinstance(function, ast.Attribute) else []
                return NONE.union(*(infer(each, names) for each in (*arguments, *inside)))
            return NAMED.get(name) or results.get(name, NONE)
        case ast.BoolOp(values=several) | ast.Tuple(elts=several) | ast.List(elts=several):
            return NONE.union(*(infer(each, names) for each in several))
        case ast.IfExp(body=body, orelse=other):
            return infer(body, names) | infer(other, names)
        case (
            ast.Subscript(value=inner) | ast.Await(value=inner) | ast.NamedExpr(value=inner) | ast.Starred(value=inner)
        ):
            return infer(inner, names)
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            return infer(inner, names)
    return NONE


def learn_names(module: Module) -> None:
    """Find what the names of a module stand for, from annotations and then, until nothing is new, from assignments."""
    names = module.names
    for node in module.nodes:
        if isinstance(node, ast.arg) and (known := module.of_annotation(node.annotation)):
            names[node.arg] = names.get(node.arg, NONE) | known
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = names.get(node.target.id, NONE) | module.of_annotation(node.annotation)
    several = list(assignments(module.nodes))
    while True:
        before = dict(names)
        for target, value in several:
            targets = target.elts if isinstance(target, ast.Tuple) else (target,)
            if found := infer(value, names):
                names.update(
                    {each.id: names.get(each.id, NONE) | found for each in targets if isinstance(each, ast.Name)}
                )
        if names == before:
            return


def find_reads() -> set[tuple[str, str]]:
    """The fields that are read outside of the settings, themselves or through a property of their section."""
    reads: set[tuple[type[Section], str]] = set()
    for path, module in modules().items():
        if path.parent.name == "settings":
            continue
        learn_names(module)
        for node in module.nodes:
            if isinstance(node, ast.Attribute):
                reads.update((owner, node.attr) for owner in infer(node.value, module.names))
    for section, name in list(reads):
        property_ = inspect.getattr_static(section, name, None)
        if isinstance(property_, property) and property_.fget:
            source = ast.parse(textwrap.dedent(inspect.getsource(property_.fget)))
            inside = (node for node in ast.walk(source) if isinstance(node, ast.Attribute))
            reads.update((section, node.attr) for node in inside if getattr(node.value, "id", "") == "self")
    return {(section.__name__, name) for section, name in reads}


def test_every_key_is_read_outside_of_the_settings() -> None:
    reads = find_reads()
    keys = {
        (section.__name__, name) for section, fields in FIELDS.items() for name, inner in fields.items() if not inner
    }
    assert len(keys) > 200
    unread = sorted(keys - reads - UNREAD.keys())
    assert not unread, f"nothing reads these keys: {unread}"
    assert not UNREAD.keys() & reads, "these are read, so they need no reason"
    assert UNREAD.keys() <= keys
