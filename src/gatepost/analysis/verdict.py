"""The judge: it turns findings, lists and policy into a verdict and the lines of the ledger.

Every finding becomes one line of the ledger with the weight that policy gives it and the part of it that counted.
Findings of one group count together up to the group's cap, heaviest first, so that ten ways to say the same thing do
not weigh ten times. What counted adds up to the score, exactly: points are kept as whole hundredths.

Where an operator's policy differs from the shipped one, each line says what that changed, and the judgement says what
the shipped policy would have decided.

Lists are applied last. A block is a finding like any other, and conclusive. An allow for one link or file clears the
findings on just that one; an allow for the sender or its host lifts spam, bulk, suspicion and encryption, never an
attack.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from gatepost.analysis.report import Line, ListNote, Outcome
from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, FILE_ENCRYPTED_ARCHIVE, LIMIT_ENCRYPTED, Finding
from gatepost.lists.rulings import CLEARED_OF_ATTACKS, NO_RULING, Match, Ruling
from gatepost.policy.rules import (
    DECISIONS,
    RULE,
    VERDICTS,
    Decision,
    Policy,
    Verdict,
    rule_of,
    title_of,
    unchanged_policy,
)

ATTACKS: frozenset[Verdict] = frozenset({"malware", "phishing", "fraud", "spoofing"})
LIFTABLE: frozenset[Verdict] = frozenset({"suspicious", "spam", "bulk"})
ENCRYPTED = frozenset({FILE_ENCRYPTED_ARCHIVE.id, LIMIT_ENCRYPTED.id})

# What no other finding makes up for: a demand, a secret or money that is asked for by deceit; and whatever a file does.
_DECEITS = "advance-fee call-back credential-lure device-code extortion gift-cards mailbox-lure pasted-command"
NEVER_EXCUSED = frozenset(BY_ID[f"text:{name}"].id for name in f"{_DECEITS} payment-change payroll-change".split())
# What honest notices say as well: requests that lead somewhere, haste, and what the text model makes of their words.
_REQUESTS = "authority-lure credential-lure document-lure mailbox-lure parcel-lure refund-lure salary-lure urgency"
_LOOKS = "bare-link image-only model-fraud model-phishing model-spam"
WORDS = frozenset(
    (kinds.HEADER_MONEY_SUBJECT.id, *(BY_ID[f"text:{name}"].id for name in f"{_REQUESTS} {_LOOKS}".split()))
)
# What they may count together in mail of a proven sender that leads nowhere else, unless the text is surely a lure.
MOST_OF_WORDS = 450
FILES = "files"
# What a reader wants to know first: what a mail asks for, and in whose name.
LURES = "lures"
ADVERTISING = "advertising"
LEAST_LURE = 100
IMPERSONATIONS = frozenset(
    {
        kinds.SENDER_BRAND_IMPERSONATION.id,
        kinds.SENDER_DISGUISED_NAME.id,
        kinds.SENDER_LOOKALIKE_DOMAIN.id,
        kinds.URL_LOOKALIKE_DOMAIN.id,
    }
)


class Judgement(msgspec.Struct, frozen=True):
    """What the findings lead to. `score` is the sum of what counted; `overrides` says which verdicts have other rules
    than the shipped ones, and what the message would have got by those."""

    verdict: Verdict
    decision: Decision
    tags: tuple[str, ...]
    score: int
    lines: tuple[Line, ...]
    reason: str
    lists: tuple[ListNote, ...] = ()
    overrides: tuple[str, ...] = ()


def judge(
    findings: Iterable[Finding], outcomes: Sequence[Outcome], policy: Policy, ruling: Ruling = NO_RULING
) -> Judgement:
    """Weigh the findings, cap groups, add up, and choose verdict and decision."""
    judged = _judge_by(findings := tuple(findings), outcomes, policy, ruling)
    if not policy.changes:
        return judged
    plain = _judge_by(findings, outcomes, unchanged_policy(policy), ruling)
    return msgspec.structs.replace(judged, overrides=tuple(_describe_overrides(judged, plain, policy)))


def _judge_by(findings: Sequence[Finding], outcomes: Sequence[Outcome], policy: Policy, ruling: Ruling) -> Judgement:
    blocks = [_make_block_finding(match) for match in ruling.blocks]
    weighed = _clear_allowed(_weigh([*findings, *blocks], policy), ruling)
    named = {line.kind for line in weighed}
    is_plain = kinds.URL_LEADS_HOME.id in named and kinds.TEXT_NOTICE_LURE.id not in named
    lines = _bound_excuses(_apply_caps(weighed, policy, is_plain=is_plain))
    score = sum(line.counted for line in lines)
    verdict, reason = _reach_verdict(weighed, score, policy, is_plain=is_plain)
    failed = outcomes[0] if outcomes else None
    if failed and VERDICTS.index("unscannable") < VERDICTS.index(verdict):
        verdict, reason = "unscannable", f"{failed.stage} did not complete: {failed.reason}"
    if ruling.allows and verdict in LIFTABLE:
        reason = f"{_describe_entry(ruling.allows[0])} lifts the verdict {verdict}. {reason}"
        verdict = "clean"
    tags = {line.kind for line in lines} | {f"list:{match.hit.list}" for match in (*ruling.allows, *ruling.cleared)}
    decision: Decision = policy.verdicts[verdict].decision
    if policy.rules and verdict != "clean":
        decision, reason = _apply_rule_decisions(lines, policy, decision, reason)
    if kinds.RECIPIENT_REPORT_MAILBOX.id in tags and verdict != "malware" and decision != "deliver":
        decision, reason = "deliver", f"{kinds.RECIPIENT_REPORT_MAILBOX.title}, so it is delivered. {reason}"
    return Judgement(verdict, decision, tuple(sorted(tags)), score, lines, reason, _list_notes(ruling))


def _apply_rule_decisions(
    lines: Sequence[Line], policy: Policy, decision: Decision, reason: str
) -> tuple[Decision, str]:
    """The strictest decision that rules of the operator state, where it is stricter than that of the verdict: one more
    finding never makes the outcome milder. A verdict that an allow entry lifts takes the rules' decisions with it."""
    for line in lines:
        rule = policy.rules.get(line.kind.removeprefix(RULE)) if line.kind.startswith(RULE) else None
        if rule and rule.decision and DECISIONS.index(rule.decision) > DECISIONS.index(decision):
            decision, reason = rule.decision, f"{line.title} ({line.kind}): {rule.decision}. {reason}"
    return decision, reason


