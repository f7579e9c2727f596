"""What has cost a worker its life: copies are answered from memory, snapshots are blamed for what they do, and slow
mail does not hold up the rest."""

import asyncio
import gc
import weakref
from typing import Any

import msgspec
import pytest
from tests.workers.pools import changed, from_zone, running, until
from tests.workers.test_pool import PLAIN, SIGNED, Kept, faulty, job, kills

from gatepost.analysis.report import Report, undecided
from gatepost.questions import Answers, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.workers import jobs, supervisor, warmup
from gatepost.workers.jobs import MAX_REMEMBERED, MESSAGE_SECONDS, SNAPSHOT_SECONDS, Job, PoisonMemory, Snapshot
from gatepost.workers.protocol import JUDGE, VIEW

UNDECIDED = undecided("parse broke the analysis: it crashed the worker")


def test_a_message_is_remembered_for_a_while() -> None:
    now = [0.0]
    memory = PoisonMemory(lambda: now[0])
    broken = job(b"bad")
    broken.skip["parse"] = "x"
    memory.remember(broken, UNDECIDED)
    assert memory.recall(job(b"good")) is None
    found = memory.recall(job(b"bad", "another name"))
    assert found is not None
    assert (found.skip, found.result) == ({"parse": "x"}, UNDECIDED)
    looked_at = Job(VIEW, "bad", warmup.ENVELOPE, BytesBody(b"bad"), warmup.NOW)
    assert memory.recall(looked_at) is None, "who looks at a message reads it otherwise"
    now[0] = MESSAGE_SECONDS
    assert memory.recall(job(b"bad")) is None
    assert memory.recalled == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_REMEMBERED", 10)
    memory = PoisonMemory()
    for number in range(30):
        memory.remember(job(b"%d" % number), None)
        memory.blame_snapshot(("lists:", str(number)))
    assert (len(memory._messages.values), len(memory._deaths.values)) == (10, 10)
    assert memory.recall(job(b"19")) is None
    assert memory.recall(job(b"20")) is not None
    assert MAX_REMEMBERED == 10_000


def test_a_snapshot_is_refused_after_its_second_death_and_for_a_minute() -> None:
    now = [0.0]
    memory = PoisonMemory(lambda: now[0])
    policy, first, second = ("policy", "1"), ("lists:t", "1"), ("lists:t", "2")
    memory.blame_snapshot(first)
    assert not memory.refuses((policy, first))
    memory.blame_snapshot(first)
    assert memory.refuses((policy, first))
    assert not memory.refuses((policy, second))
    now[0] = SNAPSHOT_SECONDS
    assert not memory.refuses((policy, first))


async def test_copies_cost_no_further_worker() -> None:
    """Twelve copies at once of a message that crashes its worker, and twelve of one that does so in a check."""
    async with running() as pool:
        fatal = await asyncio.gather(*(pool.run(faulty("parse:die")) for _ in range(12)))
        curable = await asyncio.gather(*(pool.run(faulty("check:die")) for _ in range(12)))
        later = await pool.run(faulty("check:die"))
        honest = await pool.run(job())
        counters = pool.counters()
    assert {report.decision for report in fatal} == {"undecided"}
    assert {report.reason for report in fatal} == {"parse broke the analysis: it crashed the worker"}
    assert curable == [later] * 12
    assert (later.decision, [outcome.state for outcome in later.outcomes]) == ("quarantine", ["skipped"])
    assert honest.verdict == "clean"
    assert counters.kills["crash"] <= 6, "as many as there are workers, for each of three attempts"
    assert counters.recalled >= 20


@pytest.mark.variant
async def test_slow_messages_do_not_hold_up_others() -> None:
    """As many messages that never end as there are slots but one, then ordinary ones: those are answered while all the
    others still compute."""
    async with running(changed(analysis_timeout=360.0, stage_limit=120.0, message_cpu=360.0)) as pool:
        slow = [
            asyncio.create_task(pool.run(job(b"X-Gatepost-Fault: parse:spin\r\nX: %d\r\n" % n + PLAIN, str(n))))
            for n in range(19)
        ]
        honest = await asyncio.gather(*(pool.run(job(SIGNED)) for _ in range(20)))
        counters = pool.counters()
        finished = sum(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)
    assert honest == [warmup.report_on(SIGNED)] * 20
    assert finished == 0
    assert counters.kills == kills()
    assert counters.relieved >= 18
    assert counters.queued == 0


