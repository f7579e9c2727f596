"""The engine on PostgreSQL, which any number of guards and abbys share.

A change is one transaction on a connection of the pool; PostgreSQL itself lets transactions that commit together share
the wait for the disk. Records of messages come in groups (`change_groups`), each with one statement and one round trip.
Where two changes get in each other's way (a deadlock, a serialisation failure), the one that was sent back is done
again from its beginning. A stream has a connection of its own, for as long as its client reads.

Opening brings the database to the schema that this program knows (`upgrading`), or refuses it with a reason. That is
one transaction under an advisory lock, so that two processes that start together do not both do it.

Behind PgBouncer an address says so itself:
`postgresql://gatepost@pool.example:6432/gatepost?pooler=transaction`, or `pooler=session`.

In session mode a connection has a server for itself, and everything is as without a pooler; planner settings are set
with SET, since PgBouncer refuses them where a connection begins.

In transaction mode two statements outside of a transaction may run on two servers. asyncpg prepares a statement first
and runs it then; so every statement has a transaction here, which begins with the settings of this connection (SET
LOCAL): nothing of them stays on a server that goes on to another client. Statements are not kept prepared, names of
cursors are unique over all clients, and there is no LISTEN: what it would have told is found by asking, as with SQLite.

A pooler answers with a process id of its own making where a connection begins, so that one which the address does not
name is noticed (`has_pooler`). Which mode it has cannot be seen.
"""

import asyncio
import logging
import re
import threading
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import apsw
import asyncpg

from gatepost.process.background_work import background
from gatepost.process.hiding import hide
from gatepost.store import postgres_days
from gatepost.store.engine import Engine, Many, Read, Rollback, Script, Step, StoreCounters, Work, cancel_read
from gatepost.store.errors import StorageError
from gatepost.store.postgres_faults import (
    CONNECT_SECONDS,
    POOLER_NOT_NAMED,
    check_version,
    explain_errors,
    explain_opening,
)
from gatepost.store.sql import Bulk, Row
from gatepost.store.upgrading import SchemaState, read_state, upgrade

# Its pool tells with a traceback of every try to connect again; a server that is away is told of once.
logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)

A = TypeVar("A")
T = TypeVar("T")
Pooler: TypeAlias = Literal["", "session", "transaction"]

_POOLER = re.compile(r"(?<=[?&])pooler=([a-z]*)(?:&|$)")

POOL = 10
# So many of the connections may be those of searches.
SEARCHES = 4
MAX_STREAMS = 16
ATTEMPTS = 5
# "Gpst", as in the SQLite file.
LOCK = 0x47707374
# Our statements are short, many, and all made for an index. Planning them anew each time costs more than running them,
# and a plan that was made while a table was small must not scan it when it has ten million rows.
_PLANNING = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_NAME = {"application_name": "gatepost"}
# A process that was stopped in the middle of a change, as on a machine that hangs, must not keep its rows from others.
_SHORT = {**_PLANNING, "idle_in_transaction_session_timeout": "5s"}

_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"


