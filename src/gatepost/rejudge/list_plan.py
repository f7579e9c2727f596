"""Plans of list changes: what typed lines, a file, an entry or a selection make of a list, before anything is done.

A plan has each entry in its normal form, the lines that the list refuses with the reason, and what the change would
have done to the last messages. Pages render it; the same dry runs answer `dryRun` of the List API and of the command
line.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gatepost.api.lists import MAX_COMMENT, DryRun, FileRecord, NewListEntry, RejectedLine, TriedEntry
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.process.background_work import background
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.rejudge.try_change import (
    EFFORT,
    LIST_SECONDS,
    Change,
    Messages,
    Trial,
    edit_list,
    look_back,
    try_change,
)
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack
from gatepost.store.store import Store
from gatepost.times import DAY, milliseconds, now

# Lines that a thread reads before others have a turn.
LINES_AT_ONCE = 200


class PlannedLine(msgspec.Struct, frozen=True):
    """A line that is an entry. `again` is a later line with the same entry, which replaces this one; 0 for none."""

    number: int
    text: str
    entry: NewEntry
    again: int = 0


class ListPlan(msgspec.Struct, frozen=True):
    """Entries that are to be added to a list, the lines that they come from, the lines that the list refuses, and what
    is wrong as a whole. Of a large file, `entries` and `faults` are the first ones; it has `count` and `fault_count` of
    them, up to the line `last`. `dry_run` and `present`, the keys of entries that the list has, are known once the plan
    is tried."""

    entries: tuple[NewEntry, ...] = ()
    lines: tuple[PlannedLine, ...] = ()
    faults: tuple[RejectedLine, ...] = ()
    fault: str = ""
    count: int = 0
    fault_count: int = 0
    last: int = 0
    dry_run: DryRun | None = None
    present: frozenset[str] = frozenset()

    @property
    def effects(self) -> Mapping[str, TriedEntry]:
        """What each entry would do by itself, by its key."""
        tried = self.dry_run.entries if self.dry_run else ()
        return {entry.key: each for entry, each in zip(self.entries, tried, strict=False)}


def _parse_end(text: str) -> int | None:
    """Return the end of a day in UTC, or a date-time; None for anything else."""
    if len(text) == len("2030-01-31"):
        start = milliseconds(f"{text}T00:00:00Z")
        return None if start is None else start + DAY
    return milliseconds(text)


def new_entry(stated: NewListEntry, definition: ListDefinition) -> NewEntry | ListRefusal:
    """Return an entry in the list's normal form, or why the list refuses it. The reason follows the words "the
    entry"."""
    form = definition.normalise(stated.entry)
    if isinstance(form, ListRefusal):
        return form
    comment = stated.comment or ""
    if len(comment) > MAX_COMMENT:
        return ListRefusal(f"has a comment of more than {MAX_COMMENT:,} characters")
    if "\0" in comment:
        return ListRefusal("has a comment with the character NUL (U+0000) in it")
    expires = _parse_end(stated.expires) if stated.expires else None
    if stated.expires and expires is None:
        return ListRefusal("has an end that is no day such as 2030-01-31 and no date-time such as 2030-01-31T12:00:00Z")
    if expires is not None and expires <= now():
        return ListRefusal("expires in the past, so it would have no effect", "expires")
    return NewEntry(form.key, form.shown, comment, expires)


def plan_line(record: FileRecord, definition: ListDefinition) -> PlannedLine | RejectedLine:
    """Return what the list makes of one line."""
    made = new_entry(record.entry, definition)
    if isinstance(made, ListRefusal):
        return RejectedLine(record.first, record.entry.entry[:200], made.reason)
    return PlannedLine(record.first, record.entry.entry, made)


async def plan_lines(
    records: Iterable[FileRecord], definition: ListDefinition, comment: str = "", expires: int | None = None
) -> ListPlan:
    """Return the plan of adding all of these lines; those without a comment of their own get the given one."""
    found = await background.map(lambda each: plan_line(each, definition), tuple(records), LINES_AT_ONCE)
    lines = [each for each in found if isinstance(each, PlannedLine)]
    faults = tuple(each for each in found if isinstance(each, RejectedLine))
    settled = _settle(lines, comment, expires)
    entries = tuple(line.entry for line in settled if not line.again)
    return ListPlan(entries, settled, faults, "" if found else "Enter at least one entry.", len(entries), len(faults))


