"""Judging stored messages again, without the message: the same findings with another policy or other lists.

A result is stored with its findings and with the subjects that lists were asked about. Checks do not run again, and a
rule that reads what is not stored says what it said then. What lists say of a message is known entry by entry
(`Standing`): as they said it when the message was analysed, or as they say it today.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from gatepost.analysis.report import Line, ListNote, Report
from gatepost.analysis.verdict import Judgement, judge
from gatepost.findings.kinds import Finding
from gatepost.lists.catalogue import BY_NAME, KINDS
from gatepost.lists.entries import FindingLimit
from gatepost.lists.links import split_url
from gatepost.lists.rulings import Match, Ruling, Subject, rule_on, scoped_name
from gatepost.lists.unkeyed import UnkeyedLists, make_hit
from gatepost.names import org_domain
from gatepost.policy.condition_process import evaluate_all, find_storable
from gatepost.policy.conditions import choose_result, describe_file, make_variables
from gatepost.policy.rules import RULE, Decision, Policy, Verdict
from gatepost.questions import Hit, Scope

# An entry by its list, scope and key.
EntryPlace: TypeAlias = tuple[str, str, str]
Matches: TypeAlias = Mapping[EntryPlace, tuple[Match, ...]]


def rejudge(report: Report, policy: Policy, ruling: Ruling, finding: Finding | None = None) -> Judgement:
    """Return the judgement of the stored findings by this policy, with this ruling of the lists, and with one more
    finding in place of any of its kind."""
    stored = [
        Finding(line.kind, line.where, line.facts, line.strength, line.about)
        for line in report.lines
        if not line.kind.startswith("list:") and (finding is None or line.kind != finding.kind)
    ]
    stored += [finding] if finding else []
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


class Standing(msgspec.Struct, frozen=True):
    """What lists say of a message: each entry with what it covers there. `custom` has the usual list that each of the
    operator's own counts as, by its scoped name."""

    matches: Matches
    custom: Mapping[str, str]


AskLists: TypeAlias = Callable[[Report], Standing]


def rule_by(report: Report, matches: Matches, custom: Mapping[str, str]) -> Ruling:
    """Return the ruling of these entries on a message."""
    found = (match for each in matches.values() for match in each)
    return rule_on((), (), authenticated=report.authentication.aligned, custom=custom, found=found)


def lists_then(report: Report, custom: Mapping[str, str]) -> Standing:
    """Return what the lists said when a message was analysed. Which phrases a text had is only known from what they
    did."""
    hits = [Hit(note.list, _scope(note.scope), note.entry, note.comment) for note in report.lists]
    shown = (subject for note in report.lists if (subject := _subject_of_note(note, custom)))
    return Standing(_cover(hits, (*report.subjects, *shown)), custom)


def lists_today(report: Report, hits: Sequence[Hit], unkeyed: UnkeyedLists) -> Standing:
    """Return what today's lists say: the entries that were found by the keys of a message, and those of the lists that
    are handed out whole. Phrases need the text, so a phrase counts if it was hit then and is still listed."""
    spoken, names = {note.entry: note.where for note in report.lists}, list_file_names(report)
    found = {place: list(matches) for place, matches in _cover(hits, report.subjects).items()}
    for name, entries in unkeyed.entries.items():
        subjects, make_finder = BY_NAME[name].subjects, KINDS[BY_NAME[name].kind].make_finder
        if "text" in subjects:
            for entry in (each for each in entries if each.key in spoken):
                match = Match(make_hit(entry), Subject("text", entry.key, spoken[entry.key]))
                found.setdefault(place_of(match.hit), []).append(match)
        elif "name" in subjects and make_finder:
            with suppress(FindingLimit):
                for index, entry in make_finder(entries).find([each for _, each in names]):
                    where, shown = names[index]
                    hit = make_hit(entry)
                    found.setdefault(place_of(hit), []).append(Match(hit, Subject("name", shown, where)))
    return Standing({place: tuple(matches) for place, matches in found.items()}, unkeyed.custom)


def _cover(hits: Iterable[Hit], asked: Iterable[Subject]) -> Matches:
    """Return each entry with the subjects that its key covers."""
    entries = {place_of(hit): hit for hit in hits}
    keys, covered = {hit.key for hit in entries.values()}, dict[str, list[Subject]]()
    for subject in dict.fromkeys(asked) if keys else ():
        for key in keys.intersection(subject.keys):
            covered.setdefault(key, []).append(subject)
    return {place: tuple(Match(hit, subject) for subject in covered.get(hit.key, ())) for place, hit in entries.items()}


def _subject_of_note(note: ListNote, custom: Mapping[str, str]) -> Subject | None:
    """Return what an entry covered that no key finds, by the key of the entry."""
    definition = BY_NAME.get(custom.get(scoped_name(note.scope, note.list), note.list))
    if definition is None or definition.keyed or not definition.subjects:
        return None
    return Subject(definition.subjects[0], note.entry, note.where)


def list_file_names(report: Report) -> list[tuple[str, str]]:
    """Return the names of all files of a message, each after the place of its file."""
    return [(file.path, name) for file in report.files for name in file.names]


def place_of(hit: Hit) -> EntryPlace:
    """Return the entry that was hit."""
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


def compare_lines(before: Report | Judgement, now: Judgement) -> tuple[LineChange, ...]:
    """Return every line of either judgement once."""
    old, new = _index_lines(before.lines), _index_lines(now.lines)
    return tuple(_compare_lines(old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new)))


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
    assert shown is not None  # a line is on one side at least
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
