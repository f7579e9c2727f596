"""Judging stored messages again, without the message: the same findings with another policy or other lists.

A result is stored with its findings and with the subjects that lists were asked about. That is enough to compute which
of the last messages a list entry would have matched, and which decisions would have changed. Checks do not run again.
`compare` puts two judgements of one message side by side, line by line.

The work is bounded whatever was stored: a message may have thousands of links, and hundreds of entries may match it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gatepost.analysis.report import Line, ListNote, Report
from gatepost.analysis.verdict import Judgement, judge
from gatepost.findings.values import Finding
from gatepost.lists.catalogue import BY_NAME, KINDS, ListDefinition
from gatepost.lists.entries import EntryFinder, FindingLimit, UnkeyedEntry
from gatepost.lists.links import split_url
from gatepost.lists.rulings import Ruling, Subject, rule_on, scoped_name
from gatepost.names import org_domain
from gatepost.policy.condition_process import evaluate_all, find_storable
from gatepost.policy.conditions import choose_result, describe_file, make_variables
from gatepost.policy.rules import RULE, Decision, Policy, Verdict, shipped_policy
from gatepost.questions import Hit, Scope

# About three seconds on one core. One unit is the comparison of one link; one judgement takes as long as ten of them.
EFFORT = 300_000
JUDGEMENT = 10
# So many looks at a character of a file's name take as long as the comparison of one link.
LOOKS = 100

Known = Mapping[str, ListDefinition]
ListPosition = tuple[str, str, str]


class Change(msgspec.Struct, frozen=True):
    """Entries, by their keys, that are to be added to a list or deleted from it."""

    definition: ListDefinition
    scope: Scope
    keys: tuple[str, ...]
    adding: bool

    @property
    def countable(self) -> bool:
        """Whether stored keys and findings can tell what it would do."""
        return self.definition.is_countable


def rejudge(report: Report, policy: Policy, ruling: Ruling) -> Judgement:
    """The judgement of the stored findings by this policy, with this ruling of the lists."""
    stored = [
        Finding(line.kind, line.where, line.facts, line.strength, line.about)
        for line in report.lines
        if not line.kind.startswith("list:")
    ]
    return judge(_apply_rules(report, stored, policy), report.outcomes, policy, ruling)


def _apply_rules(report: Report, stored: Sequence[Finding], policy: Policy) -> Sequence[Finding]:
    """The stored findings, with those of the policy's own rules instead of the ones of that day.

    A rule that reads what is not stored, such as header fields, is taken to say what it said then.
    """
    made_then = [finding for finding in stored if finding.kind.startswith(RULE)]
    if not policy.rules and not made_then:
        return stored
    kept = [finding for finding in stored if not finding.kind.startswith(RULE)]
    findings = list(kept)
    stated = [rule.when for rule in policy.rules.values()]
    can_be_tried = dict(zip(stated, find_storable(stated), strict=True))
    tried = [when for when, is_storable in can_be_tried.items() if is_storable]
    holds = dict(zip(tried, evaluate_all(tried, _describe_report(report, kept)), strict=True))
    for name, rule in policy.rules.items():
        if not can_be_tried[rule.when]:
            findings += [finding for finding in made_then if finding.kind == f"{RULE}{name}"]
        elif holds[rule.when] is True:
            findings.append(Finding(f"{RULE}{name}", "policy", {"condition": rule.when[:300]}))
    return findings


def _describe_report(report: Report, findings: Sequence[Finding]) -> dict[str, Any]:
    """What a condition can read of a stored result (`conditions.VARIABLES`, `stored`)."""
    by_role: dict[str, list[str]] = {}
    for subject in report.subjects:
        by_role.setdefault(subject.role, []).append(subject.value)
    sender = next(iter(by_role.get("from", ())), "")
    envelope_sender = next(iter(by_role.get("envelope", ())), "")
    domain, authentication = sender.rpartition("@")[2], report.authentication
    return make_variables(
        tags=list(dict.fromkeys(finding.kind for finding in findings)),
        sender=sender,
        sender_domain=domain,
        sender_organisation=org_domain(domain),
        envelope_sender=envelope_sender,
        envelope_domain=envelope_sender.rpartition("@")[2],
        host=authentication.host,
        spf=authentication.spf.result,
        dkim=choose_result(each.result for each in authentication.dkim),
        dmarc=authentication.dmarc.result,
        arc=authentication.arc.result,
        authenticated=authentication.aligned,
        subject=report.subject,
        links=list(dict.fromkeys(parts[0] for url in by_role.get("link", ()) if (parts := split_url(url)))),
        files=[
            describe_file(name, file.type, file.sha256) for file in report.files for name in file.names[:1] or ("",)
        ],
    )


def rulings_of(report: Report, known: Known) -> Ruling:
    """The ruling of the lists when the message was analysed. `known` has the custom lists by their scoped names."""
    hits = _stored_hits(report)
    return _StoredHits(report, {hit.key for hit in hits.values()}, known, shipped_policy()).rule(hits.values())


class EntryDryRun:
    """Counts what a change of a list would have done to stored messages, one after the other."""

    def __init__(self, change: Change, policy: Policy, effort: int = EFFORT) -> None:
        self._change, self._policy, self._effort = change, policy, effort
        name, scope = change.definition.name, change.scope
        self._entries = {key: Hit(name, scope, key) for key in change.keys}
        make_finder = KINDS[change.definition.kind].make_finder
        entries = (UnkeyedEntry(name, scope, key, key) for key in change.keys)
        self._finder = make_finder(entries) if make_finder else None
        self.considered = self.hit = self.flipped = 0
        self.hits: Counter[str] = Counter()
        self.flips: Counter[str] = Counter()

    @property
    def exhausted(self) -> bool:
        """Whether the effort is used up; `considered` says how many messages were looked at."""
        return self._effort <= 0

    def consider(self, report: Report, known: Known, policy: Policy | None = None) -> tuple[str, ...]:
        """Look at one more message, judged by its tenant's policy where that has one of its own. Returns the entries
        that it hits if they change its decision."""
        self.considered += 1
        matched = self._find_matches(report)
        if not matched:
            return ()
        self._effort -= len(report.subjects)
        hits = _stored_hits(report)
        named = {scoped_name(self._change.scope, self._change.definition.name): self._change.definition}
        found = self._list_found(report, matched) if self._finder else ()
        keys = {*matched, *(hit.key for hit in hits.values())}
        stored = _StoredHits(report, keys, {**known, **named}, policy or self._policy, found)
        hit_by = self._count_each(stored, hits, matched)
        if not hit_by:
            return ()
        self.hit += 1
        flips = self._changes_decision(stored, hits, hit_by)
        self.flipped += flips
        return tuple(entry.key for entry in hit_by) if flips else ()

    def _find_matches(self, report: Report) -> dict[str, tuple[int, ...]]:
        """The entries that cover something of the message, each with the places of what it covers."""
        kind, found = self._change.definition.kind, dict[str, list[int]]()
        if self._finder:
            return self._find_names(report, self._finder)
        for index, subject in enumerate(report.subjects):
            if subject.kind == kind:
                self._effort -= 1
                for key in subject.keys:
                    if key in self._entries:
                        found.setdefault(key, []).append(index)
        return {key: tuple(indexes) for key, indexes in found.items()}

    def _find_names(self, report: Report, finder: EntryFinder) -> dict[str, tuple[int, ...]]:
        """The entries that cover a name of a file, each with the places of those names among all."""
        found: dict[str, list[int]] = {}
        before = finder.work
        # Where the names of one message take too long, those that were compared count.
        with suppress(FindingLimit):
            for place, entry in finder.find([name for _, name in list_file_names(report)]):
                found.setdefault(entry.key, []).append(place)
        self._effort -= (finder.work - before) // LOOKS
        return {key: tuple(places) for key, places in found.items()}

    def _list_found(self, report: Report, matched: Mapping[str, tuple[int, ...]]) -> list[Subject]:
        """The names that entries cover as subjects, each by the key of its entry."""
        (role,), names = self._change.definition.subjects, list_file_names(report)
        return [Subject(role, key, names[place][0]) for key, places in matched.items() for place in places]

    def _count_each(
        self, stored: "_StoredHits", hits: Mapping[ListPosition, Hit], matched: Mapping[str, tuple[int, ...]]
    ) -> list[Hit]:
        """Count every entry by itself. Entries that cover the same things do the same."""
        known: dict[tuple[bool, tuple[int, ...]], tuple[bool, bool]] = {}
        found = []
        for key, covered in matched.items():
            entry = self._entries[key]
            like = (_position(entry) in hits, covered)
            if like not in known:
                counts = stored.is_hit_by(entry)
                known[like] = (counts, counts and self._changes_decision(stored, hits, [entry]))
            counts, flips = known[like]
            self.hits[key] += counts
            self.flips[key] += flips
            if counts:
                found.append(entry)
        return found

    def _changes_decision(
        self, stored: "_StoredHits", hits: Mapping[ListPosition, Hit], entries: Iterable[Hit]
    ) -> bool:
        """Whether these entries change the decision."""
        own = {_position(entry): entry for entry in entries}
        present = {**own, **hits}
        if self._change.adding:
            if len(present) == len(hits):
                return False
            return self._decide(stored, hits.values()) != self._decide(stored, present.values())
        absent = [hit for position, hit in hits.items() if position not in own]
        return self._decide(stored, present.values()) != self._decide(stored, absent)

    def _decide(self, stored: "_StoredHits", hits: Iterable[Hit]) -> Decision:
        same = frozenset(hits)
        if same not in stored.decisions:
            self._effort -= JUDGEMENT
            stored.decisions[same] = rejudge(stored.report, stored.policy, stored.rule(same)).decision
        return stored.decisions[same]


class _StoredHits:
    """One stored message with the subjects that the list hits in question cover."""

    def __init__(
        self, report: Report, keys: set[str], known: Known, policy: Policy, found: Iterable[Subject] = ()
    ) -> None:
        self.report, self.policy = report, policy
        self.decisions: dict[frozenset[Hit], Decision] = {}
        self._custom = {name: definition.counts_as for name, definition in known.items() if definition.custom}
        # Which phrases a text had is only known from what they did.
        shown = [subject for note in report.lists if (subject := _subject_of_note(note, known))]
        self._covered: dict[str, list[Subject]] = {}
        for subject in dict.fromkeys((*report.subjects, *shown, *found)):
            for key in keys.intersection(subject.keys):
                self._covered.setdefault(key, []).append(subject)

    def rule(self, hits: Iterable[Hit]) -> Ruling:
        """The ruling that these hits lead to."""
        every = tuple(hits)
        asked = dict.fromkeys(subject for hit in every for subject in self._covered.get(hit.key, ()))
        return rule_on(every, asked, authenticated=self.report.authentication.aligned, custom=self._custom)

    def is_hit_by(self, entry: Hit) -> bool:
        """Whether an entry that covers something means it in the role that it has: From, but not the envelope."""
        return self.rule([entry]) != Ruling()


def _subject_of_note(note: ListNote, known: Known) -> Subject | None:
    """What an entry covered that no key finds, by the key of the entry."""
    definition = known.get(scoped_name(note.scope, note.list)) or BY_NAME.get(note.list)
    if definition is None or definition.keyed or not definition.subjects:
        return None
    return Subject(definition.subjects[0], note.entry, note.where)


def list_file_names(report: Report) -> list[tuple[str, str]]:
    """The names of all files of a message, each after the place of its file."""
    return [(file.path, name) for file in report.files for name in file.names]


def _stored_hits(report: Report) -> dict[ListPosition, Hit]:
    hits = (Hit(note.list, _scope(note.scope), note.entry, note.comment) for note in report.lists)
    return {_position(hit): hit for hit in hits}


def _position(hit: Hit) -> ListPosition:
    return hit.list, hit.scope, hit.key


def _scope(text: str) -> Scope:
    return "tenant" if text == "tenant" else "recipient" if text == "recipient" else "global"


class JudgedOutcome(msgspec.Struct, frozen=True):
    """Verdict, decision and score of one judgement. Points are decimals, as in the API."""

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
    """Two judgements of one message: the stored one and the one of today."""

    ggrid: str
    subject: str
    before: JudgedOutcome
    now: JudgedOutcome
    lines: tuple[LineChange, ...]

    @property
    def flips(self) -> bool:
        """Whether the decision changes."""
        return self.before.decision != self.now.decision

    def has_now(self, tag: str) -> bool:
        """Whether a line of today's judgement has this tag."""
        return any(line.tag == tag and line.weight[1] is not None for line in self.lines)


