"""Dry runs over stored messages: what another policy, or a change of a list, would have done to the last ones.

Storage keeps the findings of a message and not its text, so checks do not run again. Messages are judged in batches,
off the event loop and one batch at a time, whoever asks (`judge_in_turn`). Dry runs of list changes run one at a time,
so that several take longer and nothing else slows down. The List API (`dryRun`), the web pages and the command line use
the same functions.

An entry that is made from a message is measured on that message: it is judged twice by today's policy, with today's
lists and with the entry in addition. Where the decision stays, the result says whether the entry matches anything of
the message, and why the lists refuse it.

Looking back finds messages that were delivered in the last days, and that new entries of a list would have held.
Attacks become known a day late, and by then the first messages have been read. Storage keeps the keys that lists were
asked for, so those messages can be found without their text. The work is bounded in days, messages and effort, and the
result says how far it came. Entries that need the text (phrases), and lists that hold nothing, cannot be looked up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar

import msgspec

from gatepost.analysis.report import Report
from gatepost.api.lists import MAX_COMMENT, DryRun, NewListEntry, TriedEntry
from gatepost.lists.catalogue import BY_NAME, KINDS, ListDefinition
from gatepost.lists.entries import FindingLimit, ListRefusal
from gatepost.lists.rulings import Match, Ruling, Subject, collect_keys, rule_on, scoped_name
from gatepost.lists.unkeyed import UnkeyedLists, make_hit
from gatepost.policy.condition_process import ConditionWork, condition_work
from gatepost.policy.layers import Effective, Policies
from gatepost.policy.rules import RULE, Policy
from gatepost.process.background_work import background
from gatepost.questions import Hit
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.rejudge.replay import (
    Change,
    Comparison,
    EntryDryRun,
    JudgedOutcome,
    Known,
    compare,
    list_file_names,
    outcome_of,
    rejudge,
    rulings_of,
)
from gatepost.store.audit import SYSTEM, Actor
from gatepost.store.errors import ListFull
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import MAX_HITS, LookBack, WaitingLookBack
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import milliseconds, now

T = TypeVar("T")
# The event loop waits for the interpreter after each wait for the network, once for each thread that computes: a second
# thread here would make every scan of every tenant slower.
_judging = ThreadPoolExecutor(1, "judge-again")


async def judge_in_turn(judge: Callable[[], T]) -> T:
    """Judge stored messages in the one thread for that, after those that wait already. Where nobody waits any more, the
    conditions that are being evaluated are stopped."""
    with condition_work() as work:
        run = partial(copy_context().run, background.run, judge)
        try:
            return await asyncio.get_running_loop().run_in_executor(_judging, run)
        except asyncio.CancelledError:
            work.end()
            raise


async def replay_record(store: Store, record: MessageRecord, policies: Policies) -> Comparison:
    """Compare the stored decision on one message with the one that today's policy and lists lead to."""
    policy = policies.of(record.envelope.tenant, outbound=record.envelope.outbound).policy
    lists = await ask_lists(store, record)
    # In a thread, as in the batches below: mail decides how many findings and links a report has.
    return await judge_in_turn(partial(_judge_again, record, policy, lists))


def _judge_again(record: MessageRecord, policy: Policy, lists: "ListsToday") -> Comparison:
    judged = rejudge(record.report, policy, lists.rule(record.report))
    return compare(record.ggrid, record.report, judged, record.report.subject)


class PolicyTrial(msgspec.Struct, frozen=True):
    """What other policies would have done: messages considered, those whose decision changes, and those for which the
    rule holds that was asked about. `mistakes` say why they could not be tried."""

    considered: int = 0
    flips: tuple[Comparison, ...] = ()
    hits: tuple[Comparison, ...] = ()
    mistakes: tuple[str, ...] = ()


async def try_policy(
    store: Store,
    today: Policies,
    other: Policies,
    tenant: str | None,
    last: int,
    *,
    only_outbound: bool = False,
    rule: str = "",
) -> PolicyTrial:
    """Judge the last messages by today's policies and by the others, and look for those for which a rule of the others
    holds.

    The stored ruling of the lists is kept, so that only the policy differs. With `only_outbound` the outbound ones
    among the last messages are considered.
    """
    considered, hits, flips = 0, list[Comparison](), list[Comparison]()
    known: dict[str | None, Known] = {}
    with condition_work() as work:
        async with aclosing(store.messages.recent(tenant, last)) as batches:
            async for every in batches:
                batch = [record for record in every if record.envelope.outbound or not only_outbound]
                await load_custom_lists(store, batch, known)
                compared = await judge_in_turn(partial(_compare, batch, known, today, other))
                if slow := _describe_slow(work, today, other):
                    return PolicyTrial(mistakes=slow)
                hits += [each for each in compared if rule and each.has_now(f"{RULE}{rule}")]
                flips += [each for each in compared if each.flips]
                considered += len(batch)
    return PolicyTrial(considered, tuple(flips), tuple(hits))


