"""Policy as data: what each finding weighs, which findings share a cap, and what a verdict leads to.

The shipped policy is `gatepost/policy.toml`. An operator's file states only what differs; it is laid
over the shipped one, value by value (`layering`), and every fault of it is told at once (`stating`).
"""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from gatepost.policy.layering import Effective, Layer, Policies, PolicyError, laid
from gatepost.policy.rules import (
    VERDICTS,
    Chosen,
    Decision,
    GroupRule,
    KindRule,
    Policy,
    Verdict,
    VerdictRule,
    rule_of,
)
from gatepost.policy.stating import Mistake

__all__ = [
    "VERDICTS",
    "Chosen",
    "Decision",
    "Effective",
    "GroupRule",
    "KindRule",
    "Layer",
    "Policies",
    "Policy",
    "PolicyError",
    "Verdict",
    "VerdictRule",
    "laid",
    "overridden",
    "parse",
    "rule_of",
    "shipped",
    "unchanged",
]


@cache
def shipped() -> Policy:
    """The policy that comes with the package."""
    return parse((files("gatepost") / "policy.toml").read_text("utf-8"))


def unchanged() -> Policies:
    """The policies of a deployment that changes nothing."""
    return Policies(Effective(shipped()))


def parse(text: str) -> Policy:
    """A whole policy from TOML."""
    try:
        policy = msgspec.convert(tomllib.loads(text), Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise PolicyError("policy.toml", [Mistake(1, (), str(fault))]) from None
    return _checked(policy)


def overridden(base: Policy, text: str, file: str = "policy") -> Policy:
    """An operator's file over another policy."""
    return laid(Effective(base), Layer("deployment", file, text)).policy


def _checked(policy: Policy) -> Policy:
    wrong = [Mistake(1, ("verdicts", each), "is required") for each in VERDICTS if each not in policy.verdicts]
    for kind, rule in policy.kinds.items():
        if rule.group and rule.group not in policy.groups:
            wrong.append(Mistake(1, ("kinds", kind), f"names {rule.group!r}, but there is no such group"))
    if wrong:
        raise PolicyError("policy.toml", wrong)
    return policy
