"""Users of the web interface: their role, what they prove themselves by, and how often somebody guessed wrong.

Whoever may administer the whole deployment must not be the last to lose that. Changes that could take it from somebody
lock the rows of all such users first, in one order, so that of two administrators who disable each other one stays.
"""

from types import EllipsisType

from gatepost.ids import new_id
from gatepost.store.auditing import noted
from gatepost.store.interface import Actor, Missing, Taken
from gatepost.store.userstore import Credentials, LastAdministrator, Lockout, Role, User
from gatepost.store.work import Read, Row, Undone, Work, Write, storable

USER = "users.uid, users.name, role, tenant, users.created, disabled, totp_secret IS NOT NULL, last_sign_in"

_INSERT = """INSERT INTO users (uid, name, folded, role, tenant, created, disabled, password, totp_step, failures,
locked_until) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, 0, 0, 0) ON CONFLICT (folded) DO NOTHING"""
_ALL = f"SELECT {USER} FROM users ORDER BY folded"  # noqa: S608
_OF_TENANT = f"SELECT {USER} FROM users WHERE tenant = $1 ORDER BY folded"  # noqa: S608
_ONE = f"SELECT {USER} FROM users WHERE uid = $1"  # noqa: S608
_LOCKED = _ONE + " FOR UPDATE"
_CREDENTIALS = f"""SELECT {USER}, password, totp_secret, totp_step, failures, locked_until
FROM users WHERE folded = $1"""  # noqa: S608
_ADMINISTRATORS = """SELECT uid FROM users
WHERE role = 'administrator' AND tenant IS NULL AND disabled = 0 ORDER BY uid FOR UPDATE"""
_CHANGE = "UPDATE users SET role = $2, tenant = $3, disabled = $4 WHERE uid = $1"
_DELETE = "DELETE FROM users WHERE uid = $1"
_PASSWORD = "UPDATE users SET password = $2, failures = 0, locked_until = 0 WHERE uid = $1"  # noqa: S105
_TOTP = "UPDATE users SET totp_secret = $2, totp_step = $3 WHERE uid = $1"
_USE_STEP = "UPDATE users SET totp_step = $2 WHERE uid = $1 AND totp_step < $2"
_FAILURES = "SELECT failures FROM users WHERE uid = $1 FOR UPDATE"
_FAILED = "UPDATE users SET failures = $2, locked_until = $3 WHERE uid = $1"
_SIGNED_IN = "UPDATE users SET failures = 0, locked_until = 0, last_sign_in = $2 WHERE uid = $1"
_SIGN_OUT = "DELETE FROM sessions WHERE user_uid = $1 AND id <> $2"
_TENANT = "SELECT 1 FROM tenants WHERE uid = $1 FOR KEY SHARE"


def create(
    name: str, role: Role, tenant: str | None, password: str, by: Actor, now: int
) -> Work[User | Taken | Missing]:
    """A new user, unless another has the name."""
    user = User(new_id(), storable(name.strip()), role, tenant, now)
    if tenant and not (yield Read(_TENANT, (tenant,))):
        return Missing("tenant")
    row = (user.uid, user.name, folded(name), role, tenant, now, storable(password))
    if not (yield Write(_INSERT, row)):
        return Taken(name)
    yield from _noted(now, by, "user.create", user)
    return user


def everybody(tenant: str | None) -> Work[tuple[User, ...]]:
    """All users, or those of one tenant, by name."""
    rows = yield (Read(_OF_TENANT, (tenant,)) if tenant else Read(_ALL))
    return tuple(map(made, rows))


def one(uid: str) -> Work[User | None]:
    """One user."""
    rows = yield Read(_ONE, (_id(uid),))
    return made(rows[0]) if rows else None


def credentials(name: str) -> Work[Credentials | None]:
    """What a name has to prove."""
    rows = yield Read(_CREDENTIALS, (folded(name),))
    return Credentials(made(rows[0][:8]), *rows[0][8:]) if rows else None


