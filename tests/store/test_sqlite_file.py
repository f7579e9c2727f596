"""A file that cannot be used is refused with a sentence, and left as it was."""

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.store.old_schema import make_old_storage

from gatepost import SCHEMA
from gatepost.store import open_store, sqlite
from gatepost.store.errors import StorageError

pytestmark = pytest.mark.usefixtures("own_schema")


def test_a_new_file_has_the_newest_schema_and_survives_a_power_cut(tmp_path: Path) -> None:
    connection = sqlite.open_file(tmp_path / "deep" / "g.db")
    assert connection.execute("SELECT value FROM meta WHERE key = 'schema'").get == str(SCHEMA)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2, "FULL"
    assert (tmp_path / "deep" / "g.db").stat().st_mode & 0o077 == 0, "only its owner reads it"
    connection.close()


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    sqlite.open_file(tmp_path / "g.db").close()
    before = (tmp_path / "g.db").read_bytes()
    sqlite.open_file(tmp_path / "g.db").close()
    assert (tmp_path / "g.db").read_bytes() == before


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    sqlite.open_file(tmp_path / "g.db").close()
    reader = sqlite.open_reader(tmp_path / "g.db")
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("INSERT INTO meta VALUES ('a', 'b')")
    reader.close()


def _newer(path: Path) -> None:
    connection = sqlite.open_file(path)
    connection.execute("UPDATE meta SET value = ? WHERE key IN ('schema', 'usable_from')", (str(SCHEMA + 1),))
    connection.close()


def _older(path: Path) -> None:
    make_old_storage(f"sqlite:{path.name}", path.parent, 30)
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "wal")


def _foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE bookmarks (x)")
    connection.close()


def _text(path: Path) -> None:
    path.write_text("this is no database, and long enough to be mistaken for one " * 20)


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (_newer, rf"written by a newer Gatepost \(schema {SCHEMA + 1}, this one knows {SCHEMA}\)"),
        (_older, r"written by an older Gatepost \(schema 30, .* upgrade to version 0\.1\.0 first, then to this one\."),
        (_foreign, "a database of another program"),
        (_text, "damaged or not a database"),
        (_folder, "Is a directory"),
    ],
)
def test_unusable_files(tmp_path: Path, made: object, sentence: str) -> None:
    assert callable(made)
    path = tmp_path / "g.db"
    made(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StorageError, match=sentence) as refusal:
        open_store("sqlite:g.db", tmp_path)
    assert str(path) in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError, match="check the folder"):
        open_store("sqlite:g.db", tmp_path / "data")


def test_an_unwritable_place() -> None:
    with pytest.raises(StorageError, match="check the folder and its permissions"):
        open_store("sqlite:/proc/gatepost/g.db", Path())


@pytest.mark.parametrize("url", ["mysql://h/db", "", "sqlite:", "sqlite://", "g.db"])
def test_addresses_that_name_no_engine(tmp_path: Path, url: str) -> None:
    with pytest.raises(StorageError):
        open_store(url, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_setting_of_a_connection_is_carried_out(tmp_path: Path) -> None:
    connection = sqlite.open_file(tmp_path / "x.db")
    settings = [connection.pragma(name) for name in ("synchronous", "journal_size_limit", "temp_store")]
    connection.close()
    assert settings == [2, 67_108_864, 2]


@pytest.mark.parametrize("name", ["g.db", "g.db-wal"])
def test_a_file_that_was_moved_away_takes_no_more_changes(tmp_path: Path, name: str) -> None:
    """What is written to it would be gone when the service ends."""

    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        await store.prove_writable()
        aside = (tmp_path / name).rename(tmp_path / "aside")
        with pytest.raises(StorageError, match="was moved, deleted or replaced while it is in use"):
            await store.prove_writable()
        (tmp_path / name).write_bytes(aside.read_bytes())
        with pytest.raises(StorageError, match="was moved"):
            await store.prove_writable()
        aside.rename(tmp_path / name)
        await store.prove_writable()
        await store.close()

    asyncio.run(run())


def test_a_file_that_was_overwritten_takes_no_more_changes(tmp_path: Path) -> None:
    """It is the same file by its number: a backup that is copied over a file in use, or what another program writes."""

    async def run() -> None:
        path = tmp_path / "g.db"
        store = open_store("sqlite:g.db", tmp_path)
        await store.prove_writable()
        _checkpoint(path)
        await store.prove_writable()
        backup = path.read_bytes()
        # So much that the file grows, which raises its change counter.
        with closing(apsw.Connection(str(path))) as other:
            other.execute("CREATE TABLE more (x); INSERT INTO more VALUES (zeroblob(100000))")
            assert other.pragma("application_id") == sqlite.APPLICATION_ID
        _checkpoint(path)
        await store.prove_writable()
        whole = path.read_bytes()
        for content in (backup, b"", b"\0" * len(whole), b"no database " * 1_000, whole[:68] + b"Othr" + whole[72:]):
            _overwrite(path, content)
            with pytest.raises(StorageError, match="was overwritten while it is in use"):
                await store.prove_writable()
            _overwrite(path, whole)
            await store.prove_writable()
        await store.close()

    asyncio.run(run())


def _checkpoint(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("journal_mode") == "wal"
        assert connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)


def _overwrite(path: Path, content: bytes) -> None:
    """In a process of its own, as somebody else does: closing a file here would end the locks of SQLite."""
    code = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-c", code, str(path)], input=content, check=True)
