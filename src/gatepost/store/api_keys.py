"""Keys of the List API: 32 random bytes, shown once, stored as their SHA-256.

A hash of a secret with 256 random bits needs neither salt nor slowness. It is looked up by an index: what an attacker
could learn from the time that takes is about the hash, and a hash does not lead back to a secret.
"""

import asyncio
import base64
import hashlib
import secrets
from typing import Literal

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import CLI, Actor, write_audit
from gatepost.store.engine import (
    Engine,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.errors import NotFound, StorageError, TenantFull
from gatepost.store.tenants import tenant_exists

PREFIX = "gp_"
# How exact "last used" is; each key costs at most one write in this time.
USE_MILLISECONDS = 60_000
MAX_ADDRESS = 300
# Of a tenant: keys that can be used, and revoked ones that are still shown.
MAX_OF_TENANT, MAX_REVOKED = 500, 500

_COUNT = "SELECT count(*) FROM api_keys WHERE tenant = $1 AND revoked IS NULL"
_DELETE_REVOKED = """DELETE FROM api_keys WHERE tenant = $1 AND revoked IS NOT NULL AND revoked <= (SELECT revoked
FROM api_keys WHERE tenant = $1 AND revoked IS NOT NULL ORDER BY revoked DESC LIMIT 1 OFFSET $2)"""
_COLUMNS = "id, name, tenant, read_only, created, expires, revoked, last_used, last_address"
_INSERT = """INSERT INTO api_keys (id, hash, name, tenant, read_only, created, expires)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING"""
_SELECT_HASH = f"SELECT {_COLUMNS} FROM api_keys WHERE hash = $1"  # noqa: S608
_SELECT_ALL = f"SELECT {_COLUMNS} FROM api_keys ORDER BY created, id"  # noqa: S608
_SELECT_TENANT = f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = $1 ORDER BY created, id"  # noqa: S608
_LOCK = f"SELECT {_COLUMNS} FROM api_keys WHERE id = $1 FOR UPDATE"  # noqa: S608
_REVOKE = "UPDATE api_keys SET revoked = $2 WHERE id = $1"
_SET_USED = """UPDATE api_keys SET last_used = $2, last_address = $3
WHERE id = $1 AND (last_used IS NULL OR last_used < $2)"""


class ApiKey(msgspec.Struct, frozen=True):
    """A key of the List API, without its secret. `tenant` None may act on every scope; `last_address` is
    where it was last used from."""

    id: str
    name: str
    tenant: str | None
    read_only: bool
    created: int
    expires: int | None = None
    revoked: int | None = None
    last_used: int | None = None
    last_address: str = ""


class KeyRefused(msgspec.Struct, frozen=True):
    """A secret that opens nothing. The reason is for the log; the client learns only that it is refused."""

    reason: Literal["unknown", "expired", "revoked"]
    key: ApiKey | None = None


class ApiKeyStore(Operations):
    """Keys of the List API. Only a hash of the secret is stored."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._last_uses: dict[str, int] = {}
        self._use_writers: set[asyncio.Task[None]] = set()

    @change
    def create_api_key(
        self,
        name: str,
        tenant: str | None,
        read_only: bool,
        expires: int | None,
        by: Actor = CLI,
        key_id: str | None = None,
    ) -> Work[tuple[str, ApiKey] | NotFound | TenantFull]:
        """A new key with its secret, which is never shown again. `key_id` is an id that the caller has chosen, so that
        the same request sent twice creates one key: the second one is `NotFound`."""
        owner = normalize_scope(tenant)
        if owner and not (yield from tenant_exists(owner)):
            return NotFound("tenant")
        if owner:
            yield Write(_DELETE_REVOKED, (owner, MAX_REVOKED))
            if int((yield Read(_COUNT, (owner,)))[0][0]) >= MAX_OF_TENANT:
                return TenantFull("API keys", MAX_OF_TENANT)
        secret = new_secret()
        key = ApiKey(key_id or new_id(), storable(name), owner, read_only, now(), expires)
        row = (key.id, hash_secret(secret), key.name, owner, int(read_only), key.created, expires)
        if not (yield Write(_INSERT, row)):
            return NotFound("form")
        yield from write_audit(key.created, by, "apikey.create", owner, count=1, sample=[f"{key.name} {key.id}"])
        return secret, key

    async def api_key(self, secret: str, address: str = "") -> ApiKey | KeyRefused:
        """The key that a secret belongs to, if it may be used now; its use from an address is stored, at most once a
        minute."""
        key = await self._find_api_key(secret)
        if isinstance(key, ApiKey):
            self._note_use(key, address)
        return key

    @query
    def api_keys(self, tenant: str | None = None) -> Work[tuple[ApiKey, ...]]:
        """All keys, or those of one tenant, the oldest first."""
        rows = yield (Read(_SELECT_TENANT, (tenant.lower(),)) if tenant else Read(_SELECT_ALL))
        return tuple(map(_api_key, rows))

    @change
    def revoke_api_key(self, uid: str, by: Actor = CLI) -> Work[ApiKey | NotFound]:
        """End a key for good. One that was revoked before stays as it was."""
        rows = yield Read(_LOCK, (storable(uid.lower()),))
        if not rows:
            return NotFound("key")
        key = _api_key(rows[0])
        if key.revoked is not None:
            return key
        moment = now()
        yield Write(_REVOKE, (key.id, moment))
        yield from write_audit(moment, by, "apikey.revoke", key.tenant, count=1, sample=[f"{key.name} {key.id}"])
        return msgspec.structs.replace(key, revoked=moment)

    @query
    def _find_api_key(self, secret: str) -> Work[ApiKey | KeyRefused]:
        rows = yield Read(_SELECT_HASH, (hash_secret(secret),))
        if not rows:
            return KeyRefused("unknown")
        key = _api_key(rows[0])
        if key.revoked is not None:
            return KeyRefused("revoked", key)
        if key.expires is not None and key.expires <= now():
            return KeyRefused("expired", key)
        return key

    def _note_use(self, key: ApiKey, address: str) -> None:
        """Store that a key was used, while its request goes on."""
        moment = now()
        if moment - max(key.last_used or 0, self._last_uses.get(key.id, 0)) >= USE_MILLISECONDS:
            self._last_uses[key.id] = moment
            task = asyncio.ensure_future(self._write_use(key.id, moment, address))
            self._use_writers.add(task)
            task.add_done_callback(self._use_writers.discard)

    async def _write_use(self, uid: str, moment: int, address: str) -> None:
        try:
            await self._set_used(uid, moment, address)
        except StorageError:
            # The request that used the key meets the same trouble and reports it.
            self._last_uses.pop(uid, None)

    @change
    def _set_used(self, uid: str, moment: int, address: str) -> Work[None]:
        yield Write(_SET_USED, (uid, moment, storable(address[:MAX_ADDRESS])))

    async def _finish_writing_uses(self) -> None:
        await asyncio.gather(*self._use_writers)


def new_secret() -> str:
    """A secret: `gp_` and 43 characters."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def hash_secret(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _api_key(row: Row) -> ApiKey:
    uid, name, tenant, read_only, created, expires, revoked, last_used, address = row
    return ApiKey(uid, name, tenant, bool(read_only), created, expires, revoked, last_used, address)
