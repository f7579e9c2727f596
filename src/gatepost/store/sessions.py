"""Sessions of the web interface, attempts to sign in, and the browsers in which a user has signed in before.

A session is found by the SHA-256 of its cookie's secret (see `api_keys` for why that is enough). It is over at its
time, or when it was not used for a while, or when its user is disabled. It is checked on every request, so ending one
takes effect at once.

An attempt to sign in is taken before it is checked and given back if it succeeds, so any number of attempts at the same
moment get no more tries than the limit. It is counted for its source and for the account as a whole. A source is an
address, a known browser or a session. After `free` failures a source is locked for a time that doubles with each
further failure; an attempt while it is locked is not taken, not checked, and does not extend the lock. One failure is
forgotten in each hour.

The account as a whole has a higher limit than one address can ever reach: an address that goes on guessing gets one
attempt in an hour, which is as much as is forgotten. So a single stranger never locks an account, and many addresses
together get no more than one attempt in an hour either. A known browser, and a session, are counted only for
themselves: no lock that others caused keeps their user out.
"""

import secrets
from functools import partial

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Rollback, Work, Write, change, now, query, storable, write_rows
from gatepost.store.errors import NotFound, StorageError
from gatepost.store.sql import Row, sql
from gatepost.store.users import (
    KEY_IDS,
    PROVIDER,
    SELECT_EXTERNAL,
    USER_COLUMNS,
    Credentials,
    User,
    delete_sessions,
    parse_user,
)

# A session that is not used for so long is over, whatever its cookie says.
IDLE_MILLISECONDS = 12 * 3_600_000
# How exact "last seen" is; each session costs at most one write in this time.
SEEN_MILLISECONDS = 60_000
MAX_TEXT = 300
# Sessions of one user; of more, those that were not used for longest end.
MAX_OF_USER = 100

_SELECT = f"""SELECT id, sessions.created, seen, expires, address, agent, csrf, strong, {USER_COLUMNS}
FROM sessions JOIN users ON users.uid = user_uid"""  # noqa: S608
_SELECT_DIGEST = sql(_SELECT + " WHERE digest = $1")
_SELECT_USER = sql(_SELECT + " WHERE user_uid = $1 AND expires > $2 ORDER BY seen DESC, id")
_INSERT = sql("""INSERT INTO sessions
(digest, id, user_uid, created, seen, expires, address, agent, csrf, strong, provider_session)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10)""")
_LOCK_PROOFS = sql("SELECT password, totp_secret FROM users WHERE uid = $1 AND disabled = 0 @lock(UPDATE)")
_KEY_IDS = sql(f"SELECT {KEY_IDS} FROM users WHERE uid = $1")  # noqa: S608
_SET_SEEN = sql("UPDATE sessions SET seen = $2 WHERE id = $1 AND seen < $2")
_OWNER = sql("SELECT user_uid, users.name, tenant FROM sessions JOIN users ON users.uid = user_uid WHERE id = $1")
_USER_NAME = sql("SELECT users.uid, users.name, tenant FROM users WHERE uid = $1")
_DELETE_MANY = sql("""DELETE FROM sessions WHERE user_uid = $1 AND id IN (SELECT id FROM sessions WHERE user_uid = $1
ORDER BY seen DESC, id DESC LIMIT 1000 OFFSET $2)""")
_DELETE = sql("DELETE FROM sessions WHERE id = $1")
_OF_PROVIDER = sql("""SELECT id, user_uid, users.name, tenant, external FROM sessions JOIN users ON users.uid = user_uid
WHERE provider_session = $1 AND external IS NOT NULL""")
_DELETE_OVER = sql("DELETE FROM sessions WHERE expires <= $1 OR seen <= $2")


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


def _write_audit(owner: Row, count: int, by: Actor) -> Work[None]:
    uid, name, tenant = owner
    yield from write_audit(now(), by, "session.end", tenant, count=count, sample=[f"{name} {uid}"])


def _session(row: Row) -> WebSession:
    uid, created, seen, expires, address, agent, csrf, strong, *user = row
    return WebSession(uid, parse_user(tuple(user)), created, seen, expires, address, agent, csrf, bool(strong))


HOUR = 3_600_000
MAX_KNOWN_BROWSERS = 20
ACCOUNT = "account"

