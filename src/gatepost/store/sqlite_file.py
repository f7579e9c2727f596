"""The SQLite file and its writer thread: the file is opened and upgraded, or refused with a reason.

WAL lets readers go on while one writer commits; `synchronous=FULL` makes every commit survive a power cut, not only a
kill. The numbered files in `schema/` are applied in order, each once, under the write lock, so that two processes that
start together do not both apply them.

The writer thread commits changes in groups. A commit costs a wait for the disk, whatever is in it. While one is under
way new changes queue up, and the next commit takes them all: the more there is to do, the cheaper each change becomes,
with no timer and no delay when there is little. A caller is answered after the commit that holds its change, never
before.

Changes of the same kind are handed over together, so that a whole group can be one statement.
"""

import asyncio
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec

from gatepost.store.engine import Bulk, Many, Read, Row, Step, StoreCounters, Work, in_sqlite
from gatepost.store.errors import StorageError
from gatepost.store.normal_forms import has_current_forms, renew_normal_forms

# "Gpst": tells our files from other programs' SQLite databases (`PRAGMA application_id`).
APPLICATION_ID = 0x47707374
BUSY_MILLISECONDS = 10_000

T = TypeVar("T")

_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -16000;
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = ON;
"""


def schema_files(engine: str = "sqlite") -> tuple[tuple[int, str], ...]:
    """Number and SQL of every schema file of an engine, in order."""
    found = (entry for entry in (files("gatepost.store") / "schema" / engine).iterdir() if entry.name.endswith(".sql"))
    return tuple(sorted((int(entry.name.split("_")[0]), entry.read_text("utf-8")) for entry in found))


def open_file(path: Path) -> apsw.Connection:
    """A connection that may write, to a file with the schema of this program; the file is created if it is absent."""
    with explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The database holds addresses and subjects of mail: only its owner may read it.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        _check_owner(connection, path)
        _enter_wal(connection)
        connection.execute(_PRAGMAS)
        _upgrade(connection, path)
    return connection


def open_reader(path: Path, mapped: int = 0) -> apsw.Connection:
    """A connection to an existing file that cannot change anything; `mapped` bytes of the file are memory-mapped."""
    with explain_errors(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("PRAGMA query_only = ON; PRAGMA cache_size = -16000")
        connection.pragma("mmap_size", mapped)
    return connection


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn errors of the database or the system into a `StorageError` that says what to do."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError):
        raise StorageError(f"{path} is damaged or not a database; restore a backup or move it away.") from None
    except apsw.BusyError:
        raise StorageError(f"{path} is locked by another program for longer than {BUSY_MILLISECONDS} ms.") from None
    except (apsw.FullError, apsw.IOError) as fault:
        raise StorageError(
            f"{path} cannot be written ({type(fault).__name__}): is the disk full or failing?"
        ) from fault
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, OSError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else "it cannot be opened for writing"
        raise StorageError(f"{path}: {reason}; check the folder and its permissions.") from None


def schema_version(connection: apsw.Connection) -> int:
    """The number of the last schema file applied; 0 for an empty file."""
    if not connection.pragma("application_id"):
        return 0
    return int(connection.execute("SELECT value FROM meta WHERE key = 'schema'").get)


def _check_owner(connection: apsw.Connection, path: Path) -> None:
    """Refuse a database of another program before anything in it is changed."""
    # In one transaction: between two reads another process could have made it a file of Gatepost.
    connection.execute("BEGIN")
    owner = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    connection.execute("COMMIT")
    if owner != APPLICATION_ID and (owner or tables):
        raise StorageError(f"{path} is a database of another program; name another file in storage.url.")


def _enter_wal(connection: apsw.Connection) -> None:
    if connection.pragma("journal_mode") == "wal":
        return
    # Changing the mode needs the file alone; an exclusive lock waits for others, the change by itself does not.
    connection.execute("BEGIN EXCLUSIVE; COMMIT")
    for attempt in range(100):
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if attempt == 99:
                raise
            apsw.sleep(20)
        else:
            return


def _upgrade(connection: apsw.Connection, path: Path) -> None:
    known = schema_files()
    newest = known[-1][0]
    if schema_version(connection) == newest and run_work(connection, has_current_forms()):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        present = schema_version(connection)
        if present > newest:
            raise StorageError(
                f"{path} was written by a newer Gatepost (schema {present}, this one knows {newest}); upgrade Gatepost."
            )
        for number, statements in known:
            if number > present:
                connection.execute(statements)
        run_work(connection, renew_normal_forms())
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (str(newest),))
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def run_work(connection: apsw.Connection, work: Work[T]) -> T:
    """Do a piece of work on a connection."""
    try:
        step = next(work)
        while True:
            step = work.send(_run_step(connection, step))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _run_step(connection: apsw.Connection, step: Step) -> Any:
    if isinstance(step, Read):
        return connection.execute(in_sqlite(step.statement), bind(step.parameters)).fetchall()
    before = connection.total_changes()
    if isinstance(step, Bulk):
        connection.executemany(step.sqlite, step.rows)
    else:
        connection.execute(in_sqlite(step.statement), bind(step.parameters))
    return connection.total_changes() - before


def bind(parameters: Row) -> list[Any]:
    """Parameters as SQLite takes them."""
    return [_array(value) if isinstance(value, Many) else value for value in parameters]


def _array(many: Many) -> Any:
    return apsw.carray(many.values if isinstance(many.values[0], str) else array("q", many.values))


A = TypeVar("A")
R = TypeVar("R")

# Takes the arguments of all callers that asked for it, returns one result for each, in their order.
Change: TypeAlias = Callable[[apsw.Connection, Sequence[A]], Sequence[R]]

MAX_GROUP = 256
LINGER_SECONDS = 0.003


class _Pending(msgspec.Struct, eq=False):
    change: Change[Any, Any]
    argument: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    fault: Exception | None = None


class Writer:
    """Applies changes to one connection, from any event loop, in the order in which they were asked for."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Pending | None] = SimpleQueue()
        self._closed = False
        self._ended, self._was_group = 0.0, False
        self._changes = self._commits = self._failures = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def apply(self, change: Change[A, R], argument: A) -> R:
        """Apply a change; returns when it is on disk."""
        if self._closed:
            raise StorageError("The storage is closed.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._queue.put(_Pending(change, argument, loop, future))
        return await future

    async def close(self) -> None:
        """Finish the changes that are queued, then end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many commits failed."""
        return StoreCounters(self._changes, self._commits, self._failures)

    def _run(self) -> None:
        more = True
        while more:
            group, more = self._next_group()
            if group:
                self._commit_or_fail(group)
                self._ended, self._was_group = time.monotonic(), len(group) > 1
                _answer(group)
        self._connection.close()

    def _next_group(self) -> tuple[list[_Pending], bool]:
        """Wait for one change and take all that have queued up behind it; False after the last group.

        When a change follows shortly after a commit with several changes, more of them are waited for a little: a
        commit costs far more than a change. A single caller never waits.
        """
        group: list[_Pending] = []
        pending = self._queue.get()
        arrived = time.monotonic()
        until = arrived + LINGER_SECONDS if self._was_group and arrived - self._ended < LINGER_SECONDS else arrived
        while pending is not None:
            group.append(pending)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                pending = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return group, True
        return group, False

    def _commit_or_fail(self, group: Sequence[_Pending]) -> None:
        try:
            self._commit(group)
        except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError) as fault:
            self._failures += 1
            error = StorageError(f"The storage could not be written ({type(fault).__name__}).")
            for pending in group:
                pending.fault = error
        except Exception as fault:  # noqa: BLE001  the fault of one change must not end the thread or fail its neighbours
            if len(group) > 1:
                for pending in group:
                    self._commit_or_fail([pending])
            else:
                self._failures += 1
                group[0].fault = fault

    def _commit(self, group: Sequence[_Pending]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for same in _group_by_change(group):
                results = same[0].change(self._connection, [pending.argument for pending in same])
                for pending, result in zip(same, results, strict=True):
                    pending.result = result
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._commits += 1
        self._changes += len(group)


def _group_by_change(group: Sequence[_Pending]) -> list[list[_Pending]]:
    """Neighbours that ask for the same change, together; the order of different changes stays."""
    together: list[list[_Pending]] = []
    for pending in group:
        if together and together[-1][0].change == pending.change:
            together[-1].append(pending)
        else:
            together.append([pending])
    return together


def _answer(group: Sequence[_Pending]) -> None:
    """Wake the callers, with one call for each event loop."""
    for loop in {pending.loop for pending in group}:
        try:
            loop.call_soon_threadsafe(_resolve, [pending for pending in group if pending.loop is loop])
        except RuntimeError:
            continue  # the loop has ended, and its callers with it


def _resolve(group: Sequence[_Pending]) -> None:
    for pending in group:
        if pending.future.done():
            continue
        if pending.fault is None:
            pending.future.set_result(pending.result)
        else:
            pending.future.set_exception(pending.fault)
