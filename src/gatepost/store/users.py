"""Users of the web interface: their role, and what they prove themselves by.

A user without a tenant works on all tenants. There must always be an administrator of all tenants who has a password
here: users of an OpenID provider do not count, since the provider can be gone. Changes that could take this role from a
user lock the rows of all such users first, in one order, so that of two administrators who disable each other one
stays. Of a password there is only an argon2 hash; second factors are the subject of `second_factors`, failed attempts
of `sessions`.

Users of an OpenID provider are made when they first sign in, without a password, and kept as the claims say. Such a
user is known by issuer and subject, which the provider never gives to anybody else. The name is only for people:
a user here who has the same name is somebody else. Role and tenant are taken from the claims at each sign-in; a change
of them is audited and ends the sessions from before, as if an administrator had made it.

A saved search is the query of a page's address under a name, for the user who saved it. A name that is saved again on
the same page gets the new query. The number for each user is bounded.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, ChangedValue, write_audit
from gatepost.store.engine import Operations, Read, Rollback, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound, TenantFull
from gatepost.store.sql import Row, sql
from gatepost.store.tenants import tenant_exists

USER_COLUMNS = (
    "users.uid, users.name, role, tenant, users.created, disabled, totp_secret IS NOT NULL, last_sign_in, zone,"
    " must_change, external, (SELECT COUNT(*) FROM security_keys WHERE user_uid = users.uid)"
)
MAX_ZONE = 100
USER_WIDTH = USER_COLUMNS.count(",") + 1

MAX_OF_TENANT = 2_000
_COUNT = sql("SELECT count(*) FROM users WHERE tenant = $1")
_INSERT = sql("""INSERT INTO users
(uid, name, folded, role, tenant, created, disabled, password, totp_step, must_change, external)
VALUES ($1, $2, $3, $4, $5, $6, 0, $7, 0, $8, $9) ON CONFLICT DO NOTHING""")
_SELECT_ALL = sql(f"SELECT {USER_COLUMNS} FROM users ORDER BY folded")  # noqa: S608
_SELECT_TENANT = sql(f"SELECT {USER_COLUMNS} FROM users WHERE tenant = $1 ORDER BY folded")  # noqa: S608
SELECT_USER = sql(f"SELECT {USER_COLUMNS} FROM users WHERE uid = $1")  # noqa: S608
LOCK_USER = sql(SELECT_USER + " @lock(UPDATE)")
# The ids of a user's security keys: what has to be the same when a session begins as when a key was shown.
KEY_IDS = "(SELECT COALESCE(STRING_AGG(id, ' ' ORDER BY id), '') FROM security_keys WHERE user_uid = users.uid)"
_CREDENTIALS = sql(f"""SELECT {USER_COLUMNS}, password, totp_secret, totp_step, {KEY_IDS}
FROM users WHERE folded = $1""")  # noqa: S608
_LOCK_ADMINISTRATORS = sql("""SELECT uid FROM users
WHERE role = 'administrator' AND tenant IS NULL AND disabled = 0 AND external IS NULL ORDER BY uid @lock(UPDATE)""")
_UPDATE = sql("UPDATE users SET role = $2, tenant = $3, disabled = $4 WHERE uid = $1")
DELETE_CODES = sql("DELETE FROM recovery_codes WHERE user_uid = $1")
DELETE_KEYS = sql("DELETE FROM security_keys WHERE user_uid = $1")
_DELETE = (
    DELETE_CODES,
    DELETE_KEYS,
    sql("DELETE FROM saved_searches WHERE user_uid = $1"),
    sql("DELETE FROM users WHERE uid = $1"),
)
_SET_PASSWORD = sql("UPDATE users SET password = $2, must_change = $3 WHERE uid = $1")
_RENEW_PASSWORD = sql("UPDATE users SET password = $3 WHERE uid = $1 AND password = $2")
_SET_ZONE = sql("UPDATE users SET zone = $2 WHERE uid = $1")
# The value of `must_change` for the password of the first start, which the operator has read and nobody else.
_FIRST = 2
_SET_SIGN_IN = sql("UPDATE users SET last_sign_in = $2 WHERE uid = $1")
_DELETE_SESSIONS = sql("DELETE FROM sessions WHERE user_uid = $1 AND id <> $2")
_FORGET_ATTEMPTS = sql("DELETE FROM sign_in_attempts WHERE user_uid = $1")
_FORGET_BROWSERS = sql("DELETE FROM known_browsers WHERE user_uid = $1 AND digest <> $2")

Role: TypeAlias = Literal["administrator", "analyst", "auditor"]


class User(msgspec.Struct, frozen=True):
    """A person who may sign in. `tenant` None is all tenants; `totp` says whether an authenticator app is set up, and
    `keys` is the number of security keys; `zone` is the name of the time zone in which times are shown, "" for UTC.
    `must_change` says that somebody else chose the password, `first_password` that it is the one that the first start
    printed; `external` is the issuer and the subject of a user of an OpenID provider."""

    uid: str
    name: str
    role: Role
    tenant: str | None
    created: int
    disabled: bool = False
    totp: bool = False
    last_sign_in: int | None = None
    zone: str = ""
    must_change: bool = False
    external: str | None = None
    first_password: bool = False
    keys: int = 0

    @property
    def has_second_factor(self) -> bool:
        """Does signing in need more than the password?"""
        return self.totp or self.keys > 0


class Credentials(msgspec.Struct, frozen=True):
    """What signing in is checked against. `totp_secret` is encrypted; codes up to `totp_step` are used up;
    `key_ids` are the ids of all security keys."""

    user: User
    password: str
    totp_secret: str | None = None
    totp_step: int = 0
    key_ids: str = ""


def delete_sessions(uid: str, keep: str | None = None) -> Work[int]:
    """End all sessions of a user but one, as a part of a change that is audited itself."""
    ended: int = yield Write(_DELETE_SESSIONS, (uid, storable(keep.lower()) if keep else ""))
    return ended


def forget_attempts(uid: str) -> Work[None]:
    """Lift all locks of a user, as a part of a change that is audited itself."""
    yield Write(_FORGET_ATTEMPTS, (uid,))


def forget_browsers(uid: str, keep: str | None = None) -> Work[None]:
    """Forget the known browsers of a user but one, as a part of a change that is audited itself."""
    yield Write(_FORGET_BROWSERS, (uid, storable(keep) if keep else ""))


def parse_user(row: Row) -> User:
    """The user of a row with `USER_COLUMNS`."""
    uid, name, role, tenant, created, disabled, totp, last, zone, must_change, external, keys = row
    return User(
        uid=uid,
        name=name,
        role=role,
        tenant=tenant,
        created=created,
        disabled=bool(disabled),
        totp=bool(totp),
        last_sign_in=last,
        zone=zone,
        must_change=must_change == 1,
        external=external or None,
        first_password=must_change == _FIRST,
        keys=keys,
    )


def _administers_all(user: User) -> bool:
    return user.role == "administrator" and user.tenant is None and not user.disabled and not user.external


def _fold_name(name: str) -> str:
    """A name as it is compared."""
    return storable(name.strip().casefold())


def _normalize_uid(uid: str) -> str:
    return storable(uid.lower())


def _action(before: User, new: User) -> str:
    if before.disabled != new.disabled:
        return "user.disable" if new.disabled else "user.enable"
    return "user.change"


def _list_changes(before: User, new: User) -> list[ChangedValue]:
    values = (("role", before.role, new.role), ("tenant", before.tenant or "all", new.tenant or "all"))
    disabled = ("disabled", str(before.disabled).lower(), str(new.disabled).lower())
    return [ChangedValue(*each) for each in (*values, disabled) if each[1] != each[2]]


def _write_audit(
    now: int, by: Actor, action: str, user: User, *more: str, changes: Sequence[ChangedValue] = ()
) -> Work[None]:
    sample = (f"{user.name} {user.uid}", user.role, *more)
    yield from write_audit(now, by, action, user.tenant, count=1, sample=sample, changes=changes)


PROVIDER = Actor("system", "OpenID Connect")

SELECT_EXTERNAL = sql(f"SELECT {USER_COLUMNS} FROM users WHERE external = $1 @lock(UPDATE)")  # noqa: S608


def _create(external: str, names: Sequence[str], role: Role, owner: str | None) -> Work[User | NameTaken]:
    for name in names:
        shown = storable(name.strip())
        user = User(new_id(), shown, role, owner, now(), external=external)
        if (yield Write(_INSERT, (user.uid, shown, _fold_name(name), role, owner, user.created, "", 0, external))):
            yield from _write_audit(user.created, PROVIDER, "user.create", user, "external")
            return user
    # Two first sign-ins at the same moment: the other one has made the user.
    rows = yield Read(SELECT_EXTERNAL, (external,))
    return parse_user(rows[0]) if rows else NameTaken(names[0])


MAX_SEARCHES = 100
# Searches that are shared in one tenant.
MAX_SHARED = 100
MAX_NAME = 100
MAX_QUERY = 4_000

_SEARCH_COLUMNS = "id, page, name, query, user_uid, shared"
_SELECT = sql(f"SELECT {_SEARCH_COLUMNS} FROM saved_searches WHERE user_uid = $1 ORDER BY page, name, id")  # noqa: S608
_SELECT_SHARED = sql(f"""SELECT {_SEARCH_COLUMNS} FROM saved_searches WHERE shared IS NOT NULL AND shared = $1
ORDER BY page, name, id LIMIT $2""")  # noqa: S608
_COUNT_SHARED = sql("SELECT count(*) FROM saved_searches WHERE shared IS NOT NULL AND shared = $1")
_DELETE_NAME = sql("DELETE FROM saved_searches WHERE user_uid = $1 AND page = $2 AND name = $3")
_COUNT_SEARCHES = sql("SELECT count(*) FROM saved_searches WHERE user_uid = $1")
_INSERT_SEARCH = sql("""INSERT INTO saved_searches (id, user_uid, page, name, query, created, shared)
VALUES ($1, $2, $3, $4, $5, $6, $7)""")
_DELETE_SEARCH = sql("DELETE FROM saved_searches WHERE id = $1 AND (user_uid = $2 OR shared = $3)")


class SavedSearch(msgspec.Struct, frozen=True):
    """A search of one user: the path of its page, its name, and the query of the address, which has how the page is
    shown. `shared` is the tenant whose users see it too, "" for those of all tenants; None is the user's own."""

    id: str
    page: str
    name: str
    query: str
    owner: str = ""
    shared: str | None = None


