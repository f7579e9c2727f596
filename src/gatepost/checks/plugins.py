"""The checks of plug-ins: imported, held to what their packages declare, and given to the analysis.

Only the loader of the workers and the child process of `gatepost config check` import this module's plug-ins: their
code runs where no secret is, and analyses mail where nothing can be reached. See `gatepost.plugins` for what they
declare.

A package takes its own declaration with `this_plugin`:

    PLUGIN = this_plugin(__package__)
    PARKING_FINE = PLUGIN.kind("example:parking-fine")
    (_PER_PHRASE,) = PLUGIN.coefficients(PARKING_FINE, "per_phrase")
"""

import importlib
import json
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gatepost.checks.phrases import THEMES, Phrasebook, PhraseError, Phrases, compile_phrases, search_book
from gatepost.checks.reading import SIGNS, Check, Reading
from gatepost.checks.triggers import BITS
from gatepost.findings.kinds import MAX_FACT, Finding, Kind
from gatepost.findings.strengths import take_coefficients
from gatepost.plugins import FILE, Plugin, PluginError, find_plugins, read_declaration

MAX_CHECKS = 100
MAX_FINDINGS = 100
MAX_FACTS = 20
MAX_ABOUT = 4_096


class OwnDeclaration:
    """What a plug-in's own code takes from its `gatepost.toml`."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        try:
            self._book = Phrasebook(compile_phrases(plugin.phrases)) if plugin.phrases else None
        except (PhraseError, IndexError) as fault:
            raise PluginError(f"{FILE}: a phrase cannot be read: {fault}") from None

    def kind(self, tag: str) -> Kind:
        """Return one of its kinds of finding."""
        if tag not in self._plugin.kinds:
            raise PluginError(f"{FILE} has no kind {tag!r}")
        return self._plugin.kinds[tag]

    def coefficients(self, of: Kind | str, *names: str) -> tuple[float, ...]:
        """Return all the numbers of a kind's strength, or of a shared table, in this order."""
        return take_coefficients(self._plugin.strengths, of, names, FILE)

    def find_phrases(self, reading: Reading) -> Phrases:
        """Return which of its phrases stand in a message, by theme; they are searched for once."""
        return reading.once(self._search)

    def _search(self, reading: Reading) -> Phrases:
        return search_book(self._book, reading) if self._book else Phrases()


def this_plugin(package: str | None) -> OwnDeclaration:
    """Return the declaration of a package, called by its own code with `__package__`; raises `PluginError`."""
    top = (package or "").partition(".")[0]
    return OwnDeclaration(read_declaration(Path(str(files(top)))))


def load_checks(plugin: Plugin) -> tuple[Check, ...]:
    """Import a plug-in's checks; whatever is wrong with them is a `PluginError` that names the plug-in."""
    module, _, name = plugin.entry.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  the code of others may raise anything
        raise PluginError(f"{plugin}: {plugin.entry} cannot be imported: {type(fault).__name__}: {fault}") from None
    if not isinstance(found, Sequence) or not all(isinstance(each, Check) for each in found):
        raise PluginError(f"{plugin}: {plugin.entry} must be a tuple of checks, made with the decorator `check`")
    if wrong := next(_find_mistakes(plugin, found), ""):
        raise PluginError(f"{plugin}: {wrong}")
    return tuple(_hold_to_kinds(plugin, each) for each in found)


def load_all(stated: Sequence[str]) -> tuple[Check, ...]:
    """Import the checks of all plug-ins of a configuration, in its order; raises `PluginError`."""
    return tuple(check for plugin in find_plugins(stated) for check in load_checks(plugin))


def _find_mistakes(plugin: Plugin, checks: Sequence[Check]) -> Iterator[str]:
    names = [each.name for each in checks]
    if not 0 < len(checks) <= MAX_CHECKS:
        yield f"it has {len(checks)} checks; there can be 1 to {MAX_CHECKS}"
    if twice := {name for name in names if names.count(name) > 1}:
        yield f"two of its checks are called {min(twice)}"
    for each in checks:
        if not each.name.isidentifier() or len(each.name) > 30:
            yield f"the check {each.name[:40]!r} must be named by a function with at most 30 characters"
        if unknown := [kind.id for kind in each.kinds if plugin.kinds.get(kind.id) != kind]:
            yield f"the check {each.name} finds {unknown[0]}, which {FILE} does not declare so"
        if unknown := sorted(each.needs - BITS.keys()):
            yield f"the check {each.name} needs {unknown[0]!r}, which is none of {', '.join(sorted(SIGNS))}"
        if unknown := sorted(each.themes - THEMES):
            yield f"the check {each.name} waits for the theme {unknown[0]!r}, which no shipped phrasebook has"
    if unused := plugin.kinds.keys() - {kind.id for each in checks for kind in each.kinds}:
        yield f"no check finds {min(unused)}, which {FILE} declares"


def _hold_to_kinds(plugin: Plugin, check: Check) -> Check:
    """Return a check under the name of its plug-in, whose findings are of its own kinds and as small as ours. What it
    does besides is a fault of this check, and an outcome in the ledger."""
    kinds = {kind.id for kind in check.kinds}

    def run(reading: Reading) -> Iterable[Finding]:
        return [_copy_finding(each, kinds) for each in islice(check.run(reading), MAX_FINDINGS)]

    return msgspec.structs.replace(check, name=f"{plugin.namespace}.{check.name}", run=run)


def _copy_finding(finding: Any, kinds: Container[str]) -> Finding:
    if not isinstance(finding, Finding) or finding.kind not in kinds:
        raise PluginError("a finding that the check does not declare")
    if not 0 <= finding.strength <= 1:
        raise PluginError("a strength that is not between 0 and 1")
    facts = {str(name)[:MAX_FACT]: str(value)[:MAX_FACT] for name, value in islice(finding.facts.items(), MAX_FACTS)}
    return Finding(
        finding.kind, str(finding.where)[:MAX_FACT], facts, float(finding.strength), str(finding.about)[:MAX_ABOUT]
    )


def main(stated: Sequence[str]) -> int:
    """`python -m gatepost.checks.plugins NAME…`: write what is wrong with the code of these plug-ins, as JSON."""
    found = ""
    try:
        load_all(stated)
    except PluginError as fault:
        found = str(fault)
    sys.stdout.write(f"\n{json.dumps(found)}\n")  # behind whatever their code has written
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
