"""The pool with real workers: poison stays with its message, and everything ends when it should."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import uvloop
from tests.workers.pools import FAULT_INJECTION, SETTINGS, Answer, changed, from_zone, running, until

from gatepost.analysis.report import Report
from gatepost.analysis.stages import CHECKS_MISSED
from gatepost.policy.layers import override
from gatepost.policy.rules import OwnRule, shipped_policy
from gatepost.process.cpu_account import SPENT
from gatepost.questions import Answers, Dns, Question, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.workers import pool as pool_module
from gatepost.workers import warmup
from gatepost.workers.jobs import WHAT_HAPPENED, Job, PoolCounters
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import JUDGE

LOOPS = pytest.mark.parametrize(
    "run", [pytest.param(asyncio.run, id="asyncio", marks=pytest.mark.variant), pytest.param(uvloop.run, id="uvloop")]
)
Run = Callable[[Coroutine[Any, Any, Any]], Any]
PLAIN = b"From: Ann <ann@sender.example>\r\nSubject: hello\r\n\r\nhello\r\n"
SIGNED = warmup.specimens()[-2]


class Kept(BytesBody):
    """A body that counts how often it is read."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.reads = 0

    def read(self) -> bytes:
        self.reads += 1
        return super().read()


def job(raw: bytes = PLAIN, name: str = "plain") -> Job[Report]:
    return Job(JUDGE, name, warmup.ENVELOPE, Kept(raw), warmup.NOW)


def faulty(what: str) -> Job[Report]:
    return job(f"X-Gatepost-Fault: {what}\r\n".encode() + PLAIN, what)


def kills(**counts: int) -> dict[str, int]:
    return dict.fromkeys(WHAT_HAPPENED, 0) | counts


def amiss(report: Report) -> list[tuple[str, str, str]]:
    return [(outcome.stage, outcome.state, outcome.reason) for outcome in report.outcomes]


@LOOPS
def test_a_sealed_worker_reads_every_specimen_as_an_open_process_does(run: Run) -> None:
    async def main() -> tuple[list[Report], bool]:
        async with running() as pool:
            specimens = [job(raw) for raw in warmup.specimens()]
            return await asyncio.gather(*map(pool.run, specimens)), pool.counters().sealed

    reports, sealed = run(main())
    assert sealed
    assert reports == [warmup.report_on(raw) for raw in warmup.specimens()]
    assert [amiss(report) for report in reports] == [[]] * len(reports)


@pytest.mark.shared
@pytest.mark.parametrize("share", [15, pytest.param(1, marks=pytest.mark.variant)], ids=["some", "more"])
async def test_a_sealed_worker_reads_real_mail_as_an_open_process_does(
    shared: Callable[[str], Path], share: int
) -> None:
    files = sorted(path for path in shared("mail-dev").rglob("*.eml") if path.stat().st_size < 200_000)[:: 67 * share]
    files += sorted(path for path in shared("attack-dev").rglob("*.eml"))[:: 5 * share]
    assert len(files) > 300 / share
    async with running() as pool:
        reports = await asyncio.gather(*(pool.run(job(path.read_bytes())) for path in files))
    assert [path.name for path, got in zip(files, reports, strict=True) if amiss(got)] == []
    odd = [path.name for path, got in zip(files, reports, strict=True) if got != warmup.report_on(path.read_bytes())]
    assert odd == []


RULES = {name: OwnRule("size > 0", f"Rule {name}", "clean") for name in ("first", "second", "third")}


