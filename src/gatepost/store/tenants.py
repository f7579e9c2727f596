"""Tenants, and the domains whose mail is theirs.

A tenant's lists can be long and its results many. Deleting it hides them at once, in one transaction with the tenant
itself, its keys, users and domains: lists get the scope `-`, the tenant is written to the table `departed`. The rows of
a deleted list or tenant go afterwards in small steps (`delete_some_hidden`), so that other changes do not wait. A kill
in between loses no step, since the next purge goes on with them.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import CLI, Actor, ChangedValue, write_audit
from gatepost.store.engine import (
    DAY_MILLISECONDS,
    Many,
    Operations,
    Read,
    Rollback,
    Work,
    Write,
    change,
    now,
    query,
    snapshot,
    storable,
)
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.sql import Row, sql

BATCH = 2_000

_HIDDEN_LIST = sql("SELECT id FROM lists WHERE scope = '-' ORDER BY id LIMIT 1 @lock(UPDATE)")
_DELETE_ENTRIES = sql("""DELETE FROM entries WHERE list_id = $1
AND key IN (SELECT key FROM entries WHERE list_id = $1 ORDER BY key LIMIT $2)""")
_DELETE_PREFIXES = sql("DELETE FROM list_prefixes WHERE list_id = $1")
_DELETE_LOOK_BACKS = sql("DELETE FROM look_backs WHERE list_id = $1")
_DELETE_QUEUE = sql("DELETE FROM look_back_queue WHERE list_id = $1")
_DELETE_LIST = sql("DELETE FROM lists WHERE id = $1")
_DELETED_TENANT = sql("SELECT tenant FROM departed ORDER BY tenant LIMIT 1 @lock(UPDATE)")
_FORGET_TENANT = sql("DELETE FROM departed WHERE tenant = $1")


def delete_some_hidden() -> Work[int]:
    """Delete some rows of a list or a tenant that was hidden; 0 when nothing is left."""
    lists = yield Read(_HIDDEN_LIST)
    if lists:
        list_id = lists[0][0]
        if not (yield Write(_DELETE_ENTRIES, (list_id, BATCH))):
            yield Write(_DELETE_PREFIXES, (list_id,))
            yield Write(_DELETE_LOOK_BACKS, (list_id,))
            yield Write(_DELETE_QUEUE, (list_id,))
            yield Write(_DELETE_LIST, (list_id,))
        return 1
    tenants = yield Read(_DELETED_TENANT)
    if tenants and not (yield from _delete_some_of_tenant(tenants[0][0])):
        yield Write(_FORGET_TENANT, (tenants[0][0],))
    return len(tenants)


_MESSAGES = sql("SELECT completed, id FROM message_search WHERE tenant = $1 LIMIT $2")
_HELD = sql("SELECT ggrid FROM held WHERE tenant = $1 ORDER BY ggrid LIMIT $2 @lock(UPDATE)")
# What goes in steps and needs nothing but a statement.
_DELETE_SOME = (
    sql("DELETE FROM traffic WHERE tenant = $1 AND bucket IN (SELECT bucket FROM traffic WHERE tenant = $1 LIMIT $2)"),
    sql("DELETE FROM campaign_marks WHERE id IN (SELECT id FROM campaign_marks WHERE scope = $1 LIMIT $2)"),
    sql("DELETE FROM training_reports WHERE id IN (SELECT id FROM training_reports WHERE scope = $1 LIMIT $2)"),
    sql("DELETE FROM learnt_models WHERE id IN (SELECT id FROM learnt_models WHERE scope = $1 LIMIT $2)"),
    sql("DELETE FROM removed_mail WHERE ggrid IN (SELECT ggrid FROM removed_mail WHERE scope = $1 LIMIT $2)"),
)


def _delete_some_of_tenant(tenant: str) -> Work[int]:
    """Delete some rows of a deleted tenant; the raw bytes of its held mail go when the raw store is tidied."""
    # Nearly all that is stored has rows of a tenant, and most who read tenants delete none.
    from gatepost.store.message_index import index_old_messages
    from gatepost.store.message_records import delete_messages
    from gatepost.store.quarantine import delete_held
    from gatepost.store.sightings import delete_tenant_sightings

    if (yield from index_old_messages()):
        return 1
    deleted = yield from delete_messages(_MESSAGES, tenant, BATCH)
    deleted += yield from delete_held(_HELD, tenant, BATCH)
    deleted += yield from delete_tenant_sightings(tenant, BATCH)
    for statement in _DELETE_SOME:
        deleted += yield Write(statement, (tenant, BATCH))
    return deleted


_INSERT = sql("INSERT INTO tenants (uid, name, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING")
_SELECT = sql("SELECT uid, name, created, history_days, quarantine_days FROM tenants WHERE uid = $1")
_LOCK = sql(_SELECT + " @lock(UPDATE)")
_SELECT_ALL = sql("SELECT uid, name, created, history_days, quarantine_days FROM tenants ORDER BY name, uid")
_SET_RETENTION = sql("UPDATE tenants SET history_days = $2, quarantine_days = $3 WHERE uid = $1")
_RETENTION = sql("SELECT uid, history_days, quarantine_days FROM tenants WHERE history_days > 0 OR quarantine_days > 0")
_EXISTS = sql("SELECT 1 FROM tenants WHERE uid = $1 @lock(KEY SHARE)")
_ALL_DOMAINS = sql("SELECT tenant, domain FROM tenant_domains ORDER BY domain")
_DOMAINS = sql("SELECT tenant, domain FROM tenant_domains WHERE tenant = $1 ORDER BY domain")
_OWNER = sql("SELECT tenant FROM tenant_domains WHERE domain = $1")
_OWNED_BY_OTHERS = sql(
    "SELECT domain FROM tenant_domains WHERE @one_of(domain, $2) AND tenant <> $1 ORDER BY domain LIMIT 1"
)
_INSERT_DOMAIN = sql("INSERT INTO tenant_domains (domain, tenant) VALUES ($1, $2) ON CONFLICT (domain) DO NOTHING")
_DELETE_DOMAINS = sql("DELETE FROM tenant_domains WHERE tenant = $1")
_DELETE = (
    _DELETE_DOMAINS,
    sql("DELETE FROM api_keys WHERE tenant = $1"),
    sql("DELETE FROM sessions WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)"),
    sql("DELETE FROM sign_in_attempts WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)"),
    sql("DELETE FROM known_browsers WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)"),
    sql("DELETE FROM recovery_codes WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)"),
    sql("DELETE FROM security_keys WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)"),
    sql("DELETE FROM users WHERE tenant = $1"),
    sql("UPDATE lists SET scope = '-', name = CAST(id AS TEXT) WHERE scope = $1"),
    sql("DELETE FROM scopes WHERE scope = $1"),
    sql("DELETE FROM tenants WHERE uid = $1"),
    sql("DELETE FROM rule_sets WHERE scope = $1"),
    sql("DELETE FROM alert_definitions WHERE name LIKE $1 || ':%'"),
    sql("DELETE FROM digest_uses WHERE digest IN (SELECT id FROM digests WHERE scope = $1)"),
    sql("DELETE FROM digests WHERE scope = $1"),
    sql("DELETE FROM digest_runs WHERE scope = $1"),
    sql("DELETE FROM jobs WHERE kind IN ('digest', 'learning') AND scope = $1"),
    sql("DELETE FROM digest_settings WHERE scope = $1"),
    sql("DELETE FROM recipient_entries WHERE scope = $1"),
    sql("DELETE FROM recipient_requests WHERE scope = $1"),
    sql("INSERT INTO departed (tenant) VALUES ($1)"),
)
_LOCK_LISTS = sql("SELECT id FROM lists WHERE scope = $1 ORDER BY id @lock(UPDATE)")


class Tenant(msgspec.Struct, frozen=True):
    """A customer of the deployment. `uid` is a lower-case UUID; mail to `domains` is theirs. Results and held mail are
    deleted after `history_days` and `quarantine_days`; None is what the configuration says."""

    uid: str
    name: str
    created: int
    domains: tuple[str, ...] = ()
    history_days: int | None = None
    quarantine_days: int | None = None


class Tenants(Operations):
    """Tenants and the domains whose mail is theirs."""

    @change
    def create(self, name: str, by: Actor = CLI) -> Work[Tenant | NameTaken]:
        """A new tenant, unless another has the name."""
        tenant = Tenant(new_id(), storable(name), now())
        if not (yield Write(_INSERT, (tenant.uid, tenant.name, tenant.created))):
            return NameTaken(name)
        yield from write_audit(tenant.created, by, "tenant.create", tenant.uid, count=1, sample=[tenant.name])
        return tenant

    @snapshot
    def all(self) -> Work[tuple[Tenant, ...]]:
        """All tenants by name."""
        rows = yield Read(_SELECT_ALL)
        domains: dict[str, list[Row]] = {}
        for owner, domain in (yield Read(_ALL_DOMAINS)):
            domains.setdefault(owner, []).append((owner, domain))
        return tuple(_tenant(row, domains.get(row[0], ())) for row in rows)

    @query
    def find(self, uid: str) -> Work[Tenant | None]:
        """One tenant; None where there is none."""
        rows = yield Read(_SELECT, (storable(uid.lower()),))
        if not rows:
            return None
        return _tenant(rows[0], (yield Read(_DOMAINS, (rows[0][0],))))

    async def delete(self, uid: str, by: Actor = CLI) -> Tenant | NotFound:
        """Delete a tenant with its lists, keys, users, domains and results; its audit trail stays."""
        deleted = await self._hide_tenant(uid, by)
        await self._repeat(delete_some_hidden)
        return deleted

    @change
    def set_domains(self, uid: str, domains: Sequence[str], by: Actor = CLI) -> Work[Tenant | NotFound | NameTaken]:
        """Give a tenant these domains (normal forms) and no others; one that another tenant has is `NameTaken`."""
        rows = yield Read(_LOCK, (storable(uid.lower()),))
        if not rows:
            return NotFound("tenant")
        owner = rows[0][0]
        wanted = tuple(sorted({storable(domain) for domain in domains}))
        if wanted and (taken := (yield Read(_OWNED_BY_OTHERS, (owner, Many(wanted))))):
            return NameTaken(taken[0][0])
        before = {domain for _, domain in (yield Read(_DOMAINS, (owner,)))}
        yield Write(_DELETE_DOMAINS, (owner,))
        for domain in wanted:
            if not (yield Write(_INSERT_DOMAIN, (domain, owner))):
                # Another tenant took it since it was looked up.
                raise Rollback(NameTaken(domain))
        changes = [
            *(ChangedValue(domain, None, "added") for domain in wanted if domain not in before),
            *(ChangedValue(domain, "removed") for domain in sorted(before - set(wanted))),
        ]
        yield from write_audit(now(), by, "tenant.domains", owner, count=len(wanted), sample=wanted, changes=changes)
        return _tenant(rows[0], (yield Read(_DOMAINS, (owner,))))

    @change
    def set_retention(
        self, uid: str, history_days: int | None, quarantine_days: int | None, by: Actor = CLI
    ) -> Work[Tenant | NotFound]:
        """Set after how many days results and held mail of a tenant are deleted; None is what the configuration
        says."""
        rows = yield Read(_LOCK, (storable(uid.lower()),))
        if not rows:
            return NotFound("tenant")
        owner = rows[0][0]
        yield Write(_SET_RETENTION, (owner, history_days, quarantine_days))
        days = [f"history: {history_days or 'default'}", f"quarantine: {quarantine_days or 'default'}"]
        before = _tenant(rows[0], ())
        values = (
            ("history", before.history_days, history_days),
            ("quarantine", before.quarantine_days, quarantine_days),
        )
        changes = [
            ChangedValue(what, str(old or "default"), str(new or "default")) for what, old, new in values if old != new
        ]
        yield from write_audit(now(), by, "tenant.retention", owner, count=1, sample=days, changes=changes)
        return _tenant((yield Read(_SELECT, (owner,)))[0], (yield Read(_DOMAINS, (owner,))))

    @query
    def retention_limits(self, kind: Literal["history", "quarantine"], moment: int) -> Work[dict[str, int]]:
        """The tenants with a retention of their own, each with the time before which it is over at that moment."""
        rows = yield Read(_RETENTION)
        days = {uid: history if kind == "history" else quarantine for uid, history, quarantine in rows}
        return {uid: moment - count * DAY_MILLISECONDS for uid, count in days.items() if count}

    @query
    def of_domain(self, domain: str) -> Work[str | None]:
        """The uid of the tenant that has this domain (its normal form). Every recipient of every message asks for
        one."""
        rows = yield Read(_OWNER, (storable(domain),))
        return rows[0][0] if rows else None

    @change
    def _hide_tenant(self, uid: str, by: Actor) -> Work[Tenant | NotFound]:
        rows = yield Read(_LOCK, (storable(uid.lower()),))
        if not rows:
            return NotFound("tenant")
        tenant = _tenant(rows[0], (yield Read(_DOMAINS, (rows[0][0],))))
        yield Read(_LOCK_LISTS, (tenant.uid,))
        for statement in _DELETE:
            yield Write(statement, (tenant.uid,))
        yield from write_audit(now(), by, "tenant.delete", tenant.uid, count=1, sample=[tenant.name])
        return tenant


def tenant_exists(uid: str) -> Work[bool]:
    """Whether there is such a tenant; it cannot be deleted before the transaction ends."""
    return bool((yield Read(_EXISTS, (uid,))))


def _tenant(row: Row, domains: Sequence[Row]) -> Tenant:
    uid, name, created, history_days, quarantine_days = row
    return Tenant(uid, name, created, tuple(domain for _, domain in domains), history_days, quarantine_days)
