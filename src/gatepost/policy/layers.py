"""Policies over policies: the shipped one, the changes of the deployment's file, and those of a tenant's file.

For every value it is known which layer set it, in which file and line, and what the value was below.
`gatepost policy explain` shows that, and a ledger in short.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from gatepost.policy.file import MAX_RULES, PolicyStatement, StatedPolicy, read_policy_file
from gatepost.policy.rules import (
    RULE,
    AddedKinds,
    GroupRule,
    OwnRule,
    Policy,
    PolicyError,
    VerdictRule,
    extend_policy,
    rule_of,
    shipped_policy,
)

Level = Literal["shipped", "plugin", "deployment", "tenant"]
PolicyKey: TypeAlias = tuple[str, str, str]


class Layer(msgspec.Struct, frozen=True):
    """One policy file of the operator: its level, name and text."""

    level: Literal["deployment", "tenant"]
    file: str
    text: str


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value and the layer that set it; `file` and `line` are those of a policy file of the operator."""

    value: Any
    level: Level
    file: str = ""
    line: int = 0


class Effective(msgspec.Struct, frozen=True):
    """A policy in force, and the origin of its values.

    `stated` has the history of every value that a layer sets: the lowest layer first, the value in force last. Values
    that are not in it are those of the shipped policy, or of the plug-in that brought the kind or group.
    """

    policy: Policy
    stated: Mapping[PolicyKey, tuple[Origin, ...]] = {}

    def origins(self, section: str, name: str, field: str) -> tuple[Origin, ...]:
        """Return the history of one value, with the value in force last."""
        known = self.stated.get((section, name, field))
        added = any(name in getattr(each, section, ()) for each in self.policy.added)
        return known or (Origin(_read_value(self.policy, section, name, field), "plugin" if added else "shipped"),)

    def explain(self, kind: str) -> list[tuple[str, tuple[Origin, ...]]]:
        """Return the key of every value that decides what a kind of finding does, with its history."""
        rule, is_own = rule_of(kind, self.policy), kind.startswith(RULE)
        section, name = ("rules", kind.removeprefix(RULE)) if is_own else ("kinds", kind)
        fields = ("weight", "verdict", "group", "conclusive", *(("decision",) if is_own else ()))
        places = [(section, name, field) for field in fields]
        places += [("groups", rule.group, "cap")] if rule.group else []
        action = [name for name in ("action", "mark", "to") if getattr(self.policy.verdicts[rule.verdict], name)]
        places += [("verdicts", rule.verdict, field) for field in ("decision", "threshold", "own", *action)]
        return [(".".join(place), self.origins(*place)) for place in places]


# The scope of outbound mail among those of tenants; no uid of a tenant is spelt like that.
OUTBOUND = "outbound"


class Policies(msgspec.Struct, frozen=True):
    """The policy of a deployment, those of tenants that have their own, and that of outbound mail if it has one."""

    deployment: Effective
    tenants: Mapping[str, Effective] = {}

    def of(self, tenant: str | None, *, outbound: bool = False) -> Effective:
        """Return the policy for messages of a tenant, or for outbound ones."""
        return self.tenants.get(OUTBOUND if outbound else tenant or "", self.deployment)


def lay_over(base: Effective, layer: Layer) -> Effective:
    """Apply one more layer to a policy; raises `PolicyError` with every fault of the file."""
    said: StatedPolicy = read_policy_file(layer.text, base.policy)
    if said.mistakes:
        raise PolicyError(layer.file, said.mistakes)
    known = dict(base.stated)
    for each in said.statements:
        place = (each.section, each.name, each.field)
        known[place] = (*base.origins(*place), Origin(each.value, layer.level, layer.file, each.line))
    policy = _apply(base.policy, said.statements)
    return Effective(msgspec.structs.replace(policy, changes=_describe_changes(known)), known)


# The origin of rules that were written in the web interface.
WEB = "web interface"


def add_rules(
    base: Effective, level: Literal["deployment", "tenant"], rules: Mapping[str, OwnRule]
) -> tuple[Effective, Mapping[str, str]]:
    """Add rules that do not stand in a file. Returns the policy, and the reason for each rule that is left out: a file
    wins over a rule of the same name, and rules can be more than there may be."""
    known, added, left_out = dict(base.stated), dict(base.policy.rules), dict[str, str]()
    for name, rule in rules.items():
        if name in added:
            level_of = base.origins("rules", name, "when")[-1].level
            left_out[name] = f"a rule of the {level_of} has the same name and takes its place"
        elif rule.group and rule.group not in base.policy.groups:
            left_out[name] = f"there is no group {rule.group}"
        elif len(added) >= MAX_RULES:
            left_out[name] = f"a policy has at most {MAX_RULES} rules"
        else:
            added[name] = rule
            for field in rule.__struct_fields__:
                known["rules", name, field] = (Origin(None, level, WEB), Origin(getattr(rule, field), level, WEB))
    policy = msgspec.structs.replace(base.policy, rules=added, changes=_describe_changes(known))
    return Effective(policy, known), left_out


def _apply(policy: Policy, statements: Iterable[PolicyStatement]) -> Policy:
    verdicts, groups, kinds, rules = (
        dict(policy.verdicts),
        dict(policy.groups),
        dict(policy.kinds),
        dict(policy.rules),
    )
    sections: dict[str, dict[Any, Any]] = {"verdicts": verdicts, "groups": groups, "kinds": kinds, "rules": rules}
    for (section, name), fields in _group_by_entry(statements).items():
        entries = sections[section]
        if section == "kinds":
            entries[name] = msgspec.structs.replace(rule_of(name, policy), **fields)
        elif name in entries:
            entries[name] = msgspec.structs.replace(entries[name], **fields)
        else:
            entries[name] = OwnRule(**fields) if section == "rules" else GroupRule(**fields)
    return Policy(verdicts, groups, kinds, rules, added=policy.added)


def _group_by_entry(statements: Iterable[PolicyStatement]) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in statements:
        found.setdefault((each.section, each.name), {})[each.field] = each.value
    return found


def _describe_changes(known: Mapping[PolicyKey, tuple[Origin, ...]]) -> dict[str, str]:
    """Return the differences from the shipped policy as the ledger shows them: by section and name, without files."""
    found: dict[str, list[str]] = {}
    for (section, name, field), origins in known.items():
        first, last = origins[0], origins[-1]
        if section == "rules":
            found[f"kinds.{RULE}{name}"] = [f"rule of the {last.level}"]
        elif last.value != first.value:
            said = f"{field} {render_value(last.value)} instead of {render_value(first.value)} ({last.level})"
            found.setdefault(f"{section}.{name}", []).append(said)
    return {place: ", ".join(said) for place, said in found.items()}


def render_value(value: Any) -> str:
    """Return a value as text for people."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read_value(policy: Policy, section: str, name: str, field: str) -> Any:
    if section == "kinds":
        return getattr(rule_of(name, policy), field)
    rules: Mapping[str, VerdictRule | GroupRule | OwnRule] = getattr(policy, section)
    return getattr(rules[name], field) if name in rules else None


def unchanged_policies(added: Iterable[AddedKinds] = ()) -> Policies:
    """Return the policies of a deployment without policy files; `added` is what its plug-ins bring."""
    return Policies(Effective(extend_policy(shipped_policy(), added)))


def override(base: Policy, text: str, file: str = "policy") -> Policy:
    """Return a policy with the text of a policy file applied to it."""
    return lay_over(Effective(base), Layer("deployment", file, text)).policy
