"""The policies in force: those of the files, and over them the rules that were written in the web interface.

Files are read when a service starts or reloads. Rules of the web interface are in storage, and every process asks every
`POLL_SECONDS` whether they have changed. Where storage does not answer, the rules that are known stay in force.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from gatepost.policy.layers import OUTBOUND, Effective, Layer, Policies, add_rules, lay_over
from gatepost.policy.rules import OwnRule, Policy
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.store.own_rules import OwnRules

POLL_SECONDS = 2.0
# So many messages for which a rule took too long switch it off; and so many rules are counted.
MAX_STOPPED, MAX_COUNTED = 3, 10_000
STOPPED = "it took too long for three messages, so it is switched off until its condition is changed"
UNREADABLE = "rules of the web interface could not be read"

log = Logger("gatepost.policy")

# What is told of a policy that has changed: whose it is, None for the deployment, and the policy.
Observer: TypeAlias = Callable[[str | None, Policy], None]
_Rules: TypeAlias = dict[str, dict[str, OwnRule]]


class PoliciesInForce:
    """`now` is replaced as a whole when rules change. `left_out` says, by scope and name, why rules of the web
    interface are not part of it; the deployment's scope is ""."""

    def __init__(self, files: Policies, store: OwnRules | None = None, poll: float = POLL_SECONDS) -> None:
        self.files = self.now = files
        self.left_out: Mapping[str, Mapping[str, str]] = {}
        self._store = store
        self._versions: dict[str, int] = {}
        self._rules: _Rules = {}
        self._stopped: Counter[tuple[str, str, str]] = Counter()
        self._observers: list[Observer] = []
        self._turn = asyncio.Lock()
        self._outage = Outage(UNREADABLE, log)
        self._following = PeriodicWork(self.refresh, poll, UNREADABLE, log, waits_first=True)

    def observe(self, observer: Observer) -> None:
        """Tell an observer of every policy that changes from now on."""
        self._observers.append(observer)

    async def start(self) -> None:
        """Read the rules, and follow their changes from now on."""
        await self.refresh()
        self._following.start()

    async def stop(self) -> None:
        await self._following.stop()

    async def refresh(self) -> None:
        """Read what has changed since the last time."""
        if self._store is None:
            return
        async with self._turn, self._outage:
            await self._read_changes(self._store)

    async def _read_changes(self, store: OwnRules) -> None:
        versions = await store.versions()
        changed = {scope for scope, _ in versions.items() ^ self._versions.items()}
        if not changed:
            return
        rules = {scope: each for scope, each in self._rules.items() if scope in versions}
        for scope in changed & versions.keys():
            found = await store.find(scope or None)
            versions[scope] = found.version
            rules[scope] = {each.name: each.rule for each in found.rules if each.enabled}
        # Tenants whose rules are gone are still told which policy holds for them.
        known = {*rules, *self._rules}
        self.now, self.left_out = await asyncio.to_thread(_combine, self.files, rules, known)
        self._leave_out_stopped()
        self._versions, self._rules = versions, rules
        await self._tell(changed)

    def note_stopped(self, scope: str | None, name: str) -> bool:
        """Count a message for which a rule of a scope was stopped. After `MAX_STOPPED` the rule is left out of the
        policy of that scope, until its condition is another one; returns whether that has just happened."""
        rule = self.now.of(scope).policy.rules.get(name)
        if rule is None or len(self._stopped) >= MAX_COUNTED:
            return False
        self._stopped[scope or "", name, rule.when] += 1
        if self._stopped[scope or "", name, rule.when] != MAX_STOPPED:
            return False
        self._leave_out_stopped()
        for observer in self._observers:
            observer(scope, self.now.of(scope).policy)
        return True

    def _leave_out_stopped(self) -> None:
        for (scope, name, when), count in self._stopped.items():
            effective = self.now.of(scope or None)
            rule = effective.policy.rules.get(name)
            if count < MAX_STOPPED or rule is None or rule.when != when:
                continue
            rules = {other: each for other, each in effective.policy.rules.items() if other != name}
            changed = Effective(msgspec.structs.replace(effective.policy, rules=rules), effective.stated)
            if scope:
                self.now = Policies(self.now.deployment, {**self.now.tenants, scope: changed})
            else:
                self.now = Policies(changed, self.now.tenants)
            self.left_out = {**self.left_out, scope: {**self.left_out.get(scope, {}), name: STOPPED}}

    async def _tell(self, changed: set[str]) -> None:
        """Tell the observers, a policy at a time: each packs it for workers, and there may be many tenants."""
        scopes: list[str | None] = [None, *self.now.tenants] if "" in changed else [scope or None for scope in changed]
        for scope in scopes:
            for observer in self._observers:
                observer(scope, self.now.of(scope).policy)
            await asyncio.sleep(0)


async def with_stored_rules(files: Policies, store: OwnRules) -> Policies:
    """Return the policies of the files with the rules of the web interface, for a command that runs once."""
    in_force = PoliciesInForce(files, store)
    await in_force.refresh()
    return in_force.now


def with_layer(files: Policies, scope: str | None, file: str, text: str) -> Policies:
    """Return the policies with one more layer on top, for a tenant, for outbound mail or for the deployment. Raises
    `PolicyError`."""
    level: Literal["deployment", "tenant"] = "deployment" if scope in (None, OUTBOUND) else "tenant"
    changed = lay_over(files.of(scope), Layer(level, file, text))
    if scope is None:
        return Policies(changed, files.tenants)
    return Policies(files.deployment, {**files.tenants, scope: changed})


def with_rule(policies: Policies, scope: str | None, name: str, rule: OwnRule) -> Policies:
    """Return the policies with one more rule, or with another one of that name, to be tried. A rule of the deployment
    holds for all tenants, but for those whose file has one of that name."""
    own = {uid: each for uid, each in policies.tenants.items() if _is_of_tenant(each, name)}
    if scope is not None:
        changed = _put(policies.of(scope), name, rule)
        return Policies(policies.deployment, {**policies.tenants, scope: changed})
    tenants = {uid: _put(each, name, rule) for uid, each in policies.tenants.items()}
    return Policies(_put(policies.deployment, name, rule), {**tenants, **own})


def _put(effective: Effective, name: str, rule: OwnRule) -> Effective:
    policy = effective.policy
    return Effective(msgspec.structs.replace(policy, rules={**policy.rules, name: rule}), effective.stated)


def _is_of_tenant(effective: Effective, name: str) -> bool:
    return name in effective.policy.rules and effective.origins("rules", name, "when")[-1].level == "tenant"


def _combine(files: Policies, rules: _Rules, known: set[str]) -> tuple[Policies, Mapping[str, Mapping[str, str]]]:
    """Rules of a deployment are part of every tenant's policy, and come before the tenant's own: what a message may
    spend on rules is spent on them first."""
    general = rules.get("", {})
    deployment, left_out = _add(files.deployment, "", general)
    found = {"": left_out}
    tenants: dict[str, Effective] = {}
    for tenant in {*files.tenants, *known} - {""}:
        own_file = files.tenants.get(tenant)
        base = _add(own_file, "", general)[0] if own_file else deployment
        tenants[tenant], found[tenant] = _add(base, tenant, rules.get(tenant, {}))
    return Policies(deployment, tenants), found


def _add(base: Effective, scope: str, rules: Mapping[str, OwnRule]) -> tuple[Effective, Mapping[str, str]]:
    return add_rules(base, "tenant" if scope else "deployment", rules) if rules else (base, {})
