"""The engine on one SQLite file: the file, the thread that writes it, and the threads that read it.

The file is opened and upgraded, or refused with a reason. WAL lets readers go on while one writer commits;
`synchronous=FULL` makes every commit survive a power cut, not only a kill. The schema is made and upgraded under the
write lock, so that two processes that start together do not both do it.

One writer commits changes in groups, in a thread of this process (`Writer`). A commit costs a wait for the disk,
whatever is in it. While one is under way new changes queue up, and the next commit takes them all: the more there is to
do, the cheaper each change becomes, with no timer and no delay when there is little. A caller is answered after the
commit that holds its change, never before. Changes of the same kind are applied together, so that a whole group can be
one statement for each table. Those that are light, which are records of messages, have commits of their own: mail does
not wait for the changes of lists beside it. They come in groups already (`change_groups`).

The event loop only ever waits, even for a row that is in memory: a reader notes in the index of the WAL what it has
seen, and that write waits for as long as a disk does. A stream has a connection of its own, because it is one statement
from its first batch to its last.
"""

import asyncio
import contextlib
import os
import struct
import threading
import time
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar, cast

import apsw
import msgspec

from gatepost import SCHEMA
from gatepost.process.background_work import background
from gatepost.store.engine import Engine, Many, Read, Rollback, Script, Step, StoreCounters, Work, cancel_read
from gatepost.store.errors import StorageError
from gatepost.store.sql import Bulk, Row
from gatepost.store.upgrading import SchemaState, read_state, upgrade

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

# "Gpst": tells our files from other programs' SQLite databases (`PRAGMA application_id`).
APPLICATION_ID = 0x47707374
BUSY_MILLISECONDS = 10_000
# Of the header of a file: its first bytes, the change counter, and whose file it is.
_HEADER, _MAGIC = struct.Struct(">16s8xI40xI"), b"SQLite format 3\0"
_LOOK_AGAIN_SECONDS = 0.01