@pytest.mark.parametrize(
    ("what", "held", "failed", "killed"),
    [
        ("rule:spin", ["first", "third"], ["second"], 1),
        pytest.param("rules:spin", [], [*RULES], 2, marks=pytest.mark.variant),
    ],
)
async def test_a_rule_that_never_ends_costs_the_message_that_rule_and_nothing_else(
    what: str, held: list[str], failed: list[str], killed: int
) -> None:
    async with running() as pool:
        pool.publish(None, msgspec.structs.replace(shipped_policy(), rules=RULES))
        report = await pool.run(faulty(what))
        counts = {str(reason): count for reason, count in pool.counters().kills.items()}
        # A copy of the message for somebody without rules is judged as ever: nothing is remembered of it.
        pool.publish(None, shipped_policy())
        other = await pool.run(faulty(what))
    assert report.decision == other.decision == "deliver"
    assert amiss(report) == amiss(other) == []
    assert [tag.removeprefix("rule:") for tag in report.tags if tag.startswith("rule:")] == held
    assert [line.facts["rule"] for line in report.lines if line.kind == "limit:rule-failed"] == failed
    assert counts == kills(stall=killed)


TIME, MEMORY, CRASH = "it ran out of its time", "it used more memory than a worker may", "it crashed the worker"
CHECK = "check:fault"
POISON = {
    "check:spin": ("quarantine", (CHECKS_MISSED, "failed", f"{SPENT}: {CHECK}")),
    "check:hang": ("quarantine", (CHECK, "skipped", TIME)),
    "check:grow": ("quarantine", (CHECK, "skipped", MEMORY)),
    "check:die": ("quarantine", (CHECK, "skipped", CRASH)),
    "parse:hang": ("undecided", ("parse", "failed", TIME)),
    "parse:grow": ("undecided", ("parse", "failed", MEMORY)),
    "parse:die": ("undecided", ("parse", "failed", CRASH)),
    "parse:crash": ("undecided", ("parse", "failed", "it crashed (LookupError)")),
    "check:open": ("quarantine", (CHECK, "failed", "it crashed (PermissionError)")),
    "check:socket": ("quarantine", (CHECK, "failed", "it crashed (PermissionError)")),
    "check:fork": ("quarantine", (CHECK, "failed", "it crashed (PermissionError)")),
    "check:kill": ("quarantine", (CHECK, "failed", "it crashed (PermissionError)")),
    "check:share=3000": ("quarantine", (CHECK, "failed", "it crashed (PermissionError)")),
}


@pytest.fixture(scope="module")
def moment() -> tuple[dict[str, Report], list[Report], PoolCounters]:
    """All poison at once with twenty ordinary messages, and one more afterwards."""

    async def main() -> Any:
        async with running() as pool:
            poison = [asyncio.create_task(pool.run(faulty(what))) for what in POISON]
            others = await asyncio.gather(*(pool.run(job()) for _ in range(20)))
            reports = await asyncio.gather(*poison)
            others.append(await pool.run(job()))
            await until(lambda: pool.counters().workers == SETTINGS.processes)
            return dict(zip(POISON, reports, strict=True)), others, pool.counters()

    return asyncio.run(main())  # type: ignore[no-any-return]


@pytest.mark.parametrize("what", POISON)
def test_poison_is_named_in_its_own_ledger(what: str, moment: Any) -> None:
    report = moment[0][what]
    decision, outcome = POISON[what]
    assert (report.verdict, report.decision) == ("unscannable", decision)
    assert amiss(report) == [outcome]


def test_poison_does_not_disturb_the_others(moment: Any) -> None:
    _reports, others, counters = moment
    assert [report.verdict for report in others] == ["clean"] * 21
    # Without `parse` only the beginning of a message is read, which costs these a second worker.
    assert counters.kills == kills(stall=3, crash=3, memory=3)
    assert (counters.restarts, counters.workers, counters.busy, counters.queued) == (9, 2, 0, 0)


HANGING = (
    "var a=2n**500000n-1n;for(;;)a*a",
    "throw {toString(){for(;;);}}",
    "[].flatMap.call({length:2**53-1},x=>0)",
    "Array.prototype.toLocaleString.call({length:2**53-1})",
    "onload={get handleEvent(){for(;;);}};for(;;);",
    "var a=[];for(;;)a.push(new Uint8Array(1e6))",
)


