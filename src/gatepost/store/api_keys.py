"""Keys of the List API, and the last uses of these keys and of the tokens of the Email Scanning API.

A key is 32 random bytes, shown once and stored as their SHA-256. A hash of a secret with 256 random bits needs neither
salt nor slowness. It is looked up by an index: what an attacker could learn from the time that takes is about the hash,
and a hash does not lead back to a secret.

Tokens are settings, so storage has no other record of them; like the audit trail it knows them by name. A use is an
entry of a dictionary. It is written while its request goes on, at most once a minute for each token and process; of
several nodes the newest use wins.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import CLI, Actor, write_audit
from gatepost.store.engine import Engine, Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.errors import NotFound, StorageError, TenantFull
from gatepost.store.sql import Row, sql
from gatepost.store.tenants import tenant_exists

PREFIX = "gp_"
# How exact "last used" is; each key costs at most one write in this time.
USE_MILLISECONDS = 60_000
MAX_ADDRESS = 300
# Of a tenant: keys that can be used, and revoked ones that are still shown.
MAX_OF_TENANT, MAX_REVOKED = 500, 500

_COUNT = sql("SELECT count(*) FROM api_keys WHERE tenant = $1 AND revoked IS NULL")
_DELETE_REVOKED = sql("""DELETE FROM api_keys WHERE tenant = $1 AND revoked IS NOT NULL AND revoked <= (SELECT revoked
FROM api_keys WHERE tenant = $1 AND revoked IS NOT NULL ORDER BY revoked DESC LIMIT 1 OFFSET $2)""")
_COLUMNS = "id, name, tenant, read_only, created, expires, revoked, last_used, last_address"
_INSERT = sql("""INSERT INTO api_keys (id, hash, name, tenant, read_only, created, expires)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING""")
_SELECT_HASH = sql(f"SELECT {_COLUMNS} FROM api_keys WHERE hash = $1")  # noqa: S608
_SELECT_ALL = sql(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created, id")  # noqa: S608
_SELECT_TENANT = sql(f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = $1 ORDER BY created, id")  # noqa: S608
_LOCK = sql(f"SELECT {_COLUMNS} FROM api_keys WHERE id = $1 @lock(UPDATE)")  # noqa: S608
_REVOKE = sql("UPDATE api_keys SET revoked = $2 WHERE id = $1")
_SET_USED = sql("""UPDATE api_keys SET last_used = $2, last_address = $3
WHERE id = $1 AND (last_used IS NULL OR last_used < $2)""")


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


def hash_secret(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _api_key(row: Row) -> ApiKey:
    uid, name, tenant, read_only, created, expires, revoked, last_used, address = row
    return ApiKey(uid, name, tenant, bool(read_only), created, expires, revoked, last_used, address)


MAX_TOKEN_NAME = 300

_SET_USE = sql("""INSERT INTO token_uses AS kept (name, last_used, address) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET last_used = excluded.last_used, address = excluded.address
WHERE kept.last_used < excluded.last_used""")
_SELECT_USES = sql("SELECT name, last_used, address FROM token_uses")


class TokenUse(msgspec.Struct, frozen=True):
    """The last use of a token: when, and from which address."""

    name: str
    last_used: int
    address: str


class ApiKeys(Operations):
    """Keys of the List API, of which only a hash of the secret is stored, and the last uses of tokens."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._key_uses, self._token_uses = _LastUses(self._set_used), _LastUses(self._set_token_use)

    @change
    def create(
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
        # 43 characters behind the prefix.
        secret = PREFIX + secrets.token_urlsafe(32)
        key = ApiKey(key_id or new_id(), storable(name), owner, read_only, now(), expires)
        row = (key.id, hash_secret(secret), key.name, owner, int(read_only), key.created, expires)
        if not (yield Write(_INSERT, row)):
            return NotFound("form")
        yield from write_audit(key.created, by, "apikey.create", owner, count=1, sample=[f"{key.name} {key.id}"])
        return secret, key

    async def authenticate(self, secret: str, address: str = "") -> ApiKey | KeyRefused:
        """The key that a secret belongs to, if it may be used now; its use from an address is stored, at most once a
        minute."""
        key = await self._find(secret)
        if isinstance(key, ApiKey):
            self._key_uses.note(key.id, address, key.last_used or 0)
        return key

    @query
    def all(self, tenant: str | None = None) -> Work[tuple[ApiKey, ...]]:
        """All keys, or those of one tenant, the oldest first."""
        rows = yield (Read(_SELECT_TENANT, (tenant.lower(),)) if tenant else Read(_SELECT_ALL))
        return tuple(map(_api_key, rows))

    @change
    def revoke(self, uid: str, by: Actor = CLI) -> Work[ApiKey | NotFound]:
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

    def note_token_use(self, name: str, address: str) -> None:
        """Store that a token was used, while its request goes on; nothing if that was done within the last minute."""
        self._token_uses.note(name, address)

    @query
    def token_uses(self) -> Work[dict[str, TokenUse]]:
        """The last use of every token that was ever used, by its name."""
        return {row[0]: TokenUse(*row) for row in (yield Read(_SELECT_USES))}

    @query
    def _find(self, secret: str) -> Work[ApiKey | KeyRefused]:
        rows = yield Read(_SELECT_HASH, (hash_secret(secret),))
        if not rows:
            return KeyRefused("unknown")
        key = _api_key(rows[0])
        if key.revoked is not None:
            return KeyRefused("revoked", key)
        if key.expires is not None and key.expires <= now():
            return KeyRefused("expired", key)
        return key

    async def finish_writing(self) -> None:
        """Wait until every use of a key or token is stored."""
        await self._key_uses.finish()
        await self._token_uses.finish()

    @change
    def _set_used(self, uid: str, moment: int, address: str) -> Work[None]:
        yield Write(_SET_USED, (uid, moment, storable(address[:MAX_ADDRESS])))

    @change
    def _set_token_use(self, name: str, moment: int, address: str) -> Work[None]:
        yield Write(_SET_USE, (storable(name[:MAX_TOKEN_NAME]), moment, storable(address[:MAX_ADDRESS])))


class _LastUses:
    """Stores when each key or token was last used, at most once a minute, while the request that used it goes on."""

    def __init__(self, write: Callable[[str, int, str], Awaitable[None]]) -> None:
        self._write = write
        self._noted: dict[str, int] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, name: str, address: str, stored: int = 0) -> None:
        """Store a use from an address, unless the last one, which is noted here or `stored`, is not a minute old."""
        moment = now()
        if moment - max(stored, self._noted.get(name, 0)) >= USE_MILLISECONDS:
            self._noted[name] = moment
            task = asyncio.ensure_future(self._try_to_write(name, moment, address))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def finish(self) -> None:
        """Wait for what is being stored."""
        await asyncio.gather(*self._writing)

    async def _try_to_write(self, name: str, moment: int, address: str) -> None:
        # Whoever needs storage meets the same trouble and reports it; the next use in a minute is stored.
        with suppress(StorageError):
            await self._write(name, moment, address)
