"""A slot, an analysis, a record, an answer: in that order, and the slot comes back whatever happens."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeVar, cast

import pytest
from tests.conftest import Enter
from tests.waiting_client import WaitingClient

from gatepost.analysis.report import Report
from gatepost.api.http import ClientLeft
from gatepost.auth.origin import parse_networks
from gatepost.guard import service
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver, TakesAnswer
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.lists.unkeyed import UnkeyedLists
from gatepost.mail.message import Envelope, Receipt
from gatepost.policy.rules import shipped_policy
from gatepost.process import logs
from gatepost.questions import Dns, DnsAnswer
from gatepost.scanning.request import Full, ScanRequest, ScanResult, Source
from gatepost.scanning.spool import BytesBody, Spool
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.settings.keys import HistorySettings
from gatepost.settings.scan_sources import RestApiSettings, ScanSourcesSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.services import ReportIntake
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.feedback import MailReport
from gatepost.store.message_records import MessageRecord
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.protocol import ATTACHED, JUDGE, Attached, AttachedMessages

T = TypeVar("T")

REPORT = Report("spam", "quarantine", ("text:lure",), 100, "why", subject="private words")


class Pool(WorkerPool):
    """Answers when told to, with what it is told."""

    def __init__(self, report: Report = REPORT) -> None:
        self.report = report
        self.jobs: list[Job[Any]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.fault: Exception | None = None
        self.state = "new"

    async def start(self) -> None:
        self.state = "started"

    async def stop(self) -> None:
        self.state = "stopped"

    async def show(self, job: Job[T]) -> T:
        raise AssertionError(f"{job.ggrid} was to be shown")

    async def run(self, job: Job[T]) -> T:
        assert job.purpose is JUDGE
        self.jobs.append(job)
        await self.may_end.wait()
        if self.fault:
            raise self.fault
        return cast("T", self.report)


class Names(Resolver):
    closed = False

    def recall(self, questions: Iterable[Dns]) -> dict[Dns, DnsAnswer]:
        return {}

    def start(self, question: Dns, take: TakesAnswer) -> None:
        asyncio.get_running_loop().call_soon(take, question, DnsAnswer("failed"))

    async def close(self) -> None:
        self.closed = True


class Plain(BytesBody):
    """A body that counts how often it had to go to disk."""

    def __init__(self) -> None:
        super().__init__(b"plain")
        self.parked = 0

    async def to_disk(self) -> None:
        self.parked += 1


class Deployment:
    """A core with a real store and a pool of straw; leaving its context closes the store."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store("sqlite:g.db", folder)
        self.pool, self.names = Pool(), Names()
        self.observed: list[str] = []
        self.now = 1_000.0

    async def __aenter__(self) -> Self:
        self.guard = self.made()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    def made(self, store: Any = None, settings: Settings | None = None, queue: FairQueue | None = None) -> Guard:
        return Guard(
            settings or Settings(),
            store or self.store,
            self.pool,
            Answerer(self.names),
            queue or FairQueue(2, 20, 0.0, patience=0.05),
            observe=lambda record, _seconds: self.observed.append(record.report.verdict),
            clock=lambda: self.now,
        )


def request(created: int = 999_000, ggrid: str = "") -> ScanRequest:
    return ScanRequest(ggrid or new_id(), created, Envelope("a@private.example", ("b@private.example",)))


@pytest.fixture
def deployment(tmp_path: Path, enter: Enter) -> Deployment:
    return enter(Deployment(tmp_path))


async def test_a_message_is_analysed_put_on_record_and_answered(deployment: Deployment, tmp_path: Path) -> None:
    with Spool(tmp_path / "spool").new() as body:
        body.write(b"raw mail")
        await body.finish()
        asked = ScanRequest(new_id(), 999_000, Envelope("a@x.example"), client="192.0.2.9", queue_id="4BoRdEr")
        result = await deployment.guard.scan(asked, body)
        receipt = Receipt("", "192.0.2.9", "4BoRdEr")
        assert result == ScanResult(asked.ggrid, 999_000, 1_000_000, REPORT, receipt)
        record = await deployment.store.messages.find(asked.ggrid)
        expected = MessageRecord(
            *(asked.ggrid, 999_000, 1_000_000, asked.envelope, 8, body.sha256, REPORT), receipt=receipt
        )
        assert record == expected
    (job,) = deployment.pool.jobs
    assert (job.ggrid, job.envelope, job.now) == (asked.ggrid, asked.envelope, 1_000.0)
    assert deployment.observed == ["spam"]
    assert deployment.guard.load().in_processing == 0