# `last` moves on by whole hours while failures are left, so that parts of an hour are not lost.
_TAKE = sql("""INSERT INTO sign_in_attempts AS kept (user_uid, source, failures, last, locked_until)
VALUES ($1, $2, 1, $3, 0) ON CONFLICT (user_uid, source) DO UPDATE
SET failures = @larger(0, kept.failures - @larger(0, excluded.last - kept.last) / 3600000) + 1,
last = CASE WHEN kept.failures > @larger(0, excluded.last - kept.last) / 3600000
THEN kept.last + @larger(0, excluded.last - kept.last) / 3600000 * 3600000 ELSE excluded.last END
WHERE kept.locked_until <= excluded.last RETURNING failures""")
_LOCK = sql("UPDATE sign_in_attempts SET locked_until = $3 WHERE user_uid = $1 AND source = $2")
_GIVE_BACK = sql("""UPDATE sign_in_attempts SET failures = @larger(0, failures - 1),
locked_until = CASE WHEN locked_until = $3 THEN 0 ELSE locked_until END WHERE user_uid = $1 AND source = $2""")
_FORGET_SOURCE = sql("DELETE FROM sign_in_attempts WHERE user_uid = $1 AND source = $2")
_PURGE = sql("DELETE FROM sign_in_attempts WHERE last <= $1 AND locked_until <= $2")
_IS_KNOWN = sql("SELECT 1 FROM known_browsers WHERE user_uid = $1 AND digest = $2")
_REMEMBER = sql("""INSERT INTO known_browsers (user_uid, digest, seen) VALUES ($1, $2, $3)
ON CONFLICT (user_uid, digest) DO UPDATE SET seen = excluded.seen""")
_FORGET_OLD = sql("""DELETE FROM known_browsers WHERE user_uid = $1 AND digest NOT IN
(SELECT digest FROM known_browsers WHERE user_uid = $1 ORDER BY seen DESC, digest LIMIT $2)""")


class Lockout(msgspec.Struct, frozen=True):
    """How guessing is slowed down: so many failures are free, then the wait doubles from `first` up to `longest`."""

    free: int = 5
    first: int = 30_000
    longest: int = HOUR


SOURCE_LOCKOUT = Lockout()
ACCOUNT_LOCKOUT = Lockout(free=20)
UNLIMITED = Lockout(free=1 << 60)
# No user has this uid.
NOBODY = "nobody"


class SignInAttempt(msgspec.Struct, frozen=True):
    """An attempt that was taken: whose it is, and where it was counted, each with the lock that it set (0 for none)."""

    user_uid: str
    counted: tuple[tuple[str, int], ...]


def address_source(address: str) -> str:
    """Return the source of attempts from an address."""
    return f"address:{address}"


def browser_source(digest: str) -> str:
    """Return the source of attempts from a known browser."""
    return f"browser:{digest}"


def session_source(session_id: str) -> str:
    """Return the source of attempts to prove a password or a code again in a session."""
    return f"session:{session_id}"


