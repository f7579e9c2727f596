"""Messages that are held by the commit of their record, with their bytes in the database."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.store.conftest import NewRecord, on_sqlite

from gatepost.ids import new_id
from gatepost.store.audit import CLI
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MAX_CONTENT, Holding, MessageRecord
from gatepost.store.sqlite import open_file
from gatepost.store.store import Store

RAW = b"Subject: x\r\n\r\nheld\0 with \xff its record\r\n"


def holding(record: MessageRecord, content: bytes | None = RAW) -> MessageRecord:
    return msgspec.structs.replace(record, holding=Holding("core-a:9785", content))


async def test_record_row_recipients_and_bytes_come_together(store: Store, new_record: NewRecord) -> None:
    held, delivered, filed = holding(new_record()), new_record(), holding(new_record(), None)

    stored = await asyncio.gather(*(store.messages.record(each, 3) for each in (held, delivered, filed)))
    assert [each.holding for each in stored] == [held.holding, None, filed.holding]
    mail = await store.quarantine.find(held.ggrid)
    assert mail
    assert (mail.record, mail.state, mail.core) == (
        msgspec.structs.replace(held, holding=None),
        "held",
        "core-a:9785",
    )
    assert await store.quarantine.content(held.ggrid.upper()) == RAW
    assert await store.quarantine.find(filed.ggrid)
    assert await store.quarantine.content(filed.ggrid) is None
    assert await store.quarantine.find(delivered.ggrid) is None
    found = await store.quarantine.search(HeldFilter(recipient="ü@rcpt.example"))
    assert {each.record.ggrid for each in found.rows} == {held.ggrid, filed.ggrid}
    assert not await store.quarantine.hold(held, "elsewhere", b"other bytes")
    assert await store.quarantine.content(held.ggrid) == RAW


async def test_only_a_new_record_holds_its_message(store: Store, new_record: NewRecord) -> None:
    """Where another core was quicker, its result stands, and it may have been another one."""
    known, fresh = new_record(), holding(new_record())

    await store.messages.record(known)
    late, new = await asyncio.gather(store.messages.record(holding(known), 2), store.messages.record(fresh, 2))
    assert late.holding is None
    assert new.holding
    assert await store.quarantine.find(known.ggrid) is None
    assert await store.quarantine.content(fresh.ggrid) == RAW


@pytest.mark.parametrize("how", ["delete", "release", "release to each", "purge"])
async def test_bytes_go_with_what_held_them(store: Store, new_record: NewRecord, how: str) -> None:
    record, other = holding(new_record()), holding(new_record())

    for each in (record, other):
        await store.messages.record(each)
    quarantine, ggrid = store.quarantine, record.ggrid
    if how == "delete":
        assert await quarantine.delete(ggrid, CLI, for_good=False)
        assert await quarantine.content(ggrid) == RAW, "it can be restored"
        assert await quarantine.purge_deleted(1 << 50) == 1
    elif how == "release":
        await quarantine.mark_released(ggrid, record.envelope.recipients, CLI)
    elif how == "release to each":
        _, is_last = await quarantine.mark_released_to(ggrid, record.envelope.recipients[0], CLI, new_id())
        assert not is_last
        assert await quarantine.content(ggrid) == RAW
        await quarantine.mark_released_to(ggrid, record.envelope.recipients[1], CLI, new_id())
    else:
        assert await quarantine.purge(1 << 50) == 2
    assert await quarantine.content(ggrid) is None
    assert await quarantine.content(other.ggrid) == (None if how == "purge" else RAW)


@on_sqlite
async def test_a_change_that_fails_in_a_group_holds_nothing(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record alone would say that a message is held which nobody has."""
    records = [holding(new_record(), bytes(MAX_CONTENT)) for _ in range(3)]

    def fail(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr("gatepost.store.message_records.insert_held_in_sqlite", fail)
    outcomes = await asyncio.gather(*map(store.messages.record, records), return_exceptions=True)
    assert all(isinstance(each, Exception) for each in outcomes)
    for record in records:
        assert await store.messages.find(record.ggrid) is None


@on_sqlite
async def test_the_writer_takes_one_commit_for_all_of_it(store: Store, new_record: NewRecord) -> None:
    await store.messages.record(holding(new_record()))
    counters = store.counters()
    assert (counters.changes, counters.commits) == (1, 1)


# Says the ggrid of each message once it is held, as a source answers 250, until it is killed.
HOLDING = """
import asyncio, sys
from pathlib import Path
import msgspec
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.analysis.report import Report
from gatepost.store import open_store
from gatepost.store.message_records import Holding
from gatepost.store.message_records import MessageRecord

async def hold(store, number):
    while True:
        raw = (f"{number} ".encode() * 40_000)[: 1 + (number * 7_919) % 65_536]
        report = Report("spam", "quarantine", (), 0, "why")
        record = MessageRecord(new_id(), 1, 2, Envelope("a@x.example", ("b@y.example",)), len(raw), "ab", report,
                               holding=Holding("", raw))
        await store.messages.record(record, 7)
        print(record.ggrid, number, flush=True)
        number += 8

async def main():
    store = open_store("sqlite:g.db", Path(sys.argv[1]))
    await asyncio.gather(*(hold(store, number) for number in range(8)))

asyncio.run(main())
"""


def test_what_was_said_to_be_held_is_whole_after_a_kill(tmp_path: Path) -> None:
    said: dict[str, int] = {}
    for lines in (3, 40, 200):
        arguments = [sys.executable, "-c", HOLDING, str(tmp_path)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            heard = [process.stdout.readline() for _ in range(lines)]
            os.kill(process.pid, signal.SIGKILL)
            heard += [line for line in process.stdout.read().split("\n")[:-1] if line]
        said |= {ggrid: int(number) for ggrid, number in map(str.split, heard)}
    with closing(open_file(tmp_path / "g.db")) as connection:
        rows = connection.execute(
            "SELECT held.ggrid, size, content FROM held LEFT JOIN held_bytes ON held_bytes.ggrid = held.ggrid"
        ).fetchall()
        recorded = {ggrid for (ggrid,) in connection.execute("SELECT ggrid FROM messages")}
    assert said.keys() <= {ggrid for ggrid, _, _ in rows}
    assert recorded == {ggrid for ggrid, _, _ in rows}, "a record says that its message is held"
    for ggrid, size, content in rows:
        assert isinstance(content, bytes)
        assert len(content) == size
        if ggrid in said:
            number = said[ggrid]
            assert content == (f"{number} ".encode() * 40_000)[: 1 + (number * 7_919) % 65_536]