async def test_completed_is_never_before_created(deployment: Deployment) -> None:
    result = await deployment.guard.scan(request(created=5_000_000), Plain())  # abby's clock is ahead
    assert isinstance(result, ScanResult)
    assert result.created == result.completed == 5_000_000


async def test_the_first_result_of_a_ggrid_stands(deployment: Deployment) -> None:
    asked = request(ggrid="0198a000-0000-7000-8000-000000000001")
    first = await deployment.guard.scan(asked, Plain())
    deployment.now = 2_000.0
    assert await deployment.guard.scan(asked, Plain()) == first


async def until(true: Callable[[], bool]) -> None:
    """Let others run until it is so."""
    async with asyncio.timeout(180):
        while not true():  # noqa: ASYNC110  what is waited for is somebody else's list
            await asyncio.sleep(0.001)


async def test_a_full_core_says_so_and_does_nothing(deployment: Deployment) -> None:
    deployment.pool.may_end.clear()
    busy = [asyncio.ensure_future(deployment.guard.scan(request(), Plain())) for _ in range(2)]
    await until(lambda: len(deployment.pool.jobs) == 2)
    third = await deployment.guard.scan(request(), Plain())
    assert isinstance(third, Full)
    assert third.load.in_processing == third.load.maximum == 2
    assert len(deployment.pool.jobs) == 2
    deployment.pool.may_end.set()
    await asyncio.gather(*busy)
    assert isinstance(await deployment.guard.scan(request(), Plain()), ScanResult)


async def test_a_client_of_the_api_waits_for_a_slot(deployment: Deployment) -> None:
    guard, client, bodies = deployment.guard, WaitingClient(), [Plain() for _ in range(3)]
    deployment.pool.may_end.clear()
    scans = [asyncio.ensure_future(guard.scan_in_turn(request(), body, client)) for body in bodies]
    await until(lambda: len(deployment.pool.jobs) == 2 and guard.load().waiting == 1)
    await asyncio.sleep(0.01)
    assert (len(deployment.pool.jobs), scans[2].done()) == (2, False)
    assert guard.waiting == (1, 5)
    assert sorted(body.parked for body in bodies) == [0, 0, 1], "what waits lies on disk"
    deployment.pool.may_end.set()
    results = await asyncio.wait_for(asyncio.gather(*scans), 60)
    assert all(isinstance(result, ScanResult) for result in results)
    assert (guard.load().in_processing, guard.load().waiting, guard.waiting) == (0, 0, (0, 0))


@pytest.mark.parametrize("how", ["the client leaves", "the core stops"])
async def test_what_waits_is_given_up(deployment: Deployment, how: str) -> None:
    guard, client = deployment.made(queue=FairQueue(1, 20, 0.0)), WaitingClient()
    deployment.pool.may_end.clear()
    busy = asyncio.ensure_future(guard.scan(request(), Plain()))
    await until(lambda: len(deployment.pool.jobs) == 1)
    waiting = asyncio.ensure_future(guard.scan_in_turn(request(), Plain(), client))
    await until(lambda: guard.load().waiting == 1)
    stopping = asyncio.ensure_future(guard.stop()) if how == "the core stops" else None
    if stopping is None:
        client.leave.set()
    outcome = await asyncio.wait_for(waiting, 60)
    assert isinstance(outcome, Full if stopping else ClientLeft)
    assert (guard.load().waiting, guard.waiting, len(deployment.pool.jobs)) == (0, (0, 0), 1)
    deployment.pool.may_end.set()
    assert isinstance(await busy, ScanResult)
    if stopping:
        await asyncio.wait_for(stopping, 60)
        assert isinstance(await guard.scan_in_turn(request(), Plain(), client), Full)


async def test_messages_that_wait_hold_so_much_and_no_more(deployment: Deployment) -> None:
    guard, client = deployment.made(queue=FairQueue(1, 1, 0.0, waiting_limit=9)), WaitingClient()
    deployment.pool.may_end.clear()
    scans = [asyncio.ensure_future(guard.scan_in_turn(request(), Plain(), client)) for _ in range(2)]
    await until(lambda: guard.load().waiting == 1)
    refused = await guard.scan_in_turn(request(), Plain(), client)
    assert isinstance(refused, Full)
    assert refused.overloaded
    deployment.pool.may_end.set()
    await asyncio.gather(*scans)


