"""Rules that were written in the web interface, for the deployment or for a tenant.

All rules of a scope are one row with a version, which counts changes: nodes ask every second or two which versions
there are, and read again what has changed. A change names the version that its author has seen, so that two people
cannot overwrite each other's rules.

Each change is in the audit trail with the rule before and after it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.policy.rules import OwnRule
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.errors import NotFound
from gatepost.store.sql import sql
from gatepost.store.tenants import tenant_exists

# Rules that a scope can have here; each is evaluated for every message of the scope.
MAX_OF_DEPLOYMENT = 100
MAX_OF_TENANT = 50
# Characters of all conditions and titles of a scope: they travel to every worker.
MAX_CHARACTERS = 50_000

_VERSIONS = sql("SELECT scope, version FROM rule_sets")
_SELECT = sql("SELECT version, rules FROM rule_sets WHERE scope = $1")
_LOCK = sql("SELECT version, rules FROM rule_sets WHERE scope = $1 @lock(UPDATE)")
_CREATE = sql("INSERT INTO rule_sets (scope, version, rules) VALUES ($1, 0, '[]') ON CONFLICT (scope) DO NOTHING")
_UPDATE = sql("UPDATE rule_sets SET version = $2, rules = $3 WHERE scope = $1")

RuleRefusal: TypeAlias = Literal["changed", "full", "long", "unknown"]


class StoredRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule with its name and who changed it last. One that is not `enabled` is kept and does nothing."""

    name: str
    rule: OwnRule
    enabled: bool = True
    modified: int = 0
    modified_by: str = ""


class RuleSet(msgspec.Struct, frozen=True):
    """The rules of a scope, in the order in which they were made; `version` 0 where there never was one."""

    version: int = 0
    rules: tuple[StoredRule, ...] = ()

    def find(self, name: str) -> StoredRule | None:
        """Return the rule of that name."""
        return next((each for each in self.rules if each.name == name), None)


_rules = msgspec.json.Decoder(tuple[StoredRule, ...])


class OwnRules(Operations):
    """Rules of the web interface."""

    @query
    def versions(self) -> Work[dict[str, int]]:
        """The version of the rules of each scope; the deployment's is ""."""
        return {row[0]: int(row[1]) for row in (yield Read(_VERSIONS))}

    @query
    def find(self, tenant: str | None) -> Work[RuleSet]:
        """The rules of a scope."""
        rows = yield Read(_SELECT, (normalize_scope(tenant) or "",))
        return RuleSet(int(rows[0][0]), _rules.decode(rows[0][1])) if rows else RuleSet()

    @change
    def put(
        self, tenant: str | None, name: str, rule: OwnRule, seen: int, by: Actor, *, enabled: bool = True
    ) -> Work[RuleSet | RuleRefusal | NotFound]:
        """Add a rule, or replace the one of that name; `seen` is the version of the rules that the author has seen."""
        stored = StoredRule(storable(name), _storable(rule), enabled, now(), storable(by.label))
        return (yield from _change(tenant, stored.name, stored, seen, by))

    @change
    def delete(self, tenant: str | None, name: str, seen: int, by: Actor) -> Work[RuleSet | RuleRefusal | NotFound]:
        """Delete a rule."""
        return (yield from _change(tenant, storable(name), None, seen, by))


def _change(
    tenant: str | None, name: str, wanted: StoredRule | None, seen: int, by: Actor
) -> Work[RuleSet | RuleRefusal | NotFound]:
    scope = normalize_scope(tenant) or ""
    if scope and not (yield from tenant_exists(scope)):
        return NotFound("tenant")
    yield Write(_CREATE, (scope,))
    version, text = (yield Read(_LOCK, (scope,)))[0]
    before = RuleSet(int(version), _rules.decode(text))
    old = before.find(name)
    if before.version != seen:
        return "changed"
    if wanted is None and old is None:
        return "unknown"
    after = _replace(before.rules, name, wanted)
    if len(after) > (MAX_OF_TENANT if scope else MAX_OF_DEPLOYMENT):
        return "full"
    if wanted and sum(len(each.rule.when) + len(each.rule.title) for each in after) > MAX_CHARACTERS:
        return "long"
    changed = RuleSet(before.version + 1, after)
    yield Write(_UPDATE, (scope, changed.version, msgspec.json.encode(after).decode()))
    action = "rule.delete" if wanted is None else "rule.change" if old else "rule.create"
    said = (name, f"before: {_describe(old)}", f"now: {_describe(wanted)}", f"version {changed.version}")
    yield from write_audit(now(), by, action, scope or None, "", 1, said)
    return changed


def _replace(rules: Sequence[StoredRule], name: str, wanted: StoredRule | None) -> tuple[StoredRule, ...]:
    if wanted is None:
        return tuple(each for each in rules if each.name != name)
    if any(each.name == name for each in rules):
        return tuple(wanted if each.name == name else each for each in rules)
    return (*rules, wanted)


def _describe(stored: StoredRule | None) -> str:
    """A rule as the audit trail names it: all of its values."""
    if stored is None:
        return "nothing"
    rule = stored.rule
    parts = [f"{rule.title}; when {rule.when}; {rule.verdict}; weight {rule.weight:g}"]
    parts += [f"group {rule.group}"] if rule.group else []
    parts += ["conclusive"] if rule.conclusive else []
    parts += [rule.decision] if rule.decision else []
    parts += [] if stored.enabled else ["switched off"]
    return "; ".join(parts)


def _storable(rule: OwnRule) -> OwnRule:
    texts = {name: storable(getattr(rule, name)) for name in ("when", "title", "group")}
    return msgspec.structs.replace(rule, **texts)