async def test_a_script_that_hangs_costs_a_child_and_no_worker() -> None:
    head = b"From: ann@sender.example\r\nMIME-Version: 1.0\r\nContent-Type: text/html; name=a.html\r\n"
    head += b"Content-Disposition: attachment; filename=a.html\r\n\r\n<html><script>"
    async with running(changed(processes=1)) as pool:
        reports = [await pool.run(job(head + code.encode() + b"</script>")) for code in HANGING]
        counters = pool.counters()
    for report in reports:
        assert amiss(report) == [("pages", "failed", "a script of a page had no end")]
        assert (report.verdict, report.decision) == ("unscannable", "quarantine")
        assert {"file:html-script", "file:html-unfinished"} <= set(report.tags)
    assert counters.kills == kills()
    assert counters.restarts == 0


@LOOPS
def test_suspended_jobs_survive_a_kill_with_their_answers(run: Run) -> None:
    asked: Counter[tuple[str, Question]] = Counter()

    async def main() -> Any:
        gate, waiting = asyncio.Event(), 0

        async def answer(asking: Job[Any], questions: Questions) -> Answers:
            nonlocal waiting
            asked.update((asking.ggrid, question) for question in questions)
            if asking.ggrid != "check:die" and Dns("more.example", "TXT") in questions:
                waiting += 1
                await gate.wait()
            return warmup.answers_to(questions)

        async with running(changed(processes=1), answer) as pool:
            suspended = [asyncio.create_task(pool.run(job(SIGNED, str(number)))) for number in range(3)]
            await until(lambda: waiting == 3)
            poison = await pool.run(faulty("check:die"))
            gate.set()
            return await asyncio.gather(*suspended), poison, pool.counters()

    reports, poison, counters = run(main())
    assert reports == [warmup.report_on(SIGNED)] * 3
    assert amiss(poison) == [(CHECK, "skipped", CRASH)]
    assert counters.kills["crash"] == 1
    first = [
        count
        for (_name, question), count in asked.items()
        if isinstance(question, Dns) and question.name == "sender.example"
    ]
    assert set(first) == {1}


async def test_time_spent_asking_counts_and_kills_nobody() -> None:
    async def never(_job: Job[Any], _questions: Questions) -> Answers:
        await asyncio.Event().wait()
        return ()

    async with running(changed(analysis_timeout=2.0), never) as pool:
        report = await pool.run(job(SIGNED))
        counters = pool.counters()
    assert (report.decision, report.reason) == ("undecided", "the analysis ran out of its time")
    assert amiss(report) == []
    assert sum(counters.kills.values()) == 0


@pytest.mark.variant
async def test_one_that_keeps_busy_until_its_deadline_is_killed() -> None:
    async with running(changed(processes=1, analysis_timeout=4.0)) as pool:
        late = await pool.run(faulty("every:sleep=500"))
        after = await pool.run(job())
        counters = pool.counters()
    assert (late.decision, late.reason) == ("undecided", "the analysis ran out of its time")
    assert [outcome.reason for outcome in late.outcomes] == [TIME]
    assert after.verdict == "clean"
    assert counters.kills == kills(deadline=1)


@pytest.mark.parametrize(
    "leaves",
    [pytest.param(False, id="caller waits", marks=pytest.mark.variant), pytest.param(True, id="caller leaves")],
)
async def test_a_worker_that_lies_on_its_page_is_killed_when_its_message_has_spent_its_account(leaves: bool) -> None:
    """Whatever it writes there: guard's own account decides, also for a job whose caller no longer waits."""
    async with running(changed(processes=1)) as pool:
        lying = asyncio.create_task(pool.run(faulty("parse:lie")))
        await until(lambda: pool.counters().busy == 1)
        if leaves:
            lying.cancel()
        done, _ = await asyncio.wait([lying])
        reports = [each.result() for each in done if not each.cancelled()]
        after = await pool.run(job())
        await until(lambda: pool.counters().workers == 1 and not pool.counters().busy)
        counters = pool.counters()
    assert [report.reason for report in reports] == (
        [] if leaves else ["idle broke the analysis: it ran out of its time"]
    )
    assert after.verdict == "clean"
    assert counters.relieved == 1
    assert counters.kills == (kills() if leaves else kills(stall=1)), "one that nobody waits for is ended at once"