def _describe_overrides(judged: Judgement, plain: Judgement, policy: Policy) -> Iterator[str]:
    """The operator's rules for verdicts, and what all of the operator's changes together did to this message."""
    for verdict in VERDICTS:
        if said := policy.changes.get(f"verdicts.{verdict}"):
            yield f"{verdict}: {said}"
    if (judged.verdict, judged.decision, judged.score) != (plain.verdict, plain.decision, plain.score):
        yield f"by the shipped policy: {plain.verdict}, {plain.decision}, a score of {plain.score / 100:g}"


def _describe_override(kind: str, group: str, changes: Mapping[str, str]) -> str:
    said = [changes.get(f"kinds.{kind}", "")]
    if group and f"groups.{group}" in changes:
        said.append(f"group {group}: {changes[f'groups.{group}']}")
    return "; ".join(filter(None, said))


def _make_block_finding(match: Match) -> Finding:
    facts = {"entry": match.hit.key, "scope": match.hit.scope, "found": match.subject.value[:300]}
    if match.hit.comment:
        facts["comment"] = match.hit.comment[:300]
    return Finding(f"list:{match.hit.list}", match.subject.where, facts)


def _weigh(findings: Iterable[Finding], policy: Policy) -> list[Line]:
    lines = []
    changes = policy.changes
    for finding in findings:
        rule = rule_of(finding.kind, policy)
        weight = round(rule.weight * finding.strength * 100)
        lines.append(
            Line(
                kind=finding.kind,
                title=title_of(finding.kind, policy),
                where=finding.where,
                facts=finding.facts,
                weight=weight,
                counted=weight,
                verdict=rule.verdict,
                conclusive=rule.conclusive,
                group=rule.group,
                strength=finding.strength,
                about=finding.about,
                override=_describe_override(finding.kind, rule.group, changes) if changes else "",
            )
        )
    return sorted(lines, key=lambda line: (not line.conclusive, -line.weight, line.kind, line.where))


def _clear_allowed(lines: list[Line], ruling: Ruling) -> list[Line]:
    """Stop counting what an allow covers: findings on one link or file, or encryption by an allowed sender."""
    if not ruling.cleared and not ruling.allows:
        return lines
    clear = ruling.clear
    result = []
    for line in lines:
        match = clear.get(line.about) if line.about else None
        if match and match.subject.role not in CLEARED_OF_ATTACKS and line.conclusive and line.verdict in ATTACKS:
            match = None
        if not match and ruling.allows and line.kind in ENCRYPTED:
            match = ruling.allows[0]
        note = f"cleared by {_describe_entry(match)}" if match else ""
        result.append(msgspec.structs.replace(line, counted=0, conclusive=False, note=note) if match else line)
    return result