@pytest.mark.variant
async def test_slow_workers_have_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_RELIEVED", 1)
    async with running(changed(processes=1, analysis_timeout=9.0)) as pool:
        slow = [job(b"X-Gatepost-Fault: parse:spin\r\nX: %d\r\n" % n + PLAIN, str(n)) for n in range(3)]
        reports = await asyncio.gather(*map(pool.run, slow))
        await until(lambda: pool.counters().workers == 1)
        counters = pool.counters()
    assert [report.decision for report in reports] == ["undecided"] * 3
    assert 3 <= sum(counters.kills.values()) <= 6, "in each of two attempts, or by the deadline on a busy machine"
    assert 1 <= counters.relieved <= 6


@pytest.mark.variant
async def test_more_endless_messages_than_stand_ins_do_not_starve_another_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fourteen messages that never end of one tenant, where three workers are all that there can be: a message of
    another tenant goes next when a worker is free again, is displaced twice at most, and everything recovers."""
    monkeypatch.setattr(supervisor, "MAX_RELIEVED", 2)
    async with running(changed(processes=1, analysis_timeout=90.0, stage_limit=2.0)) as pool:
        flood = [
            asyncio.create_task(pool.run(of_tenant("a", b"X-Gatepost-Fault: parse:spin\r\nX: %d\r\n" % n)))
            for n in range(14)
        ]
        await until(lambda: pool.counters().busy > 0)
        honest = await pool.run(of_tenant("b", b""))
        finished = sum(task.done() for task in flood)
        reports = await asyncio.gather(*flood)
        await until(lambda: pool.counters().workers == 1)
        counters = pool.counters()
    assert honest.verdict == "clean"
    assert finished <= 10, "one of the round before it, and three for each time that it needs a worker"
    assert {report.decision for report in reports} == {"undecided"}
    assert sum(counters.kills.values()) == 28, "the second attempt reads the beginning alone, and does not end either"
    assert counters.queued == 0


def of_tenant(tenant: str, head: bytes) -> Job[Report]:
    envelope = msgspec.structs.replace(warmup.ENVELOPE, tenant=tenant)
    return Job(JUDGE, f"{tenant}-{head!r}", envelope, BytesBody(head + PLAIN), warmup.NOW)


def with_lists(version: str, data: bytes) -> Job[Report]:
    body, lists = BytesBody(SIGNED + version.encode()), Snapshot("lists:t", version, data)
    return Job(JUDGE, "plain", warmup.ENVELOPE, body, warmup.NOW, lists=lists)


async def test_a_death_over_a_snapshot_is_not_the_message_s() -> None:
    async with running(changed(processes=1)) as pool:
        first = await pool.run(with_lists("1", b"no lists at all"))
        lost = pool.counters().kills["crash"]
        again = await pool.run(with_lists("1", b"no lists at all"))
        others = [await pool.run(job(SIGNED)), await pool.run(with_lists("2", b""))]
        counters = pool.counters()
    reason = "the lists or the policy of its tenant broke the workers that loaded them"
    assert [(report.decision, report.reason) for report in (first, again)] == [("undecided", reason)] * 2
    assert (lost, counters.kills["crash"], counters.recalled) == (2, 2, 0)
    assert [report.decision for report in others] == ["deliver"] * 2


class Watched(Kept):
    """A body of which one can see that it is gone."""


async def test_nothing_waits_for_the_collector() -> None:
    """Bodies, snapshots and lost workers are freed by counting references: collecting cycles takes long, and comes late
    in a process that makes few."""
    seen: list[weakref.ref[Any]] = []

    async def analyse(raw: bytes, name: str) -> Report:
        body = Watched(raw)
        seen.append(weakref.ref(body))
        return await pool.run(Job(JUDGE, name, warmup.ENVELOPE, body, warmup.NOW))

    async def answer(asking: Job[Any], questions: Questions) -> Answers:
        if asking.ggrid == "raises":
            raise ConnectionError("the database is gone")
        await asyncio.sleep(0)
        return await from_zone(asking, questions)

    gc.collect()
    gc.disable()
    try:
        async with running(answer=answer) as pool:
            seen += [weakref.ref(worker) for worker in pool._workers]
            fault = b"X-Gatepost-Fault: parse:die\r\n"
            mails = [
                (SIGNED, "a"),
                (PLAIN, "b"),
                (fault + PLAIN, "c"),
                (SIGNED, "raises"),
                (PLAIN + bytes(2 << 20), "d"),
            ]
            await asyncio.gather(*(analyse(*mail) for mail in mails * 3))
            leaving = asyncio.create_task(analyse(b"X-Gatepost-Fault: parse:spin\r\n" + PLAIN, "e"))
            await until(lambda: pool.counters().busy == 1)
            leaving.cancel()
            await asyncio.wait([leaving])
            del leaving
            for worker in list(pool._workers):
                worker.kill("crash")
            await until(lambda: pool.counters().workers == 2 and not pool.counters().busy)
            del worker
            await until(lambda: not any(reference() for reference in seen))
            assert [reference() is None for reference in seen] == [True] * 18
    finally:
        gc.enable()
