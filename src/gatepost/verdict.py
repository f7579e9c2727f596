"""The judge: findings and policy in, verdict and ledger out.

Every finding becomes one line of the ledger with the weight that policy gives it and the part of it that counted.
Findings of one group count together up to the group's cap, heaviest first, so that ten ways to say the same thing do
not weigh ten times. What counted adds up to the score, exactly: points are kept as whole hundredths.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gatepost.findings import Finding, Outcome
from gatepost.policy import VERDICTS, Decision, KindRule, Policy, Verdict


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding as it was judged. Points are hundredths; `counted` is what remained of `weight` under the caps."""

    kind: str
    title: str
    where: str
    facts: dict[str, str]
    weight: int
    counted: int
    verdict: Verdict
    conclusive: bool = False
    group: str = ""
    note: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """What the findings lead to. `score` is the sum of what counted."""

    verdict: Verdict
    decision: Decision
    tags: tuple[str, ...]
    score: int
    lines: tuple[Line, ...]
    reason: str


def judge(
    findings: Iterable[Finding],
    outcomes: Sequence[Outcome],
    policy: Policy,
    titles: Mapping[str, str],
) -> Judgement:
    """Weigh, cap, add up, decide."""
    lines = _capped(_weighed(findings, policy, titles), policy)
    score = sum(line.counted for line in lines)
    verdict, reason = _verdict(lines, score, policy)
    failed = next((outcome for outcome in outcomes if outcome.state != "ran"), None)
    if failed and VERDICTS.index("unscannable") < VERDICTS.index(verdict):
        verdict, reason = "unscannable", f"{failed.stage} did not complete: {failed.reason}"
    tags = tuple(sorted({line.kind for line in lines}))
    return Judgement(verdict, policy.verdicts[verdict].decision, tags, score, lines, reason)


def _weighed(findings: Iterable[Finding], policy: Policy, titles: Mapping[str, str]) -> list[Line]:
    lines = []
    for finding in findings:
        rule = policy.kinds.get(finding.kind) or KindRule(weight=0.0, verdict="clean")
        weight = round(rule.weight * finding.strength * 100)
        title = titles.get(finding.kind, finding.kind)
        lines.append(
            Line(
                kind=finding.kind,
                title=title,
                where=finding.where,
                facts=finding.facts,
                weight=weight,
                counted=weight,
                verdict=rule.verdict,
                conclusive=rule.conclusive,
                group=rule.group,
            )
        )
    return sorted(lines, key=lambda line: (not line.conclusive, -line.weight, line.kind, line.where))


def _capped(lines: Sequence[Line], policy: Policy) -> tuple[Line, ...]:
    """A kind counts once, however often it was found; a group counts up to its cap."""
    room = {name: round(group.cap * 100) for name, group in policy.groups.items()}
    seen: set[str] = set()
    result = []
    for line in lines:
        counted, note = line.weight, ""
        if line.kind in seen:
            counted, note = 0, "counted once for its kind"
        elif line.group and line.weight > room[line.group]:
            counted, note = room[line.group], f"capped with its group, {line.group}"
        seen.add(line.kind)
        if line.group and counted > 0:
            room[line.group] -= counted
        result.append(msgspec.structs.replace(line, counted=counted, note=note))
    return tuple(result)


def _verdict(lines: Sequence[Line], score: int, policy: Policy) -> tuple[Verdict, str]:
    """The most severe verdict that is reached, with the sentence that says how."""
    for verdict in VERDICTS:
        speaking = [line for line in lines if line.verdict == verdict]
        proof = next((line for line in speaking if line.conclusive), None)
        if proof:
            return verdict, f"{proof.title} ({proof.where})"
        rule = policy.verdicts[verdict]
        own = sum(line.counted for line in speaking)
        if rule.threshold is not None and score >= round(rule.threshold * 100) and own >= round(rule.own * 100):
            return verdict, _sentence(verdict, score, rule.threshold, speaking or lines)
    return "clean", "Nothing was found that weighs enough"


def _sentence(verdict: Verdict, score: int, threshold: float, lines: Sequence[Line]) -> str:
    strongest = max(lines, key=lambda line: line.counted, default=None)
    cause = f"; strongest: {strongest.title} ({strongest.where})" if strongest else ""
    return f"A score of {score / 100:g} reaches {threshold:g}, the threshold for {verdict}{cause}"