def _describe_slow(work: ConditionWork, today: Policies, other: Policies) -> tuple[str, ...]:
    """Say which rules of the other policies took too long for a stored message, or that all of them together did."""
    in_force = {rule.when for each in _list_effective(today) for rule in each.policy.rules.values()}
    stated = {name: rule for each in _list_effective(other) for name, rule in each.policy.rules.items()}
    slow = [name for name, rule in stated.items() if rule.when in work.slow - in_force]
    if slow:
        return tuple(f"rules.{name}.when took too long for a stored message, and was stopped" for name in slow[:20])
    return ("the rules take too long together: they were stopped before the messages ended",) if work.is_over else ()


def _list_effective(policies: Policies) -> list[Effective]:
    return [policies.deployment, *policies.tenants.values()]


def _compare(
    batch: Sequence[MessageRecord], known: Mapping[str | None, Known], today: Policies, other: Policies
) -> list[Comparison]:
    found = []
    for record in batch:
        owner = record.envelope.tenant
        ruling = rulings_of(record.report, known.get(owner, {}))
        outbound = record.envelope.outbound
        before = rejudge(record.report, today.of(owner, outbound=outbound).policy, ruling)
        now = rejudge(record.report, other.of(owner, outbound=outbound).policy, ruling)
        found.append(compare(record.ggrid, before, now, record.report.subject))
    return found


async def _custom_lists(store: Store, owner: str | None) -> Known:
    known: dict[str, ListDefinition] = {}
    for scope in {None, owner}:
        for state in await store.lists.all(scope):
            if state.definition.custom:
                known[scoped_name("tenant" if scope else "global", state.definition.name)] = state.definition
    return known


class ListsToday(msgspec.Struct, frozen=True):
    """What today's lists have to say of a stored message: entries that were found by key, those of the lists that are
    handed out whole, and what the operator's own lists count as."""

    hits: tuple[Hit, ...]
    found: tuple[Match, ...]
    custom: Mapping[str, str]

    def with_hit(self, hit: Hit) -> "ListsToday":
        """Return the same with one more entry; one that is there already stays as it is."""
        known = {(each.list, each.scope, each.key) for each in self.hits}
        return (
            self if (hit.list, hit.scope, hit.key) in known else ListsToday((*self.hits, hit), self.found, self.custom)
        )

    def rule(self, report: Report) -> Ruling:
        """Return the ruling of these entries."""
        authenticated = report.authentication.aligned
        return rule_on(self.hits, report.subjects, authenticated=authenticated, custom=self.custom, found=self.found)


async def ask_lists(store: Store, record: MessageRecord) -> ListsToday:
    """Ask today's lists. Phrases need the text, so a phrase counts if it was hit then and is still listed."""
    report, tenant = record.report, record.envelope.tenant
    unkeyed = await store.list_lookup.unkeyed(tenant)
    found = await judge_in_turn(partial(_find_today, report, unkeyed))
    keys = await judge_in_turn(partial(collect_keys, report.subjects, KINDS))
    hits = await store.list_lookup.find(tenant, keys)
    return ListsToday(tuple(hits), tuple(found), unkeyed.custom)


def _find_today(report: Report, unkeyed: UnkeyedLists) -> list[Match]:
    """What the lists that are handed out whole have to say of a stored message."""
    spoken, names = {note.entry: note.where for note in report.lists}, list_file_names(report)
    found: list[Match] = []
    for name, entries in unkeyed.entries.items():
        subjects, make_finder = BY_NAME[name].subjects, KINDS[BY_NAME[name].kind].make_finder
        if "text" in subjects:
            still = (entry for entry in entries if entry.key in spoken)
            found += [Match(make_hit(each), Subject("text", each.key, spoken[each.key])) for each in still]
        elif "name" in subjects and make_finder:
            with suppress(FindingLimit):
                for place, entry in make_finder(entries).find([each for _, each in names]):
                    where, shown = names[place]
                    found.append(Match(make_hit(entry), Subject("name", shown, where)))
    return found


# Each is a judgement of the message; a page asks for a few.
MAX_CHANGES = 40


