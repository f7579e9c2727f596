"""`UserStore` and `SessionStore`, whichever engine does the work."""

from functools import partial
from types import EllipsisType

import msgspec

from gatepost.store import sessions, users
from gatepost.store.doing import Doing, now, scoped
from gatepost.store.interface import Actor, Missing, StorageError, Taken
from gatepost.store.userstore import IDLE_MILLISECONDS, Credentials, LastAdministrator, Lockout, Role, Session, User

LOCKOUT = Lockout()


class UserEngine(Doing):
    """Users and sessions."""

    async def create_user(
        self, name: str, role: Role, tenant: str | None, password: str, by: Actor
    ) -> User | Taken | Missing:
        return await self._change(partial(users.create, name, role, scoped(tenant), password, by, now()))

    async def users(self, tenant: str | None = None) -> tuple[User, ...]:
        return await self._query(partial(users.everybody, scoped(tenant)))

    async def user(self, uid: str) -> User | None:
        return await self._query(partial(users.one, uid))

    async def credentials(self, name: str) -> Credentials | None:
        return await self._query(partial(users.credentials, name))

    async def change_user(
        self,
        uid: str,
        *,
        by: Actor,
        role: Role | None = None,
        tenant: str | EllipsisType | None = ...,
        disabled: bool | None = None,
    ) -> User | Missing | LastAdministrator:
        where = tenant if isinstance(tenant, EllipsisType) else scoped(tenant)
        return await self._change(partial(users.change, uid, role, where, disabled, by, now()))

    async def delete_user(self, uid: str, by: Actor) -> User | Missing | LastAdministrator:
        return await self._change(partial(users.delete, uid, by, now()))

    async def set_password(self, uid: str, password: str, by: Actor, keep: str | None = None) -> User | Missing:
        return await self._change(partial(users.set_password, uid, password, keep, by, now()))

    async def set_totp(self, uid: str, secret: str | None, by: Actor, step: int = 0) -> User | Missing:
        return await self._change(partial(users.set_totp, uid, secret, step, by, now()))

    async def use_totp_step(self, uid: str, step: int) -> bool:
        return await self._change(partial(users.use_step, uid, step))

    async def note_failure(self, uid: str, now: int, lockout: Lockout = LOCKOUT) -> int:
        return await self._change(partial(users.failed, uid, now, lockout))

    async def note_sign_in(self, uid: str, now: int) -> None:
        await self._change(partial(users.signed_in, uid, now))

    async def create_session(
        self, user_uid: str, digest: str, expires: int, address: str, agent: str, *, strong: bool = False
    ) -> Session | Missing:
        return await self._change(partial(sessions.create, user_uid, digest, expires, address, agent, strong, now()))

    async def session(self, digest: str, now: int, idle: int = IDLE_MILLISECONDS) -> Session | None:
        found = await self._query(partial(sessions.find, digest, now, idle))
        if found is None or now - found.seen < sessions.SEEN_MILLISECONDS:
            return found
        try:
            await self._change(partial(sessions.seen, found.id, now))
        except StorageError:
            # Whoever only reads goes on; a change meets the same trouble and reports it.
            return found
        return msgspec.structs.replace(found, seen=now)

    async def sessions(self, user_uid: str, now: int) -> tuple[Session, ...]:
        return await self._query(partial(sessions.of_user, user_uid, now))

    async def end_session(self, session_id: str, by: Actor, user_uid: str | None = None) -> bool:
        return await self._change(partial(sessions.end, session_id, user_uid, by, now()))

    async def end_sessions(self, user_uid: str, by: Actor, keep: str | None = None) -> int:
        return await self._change(partial(sessions.end_for, user_uid, keep, by, now()))

    async def purge_sessions(self, now: int, idle: int = IDLE_MILLISECONDS) -> int:
        return await self._change(partial(sessions.purge, now, idle))
