"""Sessions of the web interface, found by the SHA-256 of their cookie's secret (see `api_keys` for why that is enough).

A session is over at its time, or when it was not used for a while, or when its user is disabled. It is checked on every
request, so ending one takes effect at once.
"""

import secrets

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, now, query, storable
from gatepost.store.errors import NotFound, StorageError
from gatepost.store.users import KEY_IDS, USER_COLUMNS, Credentials, User, delete_sessions, parse_user

# A session that is not used for so long is over, whatever its cookie says.
IDLE_MILLISECONDS = 12 * 3_600_000
# How exact "last seen" is; each session costs at most one write in this time.
SEEN_MILLISECONDS = 60_000
MAX_TEXT = 300
# Sessions of one user; of more, those that were not used for longest end.
MAX_OF_USER = 100

_SELECT = f"""SELECT id, sessions.created, seen, expires, address, agent, csrf, strong, {USER_COLUMNS}
FROM sessions JOIN users ON users.uid = user_uid"""  # noqa: S608
_SELECT_DIGEST = _SELECT + " WHERE digest = $1"
_SELECT_USER = _SELECT + " WHERE user_uid = $1 AND expires > $2 ORDER BY seen DESC, id"
_INSERT = """INSERT INTO sessions
(digest, id, user_uid, created, seen, expires, address, agent, csrf, strong, provider_session)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10)"""
_LOCK_PROOFS = "SELECT password, totp_secret FROM users WHERE uid = $1 AND disabled = 0 FOR UPDATE"
_KEY_IDS = f"SELECT {KEY_IDS} FROM users WHERE uid = $1"  # noqa: S608
_SET_SEEN = "UPDATE sessions SET seen = $2 WHERE id = $1 AND seen < $2"
_OWNER = "SELECT user_uid, users.name, tenant FROM sessions JOIN users ON users.uid = user_uid WHERE id = $1"
_USER_NAME = "SELECT users.uid, users.name, tenant FROM users WHERE uid = $1"
_DELETE_MANY = """DELETE FROM sessions WHERE user_uid = $1 AND id IN (SELECT id FROM sessions WHERE user_uid = $1
ORDER BY seen DESC, id DESC LIMIT 1000 OFFSET $2)"""
_DELETE = "DELETE FROM sessions WHERE id = $1"
_DELETE_OVER = "DELETE FROM sessions WHERE expires <= $1 OR seen <= $2"


class WebSession(msgspec.Struct, frozen=True):
    """A user who is signed in. `csrf` is the token that its forms must send; `strong` says that a second factor was
    shown."""

    id: str
    user: User
    created: int
    seen: int
    expires: int
    address: str
    agent: str
    csrf: str
    strong: bool = False


class SessionStore(Operations):
    """Who is signed in to the web interface."""

    @change
    def create_session(
        self,
        user_uid: str,
        digest: str,
        expires: int,
        address: str,
        agent: str,
        *,
        strong: bool = False,
        proven: Credentials | None = None,
        provider_session: str = "",
    ) -> Work[WebSession | NotFound]:
        """A new session; `digest` is the SHA-256 of its cookie's secret in hex. A disabled user is `NotFound`, and so
        is one whose password, second factor or security keys are no longer what was `proven`: a change of them ends
        all sessions, also one that is about to begin. `provider_session` is the `sid` of an OpenID provider."""
        uid, created = storable(user_uid.lower()), now()
        proofs = yield Read(_LOCK_PROOFS, (uid,))
        if not proofs or (proven and tuple(proofs[0]) != (proven.password, proven.totp_secret)):
            return NotFound("user")
        # Read once the row is locked: PostgreSQL would take a subquery of the locking statement from before the wait.
        if proven and (yield Read(_KEY_IDS, (uid,)))[0][0] != proven.key_ids:
            return NotFound("user")
        client = (storable(address[:MAX_TEXT]), storable(agent[:MAX_TEXT]))
        proofs_shown = (int(strong), storable(provider_session[:MAX_TEXT]))
        row = (storable(digest), new_id(), uid, created, expires, *client, secrets.token_urlsafe(32), *proofs_shown)
        yield Write(_INSERT, row)
        yield Write(_DELETE_MANY, (uid, MAX_OF_USER))
        rows = yield Read(_SELECT_DIGEST, (storable(digest),))
        return _session(rows[0])

    async def session(
        self, digest: str, now: int, idle: int = IDLE_MILLISECONDS, *, is_use: bool = True
    ) -> WebSession | None:
        """The session of a cookie, if it and its user are still valid; its use is stored, at most once a minute, unless
        nobody uses it: a page that refreshes itself must not keep a session alive."""
        found = await self._find_session(digest, now, idle)
        if found is None or not is_use or now - found.seen < SEEN_MILLISECONDS:
            return found
        try:
            await self._set_seen(found.id, now)
        except StorageError:
            # A request that only reads goes on; a change meets the same trouble and reports it.
            return found
        return msgspec.structs.replace(found, seen=now)

    @query
    def sessions(self, user_uid: str, now: int) -> Work[tuple[WebSession, ...]]:
        """Those of a user that have not expired, the last used first."""
        rows = yield Read(_SELECT_USER, (storable(user_uid.lower()), now))
        return tuple(map(_session, rows))

    @change
    def end_session(self, session_id: str, by: Actor, user_uid: str | None = None) -> Work[bool]:
        """End one, of that user if one is named; False where there is none."""
        owner = yield Read(_OWNER, (storable(session_id.lower()),))
        if not owner or user_uid not in (None, owner[0][0]):
            return False
        if not (yield Write(_DELETE, (storable(session_id.lower()),))):
            return False
        yield from _write_audit(owner[0], 1, by)
        return True

    @change
    def replace_session(self, session_id: str, user_uid: str) -> Work[None]:
        """Delete a session that had only the password, once the whole one takes its place: nobody has ended it."""
        owner = yield Read(_OWNER, (storable(session_id.lower()),))
        if owner and owner[0][0] == user_uid:
            yield Write(_DELETE, (storable(session_id.lower()),))

    @change
    def end_sessions(self, user_uid: str, by: Actor, keep: str | None = None) -> Work[int]:
        """End all sessions of a user, but the one with the id `keep`; returns how many."""
        owner = yield Read(_USER_NAME, (storable(user_uid.lower()),))
        if not owner:
            return 0
        ended = yield from delete_sessions(owner[0][0], keep)
        if ended:
            yield from _write_audit(owner[0], ended, by)
        return ended

    @change
    def purge_sessions(self, now: int, idle: int = IDLE_MILLISECONDS) -> Work[int]:
        """Delete those that are over; returns how many."""
        deleted: int = yield Write(_DELETE_OVER, (now, now - idle))
        return deleted

    @query
    def _find_session(self, digest: str, now: int, idle: int) -> Work[WebSession | None]:
        rows = yield Read(_SELECT_DIGEST, (storable(digest),))
        session = _session(rows[0]) if rows else None
        if session is None or session.user.disabled or session.expires <= now or session.seen + idle <= now:
            return None
        return session

    @change
    def _set_seen(self, session_id: str, now: int) -> Work[None]:
        yield Write(_SET_SEEN, (session_id, now))


def _write_audit(owner: Row, count: int, by: Actor) -> Work[None]:
    uid, name, tenant = owner
    yield from write_audit(now(), by, "session.end", tenant, count=count, sample=[f"{name} {uid}"])


def _session(row: Row) -> WebSession:
    uid, created, seen, expires, address, agent, csrf, strong, *user = row
    return WebSession(uid, parse_user(tuple(user)), created, seen, expires, address, agent, csrf, bool(strong))