async def test_a_worker_that_computes_without_a_job_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_LOOK_SECONDS", 0.2)
    monkeypatch.setattr(pool_module, "_MAX_IDLE_CPU", 0.02)
    async with running(changed(processes=1)) as pool:
        burning = await pool.run(faulty("check:burn"))
        await until(lambda: pool.counters().kills["cpu"] == 1 and pool.counters().workers == 1)
        after = await pool.run(job())
        counters = pool.counters()
    assert (burning.verdict, after.verdict) == ("clean", "clean")
    assert counters.kills == kills(cpu=1)


@LOOPS
def test_answers_at_once_and_answers_that_are_waited_for_lead_to_the_same_reports(run: Run) -> None:
    def at_once(_job: Job[Any], questions: Questions) -> Answers:
        return warmup.answers_to(questions)

    def in_a_future(_job: Job[Any], questions: Questions) -> asyncio.Future[Answers]:
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[Answers] = loop.create_future()
        loop.call_later(0.01, answers.set_result, warmup.answers_to(questions))
        return answers

    async def analyse(answer: Answer) -> list[Report]:
        async with running(answer=answer) as pool:
            return await asyncio.gather(*(pool.run(job(raw)) for raw in warmup.specimens()))

    reports = run(analyse(from_zone))
    assert run(analyse(at_once)) == run(analyse(in_a_future)) == reports


async def test_answers_for_an_attempt_that_has_ended_are_dropped() -> None:
    """They came in the moment in which the worker was lost: the job has begun anew, and asks again."""
    asked: list[Questions] = []
    answers: list[asyncio.Future[Answers]] = []

    def answer(_job: Job[Any], questions: Questions) -> asyncio.Future[Answers]:
        asked.append(questions)
        answers.append(asyncio.get_running_loop().create_future())
        if len(asked) > 1:
            answers[-1].set_result(warmup.answers_to(questions))
        return answers[-1]

    async with running(changed(processes=1), answer) as pool:
        waiting = asyncio.create_task(pool.run(job(SIGNED)))
        await until(lambda: bool(asked))
        answers[0].set_result(())
        next(iter(pool._jobs)).reset()
        for worker in list(pool._workers):
            worker.kill("crash")
        report = await waiting
    assert report.verdict == "clean"
    assert len(asked) > 1


@pytest.mark.parametrize("at_once", [False, True])
async def test_questions_that_cannot_be_answered(*, at_once: bool) -> None:
    async def later(asking: Job[Any], questions: Questions) -> Answers:
        return answer(asking, questions)

    def answer(asking: Job[Any], questions: Questions) -> Answers:
        if asking.ggrid == "raises":
            raise ConnectionError("the database is gone")
        return () if asking.ggrid == "too few" else warmup.answers_to(questions)

    async with running(changed(processes=1), answer if at_once else later) as pool:
        names = ("raises", "too few", "plain")
        *unlucky, other = await asyncio.gather(*(pool.run(job(SIGNED, name)) for name in names))
    for report in unlucky:
        assert (report.decision, report.reason) == ("undecided", "what it asked for could not be looked up")
    assert other == warmup.report_on(SIGNED)


