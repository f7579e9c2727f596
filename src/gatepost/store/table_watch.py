"""Watching a table of PostgreSQL: whether it is as it was, without asking.

Who watches holds a lock on the table that lets others read and keeps them from writing (SHARE). As long as it is held,
nobody can have changed the table: what was read of it since holds, on every node, and needs no statement. Whoever wants
to write sends a notice first, so that all who watch let go at once, and waits for the lock of the table as PostgreSQL
has it do. So a change is never acknowledged while somebody still relies on what was before.

Who has let go asks storage for each message, until there was no notice for a moment. The lock is asked for without
waiting: a watch never stands in the way of those who write.

A notice only makes it fast. Where none arrives, the watch sees at its next beat that somebody waits. A watch that has
no contact relies on nothing after `LEASE_SECONDS`, and the server ends its session after `IDLE_SECONDS`, which is
later: a node that hangs or is cut off holds up a change for so long at most. Notices do not pass a pooler in
transaction mode. That is tried first; where none comes through, nothing is watched and storage is asked for each
message.
"""

import asyncio
import itertools
import re
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import asyncpg

from gatepost.process.logs import Logger
from gatepost.store.engine import Step, Write
from gatepost.store.errors import StorageError

CHANNEL = "changed_lists"
BEAT_SECONDS = 0.5
LEASE_SECONDS = 2.0
IDLE_SECONDS = 3
# So long after the last notice the table is watched again. A notice that was sent less than half as long ago keeps all
# watches away still.
QUIET_SECONDS = 0.2
PROOF_SECONDS = 2.0
RETRY_SECONDS = 5.0

# Tables whose changes are announced. A change of another one would wait for a lease of each node that watched it.
WATCHED = frozenset({"scopes"})
_WRITES_WATCHED = re.compile(rf"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (?:{'|'.join(WATCHED)})\b")
_WAITERS = """SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""
# A notice is worth nothing after a crash: nobody waits for the disk.
_NOTIFY = f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}; COMMIT"
_numbers = itertools.count(1)
_FAULTS = (StorageError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)

Connect = Callable[[], AbstractAsyncContextManager[Any]]

log = Logger("gatepost.store")


def is_watched(step: Step) -> bool:
    """Whether a step writes to a table that is watched."""
    return isinstance(step, Write) and _WRITES_WATCHED.match(step.statement) is not None


class TableWatch:
    """Whether one table is as it was. It belongs to the event loop of the first call."""

    def __init__(self, connect: Connect, table: str) -> None:
        self._connect, self._table = connect, table
        self._number, self._until = 0, 0.0
        self._noticed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def number(self) -> int | None:
        """A number that is the same for as long as nobody can have changed the table; None where that is unknown."""
        return self._number if time.monotonic() < self._until else None

    async def close(self) -> None:
        """Let go, and end."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            try:
                async with self._connect() as listening, self._connect() as holding:
                    if not await self._prove_notices(listening, holding):
                        log.info("lists are asked for with each message: notices of PostgreSQL do not arrive here")
                        return
                    while True:
                        await self._hold(holding)
                        await self._await_quiet(listening)
            except _FAULTS as fault:
                log.warning("lists cannot be watched", reason=str(fault))
            finally:
                self._until = 0.0
            await asyncio.sleep(RETRY_SECONDS)

    async def _prove_notices(self, listening: Any, holding: Any) -> bool:
        """Listen, and find out whether notices of others arrive."""
        await listening.add_listener(CHANNEL, self._let_go)
        await holding.execute(_NOTIFY)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._noticed.wait(), PROOF_SECONDS)
        return self._noticed.is_set()

    def _let_go(self, *_notice: object) -> None:
        """Rely on nothing from now on; the lock goes as soon as the server is told."""
        self._until = 0.0
        self._noticed.set()

    async def _hold(self, holding: Any) -> None:
        """Hold the lock until somebody wants to write."""
        self._noticed.clear()
        async with holding.transaction():
            await holding.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
            try:
                await holding.execute(f"LOCK TABLE {self._table} IN SHARE MODE NOWAIT")
            except asyncpg.LockNotAvailableError:
                return
            self._number = next(_numbers)
            while not self._noticed.is_set():
                sent = time.monotonic()
                if await holding.fetchval(_WAITERS, self._table, timeout=LEASE_SECONDS) or self._noticed.is_set():
                    break
                self._until = sent + LEASE_SECONDS
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._noticed.wait(), BEAT_SECONDS)
            self._until = 0.0

    async def _await_quiet(self, listening: Any) -> None:
        while True:
            self._noticed.clear()
            await asyncio.sleep(QUIET_SECONDS)
            if not self._noticed.is_set():
                break
        if listening.is_closed():
            raise ConnectionResetError("the connection for notices has ended")


class Notices:
    """Sends notices to those who watch, before something is written."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._sending = asyncio.Lock()
        self._kept: tuple[AbstractAsyncContextManager[Any], Any] | None = None
        self._sent = 0.0

    async def send(self) -> None:
        """Ask all who watch to let go. Should it fail, the change waits for their next beat."""
        async with self._sending:
            if time.monotonic() - self._sent < QUIET_SECONDS / 2:
                return
            try:
                connection = await self._connected()
                await connection.execute(_NOTIFY, timeout=LEASE_SECONDS)
                self._sent = time.monotonic()
            except _FAULTS as fault:
                log.warning("a notice could not be sent", reason=str(fault))
                await self._forget()

    async def close(self) -> None:
        """Close the connection."""
        async with self._sending:
            await self._forget()

    async def _connected(self) -> Any:
        if self._kept and not self._kept[1].is_closed():
            return self._kept[1]
        await self._forget()
        opened = self._connect()
        connection = await opened.__aenter__()
        self._kept = (opened, connection)
        return connection

    async def _forget(self) -> None:
        kept, self._kept = self._kept, None
        if kept:
            with suppress(*_FAULTS):
                await kept[0].__aexit__(None, None, None)
