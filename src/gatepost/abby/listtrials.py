"""Entries on their way into a list or out of it: what they become, and what that would do. For API and pages alike."""

from collections.abc import Sequence

from gatepost.abby.dryrun import DryRuns
from gatepost.api.lists import MAX_COMMENT, DryRun, NewListEntry
from gatepost.api.times import milliseconds, now
from gatepost.lists.catalogue import Definition
from gatepost.lists.entry import Refused
from gatepost.replay import Change
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull
from gatepost.store.store import Store


def new_entry(stated: NewListEntry, definition: Definition) -> NewEntry | Refused:
    """An entry in the list's normal form, or why it is none. The reason follows the words "the entry"."""
    form = definition.normalise(stated.entry)
    if isinstance(form, Refused):
        return form
    comment = stated.comment or ""
    if len(comment) > MAX_COMMENT:
        return Refused(f"has a comment of more than {MAX_COMMENT:,} characters")
    expires = milliseconds(stated.expires) if stated.expires else None
    if stated.expires and expires is None:
        return Refused("has an end that is no date-time such as 2030-01-31T12:00:00Z")
    return NewEntry(form.key, form.shown, comment, expires)


async def try_adding(
    store: Store, trials: DryRuns, scope: str | None, definition: Definition, entries: Sequence[NewEntry]
) -> DryRun | ListFull:
    """What it would do to add these."""
    final = {entry.key: entry for entry in entries}
    there = await store.entries(scope, definition.name, tuple(final))
    size = await size_of(store, scope, definition.name)
    if size + len(final) - len(there) > definition.max_size:
        return ListFull(size, definition.max_size)
    moment = now()
    lasting = tuple(key for key, entry in final.items() if entry.expires is None or entry.expires > moment)
    change = Change(definition, "tenant" if scope else "global", lasting, adding=True)
    shown = {key: entry.shown for key, entry in final.items()}
    return await trials.tried(scope, change, shown, len(final))


async def try_deleting(
    store: Store, trials: DryRuns, scope: str | None, definition: Definition, keys: Sequence[str]
) -> DryRun:
    """What it would do to delete the entries with these keys."""
    there = {entry.key: entry.shown for entry in await store.entries(scope, definition.name, keys)}
    change = Change(definition, "tenant" if scope else "global", tuple(there), adding=False)
    shown = {key: there.get(key, key) for key in keys}
    return await trials.tried(scope, change, shown, len(there))


async def size_of(store: Store, scope: str | None, name: str) -> int:
    """How many entries a list has."""
    states = await store.lists(scope)
    return next((state.size for state in states if state.definition.name == name), 0)