def _bound_excuses(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Count what speaks for a message only as far as there is something to make up for, and not at all where something
    was found that nothing excuses. What then counts nothing is left out: it would explain nothing."""
    if all(line.counted >= 0 for line in lines):
        return lines
    room = sum(line.counted for line in lines if line.counted > 0)
    if any(map(_is_never_excused, lines)):
        room = 0
    found = []
    for line in lines:
        counted = max(line.counted, -room) if line.counted < 0 else line.counted
        room += min(counted, 0)
        if counted == line.counted:
            found.append(line)
        elif counted:
            found.append(msgspec.structs.replace(line, counted=counted, note="not more than the other findings have"))
    return tuple(found)


def _is_never_excused(line: Line) -> bool:
    return line.kind in NEVER_EXCUSED or line.group == FILES or (line.conclusive and line.verdict in ATTACKS)


def _apply_caps(lines: Sequence[Line], policy: Policy, *, is_plain: bool) -> tuple[Line, ...]:
    """A kind counts once, however often it was found; a group counts up to its cap, and so do words where they are
    bounded."""
    named = {line.group for line in lines if line.group}
    room = {name: round(policy.groups[name].cap * 100) for name in named}
    room_of_words = MOST_OF_WORDS if is_plain else sys.maxsize
    seen: set[str] = set()
    result = []
    for line in lines:
        counted, note = line.counted, line.note
        if note:
            result.append(line)
            continue
        if line.kind in seen:
            counted, note = 0, "counted once for its kind"
        elif line.group and line.weight > room[line.group]:
            counted, note = room[line.group], f"capped with its group, {line.group}"
        if line.kind in WORDS:
            if counted > room_of_words:
                counted, note = room_of_words, "capped with all words of a proven sender that lead nowhere else"
            room_of_words -= counted
        seen.add(line.kind)
        if line.group and counted > 0:
            room[line.group] -= counted
        result.append(msgspec.structs.replace(line, counted=counted, note=note) if note else line)
    return tuple(result)


def _reach_verdict(weighed: Sequence[Line], score: int, policy: Policy, *, is_plain: bool) -> tuple[Verdict, str]:
    """The most severe verdict that is reached, with the sentence that says how.

    What points to a verdict is capped among itself: a heavier finding of the same group that names another verdict
    takes nothing away from it, so one more finding never makes the outcome milder.
    """
    by_verdict: dict[Verdict, list[Line]] = {}
    for line in weighed:
        by_verdict.setdefault(line.verdict, []).append(line)
    enough = policy.verdicts["suspicious"].threshold
    for verdict in VERDICTS:
        if verdict == "bulk" and enough is not None and score >= round(enough * 100):
            # Many small signs of different kinds: none of them names it, together they are too much.
            return "suspicious", _describe_score("suspicious", score, enough, weighed, policy)
        speaking = by_verdict.get(verdict, ())
        for line in speaking:
            if line.conclusive:
                return verdict, f"{line.title} ({line.where})"
        rule = policy.verdicts[verdict]
        if rule.threshold is None or score < round(rule.threshold * 100):
            continue
        if sum(line.counted for line in _apply_caps(speaking, policy, is_plain=is_plain)) >= round(rule.own * 100):
            return verdict, _describe_score(verdict, score, rule.threshold, speaking or weighed, policy)
    return "clean", f"The findings add up to {score / 100:g}, too little for a verdict" if weighed else "No findings"


def _describe_score(verdict: Verdict, score: int, threshold: float, lines: Sequence[Line], policy: Policy) -> str:
    """The reason of a verdict that a score gives: what the mail asks for and in whose name, or what it advertises, else
    the strongest finding; then the sum."""
    total = f"the score is {score / 100:g}, and {verdict} begins at {threshold:g}"
    lures = [line for line in lines if line.counted >= LEAST_LURE and rule_of(line.kind, policy).group == LURES]
    posing = [line for line in lines if line.counted >= LEAST_LURE and line.kind in IMPERSONATIONS]
    offers = [line for line in lines if line.counted >= LEAST_LURE and rule_of(line.kind, policy).group == ADVERTISING]
    leading = max(lures or posing or offers or lines, key=lambda line: line.counted, default=None)
    if leading is None:
        return f"T{total[1:]}"
    poses = max(posing, key=lambda line: line.counted, default=leading)
    name = poses.facts.get("company") or poses.facts.get("imitates") or ""
    posed = f", in the name of {name}" if name else ""
    return f"{leading.title} ({leading.where}){posed}; {total}"


def _describe_entry(match: Match) -> str:
    return f"{match.hit.list}: {match.hit.key} ({match.hit.scope})"


def _list_notes(ruling: Ruling) -> tuple[ListNote, ...]:
    return (
        *(_list_note(match, "blocked") for match in ruling.blocks),
        *(_list_note(match, "allowed") for match in ruling.allows),
        *(_list_note(match, "cleared") for match in ruling.cleared),
        *(_list_note(match, "refused", reason) for match, reason in ruling.refused),
    )


def _list_note(match: Match, effect: Literal["blocked", "allowed", "cleared", "refused"], reason: str = "") -> ListNote:
    hit = match.hit
    return ListNote(hit.list, hit.scope, hit.key, effect, match.subject.where, hit.comment, reason)
