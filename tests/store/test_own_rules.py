"""Rules of the web interface in storage: versions, bounds, and the audit trail."""

import pytest
from tests.store.accounts import new_tenant

from gatepost.ids import new_id
from gatepost.policy.rules import OwnRule
from gatepost.store import own_rules
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import NotFound
from gatepost.store.own_rules import RuleSet
from gatepost.store.store import Store

ANN = Actor("user", "ann")
RULE = OwnRule("known", "A known sender", "bulk", 1.5)
OTHER = OwnRule("!known", "A stranger", "spam", 2.0, conclusive=True)


async def put(store: Store, tenant: str | None, name: str, rule: OwnRule, seen: int, **more: bool) -> RuleSet:
    saved = await store.own_rules.put(tenant, name, rule, seen, ANN, **more)
    assert isinstance(saved, RuleSet), saved
    return saved


async def test_rules_are_kept_by_scope_with_versions_and_audit(store: Store) -> None:
    made = await new_tenant(store, "acme")
    assert await store.own_rules.find(None) == RuleSet()
    first = await put(store, None, "known", RULE, 0)
    second = await put(store, None, "known", OTHER, first.version, enabled=False)
    await put(store, made.uid, "mine", RULE, 0)
    assert await store.own_rules.versions() == {"": 2, made.uid: 1}
    (stored,) = (await store.own_rules.find(None)).rules
    assert (stored.name, stored.rule, stored.enabled, stored.modified_by) == ("known", OTHER, False, "user:ann")
    # Somebody who has seen the first version overwrites nothing.
    assert await store.own_rules.put(None, "late", RULE, first.version, ANN) == "changed"
    assert await store.own_rules.delete(None, "known", first.version, ANN) == "changed"
    assert await store.own_rules.delete(None, "absent", second.version, ANN) == "unknown"
    assert await store.own_rules.put(new_id(), "x", RULE, 0, ANN) == NotFound("tenant")
    last = await store.own_rules.delete(None, "known", second.version, ANN)
    assert last == RuleSet(3, ())
    trail = (await store.audit.page(AuditFilter(scope="", action="rule."))).rows
    assert [record.action for record in trail] == ["rule.delete", "rule.change", "rule.create"]
    assert trail[1].sample == (
        "known",
        "before: A known sender; when known; bulk; weight 1.5",
        "now: A stranger; when !known; spam; weight 2; conclusive; switched off",
        "version 2",
    )
    # Rules go with their tenant.
    await store.tenants.delete(made.uid)
    assert await store.own_rules.versions() == {"": 3}


async def test_the_rules_of_a_scope_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rules, "MAX_OF_DEPLOYMENT", 2)
    monkeypatch.setattr(own_rules, "MAX_OF_TENANT", 1)
    monkeypatch.setattr(own_rules, "MAX_CHARACTERS", 60)

    made = await new_tenant(store, "acme")
    for number in range(2):
        await put(store, None, f"r{number}", RULE, number)
    assert await store.own_rules.put(None, "r2", RULE, 2, ANN) == "full"
    await put(store, None, "r1", OTHER, 2)
    assert await store.own_rules.put(None, "r1", OwnRule("known" * 20, "x", "spam"), 3, ANN) == "long"
    await put(store, made.uid, "mine", RULE, 0)
    assert await store.own_rules.put(made.uid, "more", RULE, 1, ANN) == "full"
    assert (await store.own_rules.find(None)).version == 3