_OTHER_PROGRAM = "{} is a database of another program; name another file in storage.url."
_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
"""


def open_file(path: Path) -> apsw.Connection:
    """A connection that may write, to a file with the schema of this program; the file is created if it is absent."""
    with explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # The database holds addresses and subjects of mail: only its owner may read it.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        # Refused before anything in it is changed.
        owner, tables = _read_owner(connection)
        if owner != APPLICATION_ID and (owner or tables):
            raise StorageError(_OTHER_PROGRAM.format(path))
        _enter_wal(connection)
        # A cursor stops at each row that it yields: read to its end, or what follows is never carried out.
        connection.execute(_PRAGMAS).fetchall()
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


def read_schema_state(path: Path) -> SchemaState:
    """How far a file is from the schema of this program."""
    if not path.exists():
        return SchemaState(0)
    with explain_errors(path), closing(open_reader(path)) as connection:
        owner, tables = _read_owner(connection)
        if tables and owner != APPLICATION_ID:
            raise StorageError(_OTHER_PROGRAM.format(path))
        size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
        return run_work(connection, read_state(is_empty=not owner, size=size))


def _read_owner(connection: apsw.Connection) -> tuple[int, int]:
    """The program whose file it is, 0 for none, and how many tables and indexes it has."""
    # In one transaction: between two reads another process could have made it a file of Gatepost.
    connection.execute("BEGIN")
    owner = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    connection.execute("COMMIT")
    return owner, tables


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
    state = run_work(connection, read_state(is_empty=_is_empty(connection)))
    if state.present == SCHEMA and not state.has_old_entries:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        is_empty = _is_empty(connection)
        run_work(connection, upgrade("sqlite", str(path), is_empty=is_empty))
        if is_empty:
            connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_empty(connection: apsw.Connection) -> bool:
    return not connection.pragma("application_id")


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
        return connection.execute(step.statement.sqlite, bind(step.parameters)).fetchall()
    if isinstance(step, Script):
        return connection.execute(step.statements)
    before = connection.total_changes()
    if isinstance(step, Bulk):
        connection.executemany(step.sqlite, step.rows)
    else:
        connection.execute(step.statement.sqlite, bind(step.parameters))
    return connection.total_changes() - before


def bind(parameters: Row) -> list[Any]:
    """Parameters as SQLite takes them."""
    return [_array(value) if isinstance(value, Many) else value for value in parameters]


def _array(many: Many) -> Any:
    return apsw.carray(many.values if isinstance(many.values[0], str) else array("q", many.values))


# Takes the arguments of all callers that asked for it, returns one result for each, in their order.
Change: TypeAlias = Callable[[apsw.Connection, Sequence[A]], Sequence[R]]

MAX_GROUP = 256
# Changes that are not light have commits of so many while light ones come in between.
MAX_HEAVY_GROUP = 4
LINGER_SECONDS = 0.003


class PendingChange(msgspec.Struct, eq=False):
    """A change that somebody waits for, and what became of it. `light` are those that every message makes. The last
    change that a caller asked for has the future of that caller."""

    change: Change[Any, Any]
    argument: Any
    light: bool = False
    caller: asyncio.Future[None] | None = None
    result: Any = None
    fault: Exception | None = None


class OpenFile:
    """The files that a connection writes to. One that was moved away, deleted or replaced meanwhile is still written
    to, and everything in it is gone when the connection ends; one that somebody has copied another file over, such as a
    backup, is mixed with what SQLite knows of the old one. So that is looked at before every commit: which files the
    names belong to, and the first bytes of the database (sqlite.org/fileformat2.html, "The Database Header"), whose
    change counter never falls as long as SQLite alone writes the file.

    The header is read through the descriptor that SQLite has open. Another one must not be opened here: closing it
    would end the locks of this process on the file (fcntl(2), "Record locking").
    """

    def __init__(self, connection: apsw.Connection) -> None:
        # A database in memory has none.
        name = connection.filename
        self._files: tuple[Path, ...] = (Path(name), Path(f"{name}-wal")) if name else ()
        self._known: dict[Path, tuple[int, int]] = {}
        self._descriptor = -1
        self._counter = 0

    def check(self) -> None:
        """Raise `StorageError` where a file is no longer the one that was opened, or was overwritten."""
        for file in self._files:
            try:
                found = file.stat()
                seen = found.st_dev, found.st_ino
            except OSError:
                seen = None
            if seen is not None and file not in self._known:
                self._known[file] = seen
            elif seen != self._known.get(file):
                raise StorageError(
                    f"{file} was moved, deleted or replaced while it is in use: put it back, or restart the service."
                )
        if self._files and not self._is_own():
            # A checkpoint of another process may have been writing the header at this moment.
            time.sleep(_LOOK_AGAIN_SECONDS)
            if not self._is_own():
                raise StorageError(
                    f"{self._files[0]} was overwritten while it is in use: stop the service and restore a backup."
                )

    def _is_own(self) -> bool:
        """Whether the file has a header of ours that is not older than what was seen; True where it has none yet."""
        descriptor = self._find_descriptor()
        header = os.pread(descriptor, _HEADER.size, 0) if descriptor is not None else b""
        if descriptor is None or (not header and not self._counter):
            return True
        if len(header) < _HEADER.size:
            return False
        magic, counter, owner = _HEADER.unpack(header)
        # The owner of a new file is in the log until the first checkpoint.
        is_new = not owner and not self._counter
        if magic != _MAGIC or (owner != APPLICATION_ID and not is_new) or counter < self._counter:
            return False
        self._counter = 0 if is_new else counter
        return True

    def _find_descriptor(self) -> int | None:
        """A descriptor of this process on the database; None where the system does not tell."""
        wanted = self._known.get(self._files[0])
        with contextlib.suppress(OSError):
            if self._descriptor >= 0 and _identify(self._descriptor) == wanted:
                return self._descriptor
        with contextlib.suppress(OSError):
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    if _identify(int(name)) == wanted:
                        self._descriptor = int(name)
                        return self._descriptor
        return None


def _identify(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


class CommitTurns:
    """Who shares the next commit. Light changes go first, all of them; then come some of the others, and so on."""

    def __init__(self) -> None:
        self._light: deque[PendingChange] = deque()
        self._heavy: deque[PendingChange] = deque()
        self._is_heavy_next = False

    def __bool__(self) -> bool:
        return bool(self._light or self._heavy)

    def add(self, pending: PendingChange) -> None:
        """Let a change wait for its commit."""
        (self._light if pending.light else self._heavy).append(pending)

    def next_group(self) -> list[PendingChange]:
        """Take out the changes of the next commit, in the order in which they were asked for."""
        self._is_heavy_next = bool(self._heavy) and (self._is_heavy_next or not self._light)
        most = MAX_HEAVY_GROUP if self._is_heavy_next and self._light else MAX_GROUP
        changes = self._heavy if self._is_heavy_next else self._light
        self._is_heavy_next = not self._is_heavy_next
        return [changes.popleft() for _ in range(min(most, len(changes)))]


class Writer:
    """Applies changes to one connection, from any event loop. Of a kind (`CommitTurns`), what was asked for first is
    applied first."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection, self._file = connection, OpenFile(connection)
        self._changes = self._commits = self._failures = 0
        self._queue: SimpleQueue[Sequence[PendingChange] | None] = SimpleQueue()
        self._closed = False
        self._ended, self._was_group = 0.0, False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def apply(self, change: Change[A, R], argument: A, *, light: bool = False) -> R:
        """Apply a change; returns when it is on disk."""
        pending = PendingChange(change, argument, light)
        await self._write([pending])
        if pending.fault is not None:
            raise pending.fault
        return cast("R", pending.result)

    async def apply_together(self, change: Change[A, R], arguments: Sequence[A]) -> Sequence[R | Exception]:
        """Apply a change that every message makes, for several; returns when all are on disk: a result for each, or its
        fault where it failed alone."""
        group = [PendingChange(change, argument, light=True) for argument in arguments]
        await self._write(group)
        return [pending.result if pending.fault is None else pending.fault for pending in group]

    async def _write(self, group: Sequence[PendingChange]) -> None:
        """Hand changes to the thread; returns when all are applied or have failed."""
        if self._closed:
            raise StorageError("The storage is closed.")
        caller = group[-1].caller = asyncio.get_running_loop().create_future()
        self._queue.put(group)
        await caller

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
        # What `top -H` and the benchmarks show; the kernel keeps 15 characters.
        with contextlib.suppress(OSError):
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("store-writer")
        is_open, waiting = True, CommitTurns()
        while is_open or waiting:
            is_open = self._gather(waiting) and is_open
            if waiting:
                group, begun = waiting.next_group(), time.monotonic()
                self._commit(group)
                self._ended, self._was_group = time.monotonic(), len(group) > 1
                if not group[0].light:
                    background.use(self._ended - begun)
                _answer(group)
        self._connection.close()

    def _gather(self, waiting: CommitTurns) -> bool:
        """Take all changes that have queued up; wait for one if there is none. Return False after the last.

        When a change follows shortly after a commit with several changes, more of them are waited for a little: a
        commit costs far more than a change. A single caller never waits. Records of messages do not wait here: they
        were collected before (`change_groups`).
        """
        until = 0.0
        count = 0
        while count < MAX_GROUP:
            try:
                seconds = None if not (count or waiting) else max(0.0, until - time.monotonic())
                group = self._queue.get(timeout=seconds)
            except Empty:
                break
            if group is None:
                return False
            for pending in group:
                waiting.add(pending)
            if group[0].light:
                until = 0.0
            elif not count:
                now = time.monotonic()
                until = now + LINGER_SECONDS if self._was_group and now - self._ended < LINGER_SECONDS else now
            count += len(group)
        return True

    def _commit(self, group: Sequence[PendingChange]) -> None:
        """Apply all changes in one commit. A change that fails fails alone: its neighbours are applied without it."""
        try:
            self._file.check()
        except StorageError as fault:
            self._failures += 1
            for pending in group:
                pending.fault = fault
            return
        try:
            self._commit_all(group)
        except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError) as fault:
            self._failures += 1
            error = StorageError(f"The storage could not be written ({type(fault).__name__}).")
            for pending in group:
                pending.fault = error
        except Exception as fault:  # noqa: BLE001  the fault of one change must not end the writer or fail its neighbours
            if len(group) > 1:
                for pending in group:
                    self._commit([pending])
            else:
                self._failures += 1
                group[0].fault = fault

    def _commit_all(self, group: Sequence[PendingChange]) -> None:
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


