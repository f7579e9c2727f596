"""The part of the storage interface that knows people: who may sign in to the web interface, and who is signed in.

A user without a tenant works on the whole deployment. Of a password there is only an argon2 hash, of a session only
the SHA-256 of the secret in its cookie. Times are Unix milliseconds.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from gatepost.store.interface import Actor, Missing, Taken

Role: TypeAlias = Literal["administrator", "analyst", "auditor"]

# A session that nobody uses for so long is over, whatever its cookie says.
IDLE_MILLISECONDS = 12 * 3_600_000


class User(msgspec.Struct, frozen=True):
    """Somebody who may sign in. `tenant` None is the whole deployment; `totp` says whether a second factor is set."""

    uid: str
    name: str
    role: Role
    tenant: str | None
    created: int
    disabled: bool = False
    totp: bool = False
    last_sign_in: int | None = None


class Credentials(msgspec.Struct, frozen=True):
    """What signing in is checked against. Codes up to `totp_step` are used up; until `locked_until` nobody gets in."""

    user: User
    password: str
    totp_secret: str | None = None
    totp_step: int = 0
    failures: int = 0
    locked_until: int = 0


class LastAdministrator(msgspec.Struct, frozen=True):
    """Nobody could administer the deployment any more: nothing was changed."""

    uid: str


class Lockout(msgspec.Struct, frozen=True):
    """How guessing is slowed down: so many failures are free, then the wait doubles from `first` up to `longest`."""

    free: int = 5
    first: int = 30_000
    longest: int = 3_600_000


class Session(msgspec.Struct, frozen=True):
    """Somebody who is signed in. `csrf` is what its forms must bring; `strong` says that a second factor was shown."""

    id: str
    user: User
    created: int
    seen: int
    expires: int
    address: str
    agent: str
    csrf: str
    strong: bool = False


class UserStore(Protocol):
    """Users of the web interface. Every change of them is audited, never with a secret."""

    async def create_user(
        self, name: str, role: Role, tenant: str | None, password: str, by: Actor
    ) -> User | Taken | Missing:
        """A new user. Names are compared without regard to case; `password` is an argon2 hash."""
        ...

    async def users(self, tenant: str | None = None) -> tuple[User, ...]:
        """All users, or those of one tenant, by name."""
        ...

    async def user(self, uid: str) -> User | None: ...

    async def credentials(self, name: str) -> Credentials | None:
        """What a name has to prove, whether it is disabled or not."""
        ...

    async def change_user(
        self,
        uid: str,
        *,
        by: Actor,
        role: Role | None = None,
        tenant: str | EllipsisType | None = ...,
        disabled: bool | None = None,
    ) -> User | Missing | LastAdministrator:
        """Change what is given. Whoever is disabled, or given another role or tenant, is signed out everywhere."""
        ...

    async def delete_user(self, uid: str, by: Actor) -> User | Missing | LastAdministrator:
        """Delete a user with all sessions."""
        ...

    async def set_password(self, uid: str, password: str, by: Actor, keep: str | None = None) -> User | Missing:
        """Set another argon2 hash, lift a lock-out, and end all sessions but the one with the id `keep`."""
        ...

    async def set_totp(self, uid: str, secret: str | None, by: Actor, step: int = 0) -> User | Missing:
        """Set or remove the second factor; codes up to `step` (the one that proved it) are used up already."""
        ...

    async def use_totp_step(self, uid: str, step: int) -> bool:
        """Use up the code of a step and all before; False where that was done before, so no code works twice."""
        ...

    async def note_failure(self, uid: str, now: int, lockout: Lockout = ...) -> int:
        """Count a failed attempt; returns until when the user is locked out, 0 for not at all."""
        ...

    async def note_sign_in(self, uid: str, now: int) -> None:
        """Somebody got in: failures are forgotten."""
        ...


class SessionStore(Protocol):
    """Who is signed in."""

    async def create_session(
        self, user_uid: str, digest: str, expires: int, address: str, agent: str, *, strong: bool = False
    ) -> Session | Missing:
        """A new session; `digest` is the SHA-256 of its cookie's secret in hex. None for a disabled user: `Missing`."""
        ...

    async def session(self, digest: str, now: int, idle: int = IDLE_MILLISECONDS) -> Session | None:
        """The session of a cookie, if it and its user are still good; notes its use, at most once a minute."""
        ...

    async def sessions(self, user_uid: str, now: int) -> tuple[Session, ...]:
        """Those of a user that have not expired, the last used first."""
        ...

    async def end_session(self, session_id: str, by: Actor, user_uid: str | None = None) -> bool:
        """End one, of that user if one is named; False where there is none."""
        ...

    async def end_sessions(self, user_uid: str, by: Actor, keep: str | None = None) -> int:
        """End all of a user, but one if it is named; returns how many."""
        ...

    async def purge_sessions(self, now: int, idle: int = IDLE_MILLISECONDS) -> int:
        """Forget those that are over; returns how many."""
        ...
