"""YAML text to plain values, with the line of every key and with what references lead to.

The text is composed to nodes, not constructed to objects: a node has its position and keeps a key that is there twice.
An alias is the node that it stands for, so that nested aliases cost nothing until they are expanded, under a budget.
Scalars have their YAML 1.2 meaning: `no` and `on` are texts. `restApi {}`, as the interface document writes it, is not
YAML; such a line is read as `restApi: {}`, and `smtp {}` likewise, with keys between the braces or without.

A text can take its value, or a part of it, from elsewhere by `${env:NAME}` and `${file:PATH}`. Secrets need not be in
the files then: containers hand them over in the environment, orchestrators and systemd in files. The content of a file
counts without the line end behind it; a path is relative to the folder of the configuration file. `$${` is a plain
`${`. Faults of a reference never show what it leads to.
"""

import os
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner

Key: TypeAlias = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_NODES = 100_000
MAX_DEPTH = 24
# Characters of a file whose nodes are kept: a start reads each file several times, and ruamel.yaml takes its time.
REMEMBERED = 20_000

_REST_API = re.compile(r"^([ \t]*(?:scanSources[ \t]*:[ \t]*\{[ \t]*)?(?:restApi|smtp))[ \t]*(?=\{)", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_NAMED = re.compile(r"(['\"]).*\1", re.DOTALL)


class SettingsMistake(msgspec.Struct, frozen=True):
    """A fault or warning at a line of a file that is not named yet."""

    line: int
    key: Key
    sentence: str


class Document(msgspec.Struct, frozen=True):
    """The content of a file: plain values, the line of every key and item, what could not be read, and old names."""

    data: Any
    lines: dict[Key, int]
    mistakes: tuple[SettingsMistake, ...] = ()
    warnings: tuple[SettingsMistake, ...] = ()

    def line_of(self, key: Key) -> int:
        """Return the line of a key, or of the nearest key above it."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)


def parse_document(raw: bytes) -> Document:
    """Parse the bytes of one file; never raises."""
    if len(raw) > MAX_BYTES:
        return _build_unreadable(1, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        return _build_unreadable(raw.count(b"\n", 0, fault.start) + 1, "is not UTF-8 here")
    try:
        plain = _REST_API.sub(r"\1: ", text)
        root = (_compose_again if len(plain) <= REMEMBERED else _compose)(plain)
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        return _build_unreadable(mark.line + 1 if mark else 1, f"is not YAML here: {_describe(fault)}")
    except (_TooDeepError, RecursionError):
        return _build_unreadable(1, "is nested too deeply")
    except (YAMLError, ValueError, AttributeError, LookupError) as fault:
        return _build_unreadable(1, f"is not YAML: {' '.join(str(fault).split())[:200]}")
    return _NodeWalk().document(root)


def rename_keys(document: Document, names: Mapping[str, str]) -> Document:
    """Replace old names of top-level keys by the new ones; each gives a warning, or a fault if both are there."""
    old = [key for key in names if isinstance(document.data, dict) and key in document.data]
    if not old:
        return document
    data = {names.get(key, key): value for key, value in document.data.items()}
    lines = {(names.get(str(key[0]), key[0]), *key[1:]) if key else key: line for key, line in document.lines.items()}
    mistakes, warnings = list(document.mistakes), list(document.warnings)
    for key in old:
        line, new = document.line_of((key,)), names[key]
        if new in document.data:
            sentence = f"is the old name of {new}, which line {document.line_of((new,))} sets: keep only {new}"
            mistakes.append(SettingsMistake(line, (key,), sentence))
        else:
            warnings.append(SettingsMistake(line, (key,), f"is now called {new}; the old name is still read"))
    return Document(data, lines, tuple(mistakes), tuple(warnings))


class _TooDeepError(Exception):
    """The text has more levels than any document of ours."""


class _BoundedScanner(Scanner):
    """Stops at the first level too many. ruamel.yaml looks at every open level for every token, so that 4,000 opening
    braces would take it seconds."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        self._check_depth()
        super().fetch_flow_collection_start(TokenClass, to_push)

    def add_indent(self, column: int) -> bool:
        self._check_depth()
        return super().add_indent(column)

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) > MAX_DEPTH:
            raise _TooDeepError


def _compose(text: str) -> Node | None:
    parser = YAML(typ="safe", pure=True)
    parser.Scanner = _BoundedScanner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.compose(text)  # type: ignore[no-any-return]


_compose_again = lru_cache(maxsize=4)(_compose)


def _describe(fault: MarkedYAMLError) -> str:
    """Return what is wrong, without names: a password that begins with *, & or ! is read as one."""
    said = str(fault.problem or fault.context)
    if not any(word in said for word in ("alias", "anchor", "handle")):
        return said
    return f"{_NAMED.sub('', said).split(';')[0].strip()}; write a text that begins with *, & or ! in quotes"


def _build_unreadable(line: int, sentence: str) -> Document:
    return Document(None, {}, (SettingsMistake(line, (), sentence),))


def _parse_integer(text: str) -> int:
    text = text.replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    base = {"0x": 16, "0o": 8}.get(digits[:2].lower(), 10)
    return sign * int(digits[2:] if base != 10 else digits, base)


