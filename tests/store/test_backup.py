"""Backups of a storage that is in use, and restoring them into one that is."""

import asyncio
from pathlib import Path

import apsw
import pytest
from tests.store.old_schema import make_old_storage

from gatepost import SCHEMA
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import copy, open_store, sqlite, upgrading
from gatepost.store.audit import CLI
from gatepost.store.copy import backup, prove, restore
from gatepost.store.errors import StorageError
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store

URLS = BY_NAME["blocked-urls"]


def _quiet(_done: int, _total: int) -> None:
    return None


async def add(store: Store, *keys: str) -> None:
    await store.lists.add(None, URLS, [NewEntry(key, key) for key in keys], CLI)


async def found(store: Store, *keys: str) -> list[str]:
    return [hit.key for hit in await store.list_lookup.find(None, (("url", keys),))]


def test_there_and_back_while_the_service_runs(storage_url: str, tmp_path: Path) -> None:
    """The store stays open throughout, as a server would have it; it sees the restored content at its next look."""
    file = tmp_path / "kept.backup"

    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        await add(store, "a", *(f"k{n}" for n in range(3_000)))
        seen: list[tuple[int, int]] = []
        await asyncio.to_thread(backup, storage_url, tmp_path, file, lambda *each: seen.append(each))
        assert seen[-1][0] == seen[-1][1] > 0
        assert file.stat().st_mode & 0o077 == 0, "only its owner reads it"
        await add(store, "later")
        await store.lists.remove(None, URLS.name, ["a"], CLI)
        await store.tenants.create("later")
        with pytest.raises(StorageError, match="not empty"):
            await asyncio.to_thread(restore, storage_url, tmp_path, file, _quiet)
        assert await found(store, "a", "later") == ["later"]
        await asyncio.to_thread(restore, storage_url, tmp_path, file, _quiet, force=True)
        assert await found(store, "a", "later", "k7") == ["a", "k7"]
        assert await store.tenants.all() == ()
        assert next(state.size for state in await store.lists.all(None) if state.definition == URLS) == 3_001
        await add(store, "b")
        assert await found(store, "b") == ["b"]
        await store.close()

    asyncio.run(run())
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set(), "nothing is left lying"


def test_a_backup_of_one_engine_is_restored_into_the_other(tmp_path: Path, postgres_url: str) -> None:
    async def filled() -> None:
        store = open_store(postgres_url, tmp_path)
        await add(store, "a")
        await store.close()

    async def there(url: str) -> list[str]:
        store = open_store(url, tmp_path)
        hits = await found(store, "a")
        await store.close()
        return hits

    asyncio.run(filled())
    backup(postgres_url, tmp_path, tmp_path / "b", _quiet)
    restore("sqlite:g.db", tmp_path, tmp_path / "b", _quiet)
    assert asyncio.run(there("sqlite:g.db")) == ["a"]
    restore(postgres_url, tmp_path, tmp_path / "b", _quiet, force=True)
    assert asyncio.run(there(postgres_url)) == ["a"]


