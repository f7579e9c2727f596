"""Users of an OpenID provider: made when they first sign in, without a password, and kept as the claims say.

Such a user is known by issuer and subject, which the provider never gives to anybody else. The name is only for people:
a user here who has the same name is somebody else. Role and tenant are taken from the claims at each sign-in; a change
of them is audited and ends the sessions from before, as if an administrator had made it.
"""

from collections.abc import Sequence

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, ChangedValue, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, now, storable
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.tenants import tenant_exists
from gatepost.store.users import USER_COLUMNS, Role, User, delete_sessions, parse_user

PROVIDER = Actor("system", "OpenID Connect")

_FIND = f"SELECT {USER_COLUMNS} FROM users WHERE external = $1 FOR UPDATE"  # noqa: S608
_INSERT = """INSERT INTO users
(uid, name, folded, role, tenant, created, disabled, password, totp_step, external)
VALUES ($1, $2, $3, $4, $5, $6, 0, '', 0, $7) ON CONFLICT DO NOTHING"""
_UPDATE = "UPDATE users SET role = $2, tenant = $3 WHERE uid = $1"
_SESSIONS = """SELECT id, user_uid, users.name, tenant, external FROM sessions JOIN users ON users.uid = user_uid
WHERE provider_session = $1 AND external IS NOT NULL"""
_DELETE_SESSION = "DELETE FROM sessions WHERE id = $1"


class ExternalUserStore(Operations):
    """Users that an OpenID provider vouches for."""

    @change
    def admit_external_user(
        self, external: str, names: Sequence[str], role: Role, tenant: str | None
    ) -> Work[User | NotFound | NameTaken]:
        """Return the user of an issuer and subject, with the role and the tenant that the claims say; a new one gets
        the first of the names that nobody has."""
        owner, known = normalize_scope(tenant), storable(external)
        if owner and not (yield from tenant_exists(owner)):
            return NotFound("tenant")
        rows = yield Read(_FIND, (known,))
        if not rows:
            return (yield from _create(known, names, role, owner))
        before = parse_user(rows[0])
        if (before.role, before.tenant) == (role, owner):
            return before
        yield Write(_UPDATE, (before.uid, role, owner))
        yield from delete_sessions(before.uid)
        values = (("role", before.role, role), ("tenant", before.tenant or "all", owner or "all"))
        changes = [ChangedValue(*each) for each in values if each[1] != each[2]]
        sample = (f"{before.name} {before.uid}", role)
        yield from write_audit(now(), PROVIDER, "user.change", owner, count=1, sample=sample, changes=changes)
        return msgspec.structs.replace(before, role=role, tenant=owner)

    @change
    def end_provider_sessions(self, issuer: str, subject: str, session: str) -> Work[int]:
        """End the sessions that a provider names: those of a session there, or all of a subject; returns how many."""
        whole, ended = storable(f"{issuer} {subject}"), dict[str, tuple[str, str | None, int]]()
        if session:
            for key, uid, name, tenant, external in (yield Read(_SESSIONS, (storable(session),))):
                if external == whole or (not subject and external.startswith(whole)):
                    yield Write(_DELETE_SESSION, (key,))
                    ended[uid] = (name, tenant, ended.get(uid, ("", None, 0))[2] + 1)
        else:
            for row in (yield Read(_FIND, (whole,))):
                user = parse_user(row)
                ended[user.uid] = (user.name, user.tenant, (yield from delete_sessions(user.uid)))
        for uid, (name, tenant, count) in ended.items():
            if count:
                yield from write_audit(now(), PROVIDER, "session.end", tenant, count=count, sample=[f"{name} {uid}"])
        return sum(count for _, _, count in ended.values())


def _create(external: str, names: Sequence[str], role: Role, owner: str | None) -> Work[User | NameTaken]:
    for name in names:
        shown = storable(name.strip())
        user = User(new_id(), shown, role, owner, now(), external=external)
        row = (user.uid, shown, storable(shown.casefold()), role, owner, user.created, external)
        if (yield Write(_INSERT, row)):
            sample = (f"{user.name} {user.uid}", role, "external")
            yield from write_audit(user.created, PROVIDER, "user.create", owner, count=1, sample=sample)
            return user
    # Two first sign-ins at the same moment: the other one has made the user.
    rows = yield Read(_FIND, (external,))
    return parse_user(rows[0]) if rows else NameTaken(names[0])
