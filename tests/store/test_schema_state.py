"""The state of a storage is told without changing it, on both engines."""

import asyncio
from pathlib import Path

import pytest
from tests.store.old_schema import make_old_storage, run_statements

from gatepost import SCHEMA
from gatepost.store import open_store, read_schema_state, upgrade_storage
from gatepost.store.errors import StorageError
from gatepost.store.upgrading import USABLE_FROM, SchemaState

pytestmark = pytest.mark.usefixtures("own_schema")


def test_nothing_is_there_yet(empty_storage_url: str, tmp_path: Path) -> None:
    state = read_schema_state(empty_storage_url, tmp_path)
    assert state.present == 0
    assert not state.needs_upgrade
    assert not state.is_newer
    assert not list(tmp_path.glob("*.db*"))


def test_a_storage_of_this_version(empty_storage_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(empty_storage_url, tmp_path).close())
    state = read_schema_state(empty_storage_url, tmp_path)
    assert state == SchemaState(SCHEMA, state.size, False, USABLE_FROM)
    assert state.size > 10_000
    assert not state.needs_upgrade


def test_an_older_storage_stays_as_it_is(empty_storage_url: str, tmp_path: Path) -> None:
    make_old_storage(empty_storage_url, tmp_path)
    for _ in range(2):
        state = read_schema_state(empty_storage_url, tmp_path)
        assert (state.present, state.needs_upgrade, state.is_newer, state.is_too_old) == (31, True, False, False)


def test_a_storage_that_is_too_old(empty_storage_url: str, tmp_path: Path) -> None:
    make_old_storage(empty_storage_url, tmp_path, 30)
    state = read_schema_state(empty_storage_url, tmp_path)
    assert (state.present, state.needs_upgrade, state.is_newer, state.is_too_old) == (30, False, False, True)
    with pytest.raises(StorageError, match=r"version 0\.1\.0 first"):
        upgrade_storage(empty_storage_url, tmp_path)


def test_entries_of_older_normal_forms(empty_storage_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(empty_storage_url, tmp_path).close())
    run_statements(empty_storage_url, tmp_path, "DELETE FROM meta WHERE key = 'normal_forms'")
    state = read_schema_state(empty_storage_url, tmp_path)
    assert state.has_old_entries
    assert state.needs_upgrade
    asyncio.run(open_store(empty_storage_url, tmp_path).close())
    assert not read_schema_state(empty_storage_url, tmp_path).needs_upgrade


def test_a_newer_storage(empty_storage_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(empty_storage_url, tmp_path).close())
    run_statements(empty_storage_url, tmp_path, "UPDATE meta SET value = '999' WHERE key IN ('schema', 'usable_from')")
    state = read_schema_state(empty_storage_url, tmp_path)
    assert (state.present, state.is_newer, state.needs_upgrade) == (999, True, False)
    with pytest.raises(StorageError, match="newer Gatepost"):
        open_store(empty_storage_url, tmp_path)
    run_statements(empty_storage_url, tmp_path, "DELETE FROM meta WHERE key = 'usable_from'")
    assert read_schema_state(empty_storage_url, tmp_path).is_newer, "where nothing is said, nothing may be assumed"


def test_a_storage_to_which_a_newer_program_has_only_added(empty_storage_url: str, tmp_path: Path) -> None:
    """As in a rolling upgrade: this program goes on with it, starts again on it, and leaves its number alone."""
    store = open_store(empty_storage_url, tmp_path)
    added = "ALTER TABLE tenants ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'"
    run_statements(empty_storage_url, tmp_path, added, "UPDATE meta SET value = '999' WHERE key = 'schema'")
    state = read_schema_state(empty_storage_url, tmp_path)
    assert (state.present, state.is_newer, state.needs_upgrade) == (999, False, False)

    async def scenario() -> None:
        await store.tenants.create("one")
        await store.close()
        again = open_store(empty_storage_url, tmp_path)
        await again.tenants.create("two")
        assert [tenant.name for tenant in await again.tenants.all()] == ["one", "two"]
        await again.close()

    asyncio.run(scenario())
    assert read_schema_state(empty_storage_url, tmp_path).present == 999


def test_an_upgrade_that_only_adds_says_so(empty_storage_url: str, tmp_path: Path) -> None:
    assert SchemaState(USABLE_FROM, 1, False, USABLE_FROM).is_additive
    assert not SchemaState(USABLE_FROM - 1, 1, False, USABLE_FROM - 1).is_additive
    assert not SchemaState(USABLE_FROM, 1, True, USABLE_FROM).is_additive
    make_old_storage(empty_storage_url, tmp_path)
    assert not read_schema_state(empty_storage_url, tmp_path).is_additive


def test_tables_of_another_program(empty_storage_url: str, tmp_path: Path) -> None:
    run_statements(empty_storage_url, tmp_path, "CREATE TABLE theirs (a INTEGER)")
    with pytest.raises(StorageError, match="another program"):
        read_schema_state(empty_storage_url, tmp_path)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://db/gatepost", "starts with 'mysql'"),
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
        ("sqlite:text.db", "damaged or not a database"),
    ],
)
def test_what_cannot_be_read(url: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database" * 100)
    with pytest.raises(StorageError, match=words):
        read_schema_state(url, tmp_path)
