"""What is kept comes back as it was, first come first kept."""

import asyncio
from contextlib import aclosing, closing
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.store.conftest import NewRecord, Use

from gatepost.ids import new_id
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store


def test_a_record_comes_back_whole(use: Use, new_record: NewRecord) -> None:
    record = new_record(subject="s" * 5_000 + "\0", tenant=new_id())

    async def keep(store: Store) -> None:
        assert await store.messages.record(record) == record
        assert await store.messages.find(record.ggrid) == record
        assert await store.messages.find(record.ggrid.upper()) == record
        assert await store.messages.find("no such") is None
        assert await store.messages.find("\0") is None

    async def find(store: Store) -> None:
        assert await store.messages.find(record.ggrid) == record

    use(keep)
    use(find)


async def test_text_that_no_database_has_a_place_for(store: Store, new_record: NewRecord) -> None:
    for subject in ("\0", "a\0b", "\U0010ffff", "x" * 999 + "\0"):
        record = new_record(subject=subject)
        assert await store.messages.record(record) == record
        assert await store.messages.find(record.ggrid) == record


async def test_the_first_of_a_ggrid_is_kept_and_returned(store: Store, new_record: NewRecord) -> None:
    first = new_record(subject="first")
    later = msgspec.structs.replace(first, completed=9_999, report=new_record(subject="later").report)
    other = new_record()
    assert await store.messages.record(first) == first
    # All in one group, then the same again in another.
    assert await asyncio.gather(*(store.messages.record(r) for r in (first, later, other))) == [first, first, other]
    assert await store.messages.record(later) == first
    assert await store.messages.find(first.ggrid) == first


async def test_purging_takes_the_old_ones(store: Store, new_record: NewRecord) -> None:
    records = [new_record(completed=completed) for completed in range(600)]
    await asyncio.gather(*map(store.messages.record, records))
    assert await store.messages.purge(550) == 550
    assert await store.messages.find(records[549].ggrid) is None
    assert await store.messages.find(records[550].ggrid) == records[550]
    assert await store.messages.purge(550) == 0


async def test_recent_ones_newest_first(store: Store, new_record: NewRecord) -> None:
    records = [new_record(completed=n, tenant=("t", None)[n % 2]) for n in range(300)]
    await asyncio.gather(*map(store.messages.record, records))

    async def recent(tenant: str | None, limit: int) -> list[int]:
        async with aclosing(store.messages.recent(tenant, limit)) as batches:
            return [record.completed async for batch in batches for record in batch]

    assert await recent(None, 250) == list(range(299, 49, -1))
    assert await recent("t", 3) == [298, 296, 294]
    assert await recent("nobody", 3) == []
    assert await recent(None, 0) == []


def test_a_closed_store_says_so(storage_url: str, tmp_path: Path, new_record: NewRecord) -> None:
    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        await store.messages.record(new_record())
        await store.close()
        with pytest.raises(StorageError, match="closed"):
            await store.messages.record(new_record())
        with pytest.raises(StorageError, match="closed"):
            await store.tenants.all()
        with pytest.raises(StorageError, match="closed"):
            await anext(store.lists.stream(None, "blocked-urls"))
        await store.close()

    asyncio.run(run())


def test_a_message_writes_no_more_rows_than_its_budget(tmp_path: Path, new_record: NewRecord) -> None:
    """docs/internals/architecture.md, "What a message may write": a row for the ledger, for search, for a recipient."""
    file = tmp_path / "gatepost.db"

    async def scenario() -> None:
        store = open_store("sqlite:gatepost.db", tmp_path)
        try:
            await store.messages.record(new_record())
            before = _rows(file)
            for _ in range(20):
                await store.messages.record(new_record())
            grown = {table: count - before[table] for table, count in _rows(file).items() if count != before[table]}
        finally:
            await store.close()
        counted = grown.pop("traffic", 0)
        assert grown == {"messages": 20, "message_search": 20, "message_recipients": 40}  # two recipients each
        assert counted <= 2

    asyncio.run(scenario())


def _rows(file: Path) -> dict[str, int]:
    # With the library of the service: a second one in the same process would drop the locks of the first (fcntl(2)).
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: len(list(connection.execute(f'SELECT 1 FROM "{name}"'))) for name in tables}
