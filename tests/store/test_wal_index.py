"""Changes of a table that are told from the WAL-index: none is missed, whoever writes, however the writer ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from gatepost.guard.answers.lists import ListAnswers
from gatepost.store import open_store
from gatepost.store.sqlite import open_file, open_reader
from gatepost.store.store import Store
from gatepost.store.wal_index import IndexFile, TableWatch

_FILL = """WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ?)
INSERT INTO filling SELECT hex(randomblob(2000)) FROM n"""
_TOUCH = "UPDATE probe SET time = time + 1"
_RAISE = "UPDATE scopes SET unkeyed = unkeyed + 1 WHERE scope = ?"

# Changes a list for each line on its input, and says so after the change is acknowledged.
_CHANGING = """
import asyncio, sys
from pathlib import Path
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import open_store
from gatepost.store.audit import Actor
from gatepost.store.lists import NewEntry

async def change() -> None:
    store = open_store(sys.argv[1], Path("/"))
    for number, _ in enumerate(sys.stdin):
        entry = [NewEntry(f"phrase {sys.argv[2]} {number}", "shown")]
        await store.lists.add(None, BY_NAME["blocked-phrases"], entry, Actor("key", "ann"))
        print("changed", flush=True)

asyncio.run(change())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "g.db"


@pytest.fixture
def writing(path: Path) -> Iterator[apsw.Connection]:
    """A connection of another writer than the one that is watched."""
    with closing(open_file(path)) as connection:
        connection.execute("INSERT INTO probe (id, time) VALUES (1, 0)")
        connection.execute("INSERT INTO scopes (scope, directory, unkeyed) VALUES ('', 1, 1)")
        yield connection


@pytest.fixture
def watch(path: Path, writing: apsw.Connection) -> Iterator[TableWatch]:
    assert writing.filename == str(path)
    connection = open_reader(path)
    watch = TableWatch(connection, "scopes")
    yield watch
    connection.close()
    watch.close()


@contextmanager
def _changing(url: str, word: str = "") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _CHANGING, url, word]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], times: int = 1) -> None:
    assert process.stdin
    process.stdin.write("x\n" * times)
    process.stdin.flush()


