"""guard, the core: a message comes in, gets a slot, is analysed, put on record, and answered.

The answer is given only when the record is on disk: a ggrid that a client was told can be read for as long as history
is kept. Where the record cannot be written there is no answer but an error, so that the sender tries again.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import msgspec
import structlog

from gatepost.api.scanning import MAX_BODY
from gatepost.guard.actions import ActionPlanner, Planned
from gatepost.guard.admission import Admission
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.campaigns import Campaigns
from gatepost.guard.answers.dns import DnsCounters
from gatepost.guard.answers.learnt_models import NOTHING, LearntModelSnapshots
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.mail.message import Receipt
from gatepost.periodic import PeriodicWork
from gatepost.report import Report, undecided
from gatepost.scanning.edits import Cuts
from gatepost.scanning.request import (
    SLOT_SECONDS,
    Condition,
    Full,
    Load,
    MessageBody,
    ScanRequest,
    ScanResult,
    first_received_id,
)
from gatepost.scanning.spool import SpooledBody, sha256
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.smtp.reporting import ReportReading
from gatepost.store.errors import StorageError
from gatepost.store.feedback import ReportedMessage
from gatepost.store.message_records import MessageRecord
from gatepost.store.record_packing import HEAD_BYTES, cut_header
from gatepost.store.store import Store
from gatepost.view.values import NotShown
from gatepost.workers.jobs import AnalysisJob
from gatepost.workers.protocol import AttachedMessages, Extracted, ViewResult

PURGE_SECONDS = 3_600.0
DAY_MILLISECONDS = 86_400_000
# What may come on top of the longest analysis before a stop ends what is left.
STOP_GRACE_SECONDS = 10.0

log = structlog.get_logger("gatepost.guard")

ScanObserver = Callable[[MessageRecord, float], None]


class AnalysesMail(Protocol):
    """What turns a message into a report; `workers.pool.WorkerPool` does."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def analyse(self, job: AnalysisJob) -> Report: ...

    async def show(self, job: AnalysisJob) -> ViewResult: ...

    async def extract(self, job: AnalysisJob) -> Extracted | AttachedMessages | Cuts | None: ...


def ignore_scan(_record: MessageRecord, _seconds: float) -> None:
    """The observer of a core without metrics and events."""