class EntryEffect(msgspec.Struct, frozen=True):
    """A message without an entry and with it. `refusal` is why the lists refuse an entry that matches."""

    before: JudgedOutcome
    now: JudgedOutcome
    is_matched: bool
    refusal: str = ""

    @property
    def changes(self) -> bool:
        """Whether the decision differs."""
        return self.before.decision != self.now.decision


async def measure_entries(
    store: Store, policies: Policies, record: MessageRecord, changes: Sequence[Change]
) -> tuple[EntryEffect, ...]:
    """Return the effect of each change on a message; a change adds one entry to a list that counts for the message."""
    envelope = record.envelope
    policy = policies.of(envelope.tenant, outbound=envelope.outbound).policy
    today = await ask_lists(store, record)
    return await judge_in_turn(partial(_measure, record.report, policy, today, changes[:MAX_CHANGES]))


def _measure(report: Report, policy: Policy, today: ListsToday, changes: Sequence[Change]) -> tuple[EntryEffect, ...]:
    ruling = today.rule(report)
    before = outcome_of(rejudge(report, policy, ruling))
    return tuple(_measure_one(report, policy, today, each, ruling, before) for each in changes)


def _measure_one(
    report: Report, policy: Policy, today: ListsToday, change: Change, ruling: Ruling, before: JudgedOutcome
) -> EntryEffect:
    (key,) = change.keys
    entry = Hit(change.definition.name, change.scope, key)
    alone = ListsToday((entry,), (), today.custom).rule(report)
    if alone == Ruling():
        return EntryEffect(before, before, is_matched=False)
    added = today.with_hit(entry).rule(report)
    now = before if added == ruling else outcome_of(rejudge(report, policy, added))
    refused = (why for match, why in added.refused if (match.hit.list, match.hit.key) == (entry.list, entry.key))
    return EntryEffect(before, now, is_matched=True, refusal=next(refused, ""))


async def try_policies_on(store: Store, record: MessageRecord, today: Policies, other: Policies) -> Comparison:
    """Compare the judgements of one message by two policies, both with today's lists."""
    envelope, lists = record.envelope, await ask_lists(store, record)
    old, new = (each.of(envelope.tenant, outbound=envelope.outbound).policy for each in (today, other))
    return await judge_in_turn(partial(_compare_policies, record, lists, old, new))


def _compare_policies(record: MessageRecord, lists: ListsToday, old: Policy, new: Policy) -> Comparison:
    report = record.report
    ruling = lists.rule(report)
    return compare(record.ggrid, rejudge(report, old, ruling), rejudge(report, new, ruling), report.subject)


DRY_RUN_MESSAGES = 5_000
# CPU time that the rules in force may take in a dry run, and in looking back: without the time, fewer messages count.
DRY_RUN_SECONDS, LOOK_BACK_SECONDS = 60.0, 300.0

# How many messages are named that a change would match.
MAX_SHOWN_HITS = 200

Shown = Mapping[str, str]


class HitMessage(msgspec.Struct, frozen=True):
    """A message that a change of a list would match, and whether that changes its decision."""

    record: MessageRecord
    flips: bool


class FoundHits(msgspec.Struct, frozen=True):
    """What a change would match among the last messages: the numbers, and the first `MAX_SHOWN_HITS` messages."""

    considered: int
    hit: int
    flipped: int
    messages: tuple[HitMessage, ...] = ()


class ListDryRuns:
    """Dry runs of list changes, one at a time: whoever has `turn` may run one."""

    def __init__(self, store: Store, policies: PoliciesInForce) -> None:
        self._store = store
        self._policies = policies
        self.turn = asyncio.Semaphore(1)

    async def run(self, scope: str | None, change: Change, shown: Shown, modified: int) -> DryRun:
        """The result of one dry run. `shown` are all entries by key; the change has those that can have an effect."""
        if not change.countable:
            return DryRun(0, modified, None, None, tuple(TriedEntry(entry, None, None) for entry in shown.values()))
        dry_run = EntryDryRun(change, self._policies.now.deployment.policy)
        async with self.turn:
            await self._run(scope, dry_run)
        entries = tuple(TriedEntry(entry, dry_run.hits[key], dry_run.flips[key]) for key, entry in shown.items())
        return DryRun(dry_run.considered, modified, dry_run.hit, dry_run.flipped, entries)

    async def find_hits(self, scope: str | None, change: Change) -> FoundHits:
        """The messages behind the numbers of a dry run, newest first."""
        dry_run, hits = EntryDryRun(change, self._policies.now.deployment.policy), list[HitMessage]()
        if change.countable:
            async with self.turn:
                await self._run(scope, dry_run, hits)
        return FoundHits(dry_run.considered, dry_run.hit, dry_run.flipped, tuple(hits))

    async def _run(self, scope: str | None, dry_run: EntryDryRun, hits: list[HitMessage] | None = None) -> None:
        known: dict[str | None, Known] = {}
        with condition_work(DRY_RUN_SECONDS) as work:
            async with aclosing(self._store.messages.recent(scope, DRY_RUN_MESSAGES)) as batches:
                async for batch in batches:
                    await load_custom_lists(self._store, batch, known)
                    await judge_in_turn(partial(_consider, dry_run, batch, known, self._policies.now, hits))
                    if dry_run.exhausted or work.is_over:
                        return