async def test_bodies_are_read_when_a_worker_is_ready_for_them() -> None:
    async with running(changed(processes=1)) as pool:
        sleeping = asyncio.create_task(pool.run(faulty("check:sleep=1000")))
        large, small = bodies = Kept(PLAIN + b"x" * (3 << 20)), Kept(PLAIN)
        jobs = [Job(JUDGE, "plain", warmup.ENVELOPE, body, warmup.NOW) for body in bodies]
        waiting = [asyncio.create_task(pool.run(one)) for one in jobs]
        await until(lambda: pool.counters().queued == 2)
        early = (large.reads, small.reads, pool.counters().queued)
        reports = await asyncio.gather(sleeping, *waiting)
        decisions = [report.decision for report in reports]
    assert early == (0, 0, 2)
    assert decisions[2] == "deliver"
    assert "undecided" not in decisions
    assert large.reads == 1


class Unreadable(Kept):
    def read(self) -> bytes:
        raise OSError("no such disk")


async def test_a_body_that_cannot_be_read_is_undecided() -> None:
    async with running(changed(processes=1)) as pool:
        bodies = [Unreadable(bytes(size)) for size in (10, 2 << 20)]
        broken = [Job(JUDGE, "broken", warmup.ENVELOPE, body, 0.0) for body in bodies]
        reports = await asyncio.gather(*map(pool.run, [*broken, job()]))
        counters = pool.counters()
    assert [report.decision for report in reports] == ["undecided", "undecided", "deliver"]
    assert sum(counters.kills.values()) == 0


async def test_a_caller_that_leaves_frees_its_worker() -> None:
    async with running(changed(processes=1, stage_limit=3.0)) as pool:
        for what in ("parse:sleep=100", "parse:spin"):
            await until(lambda: not pool.counters().busy)
            leaving = asyncio.create_task(pool.run(faulty(what)))
            await until(lambda: pool.counters().busy == 1)
            leaving.cancel()
            await asyncio.wait([leaving])
        report = await pool.run(job())
        await until(lambda: pool.counters().workers == 1 and not pool.counters().busy)
        counters = pool.counters()
    assert report.verdict == "clean"
    assert counters.relieved or counters.kills == kills(stall=1), "the one or the other, as the machine is busy"


async def test_a_new_policy_holds_for_the_next_message() -> None:
    async with running(changed(processes=1)) as pool:
        before = await pool.run(faulty("check:crash"))
        policy = override(shipped_policy(), '[verdicts.unscannable]\ndecision = "bounce"\n')
        pool.publish(None, policy)
        after = await pool.run(faulty("check:crash"))
    assert (before.decision, after.decision) == ("quarantine", "bounce")


async def test_each_tenant_is_judged_by_its_own_policy() -> None:
    """One worker, three tenants in turns: each gets its policy with its first message, and keeps to it."""
    ours, theirs = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa02"
    policies = {
        ours: override(shipped_policy(), '[verdicts.clean]\ndecision = "drop"\n'),
        theirs: override(shipped_policy(), '[verdicts.clean]\ndecision = "bounce"\n'),
    }

    def of(tenant: str | None) -> Job[Report]:
        envelope = msgspec.structs.replace(warmup.ENVELOPE, tenant=tenant)
        return Job(JUDGE, "plain", envelope, BytesBody(PLAIN), warmup.NOW)

    async with running(changed(processes=1), tenants=policies) as pool:
        reports = [await pool.run(of(tenant)) for tenant in (ours, None, theirs, ours, "another", theirs)]
        pool.publish(ours, shipped_policy())
        reports += [await pool.run(of(ours)), await pool.run(of(theirs))]
    assert [report.decision for report in reports] == [
        *("drop", "deliver", "bounce", "drop", "deliver", "bounce"),
        *("deliver", "bounce"),
    ]
    changed_rule, without = reports[0].overrides
    assert changed_rule == "clean: decision drop instead of deliver (deployment)"
    assert without.startswith("by the shipped policy: clean, deliver, a score of ")


async def test_workers_retire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RETIRE_AFTER", 5)
    async with running() as pool:
        reports = await asyncio.gather(*(pool.run(job(SIGNED)) for _ in range(30)))
        counters = pool.counters()
    assert reports == [warmup.report_on(SIGNED)] * 30
    # A worker that has enough is replaced when it has none left; others may take more meanwhile.
    assert counters.retired >= 2
    assert sum(counters.kills.values()) == 0


