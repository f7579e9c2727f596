"""The PostgreSQL database: reached, brought to the schema that this program knows, or refused with a reason.

The numbered files in `schema/postgres` are applied in order, each once, in one transaction under an advisory lock, so
that two processes that start together do not both apply them.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg

from gatepost.store.database import schema_files
from gatepost.store.interface import StorageError

# "Gpst", as in the SQLite file.
LOCK = 0x47707374
CONNECT_SECONDS = 10
# Our statements are short, many, and all made for an index. Planning them anew each time costs more than running them,
# and a plan that was made while a table was small must not scan it when it has ten million rows.
_SETTINGS = {
    "application_name": "gatepost",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# A process that was stopped in the middle of a change, as on a machine that hangs, must not keep its rows from others.
_SHORT = {**_SETTINGS, "idle_in_transaction_session_timeout": "5s"}

_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
_VERSION = "SELECT value FROM meta WHERE key = 'schema'"
_SET_VERSION = """INSERT INTO meta (key, value) VALUES ('schema', $1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value"""


def prepare(url: str) -> None:
    """Bring the database to the schema of this program.

    In a thread with its own event loop: opening storage is a plain call, whoever makes it.
    """
    faults: list[BaseException] = []

    def prepared() -> None:
        try:
            asyncio.run(_prepare(url))
        except BaseException as fault:  # noqa: BLE001  it is raised again where the caller is
            faults.append(fault)

    thread = threading.Thread(target=prepared, name="store-schema")
    thread.start()
    thread.join()
    if faults:
        raise faults[0]


async def pool(url: str, size: int) -> Any:
    """Connections for short transactions."""
    with _addressed(url):
        return await asyncpg.create_pool(
            url, min_size=1, max_size=size, timeout=CONNECT_SECONDS, server_settings=_SHORT
        )


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[Any]:
    """One connection of one's own."""
    with described(url):
        with _addressed(url):
            made = await asyncpg.connect(url, timeout=CONNECT_SECONDS, server_settings=_SETTINGS)
        try:
            yield made
        except BaseException:
            # What was not read to its end is not worth reading now.
            made.terminate()
            raise
        await made.close(timeout=CONNECT_SECONDS)


@contextmanager
def _addressed(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as fault:
        raise StorageError(f"{shown(url)} is no address of a database: {fault}.") from None


def shown(url: str) -> str:
    """A storage address without its user, password and options, however broken it is."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{re.split('[?&]', rest.rpartition('@')[2])[0]}"


@contextmanager
def described(url: str) -> Iterator[None]:
    """Turn what the server or the network reports into a sentence that says what to do."""
    try:
        yield
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise StorageError(f"{shown(url)} refuses the user or the password in storage.url.") from None
    except asyncpg.InvalidCatalogNameError:
        raise StorageError(f"{shown(url)} does not exist; create the database first.") from None
    except asyncpg.InsufficientPrivilegeError as fault:
        raise StorageError(f"{shown(url)}: the user in storage.url may not do this ({fault}).") from None
    except (asyncpg.DiskFullError, asyncpg.ReadOnlySQLTransactionError) as fault:
        raise StorageError(f"{shown(url)} cannot be written ({type(fault).__name__}).") from fault
    except (
        OSError,
        TimeoutError,
        asyncpg.PostgresConnectionError,
        asyncpg.CannotConnectNowError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
        asyncpg.TooManyConnectionsError,
        asyncpg.IdleInTransactionSessionTimeoutError,
    ) as fault:
        raise StorageError(f"{shown(url)} cannot be reached ({type(fault).__name__}); is it running?") from fault
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
        # The second comes where a connection is cut while its next statement is on the way.
        if isinstance(fault, ValueError):
            raise  # a value that no column takes: a fault of the caller, not of the server
        raise StorageError(f"{shown(url)} cannot be used: {fault}.") from fault


async def _prepare(url: str) -> None:
    async with connection(url) as made:
        if made.get_settings().server_encoding != "UTF8":
            raise StorageError(f"{shown(url)} has the encoding {made.get_settings().server_encoding}; it must be UTF8.")
        async with made.transaction():
            await made.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await _upgrade(made, url)


async def _upgrade(made: Any, url: str) -> None:
    known = schema_files("postgres")
    newest = known[-1][0]
    present = await _version(made, url)
    if present > newest:
        raise StorageError(
            f"{shown(url)} was written by a newer Gatepost (schema {present}, this one knows {newest}); "
            "upgrade Gatepost."
        )
    for number, statements in known:
        if number > present:
            await made.execute(statements)
    if present < newest:
        await made.execute(_SET_VERSION, str(newest))


async def _version(made: Any, url: str) -> int:
    """The number of the last schema file applied; 0 for an empty database."""
    if not await made.fetchval(_TABLES):
        return 0
    if await made.fetchval("SELECT to_regclass('meta')") is None:
        raise StorageError(f"{shown(url)} holds tables of another program; name another database in storage.url.")
    return int(await made.fetchval(_VERSION))
