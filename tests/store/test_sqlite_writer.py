"""A disk that fails fails everybody who waits, with the same sentence; afterwards the writer goes on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from gatepost.store import sqlite
from gatepost.store.errors import StorageError
from gatepost.store.sqlite import MAX_GROUP, MAX_HEAVY_GROUP, Change, CommitTurns, PendingChange, Writer


def keep(connection: apsw.Connection, keys: Sequence[str]) -> Sequence[str]:
    connection.executemany("INSERT INTO meta VALUES (?, '')", [(key,) for key in keys])
    return keys


def fail(connection: apsw.Connection, keys: Sequence[str]) -> Sequence[str]:
    keep(connection, keys)
    raise apsw.FullError


def short(connection: apsw.Connection, keys: Sequence[str]) -> Sequence[str]:
    return keep(connection, keys)[:0]


async def _applied(writer: Writer, *changes: tuple[Change[str, str], str]) -> list[str | BaseException]:
    asked = [writer.apply(change, key) for change, key in changes]
    return await asyncio.gather(*asked, return_exceptions=True)


def test_the_disk_is_full(tmp_path: Path) -> None:
    async def run() -> None:
        writer = Writer(sqlite.open_file(tmp_path / "g.db"))
        faults = await _applied(writer, (fail, "a"), (fail, "b"))
        assert all(isinstance(fault, StorageError) for fault in faults)
        assert await writer.apply(keep, "a") == "a", "nothing of the failed group was kept"
        assert writer.counters().failures >= 1
        await writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("culprit", [(keep, "twice"), (short, "odd")])
def test_only_the_culprit_fails(tmp_path: Path, culprit: tuple[Change[str, str], str]) -> None:
    async def run() -> None:
        writer = Writer(sqlite.open_file(tmp_path / "g.db"))
        await writer.apply(keep, "twice")
        results = await _applied(writer, (keep, "a"), culprit, (keep, "b"))
        assert results[0] == "a"
        assert isinstance(results[1], Exception)
        assert results[2] == "b"
        await writer.close()

    asyncio.run(run())


def test_a_caller_that_gave_up_is_no_trouble(tmp_path: Path) -> None:
    async def run() -> None:
        writer = Writer(sqlite.open_file(tmp_path / "g.db"))
        gone = asyncio.ensure_future(writer.apply(keep, "a"))
        await asyncio.sleep(0)
        gone.cancel()
        assert await writer.apply(keep, "b") == "b"
        assert writer.counters().changes == 2
        await writer.close()

    asyncio.run(run())


def test_records_of_messages_do_not_wait_for_the_changes_beside_them() -> None:
    turns = CommitTurns()
    for number in range(10):
        turns.add(PendingChange(keep, f"list {number}"))
    for number in range(3):
        turns.add(PendingChange(keep, f"record {number}", light=True))

    def group() -> list[str]:
        return [pending.argument for pending in turns.next_group()]

    assert group() == ["record 0", "record 1", "record 2"]
    turns.add(PendingChange(keep, "record 3", light=True))
    assert group() == [f"list {number}" for number in range(MAX_HEAVY_GROUP)], "mail does not hold up others for ever"
    assert group() == ["record 3"]
    assert group() == [f"list {number}" for number in range(MAX_HEAVY_GROUP, 10)], "alone they share a commit"
    assert not turns
    for number in range(MAX_GROUP + 1):
        turns.add(PendingChange(keep, str(number), light=True))
    assert [len(group()), len(group())] == [MAX_GROUP, 1]