def change(
    uid: str, role: Role | None, tenant: str | EllipsisType | None, disabled: bool | None, by: Actor, now: int
) -> Work[User | Missing | LastAdministrator]:
    """Change what is given; whoever loses something is signed out."""
    administrators = yield Read(_ADMINISTRATORS)
    rows = yield Read(_LOCKED, (_id(uid),))
    if not rows:
        return Missing("user")
    before = made(rows[0])
    new = User(
        before.uid,
        before.name,
        role or before.role,
        before.tenant if isinstance(tenant, EllipsisType) else tenant,
        before.created,
        before.disabled if disabled is None else disabled,
        before.totp,
        before.last_sign_in,
    )
    if new == before:
        return before
    if new.tenant and not (yield Read(_TENANT, (new.tenant,))):
        return Missing("tenant")
    if not administers(new) and [row[0] for row in administrators] == [new.uid]:
        return LastAdministrator(new.uid)
    yield Write(_CHANGE, (new.uid, new.role, new.tenant, int(new.disabled)))
    if new.disabled or (new.role, new.tenant) != (before.role, before.tenant):
        yield from signed_out(new.uid)
    yield from _noted(now, by, _action(before, new), new)
    return new


def delete(uid: str, by: Actor, now: int) -> Work[User | Missing | LastAdministrator]:
    """Delete a user, unless nobody could administer any more."""
    administrators = yield Read(_ADMINISTRATORS)
    rows = yield Read(_LOCKED, (_id(uid),))
    if not rows:
        return Missing("user")
    user = made(rows[0])
    if [row[0] for row in administrators] == [user.uid]:
        return LastAdministrator(user.uid)
    yield from signed_out(user.uid)
    yield Write(_DELETE, (user.uid,))
    yield from _noted(now, by, "user.delete", user)
    return user


def set_password(uid: str, password: str, keep: str | None, by: Actor, now: int) -> Work[User | Missing]:
    """Another password: whoever knew the old one is signed out."""
    rows = yield Read(_LOCKED, (_id(uid),))
    if not rows:
        return Missing("user")
    user = made(rows[0])
    yield Write(_PASSWORD, (user.uid, storable(password)))
    yield from signed_out(user.uid, keep)
    yield from _noted(now, by, "user.password", user)
    return user


def set_totp(uid: str, secret: str | None, step: int, by: Actor, now: int) -> Work[User | Missing]:
    """Set or remove the second factor."""
    if not (yield Write(_TOTP, (_id(uid), secret, step))):
        return Missing("user")
    rows = yield Read(_ONE, (_id(uid),))
    user = made(rows[0])
    yield from _noted(now, by, "user.totp", user, "set" if secret else "removed")
    return user


def use_step(uid: str, step: int) -> Work[bool]:
    """Use up a code; the database decides which of two that bring it is first."""
    return bool((yield Write(_USE_STEP, (_id(uid), step))))


def failed(uid: str, now: int, lockout: Lockout) -> Work[int]:
    """Count a failure; returns until when the user is locked out."""
    rows = yield Read(_FAILURES, (_id(uid),))
    if not rows:
        return 0
    failures = rows[0][0] + 1
    until = now + wait if (wait := waiting(failures, lockout)) else 0
    yield Write(_FAILED, (_id(uid), failures, until))
    return until


def signed_in(uid: str, now: int) -> Work[None]:
    """Somebody got in."""
    if not (yield Write(_SIGNED_IN, (_id(uid), now))):
        raise Undone(None)


def signed_out(uid: str, keep: str | None = None) -> Work[int]:
    """End all sessions of a user but one, as a part of a change that is audited itself."""
    ended: int = yield Write(_SIGN_OUT, (uid, storable(keep.lower()) if keep else ""))
    return ended


def waiting(failures: int, lockout: Lockout) -> int:
    """How long a user waits after so many failures in a row."""
    if failures < lockout.free:
        return 0
    return int(min(lockout.longest, lockout.first << min(failures - lockout.free, 40)))


def administers(user: User) -> bool:
    """May this user administer the whole deployment?"""
    return user.role == "administrator" and user.tenant is None and not user.disabled


def folded(name: str) -> str:
    """A name as it is compared."""
    return storable(name.strip().casefold())


def made(row: Row) -> User:
    """The user of a row with the columns of `USER`."""
    uid, name, role, tenant, created, disabled, totp, last = row
    return User(uid, name, role, tenant, created, bool(disabled), bool(totp), last)


def _id(uid: str) -> str:
    return storable(uid.lower())


def _action(before: User, new: User) -> str:
    if before.disabled != new.disabled:
        return "user.disable" if new.disabled else "user.enable"
    return "user.change"


def _noted(now: int, by: Actor, action: str, user: User, *more: str) -> Work[None]:
    sample = (f"{user.name} {user.uid}", user.role, *more)
    yield from noted(now, by, action, user.tenant, count=1, sample=sample)
