"""Security keys and passkeys of users (WebAuthn): public keys, so nothing of a key here is a secret.

A credential belongs to one user and to one host (`rp_id`). Adding or removing one changes how the user signs in: it
locks the user's row first, is audited, and ends the user's other sessions, as a change of the authenticator app does.

A challenge is what a key has to sign. It belongs to one session and one purpose, is taken when it is used, and a new
one replaces it. The signature counter of a credential only ever rises (WebAuthn level 2 section 6.1.1): one that does
not is that of a copy, and is refused.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, now, query, storable
from gatepost.store.errors import NotFound
from gatepost.store.recovery_codes import replace_recovery_codes
from gatepost.store.sign_in_attempts import forget_browsers
from gatepost.store.users import SELECT_USER, User, delete_sessions, parse_user

MAX_KEYS = 10
MAX_KEY_NAME = 60

_COLUMNS = "id, user_uid, credential, rp_id, public_key, counter, name, transports, created, last_used"
_INSERT = f"""INSERT INTO security_keys ({_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL) ON CONFLICT DO NOTHING"""  # noqa: S608
_OF_USER = f"SELECT {_COLUMNS} FROM security_keys WHERE user_uid = $1 ORDER BY created, id"  # noqa: S608
_LAST_USES = "SELECT user_uid, MAX(last_used) FROM security_keys GROUP BY user_uid"
_DELETE = "DELETE FROM security_keys WHERE id = $1 AND user_uid = $2"
_COUNTER = "SELECT counter FROM security_keys WHERE id = $1 AND user_uid = $2 FOR UPDATE"
_USE = "UPDATE security_keys SET counter = $2, last_used = $3 WHERE id = $1"
_SET_CHALLENGE = "UPDATE sessions SET challenge = $2, challenge_until = $3 WHERE id = $1"
_CHALLENGE = "SELECT challenge, challenge_until FROM sessions WHERE id = $1 FOR UPDATE"

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


class SecurityKeyStore(Operations):
    """The security keys of users, and the challenges that are open for them."""

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
        rows = yield Read(f"{SELECT_USER} FOR UPDATE", (storable(user_uid.lower()),))
        if not rows or (user := parse_user(rows[0])).external:
            return NotFound("user")
        if len((yield Read(_OF_USER, (user.uid,)))) >= MAX_KEYS:
            return KeyNotAdded("full")
        name = storable(key.name[:MAX_KEY_NAME])
        made = SecurityKey(new_id(), user.uid, key.credential, key.rp_id, b"", key.counter, name, key.transports, now())
        row = (*(made.id, user.uid, made.credential, made.rp_id, key.public_key, made.counter), name)
        if not (yield Write(_INSERT, (*row, made.transports, made.created))):
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
        yield Read(f"{SELECT_USER} FOR UPDATE", (uid,))
        keys = map(_parse_key, (yield Read(_OF_USER, (uid,))))
        found = next((key for key in keys if key.id == key_id.lower()), None)
        if found is None or not (yield Write(_DELETE, (found.id, uid))):
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
        yield Write(_USE, (key.id, counter, moment))
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


def _note_change(user: User, by: Actor, what: str, name: str, keep: str | None, keep_browser: str | None) -> Work[None]:
    yield from delete_sessions(user.uid, keep)
    yield from forget_browsers(user.uid, keep_browser)
    sample = (f"{user.name} {user.uid}", user.role, what, name)
    yield from write_audit(now(), by, "user.key", user.tenant, count=1, sample=sample)


def _parse_key(row: Row) -> SecurityKey:
    uid, owner, credential, rp_id, public_key, *rest = row
    return SecurityKey(uid, owner, credential, rp_id, bytes(public_key), *rest)