def test_a_backup_is_complete_while_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes meanwhile neither starts it over nor gets half a call into it."""
    monkeypatch.setattr("gatepost.store.copy.PAGES", 100)

    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        for start in range(0, 20_000, 500):
            await add(store, *(f"{n:06}-{'x' * 60}" for n in range(start, start + 500)))
        steps = 0

        def meanwhile(_done: int, _total: int) -> None:
            nonlocal steps
            steps += 1
            keys = [f"new-{steps}-{each}" for each in range(10)]
            asyncio.run_coroutine_threadsafe(add(store, *keys), loop).result(180)

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(backup, "sqlite:g.db", tmp_path, tmp_path / "b", meanwhile)
        assert 5 < steps < 20
        await store.close()

    asyncio.run(run())
    kept = apsw.Connection(str(tmp_path / "b"))
    assert kept.pragma("integrity_check") == "ok"
    assert kept.execute("SELECT count(*) FROM entries").get == kept.execute("SELECT size FROM lists").get == 20_000
    assert kept.pragma("journal_mode") == "delete", "one file, with nothing beside it"


def test_a_backup_of_schema_31_is_brought_to_this_schema(tmp_path: Path) -> None:
    make_old_storage("sqlite:old", tmp_path, filled=True)
    before = (tmp_path / "old").read_bytes()
    restore("sqlite:g.db", tmp_path, tmp_path / "old", _quiet)
    connection = sqlite.open_file(tmp_path / "g.db")
    assert connection.execute("SELECT value FROM meta WHERE key = 'schema'").get == str(SCHEMA)
    assert connection.execute("SELECT name FROM tenants").get == "t"
    connection.close()
    assert (tmp_path / "old").read_bytes() == before, "the backup itself is not touched"


def test_an_older_backup_has_to_pass_through_0_1_0(tmp_path: Path) -> None:
    make_old_storage("sqlite:old", tmp_path, 30)
    before = (tmp_path / "old").read_bytes()
    with pytest.raises(StorageError, match=r"/old was written by an older .* version 0\.1\.0 first"):
        restore("sqlite:g.db", tmp_path, tmp_path / "old", _quiet)
    with pytest.raises(StorageError, match=r"/old was written by an older .* version 0\.1\.0 first"):
        prove(tmp_path / "old", tmp_path, _quiet)
    assert (tmp_path / "old").read_bytes() == before
    assert not (tmp_path / "g.db").exists()


def test_files_that_are_refused(tmp_path: Path) -> None:
    sqlite.open_file(tmp_path / "g.db").close()
    (tmp_path / "b").write_text("mine")
    with pytest.raises(StorageError, match="exists"):
        backup("sqlite:g.db", tmp_path, tmp_path / "b", _quiet)
    assert (tmp_path / "b").read_text() == "mine"
    with pytest.raises(StorageError, match="nothing to back up"):
        backup("sqlite:absent.db", tmp_path, tmp_path / "c", _quiet)
    with pytest.raises(StorageError, match="folder"):
        backup("sqlite:g.db", tmp_path, tmp_path / "no" / "c", _quiet)
    with pytest.raises(StorageError, match="does not exist"):
        restore("sqlite:g.db", tmp_path, tmp_path / "absent", _quiet)
    with pytest.raises(StorageError, match="not a"):
        restore("sqlite:g.db", tmp_path, tmp_path / "b", _quiet)
    foreign = apsw.Connection(str(tmp_path / "foreign"))
    foreign.execute("CREATE TABLE bookmarks (x)")
    foreign.close()
    with pytest.raises(StorageError, match="not a backup of Gatepost"):
        restore("sqlite:g.db", tmp_path, tmp_path / "foreign", _quiet)
    backup("sqlite:g.db", tmp_path, tmp_path / "b", _quiet, force=True)
    assert {path.name for path in tmp_path.iterdir()} - {"g.db-wal", "g.db-shm"} == {"g.db", "b", "foreign"}


def test_a_proof_compares_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def filled() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        await add(store, "a.example", "b.example")
        await store.close()

    asyncio.run(filled())
    backup("sqlite:g.db", tmp_path, tmp_path / "b", _quiet)
    assert prove(tmp_path / "b", tmp_path, _quiet).rows >= 2

    def restore_badly(url: str, folder: Path, file: Path, progress: upgrading.Progress) -> None:
        restore(url, folder, file, progress)
        connection = apsw.Connection(str(folder / "proof.db"))
        connection.execute("UPDATE entries SET comment = 'x' WHERE key = 'b.example'")
        connection.close()

    monkeypatch.setattr(copy, "restore", restore_badly)
    with pytest.raises(StorageError, match="table entries is not the same after restoring it"):
        prove(tmp_path / "b", tmp_path, _quiet)


def test_a_link_in_the_place_of_a_backup_is_not_followed(tmp_path: Path) -> None:
    """Somebody else may have put it into a shared folder, to have a file of theirs, or of ours, written over."""
    asyncio.run(_make(tmp_path))
    other = tmp_path / "other"
    other.write_text("theirs")
    for name, goal in (("dangling", tmp_path / "nothing"), ("linked", other)):
        (tmp_path / name).symlink_to(goal)
        copy.backup("sqlite:g.db", tmp_path, tmp_path / name, lambda *_: None, force=True)
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert other.read_text() == "theirs"
    assert not (tmp_path / "nothing").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing half written is left"


async def _make(folder: Path) -> None:
    store = open_store("sqlite:g.db", folder)
    await store.tenants.create("a")
    await store.close()