def _read_answer(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == "changed\n"


def _checkpoint(connection: apsw.Connection, mode: str) -> None:
    """Write the WAL to the database, so that the next change begins it anew."""
    assert connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()[0][0] == 0


def test_a_number_is_another_after_each_change_of_the_table_alone(watch: TableWatch, writing: apsw.Connection) -> None:
    before = watch.number()
    for _ in range(50):
        writing.execute(_TOUCH)
        assert watch.number() == before
        assert watch.number() == before
    for change in (
        "UPDATE scopes SET unkeyed = unkeyed + 1",
        "INSERT INTO scopes (scope, directory, unkeyed) VALUES ('t', 1, 1)",
        "DELETE FROM scopes WHERE scope = 't'",
    ):
        writing.execute(change)
        assert watch.number() != before
        before = watch.number()
    writing.execute("BEGIN")
    writing.execute(_RAISE, ("",))
    assert watch.number() == before, "it is not committed"
    writing.execute("ROLLBACK")
    assert watch.number() == before


def test_the_table_is_read_only_where_the_index_does_not_tell(
    watch: TableWatch, writing: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.number()
    monkeypatch.setattr(watch, "_read_table", lambda: pytest.fail("the table was read"))
    for _ in range(100):
        writing.execute(_TOUCH)
        watch.number()


def test_a_wal_that_begins_anew(watch: TableWatch, writing: apsw.Connection) -> None:
    before = watch.number()
    for round_ in range(30):
        writing.execute(_TOUCH)
        _checkpoint(writing, "TRUNCATE")
        assert watch.number() == before, "the rows are what they were"
        if round_ % 3 == 0:
            writing.execute(_RAISE, ("",))
        _checkpoint(writing, "RESTART")
        writing.execute(_TOUCH)
        after = watch.number()
        assert (after != before) == (round_ % 3 == 0)
        before = after


def test_a_wal_of_several_blocks(watch: TableWatch, writing: apsw.Connection, path: Path) -> None:
    writing.execute("CREATE TABLE filling (text TEXT)")
    with closing(open_reader(path)) as reading:
        # Whoever reads an old state keeps the WAL from beginning anew.
        reading.execute("BEGIN; SELECT * FROM scopes").fetchall()
        before = watch.number()
        for _ in range(14):
            writing.execute(_FILL, (999,))
            assert watch.number() == before
            writing.execute(_RAISE, ("",))
            after = watch.number()
            assert after != before
            before = after
    assert path.with_name("g.db-wal").stat().st_size > 4_096 * (3 * 4_096)


def test_a_file_that_is_vacuumed(watch: TableWatch, writing: apsw.Connection) -> None:
    writing.execute("CREATE TABLE filling (text TEXT)")
    for _ in range(5):
        writing.execute(_FILL, (300,))
        # The table moves to the end of the file, and by the VACUUM to its beginning.
        writing.execute(
            "BEGIN; CREATE TABLE moved AS SELECT * FROM scopes; DROP TABLE scopes; "
            "ALTER TABLE moved RENAME TO scopes; COMMIT; DELETE FROM filling"
        )
        before = watch.number()
        writing.execute("VACUUM")
        watch.number()
        for _ in range(3):
            writing.execute(_RAISE, ("",))
            after = watch.number()
            assert after != before
            before = after


def test_a_table_of_many_pages(watch: TableWatch, writing: apsw.Connection) -> None:
    many = ((str(number),) for number in range(1, 5_000))
    with writing:
        writing.executemany("INSERT INTO scopes (scope, directory, unkeyed) VALUES (?, 1, 1)", many)
    before = watch.number()
    for scope in range(1, 5_000, 100):
        writing.execute(_TOUCH)
        assert watch.number() == before
        writing.execute(_RAISE, (str(scope),))
        after = watch.number()
        assert after != before
        before = after
    _checkpoint(writing, "RESTART")
    writing.execute(_TOUCH)
    assert watch.number() != before, "so many rows are not compared"


def test_what_cannot_be_told_is_left_to_a_statement(
    watch: TableWatch, writing: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = watch.number()
    index = watch._index
    header = index.read_header()
    assert index.read_copy() == header
    empty = bytes(len(header))
    for first, second in ((b"", header), (empty, header), (empty, empty), (2 * (b"\0" + header[1:],))):
        monkeypatch.setattr(index, "read_header", lambda first=first: first)
        monkeypatch.setattr(index, "read_copy", lambda second=second: second)
        assert watch.number() is None
    monkeypatch.undo()
    writing.execute(_RAISE, ("",))
    assert watch.number() not in {before, None}


def _index_locks(path: Path) -> list[str]:
    """The locks that this process holds on the index of a file, as the system lists them."""
    inode = path.with_name(f"{path.name}-shm").stat().st_ino
    locks = [line.split()[1:] for line in Path("/proc/locks").read_text().splitlines()]
    return [" ".join(lock) for lock in locks if lock[3] == str(os.getpid()) and lock[4].endswith(f":{inode}")]


def test_locks_of_other_connections_stay(path: Path, writing: apsw.Connection) -> None:
    before = _index_locks(path)
    assert before, "SQLite holds a lock on the index for as long as a file is open"
    connection = open_reader(path)
    watch = TableWatch(connection, "scopes")
    assert watch.number() is not None
    connection.close()
    watch.close()
    assert _index_locks(path) == before
    assert watch._index in IndexFile.opened
    writing.close()
    IndexFile.close_unused()
    assert watch._index not in IndexFile.opened, "SQLite has deleted the index"


def _with_store(url: str, scenario: Callable[[Store, ListAnswers], Awaitable[None]]) -> None:
    async def run() -> None:
        store = open_store(url, Path("/"))
        try:
            await scenario(store, ListAnswers(store))
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.variant
def test_a_thousand_changes_by_another_process_hold_at_once(path: Path) -> None:
    url = f"sqlite:{path}"

    async def scenario(store: Store, lists: ListAnswers) -> None:
        for number in range(1_000):
            before = (await lists.snapshot(None)).version
            _ask(process)
            _read_answer(process)
            assert (await lists.snapshot(None)).version != before, number
            await store.prove_writable()

    with _changing(url) as process:
        _with_store(url, scenario)


def test_writers_that_are_killed(path: Path) -> None:
    """At whatever moment the writer of a change is killed, memory tells what the database has."""
    url = f"sqlite:{path}"

    async def scenario(store: Store, lists: ListAnswers) -> None:
        for number in range(12):
            with _changing(url, str(number)) as process:
                _ask(process, 1_000)
                for _ in range(1 + 3 * number):
                    _read_answer(process)
                    held = await lists.snapshot(None)
                process.send_signal(signal.SIGKILL)
                process.wait()
            for _ in range(2):
                held = await lists.snapshot(None)
                assert held.version == f"{await store.list_lookup.unkeyed_version(None)}/None"
            packed = lists.packed
            for _ in range(5):
                await store.prove_writable()
                assert await lists.snapshot(None) is held
            assert lists.packed == packed

    _with_store(url, scenario)


def test_messages_ask_no_statement_while_lists_are_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: Store, lists: ListAnswers) -> None:
        held = await lists.snapshot(None)
        monkeypatch.setattr(store.list_lookup, "unkeyed_version", lambda _tenant: pytest.fail("storage was asked"))
        for _ in range(20):
            await store.prove_writable()
            assert await lists.snapshot(None) is held

    _with_store(f"sqlite:{path}", scenario)