class PostgresEngine(Engine):
    """Does work on PostgreSQL; opening it raises `StorageError` where the database cannot be used.

    Its methods belong to one event loop: that of the first call.
    """

    groups_under_way = 2

    def __init__(self, url: str) -> None:
        self._url = url
        upgrade_schema(url)
        _, self._pooler = split_pooler(url)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._searching = asyncio.Semaphore(SEARCHES)
        self._streams = 0
        self._changes = self._commits = self._failures = 0

    def counters(self) -> StoreCounters:
        return StoreCounters(self._changes, self._commits, self._failures)

    async def close(self) -> None:
        self._closed = True
        if self._pool:
            try:
                await self._pool.close()
            except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
                self._pool.terminate()  # the server has gone already

    async def _apply(self, work: Callable[[], Work[T]]) -> T:
        try:
            result = await self._change_with_retries(work)
        except Rollback as outcome:
            result = outcome.result
        except Exception:
            self._failures += 1
            raise
        self._changes += 1
        self._commits += 1
        return result

    async def change_together(
        self,
        all_at_once: Callable[[apsw.Connection, Sequence[A]], Sequence[T]],
        work: Callable[[Sequence[A]], Work[Sequence[T]]],
        arguments: Sequence[A],
    ) -> Sequence[T | Exception]:
        """Do work whose first statement makes the whole change: no other round trip begins or ends a transaction."""
        try:
            results = await self._change_with_retries(partial(work, arguments), has_transaction=False)
        except Exception as fault:  # noqa: BLE001  it is the fault of one of them, and returned as such
            self._failures += 1
            if isinstance(fault, StorageError) or len(arguments) == 1:
                return [fault] * len(arguments)
            # Which of them it was, the server does not say.
            return [(await self.change_together(all_at_once, work, [argument]))[0] for argument in arguments]
        self._changes += len(arguments)
        self._commits += 1
        return results

    async def query(self, work: Callable[[], Work[T]]) -> T:
        """Do work on a connection of the pool."""
        async with self._connection() as connection:
            return await _run_work(connection, work())

    async def query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work in one read-only transaction."""
        async with self._connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            return await _run_work(connection, work())

    async def search(self, work: Callable[[], Work[T]]) -> T:
        """Do work in one read-only transaction, as one of a few; what is made of its rows is made in threads."""
        async with (
            self._searching,
            self._connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            return await _run_search(connection, work())

    async def stream(
        self, read: Read, convert: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement in batches, from a cursor."""
        self._check_open()
        if self._streams >= MAX_STREAMS:
            raise StorageError(f"{MAX_STREAMS} lists are being read already; try again when some are finished.")
        self._streams += 1
        try:
            async with connect(self._url) as connection:
                # It ends with its connection: there is nothing to commit.
                await connection.transaction().start()
                cursor = await connection.cursor(read.statement.postgres, *_bind(read.parameters))
                ahead = asyncio.ensure_future(cursor.fetch(first))
                try:
                    while rows := await ahead:
                        ahead = asyncio.ensure_future(cursor.fetch(batch))
                        yield await asyncio.to_thread(background.run, convert, rows)
                finally:
                    cancel_read(ahead)
        finally:
            self._streams -= 1

    async def listen(self, channel: str, wake: Callable[[], None]) -> None:
        self._check_open()
        if self._pooler == "transaction":
            return
        async with connect(self._url) as connection:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _connection: ended.set())
            await connection.add_listener(channel, lambda *_notice: wake())
            await ended.wait()

    async def drop_days(self, before: int, tenants: Mapping[str, int]) -> tuple[int, int]:
        """Drop the partitions of which nothing is kept, and make those of the days that come."""
        self._check_open()
        async with connect(self._url) as connection:
            await postgres_days.make_coming_days(connection)
            return await postgres_days.drop_days(connection, before, tenants)

    async def _change_with_retries(self, work: Callable[[], Work[T]], *, has_transaction: bool = True) -> T:
        for attempt in range(ATTEMPTS):
            async with self._connection() as connection:
                try:
                    async with connection.transaction() if has_transaction else nullcontext():
                        return await _run_work(connection, work())
                except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                    if attempt == ATTEMPTS - 1:
                        raise
                except asyncpg.CheckViolationError as fault:
                    day = postgres_days.missing_day(fault)
                    if day is None or attempt == ATTEMPTS - 1:
                        raise
                    await postgres_days.make_days(connection, (day,))
            # Of a partition that another process has made, connections learn a moment after it can be seen.
            await asyncio.sleep(0.01 * 2**attempt)
        raise AssertionError("not reached")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection of the pool."""
        self._check_open()
        with explain_errors(self._url):
            async with self._opening:
                if self._pool is None:
                    self._pool = await _open_pool(self._url, POOL)
            async with self._pool.acquire() as connection:
                yield connection


async def _run_work(connection: Any, work: Work[T]) -> T:
    """Do a piece of work on a connection."""
    try:
        step = next(work)
        while True:
            step = work.send(await _run_step(connection, step))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _run_search(connection: Any, work: Work[T]) -> T:
    """Do a piece of work on a connection, and the work's own computing in threads."""
    is_done, step = await asyncio.to_thread(background.run, _advance, work, None)
    while not is_done:
        is_done, step = await asyncio.to_thread(background.run, _advance, work, await _run_step(connection, step))
    result: T = step
    return result


def _advance(work: Work[Any], answer: Any) -> tuple[bool, Any]:
    """Go on with work until its next step: whether it is done, and that step or the result."""
    try:
        return False, work.send(answer)
    except StopIteration as stop:
        return True, stop.value


async def _run_step(connection: Any, step: Step) -> Any:
    if isinstance(step, Read):
        return await connection.fetch(step.statement.postgres, *_bind(step.parameters))
    if isinstance(step, Script):
        return await connection.execute(step.statements)
    if isinstance(step, Bulk):
        status = await connection.execute(step.postgres, *map(list, zip(*step.rows, strict=True)))
    else:
        status = await connection.execute(step.statement.postgres, *_bind(step.parameters))
    # "INSERT 0 500", "UPDATE 3": the last word is the number of rows.
    return int(status.rsplit(" ", 1)[1])


def _bind(parameters: Row) -> list[Any]:
    return [list(value.values) if isinstance(value, Many) else value for value in parameters]


def upgrade_schema(url: str) -> None:
    """Bring the database to the schema of this program.

    This runs in a thread with its own event loop, since opening storage is a plain call that coroutines make too.
    """
    faults: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(_upgrade_locked(url))
        except BaseException as fault:  # noqa: BLE001  it is raised again where the caller is
            faults.append(fault)

    thread = threading.Thread(target=run, name="store-schema")
    thread.start()
    thread.join()
    if faults:
        raise faults[0]


