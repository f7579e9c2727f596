"""Policies over policies: what is shipped, what the deployment's file changes, what a tenant's file changes of that.

Each layer states only what differs. Of every value it is known which layer set it, in which file and line, and what it
was below: that is what `gatepost policy explain` shows, and in short what a ledger says.

Policy as data: what each finding weighs, which findings share a cap, and what a verdict leads to.

The shipped policy is `gatepost/policy.toml`. An operator's file states only what differs; it is laid
over the shipped one, value by value (`layering`), and every fault of it is told at once (`stating`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from gatepost.policy.file import PolicyStatement, StatedPolicy, read_policy_file
from gatepost.policy.rules import GroupRule, Policy, PolicyError, VerdictRule, rule_of, shipped_policy

Level = Literal["shipped", "deployment", "tenant"]
PolicyKey: TypeAlias = tuple[str, str, str]


class Layer(msgspec.Struct, frozen=True):
    """One operator's file: at which level, its name, what it says."""

    level: Literal["deployment", "tenant"]
    file: str
    text: str


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value, and who gave it. `file` and `line` are those of an operator's file."""

    value: Any
    level: Level
    file: str = ""
    line: int = 0


class Effective(msgspec.Struct, frozen=True):
    """A policy that holds, and where its values come from.

    `stated` has, for every value that a layer names, all that it was, the lowest layer first and the one that holds
    last. Whatever is not in there is shipped.
    """

    policy: Policy
    stated: Mapping[PolicyKey, tuple[Origin, ...]] = {}

    def origins(self, section: str, name: str, field: str) -> tuple[Origin, ...]:
        """All that one value was, the one that holds last."""
        known = self.stated.get((section, name, field))
        return known or (Origin(_value(self.policy, section, name, field), "shipped"),)


class Policies(msgspec.Struct, frozen=True):
    """The policy of a deployment, and those of the tenants that have one of their own."""

    deployment: Effective
    tenants: Mapping[str, Effective] = {}

    def of(self, tenant: str | None) -> Effective:
        """The policy that holds for a message of this tenant."""
        return self.tenants.get(tenant or "", self.deployment)


def lay_over(base: Effective, layer: Layer) -> Effective:
    """One more layer over a policy; `PolicyError` with every fault where the file has any."""
    said: StatedPolicy = read_policy_file(layer.text, base.policy)
    if said.mistakes:
        raise PolicyError(layer.file, said.mistakes)
    known = dict(base.stated)
    for each in said.statements:
        place = (each.section, each.name, each.field)
        known[place] = (*base.origins(*place), Origin(each.value, layer.level, layer.file, each.line))
    policy = _applied(base.policy, said.statements)
    return Effective(msgspec.structs.replace(policy, changes=_changes(known)), known)


def _applied(policy: Policy, statements: Iterable[PolicyStatement]) -> Policy:
    verdicts, groups, kinds = dict(policy.verdicts), dict(policy.groups), dict(policy.kinds)
    sections: dict[str, dict[Any, Any]] = {"verdicts": verdicts, "groups": groups, "kinds": kinds}
    for (section, name), fields in _by_entry(statements).items():
        entries = sections[section]
        if section == "kinds":
            entries[name] = msgspec.structs.replace(rule_of(name, policy), **fields)
        elif name in entries:
            entries[name] = msgspec.structs.replace(entries[name], **fields)
        else:
            entries[name] = GroupRule(**fields)
    return Policy(verdicts, groups, kinds)


def _by_entry(statements: Iterable[PolicyStatement]) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in statements:
        found.setdefault((each.section, each.name), {})[each.field] = each.value
    return found


def _changes(known: Mapping[PolicyKey, tuple[Origin, ...]]) -> dict[str, str]:
    """What differs from what is shipped, as the ledger says it: by section and name, without files and lines."""
    found: dict[str, list[str]] = {}
    for (section, name, field), origins in known.items():
        first, last = origins[0], origins[-1]
        if last.value != first.value:
            said = f"{field} {render_value(last.value)} instead of {render_value(first.value)} ({last.level})"
            found.setdefault(f"{section}.{name}", []).append(said)
    return {place: ", ".join(said) for place, said in found.items()}


def render_value(value: Any) -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(policy: Policy, section: str, name: str, field: str) -> Any:
    if section == "kinds":
        return getattr(rule_of(name, policy), field)
    rules: Mapping[str, VerdictRule | GroupRule] = getattr(policy, section)
    return getattr(rules[name], field) if name in rules else None


def unchanged_policies() -> Policies:
    """The policies of a deployment that changes nothing."""
    return Policies(Effective(shipped_policy()))


def override(base: Policy, text: str, file: str = "policy") -> Policy:
    """An operator's file over another policy."""
    return lay_over(Effective(base), Layer("deployment", file, text)).policy
