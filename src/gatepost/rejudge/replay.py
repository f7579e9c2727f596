"""Judging what is stored once more: other lists, the same findings, no message.

A result is kept with its findings and with everything that lists were asked about. That is enough to say which of the
last messages an entry would have matched, and which of their decisions would have been others. Checks do not run again.

The work is bounded whatever was stored: a mail may have thousands of links, and hundreds of entries may match it.

Two judgements of one message side by side, line by line: what the ledger said, and what it says now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from gatepost.checks import TITLES
from gatepost.findings import Finding
from gatepost.lists.catalogue import BY_NAME, KINDS, ListDefinition
from gatepost.lists.entries import PHRASE
from gatepost.lists.rulings import Ruling, rule_on
from gatepost.lists.subjects import Subject
from gatepost.policy.rules import Decision, Policy, Verdict, shipped_policy
from gatepost.questions import Hit, Scope
from gatepost.report import Line, Report
from gatepost.verdict import Judgement, judge

# About three seconds on one core: one unit is the look at one link, and a judgement takes as long as ten of them.
EFFORT = 300_000
JUDGEMENT = 10

Known = Mapping[str, ListDefinition]
ListPosition = tuple[str, str, str]
_JUDGED = frozenset({"block", "allow", "policy"})


class Change(msgspec.Struct, frozen=True):
    """Entries, by their keys, that are to be added to a list or deleted from it."""

    definition: ListDefinition
    scope: Scope
    keys: tuple[str, ...]
    adding: bool

    @property
    def countable(self) -> bool:
        """Whether stored keys and findings can tell what it would do."""
        return KINDS[self.definition.kind].keyed and self.definition.category in _JUDGED


def rejudge(report: Report, policy: Policy, ruling: Ruling) -> Judgement:
    """What the stored findings lead to if lists rule like this."""
    findings = (
        Finding(line.kind, line.where, line.facts, line.strength, line.about)
        for line in report.lines
        if not line.kind.startswith("list:")
    )
    return judge(findings, report.outcomes, policy, TITLES, ruling)


def rulings_of(report: Report, known: Known) -> Ruling:
    """What the lists said when the message was analysed. `known` has the custom lists by name."""
    hits = _hits(report)
    return _Matter(report, {hit.key for hit in hits.values()}, known, shipped_policy()).ruled(hits.values())


class EntryDryRun:
    """Counts what a change would have done to messages, one after the other."""

    def __init__(self, change: Change, policy: Policy, effort: int = EFFORT) -> None:
        self._change, self._policy, self._effort = change, policy, effort
        name, scope = change.definition.name, change.scope
        self._entries = {key: Hit(name, scope, key) for key in change.keys}
        self.considered = self.hit = self.flipped = 0
        self.hits: Counter[str] = Counter()
        self.flips: Counter[str] = Counter()

    @property
    def exhausted(self) -> bool:
        """It has worked enough; `considered` says how far it came."""
        return self._effort <= 0

    def consider(self, report: Report, known: Known, policy: Policy | None = None) -> None:
        """Look at one more message, judged by its tenant's policy where that has one of its own."""
        self.considered += 1
        matched = self._matched(report)
        if not matched:
            return
        self._effort -= len(report.subjects)
        hits = _hits(report)
        named = {self._change.definition.name: self._change.definition}
        matter = _Matter(
            report, {*matched, *(hit.key for hit in hits.values())}, {**known, **named}, policy or self._policy
        )
        hit_by = self._each(matter, hits, matched)
        if hit_by:
            self.hit += 1
            self.flipped += self._flips(matter, hits, hit_by)

    def _matched(self, report: Report) -> dict[str, tuple[int, ...]]:
        """The entries that cover something of the message, each with what it covers."""
        kind, found = self._change.definition.kind, dict[str, list[int]]()
        for index, subject in enumerate(report.subjects):
            if subject.kind == kind:
                self._effort -= 1
                for key in subject.keys:
                    if key in self._entries:
                        found.setdefault(key, []).append(index)
        return {key: tuple(indexes) for key, indexes in found.items()}

    def _each(
        self, matter: "_Matter", hits: Mapping[ListPosition, Hit], matched: Mapping[str, tuple[int, ...]]
    ) -> list[Hit]:
        """Count every entry by itself. Entries that cover the same things do the same."""
        known: dict[tuple[bool, tuple[int, ...]], tuple[bool, bool]] = {}
        found = []
        for key, covered in matched.items():
            entry = self._entries[key]
            like = (_place(entry) in hits, covered)
            if like not in known:
                counts = matter.is_hit_by(entry)
                known[like] = (counts, counts and self._flips(matter, hits, [entry]))
            counts, flips = known[like]
            self.hits[key] += counts
            self.flips[key] += flips
            if counts:
                found.append(entry)
        return found

    def _flips(self, matter: "_Matter", hits: Mapping[ListPosition, Hit], entries: Iterable[Hit]) -> bool:
        """Whether the decision is another one with these entries than without them."""
        own = {_place(entry): entry for entry in entries}
        present = {**own, **hits}
        if self._change.adding:
            if len(present) == len(hits):
                return False
            return self._decision(matter, hits.values()) != self._decision(matter, present.values())
        absent = [hit for place, hit in hits.items() if place not in own]
        return self._decision(matter, present.values()) != self._decision(matter, absent)

    def _decision(self, matter: "_Matter", hits: Iterable[Hit]) -> Decision:
        same = frozenset(hits)
        if same not in matter.decisions:
            self._effort -= JUDGEMENT
            matter.decisions[same] = rejudge(matter.report, matter.policy, matter.ruled(same)).decision
        return matter.decisions[same]


