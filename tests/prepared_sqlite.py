"""A new SQLite database with the schema of this program, copied from one that was made before.

To make the schema takes longer than to copy what it makes, and more than a thousand tests begin with a new database.
What a copy says of itself is then checked as that of any file that is opened. A test that is about how a database is
made takes the fixture `own_schema`.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from gatepost.store import sqlite

Upgrade = Callable[[apsw.Connection, Path], None]


class PreparedSqlite:
    """Takes the place of `sqlite._upgrade`, for new files."""

    def __init__(self, folder: Path, upgrade: Upgrade) -> None:
        self._file, self._upgrade = folder / "prepared.db", upgrade
        self._lock = threading.Lock()

    def __call__(self, connection: apsw.Connection, path: Path) -> None:
        if sqlite._is_empty(connection):
            with self._lock:
                if not self._file.exists():
                    self._make()
                self._copy_to(connection)
        self._upgrade(connection, path)

    def _make(self) -> None:
        made = apsw.Connection(str(self._file))
        self._upgrade(made, self._file)
        made.close()

    def _copy_to(self, connection: apsw.Connection) -> None:
        prepared = apsw.Connection(str(self._file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            with connection.backup("main", prepared, "main") as backup:
                backup.step()
        finally:
            prepared.close()