async def test_a_throttled_message_holds_its_slot_while_it_waits(deployment: Deployment) -> None:
    guard = deployment.made(queue=FairQueue(2, 1, 1.0))
    deployment.pool.may_end.clear()
    scans = [asyncio.ensure_future(guard.scan(request(), Plain())) for _ in range(2)]
    await until(lambda: guard.load().in_processing == 2 and bool(deployment.pool.jobs))
    assert len(deployment.pool.jobs) == 1, "the second has not started"
    deployment.pool.may_end.set()
    await asyncio.gather(*scans)
    assert len(deployment.pool.jobs) == 2


@pytest.mark.parametrize("how", ["pool", "store", "cancelled"])
async def test_the_slot_comes_back_whatever_happens(deployment: Deployment, how: str) -> None:
    class Broken:
        """Lists that are empty, and records that cannot be kept."""

        @property
        def list_lookup(self) -> "Broken":
            return self

        @property
        def messages(self) -> "Broken":
            return self

        async def unkeyed_version(self, _tenant: str | None) -> str:
            return ""

        async def unkeyed(self, _tenant: str | None) -> UnkeyedLists:
            return UnkeyedLists()

        async def record(self, record: MessageRecord, others: int = 0) -> MessageRecord:
            raise StorageError("the disk is full")

    guard = deployment.made(Broken()) if how == "store" else deployment.guard
    deployment.pool.fault = RuntimeError("bug") if how == "pool" else None
    deployment.pool.may_end.clear()
    scan = asyncio.ensure_future(guard.scan(request(), Plain()))
    await asyncio.sleep(0)
    assert guard.load().in_processing == 1
    if how == "cancelled":
        scan.cancel()
    else:
        deployment.pool.may_end.set()
    with logs.capture() as logged, pytest.raises((RuntimeError, StorageError, asyncio.CancelledError)):
        await scan
    assert guard.load().in_processing == 0
    assert deployment.observed == []
    assert [event["event"] for event in logged] == (["result could not be kept"] if how == "store" else [])


async def test_the_log_names_the_message_and_nothing_of_it(deployment: Deployment) -> None:
    with logs.capture() as logged:
        asked = request()
        await deployment.guard.scan(asked, Plain())
    (event,) = logged
    assert event.pop("milliseconds") >= 0
    del event["time"], event["logger"]
    assert event == {
        "event": "message scanned",
        "level": "info",
        "ggrid": asked.ggrid,
        "verdict": "spam",
        "decision": "quarantine",
        "size": 5,
    }


async def test_stopping_finishes_what_is_in_flight_and_takes_nothing_new(deployment: Deployment) -> None:
    await deployment.guard.start()
    deployment.pool.may_end.clear()
    scan = asyncio.ensure_future(deployment.guard.scan(request(), Plain()))
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(deployment.guard.stop())
    await asyncio.sleep(0.01)
    assert (stopping.done(), deployment.pool.state) == (False, "started")
    assert isinstance(await deployment.guard.scan(request(), Plain()), Full)
    deployment.pool.may_end.set()
    assert isinstance(await scan, ScanResult)
    await asyncio.wait_for(stopping, 60)
    assert (deployment.pool.state, deployment.names.closed) == ("stopped", True)


async def test_stopping_does_not_wait_for_ever(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "STOP_GRACE_SECONDS", 0.0)
    guard = deployment.made(settings=Settings(analysis_timeout=10, stage_limit=5, max_throttle_delay=1))
    deployment.pool.may_end.clear()
    scan = asyncio.ensure_future(guard.scan(request(), Plain()))
    await asyncio.sleep(0)
    with logs.capture() as logged:
        await guard.stop()
    assert [event["event"] for event in logged] == ["stopping with messages in processing"]
    scan.cancel()


async def test_history_is_purged_by_its_retention(deployment: Deployment) -> None:
    old = await deployment.guard.scan(request(), Plain())
    deployment.now += 20 * 86_400
    new = await deployment.guard.scan(request(), Plain())
    deployment.now += 11 * 86_400
    await deployment.guard.start()
    assert isinstance(old, ScanResult)
    assert isinstance(new, ScanResult)
    while await deployment.store.messages.find(old.ggrid):  # noqa: ASYNC110  the core's own task is watched from outside
        await asyncio.sleep(0.01)
    assert await deployment.store.messages.find(new.ggrid)
    await deployment.guard.stop()


