"""Policy as data: what each finding weighs, which findings share a cap, and what a verdict leads to.

The shipped policy is `policy.toml` beside this module. An operator's file states only what differs; it is laid over
the shipped one, key by key, and the whole is checked again.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

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
Decision = Literal["undecided", "deliver", "quarantine", "bounce", "drop"]

VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]  # most severe first


class PolicyError(ValueError):
    """A policy file that cannot be used; the text says where and why."""


class VerdictRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a verdict is reached and what it leads to.

    Reached at a total score of `threshold`, if findings that speak for it make up at least `own` of that.
    Without a threshold only a conclusive finding leads there.
    """

    decision: Literal["deliver", "quarantine", "bounce", "drop"]
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
    """A whole policy."""

    verdicts: dict[Verdict, VerdictRule]
    groups: dict[str, GroupRule]
    kinds: dict[str, KindRule]


@cache
def shipped() -> Policy:
    """The policy that comes with the package."""
    return parse((files("gatepost") / "policy.toml").read_text("utf-8"))


def parse(text: str, base: Mapping[str, Any] | None = None) -> Policy:
    """A policy from TOML, laid over `base` where one is given."""
    try:
        stated = tomllib.loads(text)
        policy = msgspec.convert(_laid_over(base or {}, stated), Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise PolicyError(str(fault)) from None
    return _checked(policy)


def overridden(base: Policy, text: str) -> Policy:
    """An operator's file over another policy."""
    return parse(text, msgspec.to_builtins(base))


def _laid_over(base: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in stated.items():
        below = result.get(key)
        result[key] = _laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _checked(policy: Policy) -> Policy:
    missing = [verdict for verdict in VERDICTS if verdict not in policy.verdicts]
    if missing:
        raise PolicyError(f"no rule for the verdict {missing[0]!r}")
    for kind, rule in policy.kinds.items():
        if rule.group and rule.group not in policy.groups:
            raise PolicyError(f"kinds.{kind}: there is no group {rule.group!r}")
    return policy
