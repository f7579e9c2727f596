"""The CPU account of a message, in real workers: it is kept, what was not done is said, and whoever spends it pays."""

import asyncio

import msgspec
from tests.workers.pools import changed, running, until
from tests.workers.test_pool import PLAIN, faulty, kills

from gatepost.analysis.report import Outcome, Report
from gatepost.analysis.stages import CHECKS_MISSED, SHORT, Context, Stages
from gatepost.checks.reading import Reading
from gatepost.mail.message import Message
from gatepost.process.cpu_account import SPENT, CpuAccount
from gatepost.scanning.spool import BytesBody
from gatepost.workers import warmup
from gatepost.workers.jobs import Job
from gatepost.workers.protocol import JUDGE

HEAD = b"From: Ann <ann@sender.example>\r\nTo: bob@receiver.example\r\nSubject: hello\r\nMIME-Version: 1.0\r\n"
BROKEN = HEAD + b"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"


def scripts(kilobytes: int) -> bytes:
    """Quoted-printable that is broken in every line reads in several ways, each with thousands of scripts."""
    line = b"<script>a=1</script>=ZZ text =\r\n"
    return BROKEN + line * (kilobytes * 1024 // len(line))


def of_tenant(raw: bytes) -> Job[Report]:
    return Job(JUDGE, "m", msgspec.structs.replace(warmup.ENVELOPE, tenant="t"), BytesBody(raw), warmup.NOW)


def account(seconds: float) -> CpuAccount:
    """An account with so many seconds left, of a hundred."""
    cpu = CpuAccount(100.0)
    cpu._end -= 100.0 - seconds
    return cpu


async def test_readings_and_pages_draw_on_one_account() -> None:
    """Each reading of it is within every bound."""
    async with running(changed(processes=1, message_cpu=0.3)) as pool:
        job = of_tenant(scripts(480))
        report = await pool.run(job)
        after = await pool.run(of_tenant(PLAIN))
        counters = pool.counters()
    assert (report.verdict, report.decision) == ("unscannable", "quarantine")
    assert {each.state for each in report.outcomes} == {"failed"}
    assert all(each.reason.startswith(SPENT) for each in report.outcomes)
    assert 0.3 * 0.8 < job.cpu < job.most_cpu, "it was interrupted, and its worker not ended"
    assert after.verdict == "clean"
    assert counters.kills == kills()


async def test_a_larger_message_may_take_more() -> None:
    async with running(changed(processes=1)) as pool:
        jobs = [of_tenant(PLAIN), of_tenant(PLAIN + b"x" * (3 << 20))]
        reports = [await pool.run(job) for job in jobs]
    assert [report.verdict for report in reports] == ["clean"] * 2
    assert [round(job.most_cpu, 2) for job in jobs] == [1.5, 4.0]


async def test_what_a_lost_worker_has_cost_is_charged_to_the_tenant() -> None:
    charged: list[tuple[str | None, float]] = []
    async with running(changed(processes=1, message_cpu=0.4)) as pool:
        pool.note_cpu = lambda tenant, seconds: charged.append((tenant, seconds))
        broken = of_tenant(b"X-Gatepost-Fault: check:hang\r\n" + PLAIN)
        report = await pool.run(broken)
        start = pool._queue.turns.start_of("t")
        counters = pool.counters()
    assert [(each.stage, each.state) for each in report.outcomes] == [("check:fault", "skipped")]
    assert counters.kills == kills(stall=1)
    assert charged == [("t", broken.cpu)], "both attempts at once"
    assert broken.cpu > 0.4 * 1.25 + 0.25, "until it was ended"
    assert start > 50, "so many turns of others come before the next one"


async def test_who_leaves_pays_what_is_done_for_nobody() -> None:
    charged: list[tuple[str | None, float]] = []
    async with running(changed(processes=1)) as pool:
        pool.note_cpu = lambda tenant, seconds: charged.append((tenant, seconds))
        leaving = asyncio.create_task(pool.run(of_tenant(b"X-Gatepost-Fault: check:hang\r\n" + PLAIN)))
        await until(lambda: any(worker._cpu_seconds() - worker._cpu_taken > 0.1 for worker in pool._workers))
        leaving.cancel()
        await asyncio.wait([leaving])
        await until(lambda: not pool.counters().busy)
        seconds = sum(seconds for tenant, seconds in charged if tenant == "t")
    assert seconds > 0.1


async def test_a_rule_that_does_not_end_takes_nothing_from_the_message() -> None:
    """Whoever wrote the rule has no say about the mail."""
    async with running(changed(processes=1)) as pool:
        job = faulty("rule:hang")
        job.draw(1.0)
        await pool.run(job)
    assert job.cpu < job.most_cpu


def test_of_a_message_that_takes_too_long_the_beginning_is_read() -> None:
    raw = HEAD + b"\r\nhttps://first.example/\r\n" + b"x\r\n" * SHORT + b"https://last.example/\r\n"
    stages = Stages(Context(now=0.0, cpu=account(30.0)))
    message = stages.read_message(raw)
    assert [link.host for link in message.links] == ["first.example"]
    assert message.raw is raw, "signatures are over the whole of it"
    assert stages.outcomes == [Outcome("parse", "failed", SPENT)]
    skipping = Stages(Context(now=0.0, skip={"parse": "it crashed the worker"}))
    assert [link.host for link in skipping.read_message(raw).links] == ["first.example"]
    assert skipping.outcomes == [Outcome("parse", "skipped", "it crashed the worker")]


def test_parts_are_read_in_further_ways_while_there_is_time() -> None:
    def read(cpu: CpuAccount) -> Message:
        return Stages(Context(now=0.0, cpu=cpu)).read_message(scripts(1))

    whole, short = read(account(100.0)), read(account(60.0))
    assert len(whole.parts) > len(short.parts) == 1
    assert ("limit:alternatives", SPENT) in [(defect.kind, defect.detail) for defect in short.defects]


def test_checks_without_time_are_named() -> None:
    stages = Stages(Context(now=0.0, cpu=account(2.0)))
    stages.run_checks(Reading(stages.read_message(PLAIN)))
    missed = next(each for each in stages.outcomes if each.stage == CHECKS_MISSED)
    assert missed.state == "failed"
    assert missed.reason.startswith(f"{SPENT}: check:")
    assert missed.reason.count("check:") > 5
