"""What only SQLite has: many changes in one commit, one file for several processes, columns with their indexes."""

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import apsw
import pytest
from tests.store.conftest import NewRecord

from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store


@pytest.fixture
def storage_url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'g.db'}"


def test_columns_serve_searching(tmp_path: Path, new_record: NewRecord) -> None:
    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        await store.messages.record(new_record("0198a000-0000-7000-8000-000000000001", tenant="t"))
        await store.close()

    asyncio.run(run())
    connection = apsw.Connection(str(tmp_path / "g.db"))
    columns = "tenant, verdict, decision, score, tags, sender, recipients, subject, size, sha256"
    assert connection.execute(f"SELECT {columns} FROM messages").fetchall() == [
        (
            "t",
            "spam",
            "quarantine",
            730,
            '["text:lure","url:homograph"]',
            "a@sender.example",
            '["b@rcpt.example","ü@rcpt.example"]',
            "Hello",
            1_234,
            "ab" * 32,
        )
    ]
    for condition in ("completed > 5", "tenant = 't'", "sender_domain = 'x'", "verdict = 'spam'"):
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT id FROM message_search WHERE {condition}").fetchall()
        assert "SEARCH" in str(plan), plan


async def test_many_records_share_a_commit(store: Store, new_record: NewRecord) -> None:
    records = [new_record() for _ in range(1_000)]
    assert await asyncio.gather(*map(store.messages.record, records)) == records
    assert store.counters().changes == 1_000
    assert store.counters().commits <= 20
    for record in records[::97]:
        assert await store.messages.find(record.ggrid) == record


async def test_one_that_cannot_be_kept_does_not_harm_its_neighbours(store: Store, new_record: NewRecord) -> None:
    good, bad = new_record(), new_record(subject="\ud800")
    results = await asyncio.gather(*map(store.messages.record, (good, bad)), return_exceptions=True)
    assert results[0] == good
    assert isinstance(results[1], Exception)
    assert store.counters().failures == 1
    assert await store.messages.find(bad.ggrid) is None


async def test_purging_takes_the_old_ones_in_bounded_steps(store: Store, new_record: NewRecord) -> None:
    records = [new_record(completed=completed) for completed in range(1_200)]
    await asyncio.gather(*map(store.messages.record, records))
    before = store.counters().commits
    assert await store.messages.purge(1_100) == 1_100
    assert store.counters().commits - before == 8, "500, 500, 100, and those that find nothing more"
    assert await store.messages.find(records[1_099].ggrid) is None
    assert await store.messages.find(records[1_100].ggrid) == records[1_100]
    assert await store.messages.purge(1_100) == 0


def test_a_closed_store_says_so(tmp_path: Path, new_record: NewRecord) -> None:
    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        waiting = asyncio.gather(*(store.messages.record(new_record()) for _ in range(50)))
        await asyncio.sleep(0)
        await store.close()
        assert len(await waiting) == 50, "what was asked for before is kept"
        with pytest.raises(StorageError, match="closed"):
            await store.messages.record(new_record())
        with pytest.raises(StorageError, match="closed"):
            await store.tenants.all()
        await store.close()

    asyncio.run(run())


RECORDER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from gatepost.analysis.report import Report
    from gatepost.mail.message import Envelope
    from gatepost.store import open_store
    from gatepost.ids import new_id
    from gatepost.store.message_records import MessageRecord

    async def record(store):
        ggrid = new_id()
        report = Report("clean", "deliver", (), 0, "nothing", subject="x" * 2000)
        await store.messages.record(MessageRecord(ggrid, 1, 2, Envelope(), 3, "", report))
        print(ggrid, flush=True)

    async def main():
        store = open_store("sqlite:g.db", Path(sys.argv[1]))
        async def keep_going():
            while True:
                await record(store)
        await asyncio.gather(*(keep_going() for _ in range(20)))

    asyncio.run(main())
""")


@pytest.mark.variant
def test_processes_share_a_file(tmp_path: Path) -> None:
    """Several processes create the same new file at once, then write side by side."""
    running = [
        subprocess.Popen([sys.executable, "-c", RECORDER, tmp_path], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    seen = []
    for recorder in running:
        assert recorder.stdout
        seen.append([recorder.stdout.readline().strip() for _ in range(30)])
    for recorder in running:
        recorder.kill()
        recorder.communicate()
    assert all(all(lines) for lines in seen), "each of them kept records while the others did"
