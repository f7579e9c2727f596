"""Sessions of the web interface, found by the SHA-256 of their cookie's secret (see `apikeys` for why that is enough).

A session is over at its time, or when nobody used it for a while, or when its user is disabled; it is looked at on
every request, so ending one takes effect at once.
"""

import secrets

from gatepost.ids import new_id
from gatepost.store import users
from gatepost.store.auditing import noted
from gatepost.store.interface import Actor, Missing
from gatepost.store.userstore import Session
from gatepost.store.work import Read, Row, Work, Write, storable

# How exact "last seen" is; each session costs at most one write in this time.
SEEN_MILLISECONDS = 60_000
MAX_TEXT = 300

_READ = f"""SELECT id, sessions.created, seen, expires, address, agent, csrf, strong, {users.USER}
FROM sessions JOIN users ON users.uid = user_uid"""  # noqa: S608
_BY_DIGEST = _READ + " WHERE digest = $1"
_OF_USER = _READ + " WHERE user_uid = $1 AND expires > $2 ORDER BY seen DESC, id"
_INSERT = """INSERT INTO sessions (digest, id, user_uid, created, seen, expires, address, agent, csrf, strong)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9)"""
_ENABLED = "SELECT 1 FROM users WHERE uid = $1 AND disabled = 0 FOR KEY SHARE"
_SEEN = "UPDATE sessions SET seen = $2 WHERE id = $1 AND seen < $2"
_OWNER = "SELECT user_uid, users.name, tenant FROM sessions JOIN users ON users.uid = user_uid WHERE id = $1"
_NAMED = "SELECT users.uid, users.name, tenant FROM users WHERE uid = $1"
_END = "DELETE FROM sessions WHERE id = $1"
_PURGE = "DELETE FROM sessions WHERE expires <= $1 OR seen <= $2"


def create(
    user_uid: str, digest: str, expires: int, address: str, agent: str, strong: bool, now: int
) -> Work[Session | Missing]:
    """Sign somebody in."""
    uid = storable(user_uid.lower())
    if not (yield Read(_ENABLED, (uid,))):
        return Missing("user")
    session = (new_id(), uid, now, expires, storable(address[:MAX_TEXT]), storable(agent[:MAX_TEXT]))
    yield Write(_INSERT, (storable(digest), *session, secrets.token_urlsafe(32), int(strong)))
    rows = yield Read(_BY_DIGEST, (storable(digest),))
    return _made(rows[0])


def find(digest: str, now: int, idle: int) -> Work[Session | None]:
    """The session of a cookie, if it is good."""
    rows = yield Read(_BY_DIGEST, (storable(digest),))
    session = _made(rows[0]) if rows else None
    if session is None or session.user.disabled or session.expires <= now or session.seen + idle <= now:
        return None
    return session


def seen(session_id: str, now: int) -> Work[None]:
    """Note that a session was used."""
    yield Write(_SEEN, (session_id, now))


def of_user(user_uid: str, now: int) -> Work[tuple[Session, ...]]:
    """Those of a user, the last used first."""
    rows = yield Read(_OF_USER, (storable(user_uid.lower()), now))
    return tuple(map(_made, rows))


def end(session_id: str, user_uid: str | None, by: Actor, now: int) -> Work[bool]:
    """End one session, of that user if one is named."""
    owner = yield Read(_OWNER, (storable(session_id.lower()),))
    if not owner or user_uid not in (None, owner[0][0]):
        return False
    if not (yield Write(_END, (storable(session_id.lower()),))):
        return False
    yield from _noted(owner[0], 1, by, now)
    return True


def end_for(user_uid: str, keep: str | None, by: Actor, now: int) -> Work[int]:
    """End all sessions of a user but one."""
    owner = yield Read(_NAMED, (storable(user_uid.lower()),))
    if not owner:
        return 0
    ended: int = yield from users.signed_out(owner[0][0], keep)
    if ended:
        yield from _noted(owner[0], ended, by, now)
    return ended


def purge(now: int, idle: int) -> Work[int]:
    """Forget those that are over."""
    gone: int = yield Write(_PURGE, (now, now - idle))
    return gone


def _noted(owner: Row, count: int, by: Actor, now: int) -> Work[None]:
    uid, name, tenant = owner
    yield from noted(now, by, "session.end", tenant, count=count, sample=[f"{name} {uid}"])


def _made(row: Row) -> Session:
    uid, created, used, expires, address, agent, csrf, strong, *user = row
    return Session(uid, users.made(tuple(user)), created, used, expires, address, agent, csrf, bool(strong))
