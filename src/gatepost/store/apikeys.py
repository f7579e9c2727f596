"""Keys of the List API: 32 random bytes, shown once, kept as their SHA-256.

A hash of a secret with 256 bits of chance needs neither salt nor slowness. It is looked up by an index: what an
attacker could learn from the time that takes is about the hash, and a hash does not lead back to a secret.
"""

import base64
import hashlib
import secrets

from gatepost.ids import new_id
from gatepost.store.auditing import noted
from gatepost.store.interface import Actor, ApiKey, KeyRefused, Missing
from gatepost.store.work import Read, Row, Work, Write, storable

PREFIX = "gp_"
# How exact "last used" is; each key costs at most one write in this time.
USE_MILLISECONDS = 60_000

_COLUMNS = "id, name, tenant, read_only, created, expires, revoked, last_used"
_INSERT = """INSERT INTO api_keys (id, hash, name, tenant, read_only, created, expires)
VALUES ($1, $2, $3, $4, $5, $6, $7)"""
_BY_HASH = f"SELECT {_COLUMNS} FROM api_keys WHERE hash = $1"  # noqa: S608
_ALL = f"SELECT {_COLUMNS} FROM api_keys ORDER BY created, id"  # noqa: S608
_OF_TENANT = f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = $1 ORDER BY created, id"  # noqa: S608
_LOCKED = f"SELECT {_COLUMNS} FROM api_keys WHERE id = $1 FOR UPDATE"  # noqa: S608
_REVOKE = "UPDATE api_keys SET revoked = $2 WHERE id = $1"
_USED = "UPDATE api_keys SET last_used = $2 WHERE id = $1 AND (last_used IS NULL OR last_used < $2)"
_TENANT = "SELECT 1 FROM tenants WHERE uid = $1 FOR KEY SHARE"


def new_secret() -> str:
    """A secret: `gp_` and 43 characters."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def hashed(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def create(secret: str, key: ApiKey, by: Actor) -> Work[tuple[str, ApiKey] | Missing]:
    """Keep a new key."""
    if key.tenant and not (yield Read(_TENANT, (key.tenant,))):
        return Missing("tenant")
    fixed = (key.id, hashed(secret), key.name, key.tenant, int(key.read_only), key.created, key.expires)
    yield Write(_INSERT, fixed)
    yield from noted(key.created, by, "apikey.create", key.tenant, count=1, sample=[f"{key.name} {key.id}"])
    return secret, key


def new_key(name: str, tenant: str | None, read_only: bool, expires: int | None, now: int) -> ApiKey:
    """A key that nobody has yet."""
    return ApiKey(new_id(), storable(name), tenant.lower() if tenant else None, read_only, now, expires)


def find(secret: str, now: int) -> Work[ApiKey | KeyRefused]:
    """The key of a secret, if it may be used."""
    rows = yield Read(_BY_HASH, (hashed(secret),))
    if not rows:
        return KeyRefused("unknown")
    key = _key(rows[0])
    if key.revoked is not None:
        return KeyRefused("revoked", key)
    if key.expires is not None and key.expires <= now:
        return KeyRefused("expired", key)
    return key


def everything(tenant: str | None) -> Work[tuple[ApiKey, ...]]:
    """All keys, or those of one tenant."""
    rows = yield (Read(_OF_TENANT, (tenant.lower(),)) if tenant else Read(_ALL))
    return tuple(map(_key, rows))


def revoke(uid: str, by: Actor, now: int) -> Work[ApiKey | Missing]:
    """End a key."""
    rows = yield Read(_LOCKED, (storable(uid.lower()),))
    if not rows:
        return Missing("key")
    key = _key(rows[0])
    if key.revoked is not None:
        return key
    yield Write(_REVOKE, (key.id, now))
    yield from noted(now, by, "apikey.revoke", key.tenant, count=1, sample=[f"{key.name} {key.id}"])
    return _key((*rows[0][:6], now, rows[0][7]))


def used(uid: str, now: int) -> Work[None]:
    """Note that a key was used."""
    yield Write(_USED, (uid, now))


def _key(row: Row) -> ApiKey:
    uid, name, tenant, read_only, created, expires, revoked, last_used = row
    return ApiKey(uid, name, tenant, bool(read_only), created, expires, revoked, last_used)