def _check_text(text: str) -> str:
    """Reject half of a surrogate pair, which an escape can state and no file, header or log can hold."""
    text.encode()
    return text


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": _parse_integer,
    "float": lambda text: float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")),
    "str": _check_text,
    "timestamp": _check_text,
}


class _BudgetError(Exception):
    """The document expands to too many or too deeply nested values."""


class _NodeWalk:
    """One walk over the nodes of one document."""

    def __init__(self) -> None:
        self.lines: dict[Key, int] = {}
        self.mistakes: list[SettingsMistake] = []
        self.left = MAX_NODES

    def document(self, root: Node | None) -> Document:
        try:
            data = {} if root is None else self._value(root, ())
        except _BudgetError:
            return _build_unreadable(1, "expands to too many values, or too deeply nested ones")
        if data is None:
            data = {}
        return Document(data, self.lines, tuple(self.mistakes))

    def _value(self, node: Node, key: Key) -> Any:
        self.left -= 1
        if self.left < 0 or len(key) > MAX_DEPTH:
            raise _BudgetError
        self.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self._mapping(node, key)
        if isinstance(node, SequenceNode):
            return [self._value(item, (*key, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, key)

    def _mapping(self, node: MappingNode, key: Key) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, ScalarNode):
                self.mistakes.append(SettingsMistake(line, key, "has a key that is not a plain word"))
                continue
            name = str(name_node.value).encode("utf-8", "replace").decode()
            here = (*key, name)
            if name in first:
                self.mistakes.append(SettingsMistake(line, here, f"is already set in line {first[name]}"))
                continue
            first[name] = line
            self.lines[here] = line
            result[name] = self._value(value_node, here)
        return result

    def _scalar(self, node: Node, key: Key) -> Any:
        line = self.lines[key]
        convert = _SCALARS.get(str(node.tag).removeprefix(_TAG))
        if convert is None:
            sentence = "begins with !, a tag that is not supported; write a text that begins so in quotes"
            self.mistakes.append(SettingsMistake(line, key, sentence))
            return str(node.value)
        try:
            value = convert(str(node.value))
        except UnicodeEncodeError:
            self.mistakes.append(SettingsMistake(line, key, "has half a character in it"))
            return None
        except ValueError:
            self.mistakes.append(SettingsMistake(line, key, "is not the kind of value that its form or tag says"))
            return None
        if value is None and key:
            self.mistakes.append(SettingsMistake(line, key, "has no value; give it one, or leave the key out"))
        return value


MAX_REFERENCED_BYTES = 64 << 10

_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _ReferenceError(ValueError):
    """Why a reference leads nowhere, as the end of a sentence that starts with the key."""


def resolve_references(document: Document, folder: Path) -> Document:
    """Return a document with every reference replaced by what it leads to; those that lead nowhere are faults."""
    mistakes: list[SettingsMistake] = []

    def resolve(value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: resolve(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [resolve(inner, (*key, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return _REFERENCE.sub(lambda match: _read(match, folder), value)
        except _ReferenceError as fault:
            mistakes.append(SettingsMistake(document.line_of(key), key, str(fault)))
            return value

    data = resolve(document.data, ())
    return replace(document, data=data, mistakes=(*document.mistakes, *mistakes))


def read_text(path: Path, *key: str, resolved: bool = False) -> str:
    """Return the text of a key as it stands in a file, or `resolved`, with what its references lead to; "" where there
    is none, or one that cannot be read: whoever reads the whole file is told why."""
    try:
        found = parse_document(path.read_bytes()).data
        for name in key:
            found = found.get(name) if isinstance(found, dict) else None
        text = found if isinstance(found, str) else ""
        return _REFERENCE.sub(lambda match: _read(match, path.parent.absolute()), text) if resolved else text
    except (OSError, _ReferenceError):
        return ""


def _read(match: re.Match[str], folder: Path) -> str:
    if match.group(1):
        return match.group(1)
    kind, colon, target = match.group(2).partition(":")
    if kind not in ("env", "file") or not colon or not match.group().endswith("}"):
        raise _ReferenceError("has a ${…} that is neither ${env:NAME} nor ${file:PATH}; a plain ${ is written $${")
    return _read_variable(target) if kind == "env" else _read_file(target, folder)


def _read_variable(name: str) -> str:
    if not _NAME.match(name):
        raise _ReferenceError("has a ${env:…} that names no environment variable")
    found = os.environ.get(name)
    if not found:
        state = "not set" if found is None else "empty"
        raise _ReferenceError(f"needs the environment variable {name}, which is {state}")
    return found


def _read_file(name: str, folder: Path) -> str:
    path = Path(folder, name.strip()).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_REFERENCED_BYTES + 1)
        text = raw.decode("utf-8-sig").rstrip("\r\n")
    except OSError as fault:
        raise _ReferenceError(f"needs the file {path}: {(fault.strerror or 'cannot be read').lower()}") from None
    except (UnicodeDecodeError, ValueError):
        raise _ReferenceError(f"needs the file {path}, which is not text in UTF-8") from None
    if len(raw) > MAX_REFERENCED_BYTES or not text:
        state = f"larger than {MAX_REFERENCED_BYTES >> 10} KiB" if text else "empty"
        raise _ReferenceError(f"needs the file {path}, which is {state}")
    return text