def split_pooler(url: str) -> tuple[str, Pooler]:
    """An address without the mode of its pooler, and that mode; raises `ValueError` where there is no such mode."""
    found = _POOLER.search(url)
    if found is None:
        return url, ""
    if found[1] not in ("session", "transaction"):
        raise asyncpg.exceptions.ClientConfigurationError("pooler must be session or transaction")
    return _POOLER.sub("", url, count=1).rstrip("?&"), cast("Pooler", found[1])


def write_settings(settings: Mapping[str, str], how: Literal["SET", "SET LOCAL"] = "SET") -> str:
    """Return the statements that set these values, for the connection or for the transaction."""
    return "".join(f"{how} {name} = '{value}';" for name, value in settings.items())


async def has_pooler(connection: Any) -> bool:
    """Whether a pooler is between this connection and its server."""
    async with connection.transaction():
        return bool(await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid())


class PinnedConnection(asyncpg.Connection):
    """A connection through PgBouncer in transaction mode: each statement has a transaction, and so one server."""

    # What every transaction of this connection begins with, in the same message to the server.
    beginning: ClassVar[str] = ""

    async def execute(self, query: str, *args: Any, **kwargs: Any) -> str:
        """Execute statements; one that begins a transaction brings the settings along."""
        more = self.beginning if query.startswith("BEGIN") else ""
        return str(await super().execute(query + more, *args, **kwargs))

    async def _execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a prepared statement; `fetch`, `fetchval` and `execute` with parameters all end here."""
        if self.is_in_transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]
        async with self.transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]

    def _get_unique_id(self, prefix: str) -> str:
        """A name that no other client of the pooler gives: theirs stay on its servers."""
        return f"__{prefix}_{uuid.uuid4().hex}__"


class _PooledConnection(asyncpg.Connection):
    """A connection that goes back to the pool as it is: our statements leave no settings, cursors or locks behind, and
    to have them reset would be one more round trip for each change. A transaction that is open is ended even so."""

    def get_reset_query(self) -> str:
        """Return the statements that a connection is reset with: none."""
        return ""


class _PinnedPooledConnection(PinnedConnection, _PooledConnection):
    """The same through PgBouncer in transaction mode."""

    beginning = write_settings(_SHORT, "SET LOCAL")


class _PinnedLastingConnection(PinnedConnection):
    """A connection outside the pool through PgBouncer in transaction mode."""

    beginning = write_settings(_PLANNING, "SET LOCAL")


async def _open_pool(url: str, size: int) -> Any:
    """Connections for short transactions."""
    with explain_opening(url):
        address, more = _arguments(url, _PooledConnection, _PinnedPooledConnection)
        if more["connection_class"] is _PooledConnection:
            more["init"] = lambda connection: connection.execute(write_settings(_SHORT))
        return await asyncpg.create_pool(address, min_size=1, max_size=size, **more)


def _arguments(url: str, plain: type[Any], pinned: type[Any]) -> tuple[str, dict[str, Any]]:
    """How a connection is opened: to which address, and with what. Settings are not among it, since poolers refuse
    them there."""
    address, pooler = split_pooler(url)
    more: dict[str, Any] = {"server_settings": _NAME, "connection_class": plain, "timeout": CONNECT_SECONDS}
    if pooler == "transaction":
        more |= {"connection_class": pinned, "statement_cache_size": 0}
    return address, more


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    """A connection outside the pool, for as long as the caller needs it."""
    with explain_errors(url):
        with explain_opening(url):
            address, more = _arguments(url, asyncpg.Connection, _PinnedLastingConnection)
            connection = await asyncpg.connect(address, **more)
        try:
            if more["connection_class"] is asyncpg.Connection:
                await connection.execute(write_settings(_PLANNING))
            yield connection
        except BaseException:
            # A result that was not read to its end is not worth reading now.
            connection.terminate()
            raise
        await connection.close(timeout=CONNECT_SECONDS)


async def _upgrade_locked(url: str) -> None:
    async with connect(url) as connection:
        check_version(url, connection.get_server_version().major)
        encoding = connection.get_settings().server_encoding
        if encoding != "UTF8":
            raise StorageError(f"{hide(url)} has the encoding {encoding}; it must be UTF8.")
        if not split_pooler(url)[1] and await has_pooler(connection):
            raise StorageError(f"{hide(url)} {POOLER_NOT_NAMED}.")
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            is_empty = await _is_empty(connection, url)
            await _run_work(connection, upgrade("postgres", hide(url), is_empty=is_empty))


async def read_schema_state(url: str) -> SchemaState:
    """How far a database is from the schema of this program."""
    async with connect(url) as connection:
        is_empty = await _is_empty(connection, url)
        size = int(await connection.fetchval("SELECT pg_database_size(current_database())"))
        return await _run_work(connection, read_state(is_empty=is_empty, size=size))


async def _is_empty(connection: Any, url: str) -> bool:
    """Whether there are no tables yet; those of another program are refused."""
    if not await connection.fetchval(_TABLES):
        return True
    if await connection.fetchval("SELECT to_regclass('meta')") is None:
        raise StorageError(f"{hide(url)} holds tables of another program; name another database in storage.url.")
    return False
