"""Recovery codes: what a user signs in with once who has lost the device with the second factor.

A code has 80 random bits, so a SHA-256 of it is enough (see `api_keys`); the user's uid is hashed with it, so that a
row copied to another user is worthless. A code that was used is deleted, together with its use on the audit trail.
"""

from collections.abc import Sequence

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, now, query, storable
from gatepost.store.errors import NotFound
from gatepost.store.users import SELECT_USER, User, parse_user

_INSERT = "INSERT INTO recovery_codes (user_uid, digest) VALUES ($1, $2) ON CONFLICT (user_uid, digest) DO NOTHING"
_USE = "DELETE FROM recovery_codes WHERE user_uid = $1 AND digest = $2"
_DELETE = "DELETE FROM recovery_codes WHERE user_uid = $1"
_COUNT = "SELECT COUNT(*) FROM recovery_codes WHERE user_uid = $1"


class RecoveryCodeStore(Operations):
    """The recovery codes of users."""

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
        rows = yield Read(f"{SELECT_USER} FOR UPDATE", (storable(uid.lower()),))
        user = parse_user(rows[0]) if rows else None
        if user is None or not user.has_second_factor:
            return NotFound("user")
        yield from replace_recovery_codes(user.uid, digests)
        sample = (f"{user.name} {user.uid}", user.role, "renewed")
        yield from write_audit(now(), by, "user.recoveryCodes", user.tenant, count=len(digests), sample=sample)
        return user


def replace_recovery_codes(uid: str, digests: Sequence[str]) -> Work[None]:
    """Replace the codes of a user, as a part of a change that is audited itself."""
    yield Write(_DELETE, (uid,))
    for digest in digests:
        yield Write(_INSERT, (uid, storable(digest)))