def _settle(lines: list[PlannedLine], comment: str, expires: int | None) -> tuple[PlannedLine, ...]:
    """The last line of an entry counts; where it has no comment of its own, the one before it is kept."""
    own: dict[str, str] = {}
    last = {line.entry.key: line.number for line in lines}
    settled = []
    for line in lines:
        key = line.entry.key
        if line.entry.comment:
            own[key] = line.entry.comment
        entry = msgspec.structs.replace(line.entry, comment=own.get(key, comment), expires=expires)
        settled.append(PlannedLine(line.number, line.text, entry, last[key] if last[key] != line.number else 0))
    return tuple(settled)


# Nobody waits for more, on a page or over the List API.
DRY_RUN_MESSAGES = 5_000


class ListDryRuns:
    """Dry runs of list changes, one at a time, so that several take longer and nothing else slows down: whoever has
    `turn` may run one."""

    def __init__(self, store: Store, policies: PoliciesInForce) -> None:
        self._store, self._policies = store, policies
        self.turn = asyncio.Semaphore(1)

    async def run(self, scope: str | None, change: Change, *, shown: int = 0) -> Trial:
        """Return what a change of lists would do to the last messages; nothing is considered where it cannot be
        told."""
        if not any(edit.definition.is_countable for edit in change.lists):
            return Trial()
        messages = Messages(scope, DRY_RUN_MESSAGES)
        async with self.turn:
            return await try_change(
                self._store, self._policies.now, change, messages, seconds=LIST_SECONDS, shown=shown
            )

    async def try_adding(
        self, scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry]
    ) -> DryRun | ListFull:
        """Return the dry run of adding these entries."""
        final = {entry.key: entry for entry in entries}
        there = await self._store.lists.find(scope, definition.name, tuple(final))
        states = await self._store.lists.all(scope)
        size = next((state.size for state in states if state.definition.name == definition.name), 0)
        if size + len(final) - len(there) > definition.max_size:
            return ListFull(size, definition.max_size)
        if full := await self._store.lists.bytes_left(scope, definition, entries):
            return full
        moment = now()
        lasting = [key for key, entry in final.items() if entry.expires is None or entry.expires > moment]
        shown = {key: entry.shown for key, entry in final.items()}
        return await self._count(scope, edit_list(scope, definition, lasting), shown, len(final))

    async def try_deleting(self, scope: str | None, definition: ListDefinition, keys: Sequence[str]) -> DryRun:
        """Return the dry run of deleting the entries with these keys."""
        there = {entry.key: entry.shown for entry in await self._store.lists.find(scope, definition.name, keys)}
        shown = {key: there.get(key, key) for key in keys}
        change = edit_list(scope, definition, tuple(there), adding=False)
        return await self._count(scope, change, shown, len(there))

    async def look_back(
        self, scope: str | None, definition: ListDefinition, keys: Sequence[str], days: int, by: Actor
    ) -> LookBack:
        """Look for delivered messages that entries would have held, among as many as a page may look at."""
        limits = {"messages": DRY_RUN_MESSAGES, "effort": EFFORT}
        async with self.turn:
            return await look_back(self._store, self._policies.now, scope, definition, keys, days, by, **limits)

    async def try_plan(self, scope: str | None, definition: ListDefinition, plan: ListPlan) -> ListPlan | ListFull:
        """Return the plan with its effect, or why the list has no room for it."""
        if not plan.entries:
            return plan
        dry_run = await self.try_adding(scope, definition, plan.entries)
        if isinstance(dry_run, ListFull):
            return dry_run
        keys = tuple(entry.key for entry in plan.entries)
        present = frozenset(each.key for each in await self._store.lists.find(scope, definition.name, keys))
        return msgspec.structs.replace(plan, dry_run=dry_run, present=present)

    async def _count(self, scope: str | None, change: Change, shown: Mapping[str, str], modified: int) -> DryRun:
        """Return the dry run as the API has it. `shown` are all entries by key; the change has those that can have an
        effect."""
        (edit,) = change.lists
        if not edit.definition.is_countable:
            return DryRun(0, modified, None, None, tuple(TriedEntry(entry, None, None) for entry in shown.values()))
        trial, (name, owner) = await self.run(scope, change), (edit.definition.name, edit.scope)
        entries = (
            TriedEntry(entry, trial.hits.get((name, owner, key), 0), trial.entry_flips.get((name, owner, key), 0))
            for key, entry in shown.items()
        )
        return DryRun(trial.considered, modified, trial.hit, trial.flipped, tuple(entries))