def compare(ggrid: str, before: Report | Judgement, now: Judgement, subject: str) -> Comparison:
    """The comparison of two judgements, with every line of either."""
    old, new = _index_lines(before.lines), _index_lines(now.lines)
    lines = (_compare_lines(old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new)))
    return Comparison(ggrid, subject, outcome_of(before), outcome_of(now), tuple(lines))


def _index_lines(lines: Iterable[Line]) -> Mapping[tuple[object, ...], Line]:
    """Lines by what they state. The same fact may stand there more than once."""
    found: dict[tuple[object, ...], Line] = {}
    for line in lines:
        key: tuple[object, ...] = (line.kind, line.where, line.about, *line.facts.items())
        while key in found:
            key = (*key, None)
        found[key] = line
    return found


def _compare_lines(old: Line | None, new: Line | None) -> LineChange:
    shown = new or old
    if shown is None:
        raise ValueError("a line is on one side at least")
    return LineChange(
        shown.kind,
        shown.where,
        (_to_points(old.weight) if old else None, _to_points(new.weight) if new else None),
        (_to_points(old.counted) if old else None, _to_points(new.counted) if new else None),
        new.note if new else "",
    )


def outcome_of(judged: Report | Judgement) -> JudgedOutcome:
    """Verdict, decision, score and reason of a judgement."""
    return JudgedOutcome(judged.verdict, judged.decision, _to_points(judged.score), judged.reason)


def _to_points(hundredths: int) -> float:
    return round(hundredths / 100, 2)
