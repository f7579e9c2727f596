"""What an import takes over: entries of lists, rules of a policy file, and keys of `guard.yml`; and what becomes of
each line that it was made from.

An import never lowers a score: Gatepost's policy has no negative points, and an allow entry for a sender counts only
where the sender is proven. Whatever cannot be said in Gatepost's terms is named with the reason, so that nobody
believes it were in force.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from gatepost.api.lists import csv_line
from gatepost.lists.catalogue import LISTS
from gatepost.lists.entries import ListRefusal
from gatepost.policy.layers import write_toml

Outcome = Literal["taken", "changed", "not taken"]

# Bytes of one file, and lines of it, that are read. A local configuration has some kilobytes; lists may be long.
MAX_FILE = 32 << 20
MAX_NOTES = 100_000
MAX_COMMENT = 200

_DEFINITIONS = {each.name: each for each in LISTS}


class Place(msgspec.Struct, frozen=True):
    """Where something stood: a file with the line, or the path of a key."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Note(msgspec.Struct, frozen=True):
    """What became of one statement, and why."""

    place: Place
    statement: str
    outcome: Outcome
    reason: str


class PlannedEntry(msgspec.Struct, frozen=True):
    """An entry for a list."""

    list: str
    entry: str
    comment: str


class PlannedRule(msgspec.Struct, frozen=True):
    """A rule for a policy file."""

    name: str
    when: str
    title: str
    weight: float
    verdict: str = "spam"


class ImportPlan:
    """Everything that an import found."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.notes: list[Note] = []
        self.rules: dict[str, PlannedRule] = {}
        # Items of lists in `guard.yml`, by the key of the list.
        self.settings: dict[str, list[str]] = {}
        self._entries: dict[tuple[str, str], PlannedEntry] = {}

    @property
    def entries(self) -> tuple[PlannedEntry, ...]:
        return tuple(self._entries.values())

    @property
    def lists(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.list for each in self._entries.values()))

    def add_entry(self, name: str, entry: str, place: Place, statement: str, *, changed: str = "") -> None:
        """Take over an entry of a list if the list can have it; `changed` says what is different from before."""
        normal = _DEFINITIONS[name].normalise(entry)
        if isinstance(normal, ListRefusal):
            self.note(place, statement, "not taken", f"{name}: {entry[:100]!r} {normal.reason}")
            return
        comment = f"{self.origin}, {place}"[:MAX_COMMENT]
        self._entries.setdefault((name, normal.key), PlannedEntry(name, normal.shown, comment))
        self.note(place, statement, "changed" if changed else "taken", changed or f"entry of {name}")

    def drop_entry(self, name: str, entry: str) -> bool:
        """Take an entry out again; returns whether it was there."""
        return self._entries.pop((name, _DEFINITIONS[name].key(entry)), None) is not None

    def add_rule(self, rule: PlannedRule, place: Place, statement: str) -> None:
        self.rules[rule.name] = rule
        self.note(place, statement, "taken", f"rule {rule.name} with {rule.weight:g} points")

    def add_setting(self, key: str, item: str, place: Place, statement: str) -> None:
        """Suggest an item of a list in `guard.yml`."""
        items = self.settings.setdefault(key, [])
        if item not in items:
            items.append(item)
        self.note(place, statement, "taken", f"suggested for {key} in guard.yml")

    def note(self, place: Place, statement: str, outcome: Outcome, reason: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(Note(place, statement[:200], outcome, reason))

    def sort(self) -> None:
        """Put the notes into the order of the files."""
        files = {file: index for index, file in enumerate(dict.fromkeys(note.place.file for note in self.notes))}
        self.notes.sort(key=lambda note: (files[note.place.file], note.place.line))

    def count(self) -> Counter[str]:
        """How many statements had each outcome."""
        return Counter(note.outcome for note in self.notes)

    def write(self, folder: Path) -> list[Path]:
        """Write lists, rules, settings and the report into a folder; returns the files."""
        self.sort()
        folder.mkdir(parents=True, exist_ok=True)
        texts = {f"{name}.csv": self._write_list(name) for name in self.lists}
        if self.rules:
            texts["policy.toml"] = "\n".join(map(_write_rule, self.rules.values()))
        if self.settings:
            texts["guard.yml"] = "".join(self._write_settings())
        texts["report.csv"] = _write_csv(
            ("place", "statement", "outcome", "reason"),
            ((str(each.place), each.statement, each.outcome, each.reason) for each in self.notes),
        )
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [folder / name for name in texts]

    def _write_list(self, name: str) -> str:
        rows = ((each.entry, each.comment, "") for each in self._entries.values() if each.list == name)
        return _write_csv(("entry", "comment", "expires"), rows)

    def _write_settings(self) -> Iterator[str]:
        yield f"# Suggested by the import from {self.origin}: look at each line, and add it to guard.yml.\n"
        for key, lines in self.settings.items():
            section, _, name = key.partition(".")
            yield f"{section}:\n  {name}:\n" + "".join(f"    {line}\n" for line in lines)


def _write_csv(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return "".join(csv_line(row) for row in (names, *rows))


def _write_rule(rule: PlannedRule) -> str:
    """Return a rule as a policy file has it."""
    fields = {"when": rule.when, "title": rule.title, "verdict": rule.verdict, "weight": rule.weight}
    lines = (f"{name} = {write_toml(value)}" for name, value in fields.items())
    return "\n".join([f"[rules.{rule.name}]", *lines]) + "\n"


def read_text(path: Path) -> str:
    """Return the text of a configuration file, at most `MAX_FILE` bytes of it. Raises `OSError`."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE).decode("utf-8", "replace")