async def load_custom_lists(store: Store, batch: Sequence[MessageRecord], known: dict[str | None, Known]) -> None:
    """Read the definitions of custom lists that these messages hit, and that are not known yet."""
    for record in batch:
        tenant = record.envelope.tenant
        if tenant not in known and any(note.list not in BY_NAME for note in record.report.lists):
            known[tenant] = await _custom_lists(store, tenant)


def _consider(
    dry_run: EntryDryRun,
    batch: Sequence[MessageRecord],
    known: Mapping[str | None, Known],
    policies: Policies,
    hits: list[HitMessage] | None,
) -> None:
    for record in batch:
        if dry_run.exhausted:
            return
        tenant, before = record.envelope.tenant, dry_run.hit
        flips = dry_run.consider(record.report, known.get(tenant, {}), policies.of(tenant).policy)
        if hits is not None and dry_run.hit > before and len(hits) < MAX_SHOWN_HITS:
            hits.append(HitMessage(record, bool(flips)))


def _parse_end(text: str) -> int | None:
    """A date-time, or a day, which ends at its midnight in UTC."""
    if len(text) == len("2030-01-31"):
        start = milliseconds(f"{text}T00:00:00Z")
        return None if start is None else start + 86_400_000
    return milliseconds(text)


def new_entry(stated: NewListEntry, definition: ListDefinition) -> NewEntry | ListRefusal:
    """An entry in the list's normal form, or why it is none. The reason follows the words "the entry"."""
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


async def try_adding(
    store: Store, dry_runs: ListDryRuns, scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry]
) -> DryRun | ListFull:
    """Dry run of adding these entries."""
    final = {entry.key: entry for entry in entries}
    there = await store.lists.find(scope, definition.name, tuple(final))
    size = await size_of(store, scope, definition.name)
    if size + len(final) - len(there) > definition.max_size:
        return ListFull(size, definition.max_size)
    if full := await store.lists.bytes_left(scope, definition, entries):
        return full
    moment = now()
    lasting = tuple(key for key, entry in final.items() if entry.expires is None or entry.expires > moment)
    change = Change(definition, "tenant" if scope else "global", lasting, adding=True)
    shown = {key: entry.shown for key, entry in final.items()}
    return await dry_runs.run(scope, change, shown, len(final))


async def try_deleting(
    store: Store, dry_runs: ListDryRuns, scope: str | None, definition: ListDefinition, keys: Sequence[str]
) -> DryRun:
    """Dry run of deleting the entries with these keys."""
    there = {entry.key: entry.shown for entry in await store.lists.find(scope, definition.name, keys)}
    change = Change(definition, "tenant" if scope else "global", tuple(there), adding=False)
    shown = {key: there.get(key, key) for key in keys}
    return await dry_runs.run(scope, change, shown, len(there))


async def size_of(store: Store, scope: str | None, name: str) -> int:
    """The number of entries in a list."""
    states = await store.lists.all(scope)
    return next((state.size for state in states if state.definition.name == name), 0)


DAY = 86_400_000
# About half a minute on one core; pages look at less, so that nobody waits for them.
LOOK_BACK_MESSAGES, LOOK_BACK_EFFORT = 50_000, 3_000_000
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
    messages: int = LOOK_BACK_MESSAGES,
    effort: int = LOOK_BACK_EFFORT,
) -> LookBack:
    """Look for delivered messages that entries with these keys would have held."""
    change = Change(definition, "tenant" if scope else "global", tuple(keys), adding=True)
    search = _Search(EntryDryRun(change, policies.deployment.policy, effort), policies, now() - days * DAY)
    if keys and can_look_back(definition):
        known: dict[str | None, Known] = {}
        with condition_work(LOOK_BACK_SECONDS) as work:
            async with aclosing(store.messages.recent(scope, messages)) as batches:
                async for batch in batches:
                    await load_custom_lists(store, batch, known)
                    if not await judge_in_turn(partial(search.take, batch, known)) or work.is_over:
                        break
            search.is_cut |= search.seen >= messages or work.is_over
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
