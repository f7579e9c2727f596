"""Attempts to sign in, and the browsers in which a user has signed in before.

An attempt is taken before it is checked and given back if it succeeds, so any number of attempts at the same moment get
no more tries than the limit. It is counted for its source and for the account as a whole. A source is an address, a
known browser or a session. After `free` failures a source is locked for a time that doubles with each further failure;
an attempt while it is locked is not taken, not checked, and does not extend the lock. One failure is forgotten in each
hour.

The account as a whole has a higher limit than one address can ever reach: an address that goes on guessing gets one
attempt in an hour, which is as much as is forgotten. So a single stranger never locks an account, and many addresses
together get no more than one attempt in an hour either. A known browser, and a session, are counted only for
themselves: no lock that others caused keeps their user out.
"""

import msgspec

from gatepost.store.engine import Operations, Read, Rollback, Work, Write, change, query, storable

HOUR = 3_600_000
MAX_KNOWN_BROWSERS = 20
ACCOUNT = "account"

# `last` moves on by whole hours while failures are left, so that parts of an hour are not lost.
_TAKE = """INSERT INTO sign_in_attempts AS kept (user_uid, source, failures, last, locked_until)
VALUES ($1, $2, 1, $3, 0) ON CONFLICT (user_uid, source) DO UPDATE
SET failures = GREATEST(0, kept.failures - GREATEST(0, excluded.last - kept.last) / 3600000) + 1,
last = CASE WHEN kept.failures > GREATEST(0, excluded.last - kept.last) / 3600000
THEN kept.last + GREATEST(0, excluded.last - kept.last) / 3600000 * 3600000 ELSE excluded.last END
WHERE kept.locked_until <= excluded.last RETURNING failures"""
_LOCK = "UPDATE sign_in_attempts SET locked_until = $3 WHERE user_uid = $1 AND source = $2"
_GIVE_BACK = """UPDATE sign_in_attempts SET failures = GREATEST(0, failures - 1),
locked_until = CASE WHEN locked_until = $3 THEN 0 ELSE locked_until END WHERE user_uid = $1 AND source = $2"""
_FORGET_SOURCE = "DELETE FROM sign_in_attempts WHERE user_uid = $1 AND source = $2"
_FORGET_USER = "DELETE FROM sign_in_attempts WHERE user_uid = $1"
_PURGE = "DELETE FROM sign_in_attempts WHERE last <= $1 AND locked_until <= $2"
_STATES = "SELECT source, failures, locked_until FROM sign_in_attempts WHERE user_uid = $1 ORDER BY source"
_IS_KNOWN = "SELECT 1 FROM known_browsers WHERE user_uid = $1 AND digest = $2"
_REMEMBER = """INSERT INTO known_browsers (user_uid, digest, seen) VALUES ($1, $2, $3)
ON CONFLICT (user_uid, digest) DO UPDATE SET seen = excluded.seen"""
_FORGET_OLD = """DELETE FROM known_browsers WHERE user_uid = $1 AND digest NOT IN
(SELECT digest FROM known_browsers WHERE user_uid = $1 ORDER BY seen DESC, digest LIMIT $2)"""
_FORGET_BROWSERS = "DELETE FROM known_browsers WHERE user_uid = $1 AND digest <> $2"


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


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that was taken: whose it is, and where it was counted, each with the lock that it set (0 for none)."""

    user_uid: str
    counted: tuple[tuple[str, int], ...]


class AttemptState(msgspec.Struct, frozen=True):
    """The failures that are counted for one source, and until when it is locked."""

    source: str
    failures: int
    locked_until: int


def address_source(address: str) -> str:
    """Return the source of attempts from an address."""
    return f"address:{address}"


def browser_source(digest: str) -> str:
    """Return the source of attempts from a known browser."""
    return f"browser:{digest}"


def session_source(session_id: str) -> str:
    """Return the source of attempts to prove a password or a code again in a session."""
    return f"session:{session_id}"


class SignInAttemptStore(Operations):
    """How often signing in failed, and which browsers are known."""

    @change
    def take_attempt(
        self,
        user_uid: str,
        source: str,
        now: int,
        lockout: Lockout = SOURCE_LOCKOUT,
        account_lockout: Lockout = ACCOUNT_LOCKOUT,
    ) -> Work[Attempt | None]:
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
        return Attempt(uid, tuple(counted))

    async def take_attempt_of_nobody(self, source: str, now: int) -> None:
        """Write as much as `take_attempt` for a name that nobody has, so that the time taken tells nothing."""
        await self.take_attempt(NOBODY, source, now, UNLIMITED, UNLIMITED)

    @change
    def give_back_attempt(self, attempt: Attempt) -> Work[None]:
        """Undo the count of an attempt that was right, with the lock that it set itself."""
        for place, locked_until in attempt.counted:
            yield Write(_GIVE_BACK, (attempt.user_uid, place, locked_until))

    @change
    def finish_attempt(self, attempt: Attempt, now: int) -> Work[None]:
        """Undo the count of the attempt that completed a sign-in, and forget all failures of its source."""
        for place, locked_until in attempt.counted:
            if place == ACCOUNT:
                yield Write(_GIVE_BACK, (attempt.user_uid, place, locked_until))
            else:
                yield Write(_FORGET_SOURCE, (attempt.user_uid, place))
        yield Write(_PURGE, (now - 48 * HOUR, now))

    @query
    def attempt_states(self, user_uid: str) -> Work[tuple[AttemptState, ...]]:
        """The sources for which failures of a user are counted."""
        rows = yield Read(_STATES, (storable(user_uid.lower()),))
        return tuple(AttemptState(*row) for row in rows)

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


def lockout_wait(failures: int, lockout: Lockout) -> int:
    """How many milliseconds a source waits after so many failures in a row."""
    if failures < lockout.free:
        return 0
    return int(min(lockout.longest, lockout.first << min(failures - lockout.free, 40)))


def forget_attempts(uid: str) -> Work[None]:
    """Lift all locks of a user, as a part of a change that is audited itself."""
    yield Write(_FORGET_USER, (uid,))


def forget_browsers(uid: str, keep: str | None = None) -> Work[None]:
    """Forget the known browsers of a user but one, as a part of a change that is audited itself."""
    yield Write(_FORGET_BROWSERS, (uid, storable(keep) if keep else ""))
