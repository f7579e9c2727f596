"""What would change if…: stored messages are judged as they stand and with a change, and nothing else happens.

`try_change(messages, change)` is the one way to ask that. A change adds or removes list entries, has other policies (a
layer, a rule, a whole draft), or both; `NOTHING` compares what was decided with what the policy and the lists of today
lead to. Messages are the last ones of a tenant, or records: of single messages, or just made of files. The answer is
one `Trial`: the counts, the messages with both judgements, and what each entry would do. Replay, the trial of a policy,
of a rule and of a draft, previews of lists, `dryRun` of the List API and looking back are all this question.

Storage keeps the findings of a message and not its text, so checks do not run again, and phrases cannot be counted.
Messages that are named are judged with today's lists, and the last ones with what the lists said then, which needs no
look-up. They are judged in batches, off the event loop and one batch at a time, whoever asks. The work is bounded in
messages, in effort (a message may have thousands of links, and match hundreds of entries) and in the time of rules.

Looking back finds messages that were delivered in the last days, and that new entries of a list would have held.
Attacks become known a day late, and by then the first messages have been read. Entries that need the text, and lists
that hold nothing, cannot be looked up.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import copy_context
from functools import partial
from typing import Literal, TypeVar

import msgspec

from gatepost.analysis.report import Report, ShownSender, shown_sender
from gatepost.analysis.verdict import Judgement
from gatepost.findings.kinds import Finding
from gatepost.lists.catalogue import BY_NAME, KINDS, ListDefinition
from gatepost.lists.entries import EntryFinder, FindingLimit, UnkeyedEntry
from gatepost.lists.rulings import NO_RULING, Match, Ruling, Subject, collect_keys, scoped_name
from gatepost.lists.unkeyed import NO_ENTRIES, UnkeyedLists, make_hit
from gatepost.policy.condition_process import WORK_SECONDS, ConditionWork, condition_work
from gatepost.policy.layers import Effective, Policies
from gatepost.policy.rules import RULE, Policy
from gatepost.process.background_work import background
from gatepost.questions import Hit, Scope
from gatepost.rejudge import judging
from gatepost.rejudge.judging import AskLists, EntryPlace, JudgedOutcome, LineChange, Matches, Standing
from gatepost.store.audit import SYSTEM, Actor
from gatepost.store.look_backs import LOOK_BACK, MAX_HITS, LookBack, WaitingLookBack
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import DAY, now

T = TypeVar("T")
# About three seconds on one core. One unit is the comparison of one link; one judgement takes as long as ten of them.
EFFORT = 300_000
JUDGEMENT = 10
# So many looks at a character of a file's name take as long as the comparison of one link.
LOOKS = 100
# CPU time that rules may take where messages are judged by the rules in force: without the time, fewer count.
LIST_SECONDS, LOOK_BACK_SECONDS = 60.0, 300.0
# Messages that a trial names, of those that change and of the others.
MAX_SHOWN = 200


class ListEdit(msgspec.Struct, frozen=True):
    """Entries, by their keys, that are to be added to a list or removed from it."""

    definition: ListDefinition
    scope: Scope
    keys: tuple[str, ...]
    adding: bool = True


class Change(msgspec.Struct, frozen=True):
    """What might be changed: entries of lists, the policies, or what a text model finds. `rule` is the name of the rule
    that is asked about."""

    lists: tuple[ListEdit, ...] = ()
    policies: Policies | None = None
    finds: Callable[[Report], Finding | None] | None = None
    rule: str = ""


NOTHING = Change()


def edit_list(scope: str | None, definition: ListDefinition, keys: Sequence[str], *, adding: bool = True) -> Change:
    """Return the change of one list of a tenant or of the deployment."""
    return Change((ListEdit(definition, "tenant" if scope else "global", tuple(keys), adding),))


class Messages(msgspec.Struct, frozen=True):
    """The messages that are judged: the `last` ones of a tenant, none older than `since`; or those of these records,
    which are named."""

    tenant: str | None = None
    last: int = 0
    since: int = 0
    only: Literal["all", "outbound", "delivered"] = "all"
    records: tuple[MessageRecord, ...] = ()

    @property
    def are_named(self) -> bool:
        """Whether it is known which messages these are."""
        return bool(self.records)

    def wants(self, record: MessageRecord) -> bool:
        return self.only == "all" or (
            record.envelope.outbound if self.only == "outbound" else record.report.decision == "deliver"
        )

    async def read(self, store: Store) -> AsyncGenerator[Sequence[MessageRecord]]:
        """Yield the messages in batches, the last ones newest first."""
        if self.records:
            yield self.records
        if self.last:
            async with aclosing(store.messages.recent(self.tenant, self.last)) as batches:
                async for batch in batches:
                    yield batch


class TriedMessage(msgspec.Struct, frozen=True):
    """A message with its judgement, and the one that it would have. `entries` are those of the change that it matches;
    `refusal` says why the lists refuse one that matches."""

    ggrid: str
    completed: int
    sender: ShownSender
    recipients: tuple[str, ...]
    subject: str
    before: JudgedOutcome
    now: JudgedOutcome
    lines: tuple[LineChange, ...] = ()
    entries: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def flips(self) -> bool:
        return self.before.decision != self.now.decision

    @property
    def changed_lines(self) -> tuple[LineChange, ...]:
        """The lines of the ledger that are not the same."""
        return tuple(line for line in self.lines if not line.is_same)

    def has_now(self, tag: str) -> bool:
        """Whether the judgement that it would have has a line with this tag."""
        return any(line.tag == tag and line.weight[1] is not None for line in self.lines)


class Trial(msgspec.Struct, frozen=True):
    """What a change would do to the messages that were considered: how many it touches (an entry matches, the rule
    holds), and of how many it changes the decision; the same for each entry by itself. `messages` are the newest of
    those, and all that were named. `reached` is the time of the oldest message where the work ended before the messages
    did. `mistakes` say why the change could not be tried."""

    considered: int = 0
    hit: int = 0
    flipped: int = 0
    messages: tuple[TriedMessage, ...] = ()
    hits: Mapping[EntryPlace, int] = {}
    entry_flips: Mapping[EntryPlace, int] = {}
    reached: int | None = None
    mistakes: tuple[str, ...] = ()

    @property
    def flips(self) -> tuple[TriedMessage, ...]:
        """Those of the messages whose decision would change."""
        return tuple(each for each in self.messages if each.flips)


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


async def try_change(
    store: Store,
    today: Policies,
    change: Change,
    messages: Messages,
    *,
    effort: int = EFFORT,
    seconds: float = WORK_SECONDS,
    shown: int = MAX_SHOWN,
) -> Trial:
    """Return what a change would do to messages. The policies of today are those that it is compared with; rules may
    take so many seconds, and what they take beyond that is a mistake of other policies."""
    trying = Trying(change, today, messages, effort, shown)
    lists = _Lists(store, asks_today=messages.are_named or change == NOTHING)
    with condition_work(seconds) as work:
        async with aclosing(messages.read(store)) as batches:
            async for batch in batches:
                asked = [await lists.ask(record) for record in batch]
                wants_more = await judge_in_turn(partial(trying.take, batch, asked))
                if change.policies and (slow := _describe_slow(work, today, change.policies)):
                    return Trial(mistakes=slow)
                if not wants_more or work.is_over:
                    break
        return trying.finish(is_cut=work.is_over)


async def try_on(store: Store, today: Policies, change: Change, record: MessageRecord) -> TriedMessage:
    """Return what a change would do to one message."""
    named = Messages(records=(record,))
    (tried,) = (await try_change(store, today, change, named)).messages
    return tried


class _Lists:
    """Knows what lists say of messages, today or when they were analysed. That is in their records, but for what custom
    lists count as."""

    def __init__(self, store: Store, *, asks_today: bool) -> None:
        self._store, self._asks_today = store, asks_today
        self._known: dict[str | None, UnkeyedLists] = {}

    async def ask(self, record: MessageRecord) -> AskLists:
        """Return what finds out what the lists say of a message, in the thread that judges it."""
        tenant, report = record.envelope.tenant, record.report
        is_custom = any(note.list not in BY_NAME for note in report.lists)
        if tenant not in self._known and (is_custom or self._asks_today):
            self._known[tenant] = await self._store.list_lookup.unkeyed(tenant)
        unkeyed = self._known.get(tenant, NO_ENTRIES)
        if not self._asks_today:
            return partial(judging.lists_then, custom=unkeyed.custom)
        keys = await judge_in_turn(partial(collect_keys, report.subjects, KINDS))
        return partial(judging.lists_today, hits=await self._store.list_lookup.find(tenant, keys), unkeyed=unkeyed)


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


class Trying:
    """One trial, message by message; `effort` is what is left of it."""

    def __init__(
        self, change: Change, today: Policies, messages: Messages, effort: int = EFFORT, shown: int = MAX_SHOWN
    ) -> None:
        self._change, self._today, self._messages, self._shown = change, today, messages, shown
        self.effort = effort
        self._judges_all = messages.are_named or change.policies is not None or change == NOTHING
        self._entries: dict[str, dict[str, list[Hit]]] = {}
        self._finders: list[tuple[EntryFinder, ListDefinition]] = []
        self._removed, self._custom = set[EntryPlace](), dict[str, str]()
        for edit in change.lists:
            self._prepare(edit)
        self._found: list[TriedMessage] = []
        self._hits, self._entry_flips = Counter[EntryPlace](), Counter[EntryPlace]()
        self._considered = self._hit = self._flipped = self._seen = 0
        self._oldest: int | None = None
        self._is_cut = False

    def _prepare(self, edit: ListEdit) -> None:
        definition, scope = edit.definition, edit.scope
        name, make_finder = definition.name, KINDS[definition.kind].make_finder
        if definition.custom:
            self._custom[scoped_name(scope, name)] = definition.counts_as
        if not edit.adding:
            self._removed.update((name, scope, key) for key in edit.keys)
        if not edit.definition.is_countable:
            return
        if make_finder:
            self._finders.append((make_finder(UnkeyedEntry(name, scope, key, key) for key in edit.keys), definition))
            return
        of_kind = self._entries.setdefault(definition.kind, {})
        for key in edit.keys:
            of_kind.setdefault(key, []).append(Hit(name, scope, key))

    def take(self, batch: Sequence[MessageRecord], asked: Sequence[AskLists]) -> bool:
        """Judge more messages; return False where no more are wanted."""
        for record, ask in zip(batch, asked, strict=True):
            if record.completed < self._messages.since:
                return False
            if self.effort <= 0:
                self._is_cut = True
                return False
            self._seen += 1
            self._oldest = record.completed
            if self._messages.wants(record):
                self._consider(record, ask)
        return True

    def finish(self, *, is_cut: bool = False) -> Trial:
        most = self._messages.last if self._messages.since else 0
        is_cut = is_cut or self._is_cut or 0 < most <= self._seen
        return Trial(
            self._considered,
            self._hit,
            self._flipped,
            tuple(self._found),
            self._hits,
            self._entry_flips,
            self._oldest if is_cut else None,
        )

    def _consider(self, record: MessageRecord, ask: AskLists) -> None:
        self._considered += 1
        own, report = self._find_matches(record.report), record.report
        finding = self._change.finds(report) if self._change.finds else None
        if not (own or finding or self._judges_all):
            return
        if own:
            self.effort -= len(report.subjects)
        today, other = self._choose_policies(record)
        message = _Message(report, ask(report), self._custom, self._removed)
        touched = self._count_each(message, own, today)
        before, after = message.change_lists(touched)
        was = report if self._change == NOTHING else message.judge(today, before)
        now = message.judge(other, after, finding)
        self.effort -= JUDGEMENT * message.judgements
        if self._count(was, now, touched) or self._messages.are_named:
            self._found.append(_describe(record, was, now, touched, message.find_refusal(after, touched)))

    def _choose_policies(self, record: MessageRecord) -> tuple[Policy, Policy]:
        envelope, other = record.envelope, self._change.policies or self._today
        policies = [each.of(envelope.tenant, outbound=envelope.outbound).policy for each in (self._today, other)]
        return policies[0], policies[1]

    def _find_matches(self, report: Report) -> Matches:
        """Return the entries of the change that cover something of the message, each with what it covers."""
        found: dict[EntryPlace, list[Match]] = {}
        for subject in report.subjects if self._entries else ():
            entries = self._entries.get(subject.kind)
            if entries is None:
                continue
            self.effort -= 1
            for key in subject.keys:
                for hit in entries.get(key, ()):
                    found.setdefault(judging.place_of(hit), []).append(Match(hit, subject))
        for finder, definition in self._finders:
            before = finder.work
            names = [Subject(definition.subjects[0], name, where) for where, name in judging.list_file_names(report)]
            # Where the names of one message take too long, those that were compared count.
            with suppress(FindingLimit):
                for index, entry in finder.find([each.value for each in names]):
                    hit = make_hit(entry)
                    found.setdefault(judging.place_of(hit), []).append(Match(hit, names[index]))
            self.effort -= (finder.work - before) // LOOKS
        return {place: tuple(matches) for place, matches in found.items()}

    def _count_each(self, message: "_Message", own: Matches, policy: Policy) -> Matches:
        """Count every entry by itself, and return those that mean what they cover in the role that it has: From, but
        not the envelope. Entries that cover the same things do the same."""
        known: dict[object, tuple[bool, bool]] = {}
        touched = {}
        for place, matches in own.items():
            name, scope, _ = place
            like = (name, scope, place in message.there, tuple(id(match.subject) for match in matches))
            if like not in known:
                counts = message.rule({place: matches}) != NO_RULING
                known[like] = (counts, counts and message.flips(policy, {place: matches}))
            counts, flips = known[like]
            self._hits[place] += counts
            self._entry_flips[place] += flips
            if counts:
                touched[place] = matches
        return touched

    def _count(self, was: Report | Judgement, now: Judgement, touched: Matches) -> bool:
        """Count a message that was judged; return whether it is one of the first that are shown."""
        rule, flips = self._change.rule, was.decision != now.decision
        is_hit = bool(touched) or (bool(rule) and any(line.kind == f"{RULE}{rule}" for line in now.lines))
        same = self._hit - self._flipped
        self._hit += is_hit
        self._flipped += flips
        return (flips and self._flipped <= self._shown) or (is_hit and not flips and same < self._shown)


def _describe(
    record: MessageRecord, was: Report | Judgement, now: Judgement, touched: Matches, refusal: str
) -> TriedMessage:
    report, envelope = record.report, record.envelope
    return TriedMessage(
        ggrid=record.ggrid,
        completed=record.completed,
        sender=shown_sender(report, envelope.sender),
        recipients=envelope.recipients,
        subject=report.subject,
        before=judging.outcome_of(was),
        now=judging.outcome_of(now),
        lines=judging.compare_lines(was, now),
        entries=tuple(key for _, _, key in touched),
        refusal=refusal,
    )


class _Message:
    """One stored message, with the entries that are `there`. Each judgement of it is made once."""

    def __init__(
        self, report: Report, standing: Standing, custom: Mapping[str, str], removed: Collection[EntryPlace]
    ) -> None:
        self.there = standing.matches
        self._report, self._custom, self._removed = report, {**standing.custom, **custom}, removed
        self._judged: dict[tuple[object, ...], Judgement] = {}

    @property
    def judgements(self) -> int:
        return len(self._judged)

    def rule(self, matches: Matches) -> Ruling:
        return judging.rule_by(self._report, matches, self._custom)

    def judge(self, policy: Policy, matches: Matches, finding: Finding | None = None) -> Judgement:
        """Return the judgement with these entries, and with one more finding."""
        same = id(policy), frozenset(matches), finding is None
        if same not in self._judged:
            self._judged[same] = judging.rejudge(self._report, policy, self.rule(matches), finding)
        return self._judged[same]

    def change_lists(self, own: Matches) -> tuple[Matches, Matches]:
        """Return the entries without the change of these and with it. One that is removed counts as if it had been
        there all the time."""
        removed = {place: matches for place, matches in own.items() if place in self._removed}
        after = {place: each for place, each in {**own, **self.there}.items() if place not in removed}
        return {**removed, **self.there}, after

    def flips(self, policy: Policy, own: Matches) -> bool:
        """Return whether these entries change the decision."""
        before, after = self.change_lists(own)
        if before.keys() == after.keys():
            return False
        return self.judge(policy, before).decision != self.judge(policy, after).decision

    def find_refusal(self, matches: Matches, touched: Matches) -> str:
        """Return why the lists refuse one of the entries in question."""
        refused = self.rule(matches).refused if touched else ()
        return next((why for match, why in refused if judging.place_of(match.hit) in touched), "")


# About half a minute on one core.
LOOK_BACK_MESSAGES, LOOK_BACK_EFFORT = 50_000, 3_000_000
# Entries of one list that are looked for at once, and lists of one run.
MAX_KEYS = 20_000
MAX_LISTS = 500


def can_look_back(definition: ListDefinition) -> bool:
    """Return whether stored keys can tell which delivered messages entries of this list would have held."""
    return definition.category in ("block", "policy") and definition.is_countable


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
    trial = Trial()
    if keys and can_look_back(definition):
        delivered = Messages(scope, messages, now() - days * DAY, "delivered")
        change = edit_list(scope, definition, keys)
        trial = await try_change(
            store, policies, change, delivered, effort=effort, seconds=LOOK_BACK_SECONDS, shown=MAX_HITS
        )
    hits = tuple((each.ggrid, each.entries[0]) for each in trial.flips)
    return LookBack(now(), by.label, len(keys), days, trial.considered, trial.flipped, hits, trial.reached)


async def run_waiting(store: Store, policies: Policies, days: int) -> AsyncIterator[tuple[WaitingLookBack, LookBack]]:
    """Look back for all entries that came through the List API and wait; yield each list with what was found.

    That is kept and told as every look back is, and only then forgotten here: a kill repeats one and loses none."""
    async with store.jobs.take(LOOK_BACK) as held:
        for _ in range(MAX_LISTS):
            waiting = await store.look_backs.first() if held and not held.is_lost else None
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
