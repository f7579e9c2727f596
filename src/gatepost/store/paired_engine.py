"""The engine of a tenant whose mail is not in the first database: it does work on two PostgreSQL databases.

A statement on tables of mail (`tenant_databases.MAIL_TABLES`) goes to the database of the tenant, every other one to
the first: the audit trail, lists and users stay in one place. Work is written once and does not know of this.

A change that concerns both is two transactions. The first database commits before the other one, so that the audit
trail never misses what was done. Where the second commit fails, the caller is told so and comes again: the audit trail
then names the action twice. Everything that is written for each message concerns one database alone.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Protocol, TypeVar

import apsw
import asyncpg

from gatepost.background_work import background
from gatepost.store.engine import Bulk, Read, Row, Script, Step, Work
from gatepost.store.errors import StorageError
from gatepost.store.postgres import (
    ATTEMPTS,
    POOL,
    SEARCHES,
    CountedEngine,
    PostgresEngine,
    advance,
    run_step,
)
from gatepost.store.postgres_faults import explain_errors
from gatepost.store.table_watch import is_watched

A = TypeVar("A")
T = TypeVar("T")

_SNAPSHOT = {"isolation": "repeatable_read", "readonly": True}


class OpensLater(Protocol):
    """A database that may be out of reach now."""

    async def engine(self) -> PostgresEngine:
        """Return its engine; raises `StorageError` while it cannot be used."""


class PairLimits:
    """How much work of a process may hold a connection while it waits for one to the other database.

    The pools have more connections than that, so work always ends: two pieces never wait for each other's last one.
    """

    def __init__(self) -> None:
        self.searches = asyncio.Semaphore(SEARCHES)
        self.others = asyncio.Semaphore(POOL - SEARCHES - 1)


class PairedEngine(CountedEngine):
    """Does work on the first database and on that of some tenants; `is_mail` says which statements are for the second.

    Only work that may concern both runs through here, and is counted here; groups of records go straight to the second
    database.
    """

    groups_under_way = PostgresEngine.groups_under_way

    def __init__(
        self, first: PostgresEngine, mail: OpensLater, is_mail: Callable[[str], bool], limits: PairLimits
    ) -> None:
        super().__init__()
        self._first, self._mail, self._is_mail, self._limits = first, mail, is_mail, limits

    async def close(self) -> None:
        """Do nothing: whoever has opened the two databases closes them."""

    async def _change_with_retries(self, work: Callable[[], Work[T]]) -> T:
        for attempt in range(ATTEMPTS):
            async with self._limits.others, self._open({}) as sides:
                try:
                    result = await _run(work(), sides)
                except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                    if attempt == ATTEMPTS - 1:
                        raise
                else:
                    # Not tried again here: where the second commit fails, the first one stands.
                    await sides.commit()
                    return result
            await asyncio.sleep(0.01 * 2**attempt)
        raise AssertionError("not reached")

    async def change_together(
        self,
        all_at_once: Callable[[apsw.Connection, Sequence[A]], Sequence[T]],
        work: Callable[[Sequence[A]], Work[Sequence[T]]],
        arguments: Sequence[A],
    ) -> Sequence[T | Exception]:
        """Do a change of mail alone for a group."""
        try:
            engine = await self._mail.engine()
        except StorageError as fault:
            return [fault] * len(arguments)
        return await engine.change_together(all_at_once, work, arguments)

    async def query(self, work: Callable[[], Work[T]]) -> T:
        """Do work that only reads."""
        async with self._limits.others, self._open(None) as sides:
            return await _run(work(), sides)

    async def query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work that sees one moment of each database."""
        async with self._limits.others, self._open(_SNAPSHOT) as sides:
            return await _run(work(), sides)

    async def search(self, work: Callable[[], Work[T]]) -> T:
        """Do work that may read many rows; what is made of them is made in threads."""
        async with self._limits.searches, self._open(_SNAPSHOT) as sides:
            return await _run_in_threads(work(), sides)

    async def query_inline(self, work: Callable[[], Work[T]]) -> T:
        """Do work that every message asks for, which concerns mail alone."""
        return await (await self._mail.engine()).query_inline(work)

    async def stream(
        self, read: Read, convert: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement in batches."""
        engine = await self._mail.engine() if self._is_mail(read.statement) else self._first
        async with aclosing(engine.stream(read, convert, first, batch)) as stream:
            async for made in stream:
                yield made

    async def drop_days(self, before: int, tenants: Mapping[str, int]) -> tuple[int, int]:
        """Drop whole days of mail."""
        return await (await self._mail.engine()).drop_days(before, tenants)

    @asynccontextmanager
    async def _open(self, transaction: dict[str, Any] | None) -> AsyncIterator["_Sides"]:
        async with AsyncExitStack() as stack:
            sides = _Sides(self._first, self._mail, self._is_mail, transaction, stack)
            try:
                yield sides
            finally:
                await sides.end()


class _Sides:
    """The connections of one piece of work: each is opened by the first statement that needs it, with a transaction
    unless `transaction` is None."""

    def __init__(
        self,
        first: PostgresEngine,
        mail: OpensLater,
        is_mail: Callable[[str], bool],
        transaction: dict[str, Any] | None,
        stack: AsyncExitStack,
    ) -> None:
        self._first, self._mail, self._is_mail = first, mail, is_mail
        self._transaction, self._stack = transaction, stack
        self._connections: dict[bool, Any] = {}
        self._open: dict[bool, Any] = {}

    async def run(self, step: Step) -> Any:
        """Do a step where it belongs."""
        is_mail = self._is_mail(_statement_of(step))
        engine = await self._mail.engine() if is_mail else self._first
        # A fault names the database that has it.
        with explain_errors(engine.url):
            connection = self._connections.get(is_mail)
            if connection is None:
                connection = self._connections[is_mail] = await self._stack.enter_async_context(engine.connection())
                if self._transaction is not None:
                    transaction = connection.transaction(**self._transaction)
                    await transaction.start()
                    self._open[is_mail] = transaction
            if is_watched(step):
                await engine.notices.send()
            return await run_step(connection, step)

    async def commit(self) -> None:
        """Commit, the first database first."""
        for is_mail in sorted(self._open):
            await self._open.pop(is_mail).commit()

    async def end(self) -> None:
        """Take back what is not committed. A connection that broke has done so itself."""
        while self._open:
            _, transaction = self._open.popitem()
            try:
                await transaction.rollback()
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                continue


def _statement_of(step: Step) -> str:
    return step.postgres if isinstance(step, Bulk) else step.statements if isinstance(step, Script) else step.statement


async def _run(work: Work[T], sides: _Sides) -> T:
    try:
        step = next(work)
        while True:
            step = work.send(await sides.run(step))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _run_in_threads(work: Work[T], sides: _Sides) -> T:
    is_done, step = await asyncio.to_thread(background.run, advance, work, None)
    while not is_done:
        is_done, step = await asyncio.to_thread(background.run, advance, work, await sides.run(step))
    result: T = step
    return result
