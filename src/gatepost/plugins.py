"""Plug-ins: packages of others that bring checks. What they declare is read here as data; their code is not imported.

A package that names itself in the entry-point group `gatepost.checks` can be enabled by its name in `plugins` of the
configuration. It declares everything but its code in the file `gatepost.toml` beside its modules: its kinds of finding
with title, weight and verdict, groups, the numbers of strengths, and phrases. So the services, the web pages and the
command line know its kinds as they know the shipped ones, and no process that holds keys or storage runs its code. Its
checks are imported by `checks.plugins`, in the loader of the workers, before those are sealed.

A plug-in may add and may not change: its kinds and groups lie in a namespace of its own, and the operator's policy
files weigh them like the shipped ones. Everything that can be extended is described in `docs/internals/extending.md`.
"""

import importlib.util
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatepost.findings.kinds import BY_ID, Kind
from gatepost.findings.strengths import Calculation, StrengthsError, parse_tables
from gatepost.policy.rules import AddedKinds, GroupRule, KindRule, Verdict, shipped_policy

GROUP = "gatepost.checks"
FILE = "gatepost.toml"
GOLDEN = "golden"
# The interface that `docs/internals/extending.md` describes; it counts up when a plug-in that was written for it might
# break.
API = 2
MOST_POINTS = 1000.0
MAX_FILE = 1 << 20
MAX_TITLE = 200
LOAD_SECONDS = 60.0
MAX_PLUGINS = 20
# What a name in the configuration may look like: that of a distribution, and its exact version where one is wanted.
STATED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:==[A-Za-z0-9.!+_-]{1,60})?")

_NAMESPACE = re.compile(r"[a-z][a-z0-9-]{1,30}")
_KIND = re.compile(r"[a-z][a-z0-9-]{1,30}:[a-z0-9][a-z0-9-]{0,60}")
_ENTRY = re.compile(r"([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
# Areas of tags that are not shipped kinds.
_RESERVED = frozenset({"list", "rule", "gatepost"})
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "GATEPOST_PURE_PYTHON")


class PluginError(ValueError):
    """A plug-in that cannot be used; the text names it and says why."""


class _DeclaredKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    weight: float
    verdict: Verdict
    group: str = ""
    conclusive: bool = False


class _Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file `gatepost.toml`. `phrases` are by theme and language, as in the shipped phrasebooks."""

    api: int
    namespace: str
    about: str
    kinds: dict[str, _DeclaredKind]
    groups: dict[str, GroupRule] = {}
    strengths: dict[str, dict[str, Any]] = {}
    phrases: dict[str, dict[str, list[str]]] = {}


class Plugin(msgspec.Struct, frozen=True):
    """One plug-in as its package declares it. `entry` names its checks (`module:name`), `folder` is that of its
    package, which has golden messages where it brings any."""

    name: str
    version: str
    namespace: str
    about: str
    entry: str
    folder: str
    added: AddedKinds
    strengths: Mapping[str, Calculation] = {}
    phrases: Mapping[str, tuple[str, ...]] = {}

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def pinned(self) -> str:
        """The name with the exact version, as a published configuration has it."""
        return f"{self.name}=={self.version}"

    @property
    def file(self) -> Path:
        """The file that declares it."""
        return Path(self.folder, FILE)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Its kinds of finding by their ids."""
        return {tag: Kind(tag, title) for tag, title in self.added.titles.items()}

    def golden(self, folder: str) -> tuple[Path, ...]:
        """Its golden messages: `attacks`, which get the tag that they are named by, or `twins`, which get none."""
        return tuple(sorted(Path(self.folder, GOLDEN, folder).glob("*.eml")))


def find_plugin(stated: str) -> Plugin:
    """Find a plug-in by its name, or by `name==version`; raises `PluginError`."""
    from importlib.metadata import PackageNotFoundError, distribution  # most deployments have no plug-in

    name, _, wanted = stated.partition("==")
    try:
        installed = distribution(name)
    except (PackageNotFoundError, ValueError):
        raise PluginError(f"{name} is not installed beside Gatepost, in {sys.prefix}") from None
    name, version = _normalise(installed.metadata["Name"] or name), installed.version
    if wanted and wanted != version:
        raise PluginError(f"{name} is wanted in version {wanted}, but version {version} is installed here")
    entries = [each.value for each in installed.entry_points if each.group == GROUP]
    if len(entries) != 1:
        raise PluginError(f"{name} {version} has {len(entries)} entry points in the group {GROUP}, where it needs one")
    folder = _find_folder(f"{name} {version}", entries[0])
    return _read(name, version, entries[0], folder)


def find_plugins(stated: Sequence[str]) -> tuple[Plugin, ...]:
    """Find the plug-ins of a configuration, in its order; raises `PluginError` with the first fault."""
    found: list[Plugin] = []
    for each in stated:
        found.append(plugin := find_plugin(each))
        _refuse_clash(plugin, found[:-1])
    return tuple(found)


