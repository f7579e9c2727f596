"""Jobs: one process has one at a time, for as long as it works or until its lease has run out."""

import asyncio
import multiprocessing
import os
import signal
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.cancelling import cancel_everywhere

from gatepost.store import jobs as stored_jobs
from gatepost.store import open_store
from gatepost.store.engine import now
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

DAY = 86_400_000


async def test_one_has_a_job_at_a_time(store: Store) -> None:
    async with store.jobs.take("digest", "t") as first:
        assert first
        assert first.job.locked_until > now()
        for _ in range(2):
            async with store.jobs.take("digest", "t") as second:
                assert second is None
        async with store.jobs.take("digest", "other") as other, store.jobs.take("learning", "t") as also:
            assert other
            assert also
    async with store.jobs.take("digest", "T") as again:
        assert again, "it was given back"
    assert [job.scope for job in await store.jobs.of_kind("digest")] == ["other", "t"]
    assert not any(job.holder for job in await store.jobs.of_kind("digest"))


async def test_a_lease_is_renewed_beyond_its_first_end(store: Store) -> None:
    async with store.jobs.take("digest", seconds=1.0) as held:
        assert held
        for _ in range(8):
            await asyncio.sleep(0.4)
            async with store.jobs.take("digest") as other:
                assert other is None
        assert now() > held.job.locked_until + 1_000
        assert not held.is_lost
        assert await held.finish(detail='{"sent":1}')
    assert (await store.jobs.find("digest")).detail == '{"sent":1}'


async def test_what_came_of_a_job_and_when_it_is_due(store: Store) -> None:
    assert (await store.jobs.find("feed", "a")).next_run == 0
    later = now() + DAY
    async with store.jobs.take("feed", "a", only_due=True) as held:
        assert held
        assert await held.finish(later, outcome="done", detail='{"x":1}')
    job = await store.jobs.find("feed", "a")
    assert (job.next_run, job.outcome, job.detail, job.holder) == (later, "done", '{"x":1}', "")
    assert abs(job.finished - now()) < 60_000
    async with store.jobs.take("feed", "a", only_due=True) as early:
        assert early is None
    async with store.jobs.take("feed", "a") as asked:
        assert asked
        assert await asked.finish(outcome="done again")
    assert (await store.jobs.find("feed", "a")).next_run == later, "nothing was said of another time"


async def test_a_body_that_fails_gives_the_job_back(store: Store) -> None:
    with pytest.raises(RuntimeError):
        async with store.jobs.take("digest"):
            raise RuntimeError("it broke")

    async def work() -> None:
        async with store.jobs.take("digest") as held:
            assert held
            await asyncio.sleep(3_600)

    task = asyncio.create_task(work())
    while not (await store.jobs.find("digest")).holder:  # noqa: ASYNC110  storage tells nobody
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await store.jobs.find("digest")).holder == ""
    assert not [each for each in asyncio.all_tasks() if "renew" in repr(each.get_coro())]


async def test_whoever_is_cancelled_while_taking_a_job_leaves_no_lease(store: Store) -> None:
    async def work() -> None:
        async with store.jobs.take("digest"):
            await asyncio.sleep(0)

    async def look() -> None:
        assert (await store.jobs.find("digest")).holder == ""

    assert await cancel_everywhere(work, after=look) > 4


async def test_who_has_lost_a_job_learns_it_and_changes_nothing(store: Store) -> None:
    async with store.jobs.take("feed", "a", seconds=0.3) as held:
        assert held
        # As if this process had slept for longer than its lease.
        assert await store.jobs.renew(held.job, now() - 1)
        thief = await store.jobs.hold("feed", "a", "thief", now() + DAY)
        assert thief
        async with asyncio.timeout(60):
            while not held.is_lost:  # noqa: ASYNC110  the renewal finds it
                await asyncio.sleep(0.01)
        assert not await held.finish(1, outcome="mine")
    job = await store.jobs.find("feed", "a")
    assert (job.holder, job.outcome, job.next_run) == ("thief", "", 0), "leaving takes nothing from the thief"


