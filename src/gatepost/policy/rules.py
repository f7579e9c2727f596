"""What an operator's policy file states, and everything that is wrong with it at once, each fault with its line.

The file is TOML. `tomllib` reads it and forgets where things stood, so the lines of headers and keys are found once
more in the text. That second look is only for pointing: what it misses is pointed at with the line above it.

Policies over policies: what is shipped, what the deployment's file changes, what a tenant's file changes of that.

Each layer states only what differs. Of every value it is known which layer set it, in which file and line, and what it
was below: that is what `gatepost policy explain` shows, and in short what a ledger says.

The vocabulary of policy: what a verdict, a group and a kind of finding are told to do.

Policy as data: what each finding weighs, which findings share a cap, and what a verdict leads to.

The shipped policy is `gatepost/policy.toml`. An operator's file states only what differs; it is laid
over the shipped one, value by value (`layering`), and every fault of it is told at once (`stating`).
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Key = tuple[str, ...]


class PolicyMistake(msgspec.Struct, frozen=True, order=True):
    """Something wrong, before anybody knows in which file."""

    line: int
    key: Key
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {'.'.join(self.key) or 'the file'} {self.sentence}"


class PolicyError(ValueError):
    """A policy file that cannot be used; the text says where and why, every fault of it."""

    def __init__(self, file: str, mistakes: Iterable[PolicyMistake]) -> None:
        self.file = file
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(_describe_mistake(file, mistake) for mistake in self.mistakes))


def _describe_mistake(file: str, mistake: PolicyMistake) -> str:
    key = ".".join(mistake.key) or "the file"
    return f"{file}:{mistake.line}: {key} {mistake.sentence}"


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


@cache
def shipped_policy() -> Policy:
    """The policy that comes with the package."""
    return parse_shipped((files("gatepost") / "policy.toml").read_text("utf-8"))


def parse_shipped(text: str) -> Policy:
    """A whole policy from TOML."""
    try:
        policy = msgspec.convert(tomllib.loads(text), Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise PolicyError("policy.toml", [PolicyMistake(1, (), str(fault))]) from None
    return _checked(policy)


def _checked(policy: Policy) -> Policy:
    wrong = [PolicyMistake(1, ("verdicts", each), "is required") for each in VERDICTS if each not in policy.verdicts]
    for kind, rule in policy.kinds.items():
        if rule.group and rule.group not in policy.groups:
            wrong.append(PolicyMistake(1, ("kinds", kind), f"names {rule.group!r}, but there is no such group"))
    if wrong:
        raise PolicyError("policy.toml", wrong)
    return policy