def _group_by_change(group: Sequence[PendingChange]) -> list[list[PendingChange]]:
    """Neighbours that ask for the same change, together; the order of different changes stays."""
    together: list[list[PendingChange]] = []
    for pending in group:
        if together and together[-1][0].change == pending.change:
            together[-1].append(pending)
        else:
            together.append([pending])
    return together


def _answer(group: Sequence[PendingChange]) -> None:
    """Wake the callers, with one call for each event loop."""
    callers = [pending.caller for pending in group if pending.caller]
    for loop in {caller.get_loop() for caller in callers}:
        try:
            loop.call_soon_threadsafe(_wake, [caller for caller in callers if caller.get_loop() is loop])
        except RuntimeError:
            continue  # the loop has ended, and its callers with it


def _wake(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


READERS = 2
STREAMERS = 2
SEARCHERS = 2
# Look-ups jump about in a file that may be large: pages that are in memory anyway are not copied for them. That takes
# address space, not memory, so all of a list of ten million entries can be mapped.
MAPPED = 1 << 36
# Each open stream holds a connection with a small cache, for as long as its client takes to read.
MAX_STREAMS = 64


class SqliteEngine(Engine):
    """Does work on a SQLite file; opening it raises `StorageError` where the file cannot be used."""

    is_local = True
    keeps_held_bytes = True
    joins_by_lookup = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = Writer(open_file(path))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._streamers = ThreadPoolExecutor(STREAMERS, thread_name_prefix="store-stream")
        self._searchers = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="store-search")
        self._streams = 0
        self._connections: list[apsw.Connection] = []
        self._of_thread = threading.local()

    async def close(self) -> None:
        self._closed = True
        await self._writer.close()
        for threads in (self._readers, self._streamers, self._searchers):
            await asyncio.to_thread(threads.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def counters(self) -> StoreCounters:
        return self._writer.counters()

    async def _apply(self, work: Callable[[], Work[T]]) -> T:
        """Do work in the writer thread; returns after the commit that holds it."""
        try:
            return await self._writer.apply(run_all, work)
        except Rollback as outcome:
            result: T = outcome.result
            return result

    async def change_for_mail(self, work: Callable[[], Work[T]]) -> T:
        """Do work in the writer thread, in a commit with the records of messages."""
        return await self._writer.apply(run_all, work, light=True)

    def change_together(
        self,
        all_at_once: Callable[[apsw.Connection, Sequence[A]], Sequence[T]],
        work: Callable[[Sequence[A]], Work[Sequence[T]]],  # noqa: ARG002  for PostgreSQL
        arguments: Sequence[A],
    ) -> Coroutine[Any, Any, Sequence[T | Exception]]:
        """Have a group of changes written in one commit."""
        return self._writer.apply_together(all_at_once, arguments)

    async def query(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a reader thread."""
        return await self._read(lambda connection: run_work(connection, work()))

    async def query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a reader thread, in one transaction."""
        return await self._read(lambda connection: _run_in_transaction(connection, work()))

    async def search(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a thread for searches, in one transaction."""
        return await self._read(
            lambda connection: background.run(_run_in_transaction, connection, work()), self._searchers
        )

    async def stream(
        self, read: Read, convert: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement in batches, read and converted in a thread."""
        self._check_open()
        if self._streams >= MAX_STREAMS:
            raise StorageError(f"{MAX_STREAMS} lists are being read already; try again when some are finished.")
        self._streams += 1
        run = asyncio.get_running_loop().run_in_executor
        rows = _StreamedRows(self._path, read)
        ahead = run(self._streamers, background.run, rows.next, convert, first)
        try:
            while found := await ahead:
                ahead = run(self._streamers, background.run, rows.next, convert, batch)
                yield found
        finally:
            self._streams -= 1
            cancel_read(ahead)
            # Not here: a thread may still be reading the batch that was given up.
            self._close_later(rows.close)

    def _close_later(self, close: Callable[[], None]) -> None:
        if self._closed:
            close()
        else:
            self._streamers.submit(close)

    async def _read(self, read: Callable[[apsw.Connection], T], threads: ThreadPoolExecutor | None = None) -> T:
        self._check_open()
        run = asyncio.get_running_loop().run_in_executor
        return await run(threads or self._readers, self._read_in_thread, read)

    def _read_in_thread(self, read: Callable[[apsw.Connection], T]) -> T:
        with explain_errors(self._path):
            connection = getattr(self._of_thread, "connection", None)
            if connection is None:
                connection = self._of_thread.connection = open_reader(self._path, MAPPED)
                self._connections.append(connection)
            return read(connection)


class _StreamedRows:
    """The rows of one statement, on a connection of their own, which is opened for the first of them."""

    def __init__(self, path: Path, read: Read) -> None:
        self._path, self._read = path, read
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._rows: Iterator[Row] | None = None

    def next(self, convert: Callable[[Sequence[Row]], T], count: int) -> T | None:
        """The next `count` rows, as `convert` returns them; None at the end."""
        with self._lock, explain_errors(self._path):
            if self._rows is None:
                self._connection = open_reader(self._path)
                self._rows = self._connection.execute(self._read.statement.sqlite, bind(self._read.parameters))
            rows = list(islice(self._rows, count))
        return convert(rows) if rows else None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._rows = iter(())
            if self._connection:
                self._connection.close(True)


def run_all(connection: apsw.Connection, works: Sequence[Callable[[], Work[Any]]]) -> Sequence[Any]:
    """Do several pieces of work; the change that `SqliteEngine.change` asks the writer for."""
    return [run_work(connection, work()) for work in works]


def _run_in_transaction(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN")
    try:
        return run_work(connection, work)
    finally:
        connection.execute("COMMIT")
