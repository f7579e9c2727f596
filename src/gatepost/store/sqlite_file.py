"""The SQLite file: it is opened and upgraded, or refused with a reason; and work on it, step by step.

WAL lets readers go on while one writer commits; `synchronous=FULL` makes every commit survive a power cut, not only a
kill. The numbered files in `schema/` are applied in order, each once, under the write lock, so that two processes that
start together do not both apply them.
"""

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import apsw

from gatepost.store.engine import Bulk, Many, Read, Row, Step, Work, in_sqlite
from gatepost.store.errors import StorageError
from gatepost.store.normal_forms import has_current_forms, renew_normal_forms

# "Gpst": tells our files from other programs' SQLite databases (`PRAGMA application_id`).
APPLICATION_ID = 0x47707374
BUSY_MILLISECONDS = 10_000
# How a schema file begins that only adds to what is there.
ADDITIVE = "-- Additive:"
USABLE_FROM = "SELECT value FROM meta WHERE key = 'usable_from'"

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


def usable_from(known: tuple[tuple[int, str], ...]) -> int:
    """The number of the last of these files that changes what is there. Those after it only add (tables, columns that
    have a default, indexes), so that programs which know this number can use a storage of all of them."""
    return max(number for number, statements in known if not statements.startswith(ADDITIVE))


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


def read_usable_from(connection: apsw.Connection) -> int:
    """The lowest schema number that a program has to know; where nothing says that, it is that of the storage."""
    found = connection.execute(USABLE_FROM).get
    return int(found) if found else schema_version(connection)


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
            if read_usable_from(connection) <= newest and run_work(connection, has_current_forms()):
                return
            raise StorageError(
                f"{path} was written by a newer Gatepost (schema {present}, this one knows {newest}); upgrade Gatepost."
            )
        for number, statements in known:
            if number > present:
                connection.execute(statements)
        run_work(connection, renew_normal_forms())
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (str(newest),))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('usable_from', ?)", (str(usable_from(known)),))
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
