"""Entries as people paste them: one a line, a comment behind a tab, or behind ` # ` where no phrase could mean that.

A tab is what comes from two columns of a spreadsheet. Every line gets its normal form or a reason why it has none, so
that somebody can look at them before anything is saved.
"""

import msgspec

from gatepost.abby.listtrials import new_entry
from gatepost.api.lists import NewListEntry
from gatepost.lists.catalogue import Definition
from gatepost.lists.entry import Refused
from gatepost.lists.phrase import PHRASE
from gatepost.store.entries import NewEntry

MAX_LINES = 10_000


class Line(msgspec.Struct, frozen=True):
    """A line that is an entry. `again` is the later line that says the same and counts instead; 0 for none."""

    number: int
    text: str
    entry: NewEntry
    again: int = 0


class Faulty(msgspec.Struct, frozen=True):
    """A line that is none, and why."""

    number: int
    text: str
    reason: str


class Pasted(msgspec.Struct, frozen=True):
    """What a text comes to."""

    lines: tuple[Line, ...] = ()
    faults: tuple[Faulty, ...] = ()

    @property
    def entries(self) -> tuple[NewEntry, ...]:
        """Every entry once, as its last line has it."""
        return tuple(line.entry for line in self.lines if not line.again)


class TooMany(msgspec.Struct, frozen=True):
    """More lines than a form takes."""


def read(text: str, definition: Definition, comment: str, expires: int | None) -> Pasted | TooMany:
    """The lines of a text; those without a comment of their own get this one."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MAX_LINES)
    if len(rows) > MAX_LINES and rows[-1].strip():
        return TooMany()
    lines: list[Line] = []
    faults: list[Faulty] = []
    for number, row in enumerate(rows, 1):
        stated = _stated(row, definition, comment)
        if stated is None:
            continue
        made = new_entry(stated, definition)
        if isinstance(made, Refused):
            faults.append(Faulty(number, stated.entry, made.reason))
        else:
            lines.append(Line(number, stated.entry, msgspec.structs.replace(made, expires=expires)))
    return Pasted(_once(lines), tuple(faults))


def _stated(row: str, definition: Definition, comment: str) -> NewListEntry | None:
    text = row.strip()
    if not text or text.startswith("#"):
        return None
    entry, found, own = text.partition("\t")
    if not found and definition.kind != PHRASE.name:
        entry, _, own = text.partition(" # ")
    return NewListEntry(entry.strip(), own.strip() or comment)


def _once(lines: list[Line]) -> tuple[Line, ...]:
    last = {line.entry.key: line.number for line in lines}
    return tuple(
        line if last[line.entry.key] == line.number else Line(line.number, line.text, line.entry, last[line.entry.key])
        for line in lines
    )