class _Matter:
    """One message, reduced to what the hits in question cover."""

    def __init__(self, report: Report, keys: set[str], known: Known, policy: Policy) -> None:
        self.report, self.policy = report, policy
        self.decisions: dict[frozenset[Hit], Decision] = {}
        self._custom = {name: definition.counts_as for name, definition in known.items() if definition.custom}
        # Which phrases a text had is only known from what they did.
        phrases = {name for name, what in chain(BY_NAME.items(), known.items()) if what.kind == PHRASE.name}
        spoken = [Subject("text", note.entry, note.where) for note in report.lists if note.list in phrases]
        self._covered: dict[str, list[Subject]] = {}
        for subject in (*report.subjects, *spoken):
            for key in keys.intersection(subject.keys):
                self._covered.setdefault(key, []).append(subject)

    def ruled(self, hits: Iterable[Hit]) -> Ruling:
        """What lists with these hits say."""
        every = tuple(hits)
        asked = dict.fromkeys(subject for hit in every for subject in self._covered.get(hit.key, ()))
        return rule_on(every, asked, authenticated=self.report.authentication.aligned, custom=self._custom)

    def is_hit_by(self, entry: Hit) -> bool:
        """Whether an entry that covers something means it in the role that it has: From, but not the envelope."""
        return self.ruled([entry]) != Ruling()


def _hits(report: Report) -> dict[ListPosition, Hit]:
    hits = (Hit(note.list, _scope(note.scope), note.entry, note.comment) for note in report.lists)
    return {_place(hit): hit for hit in hits}


def _place(hit: Hit) -> ListPosition:
    return hit.list, hit.scope, hit.key


def _scope(text: str) -> Scope:
    return "tenant" if text == "tenant" else "global"


class JudgedOutcome(msgspec.Struct, frozen=True):
    """What a judgement led to. Points are decimals, as in the interface."""

    verdict: Verdict
    decision: Decision
    score: float
    reason: str


class LineChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the ledger: what it weighed and what of it counted, before and now. None: it was not there."""

    tag: str
    where: str
    weight: tuple[float | None, float | None]
    counted: tuple[float | None, float | None]
    note: str = ""

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        return self.weight[0] == self.weight[1] and self.counted[0] == self.counted[1]


class Comparison(msgspec.Struct, frozen=True):
    """One message judged twice."""

    ggrid: str
    subject: str
    before: JudgedOutcome
    now: JudgedOutcome
    lines: tuple[LineChange, ...]

    @property
    def flips(self) -> bool:
        """Whether the decision is another one."""
        return self.before.decision != self.now.decision


def compare(ggrid: str, before: Report | Judgement, now: Judgement, subject: str) -> Comparison:
    """Both judgements, with every line of either."""
    old, new = _keyed(before.lines), _keyed(now.lines)
    lines = (_line(old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new)))
    return Comparison(ggrid, subject, _outcome(before), _outcome(now), tuple(lines))


def _keyed(lines: Iterable[Line]) -> Mapping[tuple[object, ...], Line]:
    """Lines by what they state. The same fact may stand there more than once."""
    found: dict[tuple[object, ...], Line] = {}
    for line in lines:
        key: tuple[object, ...] = (line.kind, line.where, line.about, *line.facts.items())
        while key in found:
            key = (*key, None)
        found[key] = line
    return found


def _line(old: Line | None, new: Line | None) -> LineChange:
    shown = new or old
    if shown is None:
        raise ValueError("a line is on one side at least")
    return LineChange(
        shown.kind,
        shown.where,
        (_points(old.weight) if old else None, _points(new.weight) if new else None),
        (_points(old.counted) if old else None, _points(new.counted) if new else None),
        new.note if new else "",
    )


def _outcome(judged: Report | Judgement) -> JudgedOutcome:
    return JudgedOutcome(judged.verdict, judged.decision, _points(judged.score), judged.reason)


def _points(hundredths: int) -> float:
    return round(hundredths / 100, 2)
