"""Looking back: which messages that were delivered in the last days new entries of a list would have held.

Attacks become known a day late, and by then the first messages have been read. Storage keeps the keys that lists were
asked for, so those messages can be found without their text. The work is bounded in days, messages and effort, and the
result says how far it came. Entries that need the text (phrases), and lists that hold nothing, cannot be looked up.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

from gatepost.lists.catalogue import ListDefinition
from gatepost.policy.layers import Policies
from gatepost.rejudge.dry_run import judge_in_turn, load_custom_lists
from gatepost.rejudge.replay import Change, EntryDryRun, Known
from gatepost.store.audit import SYSTEM, Actor
from gatepost.store.look_backs import MAX_HITS, LookBack, WaitingLookBack
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

DAY = 86_400_000
# About half a minute on one core; pages look at less, so that nobody waits for them.
MESSAGES, EFFORT = 50_000, 3_000_000
PAGE_MESSAGES, PAGE_EFFORT = 5_000, 300_000
# Entries of one list that are looked for at once, and lists of one run.
MAX_KEYS = 20_000
MAX_LISTS = 500


def can_look_back(definition: ListDefinition) -> bool:
    """Whether stored keys can tell which delivered messages entries of this list would have held."""
    return definition.category in ("block", "policy") and Change(definition, "global", (), adding=True).countable


async def look_back(
    store: Store,
    policies: Policies,
    scope: str | None,
    definition: ListDefinition,
    keys: Sequence[str],
    days: int,
    by: Actor,
    *,
    messages: int = MESSAGES,
    effort: int = EFFORT,
) -> LookBack:
    """Look for delivered messages that entries with these keys would have held."""
    change = Change(definition, "tenant" if scope else "global", tuple(keys), adding=True)
    search = _Search(EntryDryRun(change, policies.deployment.policy, effort), policies, now() - days * DAY)
    if keys and can_look_back(definition):
        known: dict[str | None, Known] = {}
        async with aclosing(store.messages.recent(scope, messages)) as batches:
            async for batch in batches:
                await load_custom_lists(store, batch, known)
                if not await judge_in_turn(partial(search.take, batch, known)):
                    break
        search.is_cut |= search.seen >= messages
    reached = search.oldest if search.is_cut else None
    return LookBack(
        now(), by.label, len(keys), days, search.dry_run.considered, search.found, tuple(search.hits), reached
    )


class _Search:
    """The search of one look back, batch by batch, from the newest message on."""

    def __init__(self, dry_run: EntryDryRun, policies: Policies, since: int) -> None:
        self.dry_run, self._policies, self._since = dry_run, policies, since
        self.hits: list[tuple[str, str]] = []
        self.found = self.seen = 0
        self.oldest: int | None = None
        self.is_cut = False

    def take(self, batch: Sequence[MessageRecord], known: dict[str | None, Known]) -> bool:
        """Look at more messages; False when no more are wanted."""
        for record in batch:
            if record.completed < self._since:
                return False
            if self.dry_run.exhausted:
                self.is_cut = True
                return False
            self.seen += 1
            self.oldest = record.completed
            if record.report.decision == "deliver":
                self._look_at(record, known)
        return True

    def _look_at(self, record: MessageRecord, known: dict[str | None, Known]) -> None:
        tenant = record.envelope.tenant
        held_by = self.dry_run.consider(record.report, known.get(tenant, {}), self._policies.of(tenant).policy)
        if held_by:
            self.found += 1
            if len(self.hits) < MAX_HITS:
                self.hits.append((record.ggrid, held_by[0]))


async def run_waiting(store: Store, policies: Policies, days: int) -> AsyncIterator[tuple[WaitingLookBack, LookBack]]:
    """Look back for all entries that came through the List API and wait; yield each list with what was found.

    That is kept and told as every look back is, and only then forgotten here: a kill repeats one and loses none."""
    for _ in range(MAX_LISTS):
        waiting = await store.look_backs.take()
        if waiting is None:
            return
        definition = await store.lists.definition(waiting.scope, waiting.list_name)
        if definition and can_look_back(definition) and days and waiting.keys:
            keys = waiting.keys[:MAX_KEYS]
            found = await look_back(store, policies, waiting.scope, definition, keys, days, _actor_of(waiting))
            if found.found:
                await store.look_backs.record(waiting.scope, waiting.list_name, found)
            yield waiting, found
        await store.look_backs.finish(waiting)


def _actor_of(waiting: WaitingLookBack) -> Actor:
    kind, _, name = waiting.actor.partition(":")
    return Actor("key", name) if kind == "key" else SYSTEM
