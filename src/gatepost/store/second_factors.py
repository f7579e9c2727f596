"""Second factors of users: authenticator apps, recovery codes and security keys.

A secret of TOTP has to be known in clear to check a code, so it cannot be hashed. It is encrypted (see
`sealed_secrets`), with the user's uid. Secrets from before this was so are encrypted when the service starts, and when
one of them is used.

A recovery code is what a user signs in with once who has lost the device with the second factor. It has 80 random bits,
so a SHA-256 of it is enough (see `api_keys`); the user's uid is hashed with it, so that a row copied to another user is
worthless. A code that was used is deleted, together with its use on the audit trail.

Of security keys and passkeys (WebAuthn) only public keys are stored, which are no secret. A credential belongs to one
user and to one host (`rp_id`). Adding or removing one changes how the user signs in: it locks the user's row first, is
audited, and ends the user's other sessions, as a change of the authenticator app does.

A challenge is what a key has to sign. It belongs to one session and one purpose, is taken when it is used, and a new
one replaces it. The signature counter of a credential only ever rises (WebAuthn level 2 section 6.1.1): one that does
not is that of a copy, and is refused.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Engine, Operations, Read, Work, Write, change, now, query, storable, write_rows
from gatepost.store.errors import NotFound
from gatepost.store.sealed_secrets import SecretKey, Secrets
from gatepost.store.sql import Row, sql
from gatepost.store.users import (
    DELETE_CODES,
    DELETE_KEYS,
    LOCK_USER,
    SELECT_USER,
    Credentials,
    User,
    delete_sessions,
    forget_browsers,
    parse_user,
)

_INSERT = sql("INSERT INTO recovery_codes (user_uid, digest) VALUES ($1, $2) ON CONFLICT (user_uid, digest) DO NOTHING")
_USE = sql("DELETE FROM recovery_codes WHERE user_uid = $1 AND digest = $2")
_COUNT = sql("SELECT COUNT(*) FROM recovery_codes WHERE user_uid = $1")


def replace_recovery_codes(uid: str, digests: Sequence[str]) -> Work[None]:
    """Replace the codes of a user, as a part of a change that is audited itself."""
    yield Write(DELETE_CODES, (uid,))
    for digest in digests:
        yield Write(_INSERT, (uid, storable(digest)))


_SET_TOTP = sql("UPDATE users SET totp_secret = $2, totp_step = $3 WHERE uid = $1")
_USE_STEP = sql("UPDATE users SET totp_step = $2 WHERE uid = $1 AND totp_step < $2")
_ENCRYPT = sql("UPDATE users SET totp_secret = $3 WHERE uid = $1 AND totp_secret = $2")

MAX_KEYS = 10
MAX_KEY_NAME = 60

_COLUMNS = "id, user_uid, credential, rp_id, public_key, counter, name, transports, created, last_used"
_INSERT_KEY = sql(f"""INSERT INTO security_keys ({_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL) ON CONFLICT DO NOTHING""")  # noqa: S608
_OF_USER = sql(f"SELECT {_COLUMNS} FROM security_keys WHERE user_uid = $1 ORDER BY created, id")  # noqa: S608
_LAST_USES = sql("SELECT user_uid, MAX(last_used) FROM security_keys GROUP BY user_uid")
_DELETE_KEY = sql("DELETE FROM security_keys WHERE id = $1 AND user_uid = $2")
_COUNTER = sql("SELECT counter FROM security_keys WHERE id = $1 AND user_uid = $2 @lock(UPDATE)")
_USE_KEY = sql("UPDATE security_keys SET counter = $2, last_used = $3 WHERE id = $1")
_SET_CHALLENGE = sql("UPDATE sessions SET challenge = $2, challenge_until = $3 WHERE id = $1")
_CHALLENGE = sql("SELECT challenge, challenge_until FROM sessions WHERE id = $1 @lock(UPDATE)")

ChallengePurpose: TypeAlias = Literal["add", "sign-in", "proof"]
KeyUse: TypeAlias = Literal["used", "unknown", "copied"]


class SecurityKey(msgspec.Struct, frozen=True):
    """A security key or passkey. `credential` is its id in Base64 without padding, `transports` are how a browser
    reaches it, separated by spaces."""

    id: str
    user_uid: str
    credential: str
    rp_id: str
    public_key: bytes
    counter: int
    name: str
    transports: str
    created: int
    last_used: int | None = None


class NewSecurityKey(msgspec.Struct, frozen=True):
    """A credential that an authenticator has made."""

    credential: str
    rp_id: str
    public_key: bytes
    counter: int
    name: str
    transports: str = ""


class KeyNotAdded(msgspec.Struct, frozen=True):
    """Why a key was not added: it is registered already, or the user has as many as there may be."""

    reason: Literal["known", "full"]


class SecondFactors(Operations):
    """Second factors of users: authenticator apps, recovery codes and security keys, with the challenges open for
    them."""

    def __init__(self, engine: Engine, key: SecretKey) -> None:
        super().__init__(engine)
        self._key, self._secrets = key, Secrets(engine, key)

    async def set_totp(
        self,
        uid: str,
        secret: str | None,
        by: Actor,
        step: int = 0,
        *,
        keep: str | None = None,
        keep_browser: str | None = None,
        recovery: Sequence[str] = (),
    ) -> User | NotFound:
        """Set or remove the second factor; codes up to `step` (the one that proved it) are used up already. All
        sessions of the user end but the one with the id `keep`, since they began with other proofs, and all known
        browsers are forgotten but `keep_browser`. `recovery` are the digests of the recovery codes that go with it;
        those of the factor before are void. Without it they stay, if the user has a security key."""
        name = storable(uid.lower())
        stored = None if secret is None else await self._encrypt(name, secret)
        return await self._set_totp(name, stored, by, step, keep, keep_browser, tuple(recovery))

    async def totp_secret(self, found: Credentials) -> str | None:
        """Return the secret of a user in clear, None if there is none. Raises `StorageError` without the right key."""
        stored, uid = found.totp_secret, found.user.uid
        if stored is None:
            return None
        secret = await asyncio.to_thread(self._key.decrypt, uid, stored)
        if secret == stored:
            await self._engine.change(partial(write_rows, _ENCRYPT, uid, stored, await self._encrypt(uid, stored)))
        return secret

    @change
    def forget(self, uid: str, by: Actor) -> Work[User | NotFound]:
        """Remove the authenticator app, all security keys and the recovery codes of a user who has lost them. All
        sessions end, and all known browsers are forgotten."""
        name = storable(uid.lower())
        if not (yield Write(_SET_TOTP, (name, None, 0))):
            return NotFound("user")
        keys = yield Write(DELETE_KEYS, (name,))
        user = parse_user((yield Read(SELECT_USER, (name,)))[0])
        yield from delete_sessions(name)
        yield from forget_browsers(name)
        yield from replace_recovery_codes(name, ())
        sample = (f"{user.name} {user.uid}", user.role, "removed", *((f"{keys} security keys",) if keys else ()))
        yield from write_audit(now(), by, "user.totp", user.tenant, count=1, sample=sample)
        return user

    @change
    def use_totp_step(self, uid: str, step: int) -> Work[bool]:
        """Use up the code of a step and all before; False where that was done before, so no code works twice."""
        return bool((yield Write(_USE_STEP, (storable(uid.lower()), step))))

    @query
    def count_recovery_codes(self, uid: str) -> Work[int]:
        """How many codes of a user are left."""
        return int((yield Read(_COUNT, (storable(uid.lower()),)))[0][0])

    @change
    def use_recovery_code(self, user: User, digest: str, address: str) -> Work[bool]:
        """Use up a code; False where there is no such code, or not any more."""
        if not (yield Write(_USE, (user.uid, storable(digest)))):
            return False
        left = int((yield Read(_COUNT, (user.uid,)))[0][0])
        by, sample = Actor("user", user.name, user.uid), (storable(address), f"{left} left")
        yield from write_audit(now(), by, "user.recoveryCode", user.tenant, count=1, sample=sample)
        return True

    @change
    def renew_recovery_codes(self, uid: str, digests: Sequence[str], by: Actor) -> Work[User | NotFound]:
        """Replace all codes of a user who has a second factor."""
        rows = yield Read(LOCK_USER, (storable(uid.lower()),))
        user = parse_user(rows[0]) if rows else None
        if user is None or not user.has_second_factor:
            return NotFound("user")
        yield from replace_recovery_codes(user.uid, digests)
        sample = (f"{user.name} {user.uid}", user.role, "renewed")
        yield from write_audit(now(), by, "user.recoveryCodes", user.tenant, count=len(digests), sample=sample)
        return user

    @query
    def security_keys(self, user_uid: str) -> Work[tuple[SecurityKey, ...]]:
        """All keys of a user, the oldest first."""
        return tuple(map(_parse_key, (yield Read(_OF_USER, (storable(user_uid.lower()),)))))

    @query
    def security_key_uses(self) -> Work[dict[str, int | None]]:
        """When each user who has keys last used one of them, by uid; None for never."""
        return dict((yield Read(_LAST_USES)))

    @change
    def add_security_key(
        self,
        user_uid: str,
        key: NewSecurityKey,
        by: Actor,
        *,
        keep: str | None = None,
        keep_browser: str | None = None,
        recovery: Sequence[str] = (),
    ) -> Work[SecurityKey | KeyNotAdded | NotFound]:
        """Add a key. All sessions of the user end but the one with the id `keep`, and all known browsers are forgotten
        but `keep_browser`. `recovery` are the digests of recovery codes for a first second factor."""
        rows = yield Read(LOCK_USER, (storable(user_uid.lower()),))
        if not rows or (user := parse_user(rows[0])).external:
            return NotFound("user")
        if len((yield Read(_OF_USER, (user.uid,)))) >= MAX_KEYS:
            return KeyNotAdded("full")
        name = storable(key.name[:MAX_KEY_NAME])
        made = SecurityKey(new_id(), user.uid, key.credential, key.rp_id, b"", key.counter, name, key.transports, now())
        place = (made.id, user.uid, made.credential, made.rp_id)
        values = (*place, key.public_key, made.counter, name, made.transports, made.created)
        if not (yield Write(_INSERT_KEY, values)):
            return KeyNotAdded("known")
        if recovery:
            yield from replace_recovery_codes(user.uid, recovery)
        yield from _note_change(user, by, "added", name, keep, keep_browser)
        return msgspec.structs.replace(made, public_key=key.public_key)

    @change
    def remove_security_key(
        self, user_uid: str, key_id: str, by: Actor, *, keep: str | None = None, keep_browser: str | None = None
    ) -> Work[User | NotFound]:
        """Remove a key; sessions and browsers as when one is added. Recovery codes go with the last second factor."""
        uid = storable(user_uid.lower())
        yield Read(LOCK_USER, (uid,))
        keys = map(_parse_key, (yield Read(_OF_USER, (uid,))))
        found = next((key for key in keys if key.id == key_id.lower()), None)
        if found is None or not (yield Write(_DELETE_KEY, (found.id, uid))):
            return NotFound("key")
        user = parse_user((yield Read(SELECT_USER, (uid,)))[0])
        if not user.has_second_factor:
            yield from replace_recovery_codes(uid, ())
        yield from _note_change(user, by, "removed", found.name, keep, keep_browser)
        return user

    @change
    def use_security_key(self, user: User, key: SecurityKey, counter: int, address: str) -> Work[KeyUse]:
        """Store that a key has signed, with its counter. A counter that has not risen is that of a copy: this is put on
        the audit trail, and the key is not used. Keys without a counter send 0 each time."""
        rows = yield Read(_COUNTER, (key.id, user.uid))
        if not rows:
            return "unknown"
        before, moment = int(rows[0][0]), now()
        if (before or counter) and counter <= before:
            sample = (storable(address), key.name, f"signature counter {counter} after {before}")
            by = Actor("user", user.name, user.uid)
            yield from write_audit(moment, by, "user.keyRefused", user.tenant, count=1, sample=sample)
            return "copied"
        yield Write(_USE_KEY, (key.id, counter, moment))
        return "used"

    @change
    def set_challenge(self, session_id: str, purpose: ChallengePurpose, challenge: str, until: int) -> Work[None]:
        """Store the challenge that a session has to answer until a time; one that was open before is void."""
        yield Write(_SET_CHALLENGE, (session_id, f"{purpose} {challenge}", until))

    @change
    def take_challenge(self, session_id: str, purpose: ChallengePurpose, now: int) -> Work[str]:
        """Take the open challenge of a session, so that no other request gets it; "" where there is none for this
        purpose any more."""
        rows = yield Read(_CHALLENGE, (session_id,))
        if not rows or not rows[0][0]:
            return ""
        yield Write(_SET_CHALLENGE, (session_id, "", 0))
        said, _, challenge = rows[0][0].partition(" ")
        return challenge if said == purpose and rows[0][1] > now else ""

    async def _encrypt(self, uid: str, secret: str) -> str:
        """Encrypt a secret. A key is not made on a machine that lacks the one which other secrets were encrypted
        with."""
        await self._secrets.check_key()
        return await asyncio.to_thread(self._key.encrypt, uid, secret)

    @change
    def _set_totp(
        self,
        uid: str,
        stored: str | None,
        by: Actor,
        step: int,
        keep: str | None,
        keep_browser: str | None,
        recovery: tuple[str, ...],
    ) -> Work[User | NotFound]:
        if not (yield Write(_SET_TOTP, (uid, stored, step))):
            return NotFound("user")
        rows = yield Read(SELECT_USER, (uid,))
        user = parse_user(rows[0])
        yield from delete_sessions(user.uid, keep)
        yield from forget_browsers(user.uid, keep_browser)
        if stored or not user.keys:
            yield from replace_recovery_codes(user.uid, recovery)
        sample = (f"{user.name} {user.uid}", user.role, "set" if stored else "removed")
        yield from write_audit(now(), by, "user.totp", user.tenant, count=1, sample=sample)
        return user


def _note_change(user: User, by: Actor, what: str, name: str, keep: str | None, keep_browser: str | None) -> Work[None]:
    yield from delete_sessions(user.uid, keep)
    yield from forget_browsers(user.uid, keep_browser)
    sample = (f"{user.name} {user.uid}", user.role, what, name)
    yield from write_audit(now(), by, "user.key", user.tenant, count=1, sample=sample)


def _parse_key(row: Row) -> SecurityKey:
    uid, owner, credential, rp_id, public_key, *rest = row
    return SecurityKey(uid, owner, credential, rp_id, bytes(public_key), *rest)