def family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.fixture
def own() -> Callable[[], list[psutil.Process]]:
    """The processes that this test has started; services of other tests may be there as well."""
    others = set(family())
    return lambda: [each for each in family() if each not in others]


@pytest.mark.usefixtures("own_loader")
async def test_a_lost_loader_is_replaced(own: Callable[[], list[psutil.Process]]) -> None:
    async with running() as pool:
        before = {process.pid for process in own()}
        (loader,) = [process for process in psutil.Process().children() if process.pid in before]
        loader.kill()
        await until(lambda: not pool.counters().workers)
        report = await pool.run(job())
        survivors = before & {process.pid for process in own()}
    assert report.verdict == "clean"
    assert survivors == set()


@pytest.mark.variant
@pytest.mark.usefixtures("own_loader")
async def test_stopping_leaves_no_process_and_no_question(
    monkeypatch: pytest.MonkeyPatch, own: Callable[[], list[psutil.Process]]
) -> None:
    monkeypatch.setattr(pool_module, "_STOP_SECONDS", 1.5)
    monkeypatch.setenv("GATEPOST_FAULT_INJECTION", FAULT_INJECTION)
    pool = WorkerPool(SETTINGS, from_zone, shipped_policy())
    await pool.start()
    spinning = asyncio.create_task(pool.run(faulty("check:spin")))
    finishing = asyncio.create_task(pool.run(faulty("check:sleep=50")))
    await until(lambda: pool.counters().busy > 0)
    await pool.stop()
    stopped = await spinning
    assert (stopped.decision, stopped.reason) == ("undecided", "the service is stopping")
    assert (await finishing).verdict == "clean"
    assert (await pool.run(job())).decision == "undecided"
    assert own() == []


def script(body: str) -> str:
    head = f"""
        import asyncio, sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tests.workers.test_pool import *
    """
    return textwrap.dedent(head) + textwrap.dedent(body)


def test_everything_ends_with_guard_even_by_kill_9() -> None:
    guard = script("""
        async def main():
            async with running() as pool:
                spin = asyncio.create_task(pool.run(faulty("check:spin")))
                await until(lambda: pool.counters().busy > 0)
                print(*[process.pid for process in family()], flush=True)
                await asyncio.sleep(60)
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", guard], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        handles = [os.pidfd_open(pid) for pid in pids]
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(pids) == 4  # the loader, its nursery, and two workers
    for handle in handles:
        ended, _, _ = select.select([handle], [], [], 60)
        os.close(handle)
        assert ended


UNSEALABLE = """
    import errno, struct
    from gatepost.process import sandbox
    from gatepost.process.sandbox import MACHINE, prctl
    prctl(38, 1)
    nosys = 0x00050000 | errno.ENOSYS
    calls = [sandbox.MACHINES[MACHINE].seccomp, 444]
    code = [sandbox.instruction(0x20, 0)]
    for call in calls:
        code += [sandbox.instruction(0x15, call, no=1), sandbox.instruction(0x06, nosys)]
    sandbox.install_filter(b"".join([*code, sandbox.instruction(0x06, sandbox.ALLOW)]))

    async def main():
        try:
            async with running(changed(unsealed=UNSEALED)) as pool:
                report = await pool.run(job())
                print(report.verdict, pool.counters().sealed)
        except pool_module.SealError as fault:
            print(fault)
        print(family())
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("unsealed", "said"),
    [
        ("False", "The analysis workers cannot be sealed on this system (open, socket, unlink, kill, fork, execve"),
        pytest.param("True", "clean False\n", marks=pytest.mark.variant),
    ],
)
def test_a_system_that_cannot_seal(unsealed: str, said: str) -> None:
    code = script(UNSEALABLE.replace("UNSEALED", unsealed))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said in done.stdout
    assert done.stdout.endswith("[]\n")
