"""Tenants, and the domains whose mail is theirs.

A tenant's lists can be long and its results many. Deleting it takes them out of sight at once, in one transaction with
the tenant itself, its keys, users and domains; the rows go afterwards in small steps (see `sweeping`).
"""

from collections.abc import Sequence

from gatepost.ids import new_id
from gatepost.store.auditing import noted
from gatepost.store.interface import Actor, Missing, Taken, Tenant
from gatepost.store.work import Many, Read, Row, Undone, Work, Write, storable

_INSERT = "INSERT INTO tenants (uid, name, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING"
_ONE = "SELECT uid, name, created FROM tenants WHERE uid = $1"
_LOCKED = _ONE + " FOR UPDATE"
_ALL = "SELECT uid, name, created FROM tenants ORDER BY name, uid"
_DOMAINS = "SELECT tenant, domain FROM tenant_domains ORDER BY domain"
_DOMAINS_OF = "SELECT tenant, domain FROM tenant_domains WHERE tenant = $1 ORDER BY domain"
_OWNER = "SELECT tenant FROM tenant_domains WHERE domain = $1"
_FOREIGN = "SELECT domain FROM tenant_domains WHERE domain = ANY($2) AND tenant <> $1 ORDER BY domain LIMIT 1"
_CLAIM = "INSERT INTO tenant_domains (domain, tenant) VALUES ($1, $2) ON CONFLICT (domain) DO NOTHING"
_NO_DOMAINS = "DELETE FROM tenant_domains WHERE tenant = $1"
_DEPARTURE = (
    _NO_DOMAINS,
    "DELETE FROM api_keys WHERE tenant = $1",
    "DELETE FROM sessions WHERE user_uid IN (SELECT uid FROM users WHERE tenant = $1)",
    "DELETE FROM users WHERE tenant = $1",
    "UPDATE lists SET scope = '-', name = CAST(id AS TEXT) WHERE scope = $1",
    "DELETE FROM scopes WHERE scope = $1",
    "DELETE FROM tenants WHERE uid = $1",
    "INSERT INTO departed (tenant) VALUES ($1)",
)
_LISTS_LOCKED = "SELECT id FROM lists WHERE scope = $1 ORDER BY id FOR UPDATE"


def create(name: str, by: Actor, now: int) -> Work[Tenant | Taken]:
    """A new tenant, unless another has the name."""
    tenant = Tenant(new_id(), storable(name), now)
    if not (yield Write(_INSERT, (tenant.uid, tenant.name, tenant.created))):
        return Taken(name)
    yield from noted(now, by, "tenant.create", tenant.uid, count=1, sample=[tenant.name])
    return tenant


def everybody() -> Work[tuple[Tenant, ...]]:
    """All tenants by name."""
    rows = yield Read(_ALL)
    domains: dict[str, list[Row]] = {}
    for owner, domain in (yield Read(_DOMAINS)):
        domains.setdefault(owner, []).append((owner, domain))
    return tuple(_tenant(row, domains.get(row[0], ())) for row in rows)


def one(uid: str) -> Work[Tenant | None]:
    """One tenant."""
    rows = yield Read(_ONE, (storable(uid.lower()),))
    if not rows:
        return None
    return _tenant(rows[0], (yield Read(_DOMAINS_OF, (rows[0][0],))))


def delete(uid: str, by: Actor, now: int) -> Work[Tenant | Missing]:
    """Take a tenant and all that is its own out of sight."""
    rows = yield Read(_LOCKED, (storable(uid.lower()),))
    if not rows:
        return Missing("tenant")
    tenant = _tenant(rows[0], (yield Read(_DOMAINS_OF, (rows[0][0],))))
    yield Read(_LISTS_LOCKED, (tenant.uid,))
    for statement in _DEPARTURE:
        yield Write(statement, (tenant.uid,))
    yield from noted(now, by, "tenant.delete", tenant.uid, count=1, sample=[tenant.name])
    return tenant


def set_domains(uid: str, domains: Sequence[str], by: Actor, now: int) -> Work[Tenant | Missing | Taken]:
    """Give a tenant these domains and no others."""
    rows = yield Read(_LOCKED, (storable(uid.lower()),))
    if not rows:
        return Missing("tenant")
    owner = rows[0][0]
    wanted = tuple(sorted({storable(domain) for domain in domains}))
    if wanted and (foreign := (yield Read(_FOREIGN, (owner, Many(wanted))))):
        return Taken(foreign[0][0])
    yield Write(_NO_DOMAINS, (owner,))
    for domain in wanted:
        if not (yield Write(_CLAIM, (domain, owner))):
            # Another tenant took it since we looked.
            raise Undone(Taken(domain))
    yield from noted(now, by, "tenant.domains", owner, count=len(wanted), sample=wanted)
    return _tenant(rows[0], (yield Read(_DOMAINS_OF, (owner,))))


def owner_of(domain: str) -> Work[str | None]:
    """Whose domain it is."""
    rows = yield Read(_OWNER, (storable(domain),))
    return rows[0][0] if rows else None


def _tenant(row: Row, domains: Sequence[Row]) -> Tenant:
    uid, name, created = row
    return Tenant(uid, name, created, tuple(domain for _, domain in domains))
