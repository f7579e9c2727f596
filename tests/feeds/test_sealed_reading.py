"""Feeds and imported files, read in a sealed process: the same entries, limits that hold, and lies that do not."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.feeds import lying_reader

from gatepost.api.lists import FORMATS, ListFileFormat
from gatepost.feeds import sealed_reading
from gatepost.feeds.sealed_reading import (
    FeedFault,
    FeedItems,
    FeedPlan,
    FilePlan,
    ReadingFailed,
    ReadingPlan,
    SealedReader,
    read_batches,
    read_feed,
    read_sealed,
)
from gatepost.lists.catalogue import BY_NAME, LISTS
from gatepost.process.sandbox import kill_sealed_processes

pytestmark = pytest.mark.process
URLS = BY_NAME["blocked-urls"]
BODIES = {
    "plain": "a.example # why\nbücher.example\nnot a url at all\na.example\n".encode(),
    "csv": b'"a.example",x\n\xff\n"b.example"\n',
    "jsonl": b'{"entry": ["a.example", 5]}\n{}\n',
}


def use(plan: ReadingPlan, work: Callable[[SealedReader], Awaitable[None]], seconds: float = 60.0) -> None:
    async def run() -> None:
        async with read_sealed(plan, 1 << 20, seconds) as reader:
            await work(reader)

    asyncio.run(run())


@pytest.mark.parametrize("form", BODIES)
def test_the_process_reads_what_the_reader_reads(form: str) -> None:
    plan = FeedPlan(URLS, "test", 1_000, form)
    items = FeedItems(URLS, "test", 1_000)
    read_feed(plan, items, BODIES[form])

    async def work(reader: SealedReader) -> None:
        count = await reader.read_feed(BODIES[form])
        assert await reader.feed_entries() == items.entries
        assert list(count.rejected) == items.rejected
        assert (count.read, count.invalid, count.repeated) == (items.read, items.invalid, items.repeated)

    use(plan, work)


@pytest.mark.variant
def test_every_kind_of_list_can_be_read_inside() -> None:
    """What an entry needs on first use was loaded before the process was sealed."""
    texts = [b"b\xc3\xbccher.example", b"ann@b\xc3\xbccher.example", b"192.0.2.0/24", b"*.exe", b"exe", b"a" * 64]
    content = b"\n".join([*texts, "Ärzte ohne <x@a.example>".encode(), b"https://a.example/%41?x=1#y"])

    async def read(definition_name: str, kind: ListFileFormat) -> None:
        plan = FilePlan(BY_NAME[definition_name], kind)
        async with read_sealed(plan, 1 << 20, 60.0) as reader:
            await reader.put([content])
            wanted = list(read_batches([content], kind, BY_NAME[definition_name]))
            for _ in range(2):
                assert [batch async for batch in reader.batches()] == wanted

    async def run() -> None:
        for number, definition in enumerate(LISTS):
            await read(definition.name, FORMATS[number % len(FORMATS)])

    asyncio.run(run())


def test_the_process_is_sealed_and_ends_with_the_work() -> None:
    found: list[SealedReader] = []

    async def work(reader: SealedReader) -> None:
        await reader.put([b"a.example\n"])
        found.append(reader)
        assert reader._process is not None
        assert {"no-new-privileges", "limits", "seccomp"} <= set(reader._process.layers or ())

    use(FilePlan(URLS, "plain"), work)
    assert found[0]._process is not None
    assert found[0]._process._process.poll() is not None


def test_faults_of_a_feed_come_back_as_faults() -> None:
    async def work(reader: SealedReader) -> None:
        with pytest.raises(FeedFault, match="no column 'host'") as raised:
            await reader.read_feed(b"url\na.example\n")
        assert raised.value.refused
        with pytest.raises(FeedFault, match="more than 1 entries"):
            await reader.read_feed(b"host\na.example\nb.example\n")

    use(FeedPlan(URLS, "test", 1, "csv", column="host", header=True), work)


def test_lines_without_an_entry_take_no_more_than_the_time() -> None:
    """Nothing is answered while blank lines are passed over: the deadline is that of the process."""

    async def work(reader: SealedReader) -> None:
        await reader.put([b"\n" * (4 << 20)])
        reader._seconds = 0.05
        with pytest.raises(ReadingFailed, match="too long"):
            [batch async for batch in reader.batches()]

    use(FilePlan(URLS, "plain"), work)


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_reading, "_BASE_MEMORY", 8 << 20)

    async def work(reader: SealedReader) -> None:
        with pytest.raises(ReadingFailed, match="too much memory"):
            await reader.read_feed(b"[" + b'{"a":{}},' * 3_000_000)

    use(FeedPlan(URLS, "test", 10, "plain"), work)


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
def test_whoever_leaves_ends_the_process(how: str) -> None:
    async def run() -> None:
        async with read_sealed(FilePlan(URLS, "plain"), 1 << 20, 600.0) as reader:
            await reader.put([b"\n" * (32 << 20)])
            task = asyncio.ensure_future(anext(reader.batches()))
            await asyncio.sleep(0.05)
            assert not task.done()
            if how == "cancelled":
                task.cancel()
            else:
                kill_sealed_processes()
            with pytest.raises(asyncio.CancelledError if how == "cancelled" else ReadingFailed):
                await task
            assert reader._process is not None
            assert reader._process._process.wait(60) < 0

    asyncio.run(run())


@pytest.mark.parametrize("lie", lying_reader.LIES)
def test_a_reader_that_lies_is_not_believed(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(Path.cwd()), *filter(None, sys.path))))
    monkeypatch.setattr(sealed_reading, "PROCESS", "tests.feeds.lying_reader")

    async def ask_everything(reader: SealedReader) -> None:
        await reader.read_feed(lie.encode())
        await reader.feed_entries()

    async def work(reader: SealedReader) -> None:
        with pytest.raises(ReadingFailed):
            await ask_everything(reader)

    use(FeedPlan(URLS, "test", 10, "plain"), work)