class Users(Operations):
    """Users of the web interface, and the searches that they saved. Every change of a user is audited, never with a
    secret."""

    @change
    def create(
        self,
        name: str,
        role: Role,
        tenant: str | None,
        password: str,
        by: Actor,
        *,
        must_change: bool = False,
        first_password: bool = False,
    ) -> Work[User | NameTaken | NotFound | TenantFull]:
        """A new user. Names are compared without regard to case; `password` is an argon2 hash, which the user
        `must_change` where somebody else knows the password."""
        owner, state = normalize_scope(tenant), _FIRST if first_password else int(must_change)
        user = User(
            new_id(), storable(name.strip()), role, owner, now(), must_change=must_change, first_password=first_password
        )
        if owner and not (yield from tenant_exists(owner)):
            return NotFound("tenant")
        if owner and int((yield Read(_COUNT, (owner,)))[0][0]) >= MAX_OF_TENANT:
            return TenantFull("users", MAX_OF_TENANT)
        row = (user.uid, user.name, _fold_name(name), role, owner, user.created, storable(password), state, None)
        if not (yield Write(_INSERT, row)):
            return NameTaken(name)
        yield from _write_audit(user.created, by, "user.create", user)
        return user

    @query
    def all(self, tenant: str | None = None) -> Work[tuple[User, ...]]:
        """All users, or those of one tenant, by name."""
        owner = normalize_scope(tenant)
        rows = yield (Read(_SELECT_TENANT, (owner,)) if owner else Read(_SELECT_ALL))
        return tuple(map(parse_user, rows))

    @query
    def find(self, uid: str) -> Work[User | None]:
        """One user; None where there is none."""
        rows = yield Read(SELECT_USER, (_normalize_uid(uid),))
        return parse_user(rows[0]) if rows else None

    @query
    def credentials(self, name: str) -> Work[Credentials | None]:
        """What a user of that name has to prove, whether it is disabled or not."""
        rows = yield Read(_CREDENTIALS, (_fold_name(name),))
        return Credentials(parse_user(rows[0][:USER_WIDTH]), *rows[0][USER_WIDTH:]) if rows else None

    @change
    def update(
        self, uid: str, *, by: Actor, role: Role | None = None, disabled: bool | None = None
    ) -> Work[User | NotFound | LastAdministrator]:
        """Change what is given. A user who is disabled, or given another role, is signed out everywhere."""
        administrators = yield Read(_LOCK_ADMINISTRATORS)
        rows = yield Read(LOCK_USER, (_normalize_uid(uid),))
        if not rows:
            return NotFound("user")
        before = parse_user(rows[0])
        is_disabled = before.disabled if disabled is None else disabled
        new = msgspec.structs.replace(before, role=role or before.role, disabled=is_disabled)
        if new == before:
            return before
        if not _administers_all(new) and [row[0] for row in administrators] == [new.uid]:
            return LastAdministrator(new.uid)
        yield Write(_UPDATE, (new.uid, new.role, new.tenant, int(new.disabled)))
        if new.disabled or new.role != before.role:
            yield from delete_sessions(new.uid)
        yield from _write_audit(now(), by, _action(before, new), new, changes=_list_changes(before, new))
        return new

    @change
    def delete(self, uid: str, by: Actor) -> Work[User | NotFound | LastAdministrator]:
        """Delete a user with all sessions, unless it is the last administrator of all tenants."""
        administrators = yield Read(_LOCK_ADMINISTRATORS)
        rows = yield Read(LOCK_USER, (_normalize_uid(uid),))
        if not rows:
            return NotFound("user")
        user = parse_user(rows[0])
        if [row[0] for row in administrators] == [user.uid]:
            return LastAdministrator(user.uid)
        yield from delete_sessions(user.uid)
        yield from forget_attempts(user.uid)
        yield from forget_browsers(user.uid)
        for statement in _DELETE:
            yield Write(statement, (user.uid,))
        yield from _write_audit(now(), by, "user.delete", user)
        return user

    @change
    def set_password(
        self,
        uid: str,
        password: str,
        by: Actor,
        keep: str | None = None,
        keep_browser: str | None = None,
        *,
        must_change: bool = False,
    ) -> Work[User | NotFound]:
        """Set another argon2 hash, lift all locks, end all sessions but the one with the id `keep`, and forget all
        known browsers but `keep_browser`. A user of an OpenID provider has no password, and is `NotFound`."""
        rows = yield Read(LOCK_USER, (_normalize_uid(uid),))
        user = parse_user(rows[0]) if rows else None
        if user is None or user.external:
            return NotFound("user")
        yield Write(_SET_PASSWORD, (user.uid, storable(password), int(must_change)))
        yield from delete_sessions(user.uid, keep)
        yield from forget_attempts(user.uid)
        yield from forget_browsers(user.uid, keep_browser)
        yield from _write_audit(now(), by, "user.password", user)
        return user

    @change
    def renew_password(self, uid: str, before: str, password: str) -> Work[bool]:
        """Replace the hash of a password by another hash of the same password; False if it was changed meanwhile."""
        return bool((yield Write(_RENEW_PASSWORD, (_normalize_uid(uid), before, storable(password)))))

    @change
    def set_zone(self, uid: str, zone: str) -> Work[None]:
        """Store the time zone in which a user reads times; "" is UTC."""
        yield Write(_SET_ZONE, (_normalize_uid(uid), storable(zone[:MAX_ZONE])))

    @change
    def note_sign_in(self, uid: str, now: int, address: str = "", proof: str = "") -> Work[None]:
        """Store when a user last signed in, and put it on the audit trail with the address and with what was shown
        besides the password, or instead of it."""
        rows = yield Read(SELECT_USER, (_normalize_uid(uid),))
        if not rows or not (yield Write(_SET_SIGN_IN, (_normalize_uid(uid), now))):
            raise Rollback(None)
        user = parse_user(rows[0])
        by, sample = Actor("user", user.name, user.uid), (storable(address), *((proof,) if proof else ()))
        yield from write_audit(now, by, "user.signIn", user.tenant, count=1, sample=sample)

    @change
    def admit_external(
        self, external: str, names: Sequence[str], role: Role, tenant: str | None
    ) -> Work[User | NotFound | NameTaken]:
        """Return the user of an issuer and subject, with the role and the tenant that the claims say; a new one gets
        the first of the names that nobody has."""
        owner, known = normalize_scope(tenant), storable(external)
        if owner and not (yield from tenant_exists(owner)):
            return NotFound("tenant")
        rows = yield Read(SELECT_EXTERNAL, (known,))
        if not rows:
            return (yield from _create(known, names, role, owner))
        before = parse_user(rows[0])
        if (before.role, before.tenant) == (role, owner):
            return before
        new = msgspec.structs.replace(before, role=role, tenant=owner)
        yield Write(_UPDATE, (new.uid, role, owner, int(new.disabled)))
        yield from delete_sessions(new.uid)
        yield from _write_audit(now(), PROVIDER, "user.change", new, changes=_list_changes(before, new))
        return new

    @query
    def saved_searches(self, user_uid: str, tenant: str | None = None) -> Work[tuple[SavedSearch, ...]]:
        """All searches of a user, by page and name, and then those that others share with the users of the tenant."""
        own = tuple(SavedSearch(*row) for row in (yield Read(_SELECT, (user_uid,))))
        shared = yield Read(_SELECT_SHARED, (normalize_scope(tenant) or "", MAX_SHARED))
        return (*own, *(found for row in shared if (found := SavedSearch(*row)).owner != user_uid))

    @change
    def save_search(
        self, user_uid: str, page: str, name: str, query: str, *, shared: bool = False, tenant: str | None = None
    ) -> Work[bool]:
        """Save a search, for the user alone or for all users of the tenant; False where there are too many already."""
        wanted = (storable(name[:MAX_NAME]), storable(query[:MAX_QUERY]))
        scope = (normalize_scope(tenant) or "") if shared else None
        yield Write(_DELETE_NAME, (user_uid, page, wanted[0]))
        rows = yield Read(_COUNT_SEARCHES, (user_uid,))
        if int(rows[0][0]) >= MAX_SEARCHES:
            return False
        if scope is not None and int((yield Read(_COUNT_SHARED, (scope,)))[0][0]) >= MAX_SHARED:
            return False
        yield Write(_INSERT_SEARCH, (new_id(), user_uid, page, *wanted, now(), scope))
        return True

    @change
    def delete_search(self, uid: str, user_uid: str, administers: str | None = None) -> Work[bool]:
        """Delete a search of this user, or one that is shared in the scope that the user administers ("" for all
        tenants); False where there is none."""
        return bool((yield Write(_DELETE_SEARCH, (storable(uid), user_uid, administers))))