async def test_header_sections_are_kept_unless_they_are_left_out(deployment: Deployment) -> None:
    without = deployment.made(settings=Settings(history=HistorySettings(headers=False)))
    for guard, is_kept in ((deployment.guard, True), (without, False)):
        result = await guard.scan(request(), BytesBody(b"Subject: x\r\n\r\ny\r\n"))
        assert isinstance(result, ScanResult)
        assert bool(await deployment.store.messages.header(result.ggrid)) is is_kept


async def test_rest_is_on_where_it_is_named(deployment: Deployment) -> None:
    assert not deployment.guard.rest_enabled
    named = Settings(scan_sources=ScanSourcesSettings(rest_api=RestApiSettings()))
    assert deployment.made(settings=named).rest_enabled


async def test_with_real_workers_and_no_dns(tmp_path: Path) -> None:
    """The parts fit together: a real message through a sealed process, answered and on record."""
    store = open_store("sqlite:g.db", tmp_path)
    answerer = Answerer(Resolver(["127.0.0.1:9"], 0.2))
    pool = WorkerPool(PoolSettings(1, 60.0, 20.0, 1 << 30), answerer.answer, shipped_policy())
    guard = Guard(Settings(), store, pool, answerer, FairQueue(20, 20, 5.0))
    await guard.start()
    with Spool(tmp_path / "spool").new() as body:
        body.write(b"From: a@sender.example\r\nSubject: Hello\r\n\r\nHello\r\n")
        await body.finish()
        envelope = Envelope("a@sender.example", ("b@rcpt.example",), "192.0.2.1", "mx.sender.example")
        result = await guard.scan(ScanRequest(new_id(), 1, envelope), body)
    assert isinstance(result, ScanResult)
    assert result.report.decision != "undecided", result.report.reason
    assert result.report.authentication.spf.result == "temperror", "an outage of DNS is an outcome, not a verdict"
    assert result.report.subject == "Hello"
    record = await store.messages.find(result.ggrid)
    assert record
    assert (record.report, record.completed) == (result.report, result.completed)
    await guard.stop()
    await store.close()


class MailboxPool(Pool):
    """Reads one message out of every mail, too."""

    async def run(self, job: Job[T]) -> T:
        if job.purpose is ATTACHED:
            return cast("T", AttachedMessages((Attached("ab" * 32, b"row"),)))
        return await super().run(job)


@pytest.mark.parametrize(
    ("recipient", "source", "for_mailboxes", "reported"),
    [
        ("Desk@private.example", "rest", True, 1),
        ("b@private.example", "rest", False, 0),
        ("desk@private.example", "page", True, 0),
    ],
)
async def test_mail_to_a_report_mailbox_teaches_as_a_report_alone(
    deployment: Deployment, recipient: str, source: Source, for_mailboxes: bool, reported: int
) -> None:
    """Neither sender history nor the comparison of copies learns from it: what was forwarded is not wanted."""
    deployment.pool = MailboxPool()
    kept: list[MailReport] = []
    learnt: list[str] = []

    async def keep(report: MailReport) -> int:
        kept.append(report)
        return 1

    core = deployment.made()
    tenancy = Tenancy({}, deployment.store.tenants.of_domain)
    hosts, mailboxes = parse_networks(("192.0.2.0/24",)), {"*": ["desk@private.example"]}
    core.reports = ReportIntake({}, mailboxes, hosts, core.read_report, keep, tenancy)
    histories = SimpleNamespace(learn=lambda ggrid, _report: learnt.append(ggrid))
    core._sender_histories = cast("Any", histories)
    asked = ScanRequest(new_id(), 999_000, Envelope("a@private.example", (recipient,), "192.0.2.9"), source)
    assert isinstance(await core.scan(asked, Plain()), ScanResult)
    (job,) = deployment.pool.jobs
    assert (job.for_mailboxes, job.is_trial) == (for_mailboxes, for_mailboxes)
    assert (len(kept), len(learnt)) == (reported, 0 if for_mailboxes else 1)
    assert [each.messages[0].sha256 for each in kept] == ["ab" * 32] * reported