def find_faults(stated: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with each plug-in of a configuration, by its place in the list. No code of them runs."""
    found: list[Plugin] = []
    for place, each in enumerate(stated):
        try:
            plugin = find_plugin(each)
            _refuse_clash(plugin, found)
            found.append(plugin)
        except PluginError as fault:
            yield place, str(fault)


def find_code_fault(stated: Sequence[str]) -> str:
    """Return what is wrong with the code of the first faulty plug-in, "" if all can be loaded. A child process imports
    them, with a bare environment, as the loader of the workers does."""
    import subprocess

    if not stated:
        return ""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    command = [sys.executable, "-P", "-m", "gatepost.checks.plugins", *stated]
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, timeout=LOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{', '.join(stated)} did not load within {LOAD_SECONDS:g} seconds"
    try:
        return str(json.loads(ended.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        return f"{', '.join(stated)} ended the process that loads plug-ins, with status {ended.returncode}"


def pin_plugins(stated: Sequence[str]) -> list[str]:
    """Return the names of plug-ins with the exact versions that are installed here; raises `PluginError`."""
    return [plugin.pinned for plugin in find_plugins(stated)]


def list_installed() -> list[str]:
    """Return the names of all installed packages that name themselves as plug-ins, enabled or not."""
    from importlib.metadata import entry_points

    return sorted({_normalise(each.dist.metadata["Name"]) for each in entry_points(group=GROUP) if each.dist})


def read_declaration(folder: Path) -> Plugin:
    """Read what the package in this folder declares; raises `PluginError`."""
    return _read(folder.name, "", "", folder)


def _normalise(name: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _find_folder(who: str, entry: str) -> Path:
    """Return the folder of the package that an entry point names. To find the specification of a top-level package runs
    none of its code."""
    match = _ENTRY.fullmatch(entry)
    if not match:
        raise PluginError(f"{who} names the entry point {entry[:100]!r}, which is not module:name")
    spec = importlib.util.find_spec(match[1])
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise PluginError(f"{who} names the package {match[1]}, which is not there")
    return Path(places[0])


def _read(name: str, version: str, entry: str, folder: Path) -> Plugin:
    who = f"{name} {version}".strip()
    try:
        raw = (folder / FILE).read_bytes()
        if len(raw) > MAX_FILE:
            raise PluginError(f"{who}: {FILE} is larger than {MAX_FILE >> 20} MiB")
        said = msgspec.convert(tomllib.loads(raw.decode("utf-8")), _Declaration)
    except OSError as fault:
        raise PluginError(f"{who}: {folder / FILE} cannot be read: {(fault.strerror or str(fault)).lower()}") from None
    except (ValueError, RecursionError) as fault:
        if isinstance(fault, PluginError):
            raise
        raise PluginError(f"{who}: {FILE} cannot be used: {fault}") from None
    if wrong := next(_find_mistakes(said), ""):
        raise PluginError(f"{who}: {FILE}: {wrong}")
    try:
        strengths = parse_tables(said.strengths, said.kinds, FILE)
    except StrengthsError as fault:
        raise PluginError(f"{who}: {fault}") from None
    titles = {tag: kind.title for tag, kind in said.kinds.items()}
    rules = {tag: KindRule(each.weight, each.verdict, each.group, each.conclusive) for tag, each in said.kinds.items()}
    phrases = {theme: tuple(p for found in book.values() for p in found) for theme, book in said.phrases.items()}
    added = AddedKinds(name, titles, rules, said.groups)
    return Plugin(name, version, said.namespace, said.about, entry, str(folder), added, strengths, phrases)


def _find_mistakes(said: _Declaration) -> Iterator[str]:
    """Yield what is wrong with a declaration, as sentences."""
    if said.api != API:
        yield f"it is written for version {said.api} of the interface, and this Gatepost has version {API}"
    if not _NAMESPACE.fullmatch(said.namespace):
        yield f"the namespace {said.namespace!r} must be 2 to 31 small letters, digits and hyphens"
    if said.namespace in _RESERVED or said.namespace in {tag.partition(":")[0] for tag in BY_ID}:
        yield f"the namespace {said.namespace} is one of Gatepost's own"
    if not said.kinds:
        yield "it declares no kind of finding"
    shipped = shipped_policy().groups
    for name, group in said.groups.items():
        if name != said.namespace and not name.startswith(f"{said.namespace}-"):
            yield f"the group {name} must be called {said.namespace}, or begin with {said.namespace}-"
        if name in shipped:
            yield f"the group {name} is one of the shipped policy"
        if not 0 <= group.cap <= MOST_POINTS:
            yield f"the cap of the group {name} must be between 0 and {MOST_POINTS:g}"
    for tag, kind in said.kinds.items():
        yield from _find_kind_mistakes(tag, kind, said, {*shipped, *said.groups})


def _find_kind_mistakes(tag: str, kind: _DeclaredKind, said: _Declaration, groups: set[str]) -> Iterator[str]:
    if not _KIND.fullmatch(tag) or tag.partition(":")[0] != said.namespace:
        yield f"the kind {tag!r} must be called {said.namespace}:thing, in small letters, digits and hyphens"
    if not 0 < len(kind.title.strip()) <= MAX_TITLE or not kind.title.isprintable():
        yield f"the title of {tag} must have between 1 and {MAX_TITLE} printable characters"
    if not 0 <= kind.weight <= MOST_POINTS:
        yield f"the weight of {tag} must be between 0 and {MOST_POINTS:g}"
    if kind.group and kind.group not in groups:
        yield f"{tag} names the group {kind.group!r}, but there is no such group"


def _refuse_clash(plugin: Plugin, others: Sequence[Plugin]) -> None:
    for other in others:
        if other.name == plugin.name:
            raise PluginError(f"{plugin.name} is named twice")
        if other.namespace == plugin.namespace:
            raise PluginError(f"{plugin} has the same namespace as {other}: {plugin.namespace}")
        if clash := other.added.groups.keys() & plugin.added.groups.keys():
            raise PluginError(f"{plugin} and {other} both bring the group {min(clash)}")
