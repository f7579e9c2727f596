"""The vocabulary of policy: what a verdict, a group and a kind of finding are told to do."""

from typing import Literal

import msgspec

Verdict = Literal[
    "malware",
    "phishing",
    "fraud",
    "spoofing",
    "unscannable",
    "policy",
    "suspicious",
    "spam",
    "bulk",
    "clean",
]
Chosen = Literal["deliver", "quarantine", "bounce", "drop"]
Decision = Literal["undecided", "deliver", "quarantine", "bounce", "drop"]

VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]  # most severe first


class VerdictRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a verdict is reached and what it leads to.

    Reached at a total score of `threshold`, if findings that speak for it make up at least `own` of that.
    Without a threshold only a conclusive finding leads there.
    """

    decision: Chosen
    threshold: float | None = None
    own: float = 0.0


class GroupRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings that tend to come together count together, at most `cap`."""

    cap: float
    description: str


class KindRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one kind of finding weighs, and which verdict it speaks for. `conclusive` ones need no threshold."""

    weight: float
    verdict: Verdict
    group: str = ""
    conclusive: bool = False


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole policy. `changes` says of what an operator's files changed, by section and name, what and where; it is
    written down in the ledger of every message that it touches."""

    verdicts: dict[Verdict, VerdictRule]
    groups: dict[str, GroupRule]
    kinds: dict[str, KindRule]
    changes: dict[str, str] = {}


def rule_of(kind: str, policy: Policy) -> KindRule:
    """What a policy says of a kind. A list of the operator's own that no policy names says no; others weigh nothing."""
    found = policy.kinds.get(kind)
    if found is not None:
        return found
    listed = kind.startswith("list:")
    return KindRule(weight=0.0, verdict="policy" if listed else "clean", conclusive=listed)