class Guard:
    """One core, or one of its processes, of which the one that `purges` keeps history within its retention. Pool and
    answerer start and end with it; the store is closed by its owner. `node` is in the record of every message."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        pool: AnalysesMail,
        answerer: Answerer,
        admission: Admission,
        *,
        lists: ListAnswers | None = None,
        sender_histories: SenderHistories | None = None,
        campaigns: Campaigns | None = None,
        learnt: LearntModelSnapshots | None = None,
        observe: ScanObserver = ignore_scan,
        clock: Callable[[], float] = time.time,
        purges: bool = True,
        condition: Condition | None = None,
        node: str = "",
        actions: ActionPlanner | None = None,
        dns_counters: Callable[[], DnsCounters] = DnsCounters,
    ) -> None:
        self._node, self._actions, self.dns_counters = node, actions, dns_counters
        self._settings, self._store, self._pool = settings, store, pool
        self._answerer, self._admission = answerer, admission
        self._observe, self._clock = observe, clock
        self._lists = lists or ListAnswers(store, clock)
        self._sender_histories = sender_histories
        self._campaigns = campaigns
        self._learnt = learnt
        self._purges = purges
        self._condition = condition or Condition()
        self._stopping = False
        self._present = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._purging = PeriodicWork(self._purge, PURGE_SECONDS, "history could not be purged", log)

    @property
    def rest_enabled(self) -> bool:
        """Whether `restApi` is among the scan sources."""
        return self._settings.scan_sources.rest_api is not None

    def load(self) -> Load:
        """How busy it is, and what keeps it from its work."""
        return self._condition.describe(self._admission.load())

    def has_slot(self) -> bool:
        """Whether a message would be taken now, for sources that can refuse one before they are sent it."""
        return not self._stopping and self._admission.has_slot()

    @cached_property
    def _log(self) -> structlog.typing.FilteringBoundLogger:
        """Bound once, since every message has a line; not before the first, when the level of these settings holds."""
        bound: structlog.typing.FilteringBoundLogger = log.bind()
        return bound

    async def wait_for_slot(self) -> None:
        """Return once a slot is free, which is not reserved, or `SLOT_SECONDS` later."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SLOT_SECONDS):
                await self._admission.wait_for_slot()

    async def start(self) -> None:
        """Start the workers, and what runs beside them."""
        await self._pool.start()
        self._lists.start()
        if self._sender_histories:
            self._sender_histories.start()
        if self._campaigns is not None:
            self._campaigns.start()
        if self._learnt:
            await self._learnt.start()
        if self._purges:
            self._purging.start()

    async def stop(self) -> None:
        """Take nothing new, finish what is in flight, then end."""
        self._stopping = True
        settings = self._settings
        longest = (settings.analysis_timeout + settings.max_throttle_delay) / 1_000 + STOP_GRACE_SECONDS
        try:
            async with asyncio.timeout(longest):
                await self._idle.wait()
        except TimeoutError:
            log.warning("stopping with messages in processing", count=self._present)
        await self._purging.stop()
        await self._pool.stop()
        await self._answerer.close()
        await self._lists.stop()
        if self._sender_histories:
            await self._sender_histories.stop()
        if self._campaigns is not None:
            await self._campaigns.stop()
        if self._learnt:
            await self._learnt.stop()

    async def scan(self, request: ScanRequest) -> ScanResult | Full:
        """Analyse one message. Raises `StorageError` where the result cannot be put on record."""
        slot = None if self._stopping else self._admission.enter()
        if slot is None:
            return Full(self.load())
        started = time.perf_counter()
        self._present += 1
        self._idle.clear()
        try:
            with slot:
                if slot.delay:
                    await asyncio.sleep(slot.delay)
                return await self._process(request, started, round(slot.delay * 1_000))
        finally:
            self._present -= 1
            if not self._present:
                self._idle.set()

    async def read_report(self, request: ScanRequest) -> ReportReading | Full:
        """Read a report by mail: judge the mail that carries it, and read what is attached to it. Nothing is kept."""
        slot = None if self._stopping else self._admission.enter()
        if slot is None:
            return Full(self.load())
        self._present += 1
        self._idle.clear()
        try:
            with slot:
                if slot.delay:
                    await asyncio.sleep(slot.delay)
                # Twenty people who report the same mail are no burst of it.
                job = AnalysisJob(request.ggrid, request.envelope, request.body, self._clock(), is_trial=True)
                carrier = await self._pool.analyse(job)
                found = await self._pool.extract(msgspec.structs.replace(job, purpose="report"))
        finally:
            self._answerer.forget(request.ggrid)
            self._present -= 1
            if not self._present:
                self._idle.set()
        if not isinstance(found, AttachedMessages):
            return ReportReading(undecided("it could not be read"))
        read = (ReportedMessage(each.sha256, each.row, each.signature, each.sender) for each in found.messages)
        return ReportReading(carrier, tuple(each for each in read if each.features))

    async def show(self, job: AnalysisJob) -> ViewResult:
        """Have a message read in a worker, to be shown. It takes no slot: mail on its way goes first."""
        return NotShown("the service is stopping") if self._stopping else await self._pool.show(job)

    async def _process(self, request: ScanRequest, started: float, throttled: int) -> ScanResult:
        if request.source == "report":
            return await self._read_reported(request)
        planned = await self._plan(request, await self._analyse(request))
        record = await self._record(request, planned.report, throttled)
        seconds = time.perf_counter() - started
        if not request.is_trial:
            self._observe(record, seconds)
        self._log.info(
            "scanned",
            ggrid=record.ggrid,
            verdict=record.report.verdict,
            decision=record.report.decision,
            size=record.size,
            milliseconds=round(seconds * 1_000, 1),
        )
        return ScanResult(record.ggrid, record.created, record.completed, record.report, record.receipt, planned.edits)

    async def _plan(self, request: ScanRequest, report: Report) -> Planned:
        """Choose the action that follows the verdict, where the source can carry one out."""
        if self._actions is None or not request.can_act:
            return Planned(report)
        return await self._actions.plan(request, report, self._find_parts)

    async def _find_parts(self, request: ScanRequest, parts: tuple[str, ...]) -> Cuts | None:
        job = AnalysisJob(request.ggrid, request.envelope, request.body, self._clock(), purpose="strip", parts=parts)
        found = await self._pool.extract(job)
        return found if isinstance(found, Cuts) else None

    async def _read_reported(self, request: ScanRequest) -> ScanResult:
        """Read a message that came with a report, for what models learn from it. Nothing is asked, and nothing kept."""
        job = AnalysisJob(request.ggrid, request.envelope, request.body, self._clock(), purpose="features")
        found = await self._pool.extract(job)
        report = undecided("it could not be read")
        if isinstance(found, Extracted):
            report = Report(
                *("clean", "deliver", (), 0, "It was read for learning"),
                senders=(found.sender,) if found.sender else (),
                signature=found.signature,
                features=found.row,
            )
        return ScanResult(request.ggrid, request.created, int(self._clock() * 1_000), report)

    async def _analyse(self, request: ScanRequest) -> Report:
        if request.unfit and request.body.size > MAX_BODY:
            return msgspec.structs.replace(undecided(f"Held: {request.unfit}"), decision="quarantine")
        try:
            lists = await self._lists.snapshot(request.envelope.tenant)
        except StorageError as fault:
            log.error("lists could not be read", ggrid=request.ggrid, reason=str(fault))
            return undecided("the lists could not be read")
        learnt = await self._learnt.snapshot(request.envelope.tenant) if self._learnt else NOTHING
        job = AnalysisJob(
            *(request.ggrid, request.envelope, request.body, self._clock(), lists),
            learnt=learnt,
            is_trial=request.is_trial,
        )
        try:
            report = await self._pool.analyse(job)
            if request.unfit and report.decision in ("deliver", "bounce"):
                reason = f"Held: {request.unfit}. {report.reason}"
                report = msgspec.structs.replace(report, decision="quarantine", reason=reason)
            if report.lists:
                report = await self._with_comments(request, report)
            if not request.is_trial:
                self._learn(request, report)
            return report
        finally:
            self._answerer.forget(request.ggrid)

    def _learn(self, request: ScanRequest, report: Report) -> None:
        """Count the hits of lists, and remember sender and text for later messages."""
        if report.lists:
            self._lists.count(request.envelope.tenant, report)
        if self._sender_histories:
            self._sender_histories.learn(request.ggrid, report)
        if self._campaigns is not None:
            self._campaigns.learn(request.ggrid, request.envelope.tenant, report)

    async def _with_comments(self, request: ScanRequest, report: Report) -> Report:
        try:
            return await self._lists.with_comments(request.envelope.tenant, report)
        except StorageError as fault:
            log.warning("comments could not be read", ggrid=request.ggrid, reason=str(fault))
            return report

    async def _record(self, request: ScanRequest, report: Report, throttled: int) -> MessageRecord:
        body = request.body
        is_rest = request.source == "rest"
        header = await _read_header(body) if self._settings.history.headers or is_rest else None
        # The border MTA, which alone calls the scanning API, may have written its Received field already.
        queue_id = first_received_id(header) if is_rest and header else request.queue_id
        digest = body.sha256 if isinstance(body, SpooledBody) else await asyncio.to_thread(sha256, body)
        record = MessageRecord(
            ggrid=request.ggrid,
            created=request.created,
            completed=max(request.created, int(self._clock() * 1_000)),
            envelope=request.envelope,
            size=body.size,
            sha256=digest,
            report=report,
            source=request.source,
            header=header if self._settings.history.headers else None,
            receipt=Receipt(self._node, request.client, queue_id, throttled),
        )
        try:
            # Another core may have been quicker with the same ggrid; then its result stands.
            return await self._store.messages.record(record)
        except StorageError:
            log.error("result could not be kept", ggrid=request.ggrid)
            raise

    async def _purge(self) -> None:
        moment = int(self._clock() * 1_000)
        before = moment - self._settings.history.retention * DAY_MILLISECONDS
        limits = await self._store.tenants.retention_limits("history", moment)
        if deleted := await self._store.messages.purge(before, limits):
            log.info("history purged", count=deleted)


async def _read_header(body: MessageBody) -> bytes:
    """Return the header section of a message, which is looked for and not parsed."""
    if isinstance(body, SpooledBody):
        return cut_header(body.head(HEAD_BYTES))
    return cut_header((await asyncio.to_thread(body.read))[:HEAD_BYTES])
