"""Rules of the web interface over the policies of the files."""

from tests.store.accounts import new_tenant

from gatepost.policy.layers import Effective, Layer, Policies, lay_over
from gatepost.policy.rules import OwnRule, Policy, shipped_policy
from gatepost.rejudge.policies_in_force import PoliciesInForce, with_rule, with_stored_rules
from gatepost.store.audit import CLI
from gatepost.store.own_rules import RuleSet
from gatepost.store.store import Store

RULE = OwnRule("known", "A known sender", "bulk", 1.5)
STRANGER = OwnRule("!known", "A stranger", "spam", 2.0)
FILE = '[rules.filed]\nwhen = "known"\ntitle = "In the file"\nverdict = "spam"\n'


async def put(store: Store, tenant: str | None, name: str, rule: OwnRule) -> None:
    seen = (await store.own_rules.find(tenant)).version
    assert isinstance(await store.own_rules.put(tenant, name, rule, seen, CLI), RuleSet)


def files_with(tenant: str) -> Policies:
    deployment = lay_over(Effective(shipped_policy()), Layer("deployment", "all.toml", FILE))
    own = lay_over(deployment, Layer("tenant", "own.toml", FILE.replace("filed", "own-filed")))
    return Policies(deployment, {tenant: own})


async def test_rules_are_laid_over_files(store: Store) -> None:
    told: list[tuple[str | None, tuple[str, ...]]] = []

    def observe(tenant: str | None, policy: Policy) -> None:
        told.append((tenant, tuple(policy.rules)))

    first, second = await new_tenant(store, "first"), await new_tenant(store, "second")
    in_force = PoliciesInForce(files_with(first.uid), store.own_rules)
    in_force.observe(observe)
    await in_force.refresh()
    assert told == []
    await put(store, None, "general", RULE)
    await put(store, None, "filed", STRANGER)
    await in_force.refresh()
    assert told == [(None, ("filed", "general")), (first.uid, ("filed", "own-filed", "general"))]
    assert in_force.now.of(first.uid).policy.rules["filed"].title == "In the file"
    assert "takes its place" in in_force.left_out[""]["filed"]
    # A rule of one tenant is told for that tenant alone, and comes after those of the deployment.
    told.clear()
    await put(store, second.uid, "mine", STRANGER)
    await in_force.refresh()
    await in_force.refresh()
    assert told == [(second.uid, ("filed", "general", "mine"))]
    origin = in_force.now.of(second.uid).origins("rules", "mine", "when")[-1]
    assert (origin.level, origin.file) == ("tenant", "web interface")
    assert in_force.now.of(second.uid).policy.changes["kinds.rule:mine"] == "rule of the tenant"
    assert "mine" not in in_force.now.deployment.policy.rules
    assert "mine" in (await with_stored_rules(in_force.files, store.own_rules)).of(second.uid).policy.rules
    # The policy of a tenant that is gone is that of the deployment.
    told.clear()
    await store.tenants.delete(second.uid)
    await in_force.refresh()
    assert told == [(second.uid, ("filed", "general"))]
    await store.close()
    # Without storage, what is known stays.
    before = in_force.now
    await in_force.refresh()
    assert in_force.now is before


def test_a_rule_is_tried_where_it_would_hold() -> None:
    tenant = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
    policies = files_with(tenant)
    tried = with_rule(policies, None, "new", RULE)
    assert "new" in tried.deployment.policy.rules
    assert "new" in tried.of(tenant).policy.rules
    # The tenant's file has a rule of that name.
    assert with_rule(policies, None, "own-filed", RULE).of(tenant).policy.rules["own-filed"].title == "In the file"
    own = with_rule(policies, tenant, "new", RULE)
    assert "new" not in own.deployment.policy.rules
    assert "new" in own.of(tenant).policy.rules
    assert "new" not in policies.of(tenant).policy.rules


async def test_a_rule_that_was_stopped_three_times_is_left_out_until_its_condition_changes(store: Store) -> None:
    told: list[tuple[str | None, tuple[str, ...]]] = []

    def observe(tenant: str | None, policy: Policy) -> None:
        told.append((tenant, tuple(policy.rules)))

    first, second = await new_tenant(store, "first"), await new_tenant(store, "second")
    in_force = PoliciesInForce(files_with(first.uid), store.own_rules)
    await put(store, second.uid, "mine", STRANGER)
    await in_force.refresh()
    in_force.observe(observe)
    assert [in_force.note_stopped(second.uid, name) for name in ("mine", "mine", "other", "mine", "mine")] == [
        *(False, False, False, True, False)
    ]
    assert told == [(second.uid, ("filed",))]
    assert "three messages" in in_force.left_out[second.uid]["mine"]
    # A rule of the deployment is left out for the tenant whose mail it was too slow for, and for no other.
    assert [in_force.note_stopped(second.uid, "filed") for _ in range(3)] == [False, False, True]
    assert tuple(in_force.now.of(second.uid).policy.rules) == ()
    assert tuple(in_force.now.of(first.uid).policy.rules) == ("filed", "own-filed")
    assert tuple(in_force.now.of(None).policy.rules) == ("filed",)
    # Other changes leave it out; with another condition it is back.
    await put(store, second.uid, "new", RULE)
    await in_force.refresh()
    assert tuple(in_force.now.of(second.uid).policy.rules) == ("new",)
    await put(store, second.uid, "mine", RULE)
    await in_force.refresh()
    assert tuple(in_force.now.of(second.uid).policy.rules) == ("mine", "new")