class Sessions(Operations):
    """Who is signed in to the web interface, how often signing in failed, and which browsers are known."""

    @change
    def take_attempt(
        self,
        user_uid: str,
        source: str,
        now: int,
        lockout: Lockout = SOURCE_LOCKOUT,
        account_lockout: Lockout = ACCOUNT_LOCKOUT,
    ) -> Work[SignInAttempt | None]:
        """Count an attempt before it is checked; None, with nothing changed, if its source or the account is locked."""
        uid = storable(user_uid.lower())
        # The account first, always: two attempts wait for each other's rows in one order.
        limits = {ACCOUNT: account_lockout} if source.startswith("address:") else {}
        counted = []
        for place, limit in {**limits, storable(source): lockout}.items():
            rows = yield Read(_TAKE, (uid, place, now))
            if not rows:
                raise Rollback(None)
            wait = lockout_wait(rows[0][0], limit)
            locked_until = now + wait if wait else 0
            if locked_until:
                yield Write(_LOCK, (uid, place, locked_until))
            counted.append((place, locked_until))
        return SignInAttempt(uid, tuple(counted))

    async def take_attempt_of_nobody(self, source: str, now: int) -> None:
        """Write as much as `take_attempt` for a name that nobody has, so that the time taken tells nothing."""
        await self.take_attempt(NOBODY, source, now, UNLIMITED, UNLIMITED)

    @change
    def give_back_attempt(self, attempt: SignInAttempt) -> Work[None]:
        """Undo the count of an attempt that was right, with the lock that it set itself."""
        for place, locked_until in attempt.counted:
            yield Write(_GIVE_BACK, (attempt.user_uid, place, locked_until))

    @change
    def finish_attempt(self, attempt: SignInAttempt, now: int) -> Work[None]:
        """Undo the count of the attempt that completed a sign-in, and forget all failures of its source."""
        for place, locked_until in attempt.counted:
            if place == ACCOUNT:
                yield Write(_GIVE_BACK, (attempt.user_uid, place, locked_until))
            else:
                yield Write(_FORGET_SOURCE, (attempt.user_uid, place))
        yield Write(_PURGE, (now - 48 * HOUR, now))

    @query
    def is_known_browser(self, user_uid: str, digest: str) -> Work[bool]:
        """Has the user signed in before in the browser with this cookie?"""
        return bool((yield Read(_IS_KNOWN, (storable(user_uid.lower()), storable(digest)))))

    @change
    def remember_browser(self, user_uid: str, digest: str, now: int) -> Work[None]:
        """Store that the user has signed in in a browser; of too many the one that was unused longest is forgotten."""
        uid = storable(user_uid.lower())
        yield Write(_REMEMBER, (uid, storable(digest), now))
        yield Write(_FORGET_OLD, (uid, MAX_KNOWN_BROWSERS))

    @change
    def create(
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

    async def find(
        self, digest: str, now: int, idle: int = IDLE_MILLISECONDS, *, is_use: bool = True
    ) -> WebSession | None:
        """The session of a cookie, if it and its user are still valid; its use is stored, at most once a minute, unless
        nobody uses it: a page that refreshes itself must not keep a session alive."""
        found = await self._find_session(digest, now, idle)
        if found is None or not is_use or now - found.seen < SEEN_MILLISECONDS:
            return found
        try:
            await self._engine.change(partial(write_rows, _SET_SEEN, found.id, now))
        except StorageError:
            # A request that only reads goes on; a change meets the same trouble and reports it.
            return found
        return msgspec.structs.replace(found, seen=now)

    @query
    def of_user(self, user_uid: str, now: int) -> Work[tuple[WebSession, ...]]:
        """Those of a user that have not expired, the last used first."""
        rows = yield Read(_SELECT_USER, (storable(user_uid.lower()), now))
        return tuple(map(_session, rows))

    @change
    def end(self, session_id: str, by: Actor, user_uid: str | None = None) -> Work[bool]:
        """End one, of that user if one is named; False where there is none."""
        owner = yield Read(_OWNER, (storable(session_id.lower()),))
        if not owner or user_uid not in (None, owner[0][0]):
            return False
        if not (yield Write(_DELETE, (storable(session_id.lower()),))):
            return False
        yield from _write_audit(owner[0], 1, by)
        return True

    @change
    def replace(self, session_id: str, user_uid: str) -> Work[None]:
        """Delete a session that had only the password, once the whole one takes its place: nobody has ended it."""
        owner = yield Read(_OWNER, (storable(session_id.lower()),))
        if owner and owner[0][0] == user_uid:
            yield Write(_DELETE, (storable(session_id.lower()),))

    @change
    def end_all(self, user_uid: str, by: Actor, keep: str | None = None) -> Work[int]:
        """End all sessions of a user, but the one with the id `keep`; returns how many."""
        owner = yield Read(_USER_NAME, (storable(user_uid.lower()),))
        if not owner:
            return 0
        ended = yield from delete_sessions(owner[0][0], keep)
        if ended:
            yield from _write_audit(owner[0], ended, by)
        return ended

    @change
    def end_of_provider(self, issuer: str, subject: str, session: str) -> Work[int]:
        """End the sessions that a provider names: those of a session there, or all of a subject; returns how many."""
        whole, ended = storable(f"{issuer} {subject}"), dict[str, tuple[str, str | None, int]]()
        if session:
            for key, uid, name, tenant, external in (yield Read(_OF_PROVIDER, (storable(session),))):
                if external == whole or (not subject and external.startswith(whole)):
                    yield Write(_DELETE, (key,))
                    ended[uid] = (name, tenant, ended.get(uid, ("", None, 0))[2] + 1)
        else:
            for row in (yield Read(SELECT_EXTERNAL, (whole,))):
                user = parse_user(row)
                ended[user.uid] = (user.name, user.tenant, (yield from delete_sessions(user.uid)))
        for uid, (name, tenant, count) in ended.items():
            if count:
                yield from write_audit(now(), PROVIDER, "session.end", tenant, count=count, sample=[f"{name} {uid}"])
        return sum(count for _, _, count in ended.values())

    @change
    def purge(self, now: int, idle: int = IDLE_MILLISECONDS) -> Work[int]:
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


def lockout_wait(failures: int, lockout: Lockout) -> int:
    """How many milliseconds a source waits after so many failures in a row."""
    if failures < lockout.free:
        return 0
    return int(min(lockout.longest, lockout.first << min(failures - lockout.free, 40)))