async def test_storage_that_fails_loses_no_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    renew = store.jobs.renew
    failed: list[stored_jobs.Job] = []

    async def fail_first(job: stored_jobs.Job, until: int) -> bool:
        if len(failed) < 2:
            failed.append(job)
            raise StorageError("storage does not answer")
        return await renew(job, until)

    monkeypatch.setattr(store.jobs, "renew", fail_first)
    async with store.jobs.take("feed", "a", seconds=0.6) as held:
        assert held
        while (await store.jobs.find("feed", "a")).locked_until == held.job.locked_until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not held.is_lost
    assert len(failed) == 2


async def test_a_holder_that_outlives_its_process_keeps_its_job(store: Store) -> None:
    assert await store.jobs.hold("rollout", None, "a", now() + DAY)
    assert await store.jobs.hold("rollout", None, "b", now() + DAY) is None
    assert await store.jobs.hold("rollout", None, "a", now() - 1)
    assert await store.jobs.hold("rollout", None, "b", now() + DAY)


def _work(url: str, folder: Path, seconds: float, told: Connection) -> None:
    """Another node: takes the job as often as it can, and tells when it had it."""

    async def run() -> None:
        store = open_store(url, folder)
        end = now() + int(seconds * 1_000)
        while now() < end:
            async with store.jobs.take("digest", seconds=5.0) as held:
                if held:
                    begun = now()
                    await asyncio.sleep(0.02)
                    told.send((begun, now()))
            await asyncio.sleep(0)
        await store.close()

    asyncio.run(run())


def test_nodes_that_compete_never_have_a_job_together(storage_url: str, tmp_path: Path) -> None:
    asyncio.run(open_store(storage_url, tmp_path).close())
    spawn = multiprocessing.get_context("spawn")
    times: list[tuple[int, int]] = []
    pipes = [spawn.Pipe(duplex=False) for _ in range(2)]
    nodes = [spawn.Process(target=_work, args=(storage_url, tmp_path, 3.0, pipe[1])) for pipe in pipes]
    for node in nodes:
        node.start()
    had = []
    for (reads, writes), node in zip(pipes, nodes, strict=True):
        writes.close()
        count = len(times)
        while True:
            try:
                times.append(reads.recv())
            except EOFError:
                break
        had.append(len(times) - count)
        node.join(60)
        assert node.exitcode == 0
    times.sort()
    assert min(had) > 0, "each had it"
    assert all(before[1] <= after[0] for before, after in pairwise(times))


def _die(url: str, folder: Path, told: Connection) -> None:
    async def run() -> None:
        async with open_store(url, folder).jobs.take("digest", seconds=2.0) as held:
            told.send(bool(held))
            await asyncio.sleep(3_600)

    asyncio.run(run())


async def test_the_lease_of_a_killed_holder_ends(storage_url: str, tmp_path: Path, store: Store) -> None:
    spawn = multiprocessing.get_context("spawn")
    reads, writes = spawn.Pipe(duplex=False)
    node = spawn.Process(target=_die, args=(storage_url, tmp_path, writes))
    node.start()
    assert reads.recv() is True
    assert node.pid
    os.kill(node.pid, signal.SIGKILL)
    node.join(60)

    left = await store.jobs.find("digest")
    assert left.holder
    async with store.jobs.take("digest") as early:
        assert (early is None) == (now() < left.locked_until)
    await asyncio.sleep(max(0, left.locked_until - now()) / 1_000 + 0.05)
    async with store.jobs.take("digest") as held:
        assert held


async def test_work_is_done_only_by_who_has_the_job(store: Store) -> None:
    """Planning looks for the lease in its own transaction, whatever its process still believes."""
    job = await store.jobs.hold("digest", None, "one", now() + DAY)
    assert job
    assert await store.digests.begin_planning(job, now(), now() + DAY)
    assert await store.jobs.renew(job, now() - 1)
    assert await store.jobs.hold("digest", None, "two", now() + DAY)
    assert not await store.digests.begin_planning(job, now(), 5)
    assert await store.digests.plan(job, ["example.com"]) == 0
    assert (await store.jobs.find("digest")).next_run > 5
