"""What is on record, judged again: one message with the lists and the policy of today, or the last ones with another
policy.

Of a message that is on record the findings are kept and the text is not, so checks do not run again. Many messages are
judged off the event loop, a batch at a time.

`dryRun`: what a change of a list would have done to the last messages of its scope.

One pass over what is stored, in batches and off the event loop; one dry run at a time, so that several of them take
longer rather than slow down everything else.

Entries on their way into a list or out of it: what they become, and what that would do. For API and pages alike.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from gatepost.api.lists import MAX_COMMENT, DryRun, NewListEntry, TriedEntry
from gatepost.lists.catalogue import BY_NAME, KINDS, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.lists.rulings import Ruling, rule_on
from gatepost.lists.subjects import Subject, collect_keys
from gatepost.lists.unkeyed import make_hit
from gatepost.policy.layers import Policies
from gatepost.rejudge.replay import Change, Comparison, EntryDryRun, Known, compare, rejudge, rulings_of
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull
from gatepost.store.messages import MessageRecord
from gatepost.store.store import Store
from gatepost.times import milliseconds, now


async def replay_record(store: Store, record: MessageRecord, policies: Policies) -> Comparison:
    """One message: what was decided then, and what would be now."""
    policy = policies.of(record.envelope.tenant).policy
    judged = rejudge(record.report, policy, await _ruling_today(store, record))
    return compare(record.ggrid, record.report, judged, record.report.subject)


async def try_policy(
    store: Store, today: Policies, other: Policies, tenant: str | None, last: int
) -> tuple[int, list[Comparison]]:
    """How many of the last messages were considered, and those that other policies would decide otherwise.

    What lists said then stands, so that only the policy differs.
    """
    considered, flips = 0, list[Comparison]()
    known: dict[str | None, Known] = {}
    async with aclosing(store.recent_messages(tenant, last)) as batches:
        async for batch in batches:
            for owner in {record.envelope.tenant for record in batch} - known.keys():
                known[owner] = await _custom_lists(store, owner)
            flips += await asyncio.to_thread(_flipped, batch, known, today, other)
            considered += len(batch)
    return considered, flips


def _flipped(
    batch: Sequence[MessageRecord], known: Mapping[str | None, Known], today: Policies, other: Policies
) -> list[Comparison]:
    found = []
    for record in batch:
        owner = record.envelope.tenant
        ruling = rulings_of(record.report, known[owner])
        before = rejudge(record.report, today.of(owner).policy, ruling)
        now = rejudge(record.report, other.of(owner).policy, ruling)
        comparison = compare(record.ggrid, before, now, record.report.subject)
        if comparison.flips:
            found.append(comparison)
    return found


async def _custom_lists(store: Store, owner: str | None) -> Known:
    states = [state for scope in {None, owner} for state in await store.lists(scope)]
    return {state.definition.name: state.definition for state in states if state.definition.custom}


async def _ruling_today(store: Store, record: MessageRecord) -> Ruling:
    """What the lists of today say. Phrases need the text: those that were hit and are still listed are hit again."""
    report, tenant = record.report, record.envelope.tenant
    unkeyed = await store.unkeyed(tenant)
    spoken = {note.entry: note.where for note in report.lists}
    phrases = [entry for entry in unkeyed.phrases if entry.key in spoken]
    hits = [*await store.lookup(tenant, collect_keys(report.subjects, KINDS)), *map(make_hit, phrases)]
    asked = [*report.subjects, *(Subject("text", entry.key, spoken[entry.key]) for entry in phrases)]
    return rule_on(dict.fromkeys(hits), asked, authenticated=report.authentication.aligned, custom=unkeyed.custom)


MESSAGES = 5_000

Shown = Mapping[str, str]


class ListDryRuns:
    """Tries changes on stored messages."""

    def __init__(self, store: Store, policies: Policies) -> None:
        self._store = store
        self._policies = policies
        self._turn = asyncio.Semaphore(1)

    async def tried(self, scope: str | None, change: Change, shown: Shown, modified: int) -> DryRun:
        """What would have happened. `shown` are the entries by key; the change has those of them that do something."""
        if not change.countable:
            return DryRun(0, modified, None, None, tuple(TriedEntry(entry, None, None) for entry in shown.values()))
        trial = EntryDryRun(change, self._policies.deployment.policy)
        async with self._turn:
            await self._run(scope, trial)
        entries = tuple(TriedEntry(entry, trial.hits[key], trial.flips[key]) for key, entry in shown.items())
        return DryRun(trial.considered, modified, trial.hit, trial.flipped, entries)

    async def _run(self, scope: str | None, trial: EntryDryRun) -> None:
        known: dict[str | None, Known] = {}
        async with aclosing(self._store.recent_messages(scope, MESSAGES)) as batches:
            async for batch in batches:
                await self._learn(batch, known)
                await asyncio.to_thread(_consider, trial, batch, known, self._policies)
                if trial.exhausted:
                    return

    async def _learn(self, batch: Sequence[MessageRecord], known: dict[str | None, Known]) -> None:
        """Find out about the custom lists that these messages hit."""
        for record in batch:
            tenant = record.envelope.tenant
            if tenant not in known and any(note.list not in BY_NAME for note in record.report.lists):
                known[tenant] = {**await self._custom(None), **(await self._custom(tenant) if tenant else {})}

    async def _custom(self, scope: str | None) -> dict[str, ListDefinition]:
        states = await self._store.lists(scope)
        return {state.definition.name: state.definition for state in states if state.definition.custom}


def _consider(
    trial: EntryDryRun, batch: Sequence[MessageRecord], known: Mapping[str | None, Known], policies: Policies
) -> None:
    for record in batch:
        if trial.exhausted:
            return
        tenant = record.envelope.tenant
        trial.consider(record.report, known.get(tenant, {}), policies.of(tenant).policy)


def new_entry(stated: NewListEntry, definition: ListDefinition) -> NewEntry | ListRefusal:
    """An entry in the list's normal form, or why it is none. The reason follows the words "the entry"."""
    form = definition.normalise(stated.entry)
    if isinstance(form, ListRefusal):
        return form
    comment = stated.comment or ""
    if len(comment) > MAX_COMMENT:
        return ListRefusal(f"has a comment of more than {MAX_COMMENT:,} characters")
    expires = milliseconds(stated.expires) if stated.expires else None
    if stated.expires and expires is None:
        return ListRefusal("has an end that is no date-time such as 2030-01-31T12:00:00Z")
    return NewEntry(form.key, form.shown, comment, expires)


async def try_adding(
    store: Store, trials: ListDryRuns, scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry]
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
    store: Store, trials: ListDryRuns, scope: str | None, definition: ListDefinition, keys: Sequence[str]
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
