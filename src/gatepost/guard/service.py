"""guard, the core: a message comes in, gets a slot, is analysed, put on record, and answered.

The answer is given only when the record is on disk: a ggrid that a client was told can be read for as long as history
is kept. Where the record cannot be written there is no answer but an error, so that the sender tries again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from gatepost.analysis.report import PreparedRecord, Report, undecided
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.api.scanning import MAX_BODY
from gatepost.guard.actions import ActionPlanner, Planned
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.campaigns import Campaigns
from gatepost.guard.answers.dns import DnsCounters
from gatepost.guard.answers.lists import LearntModelSnapshots, ListAnswers
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.ids import id_order
from gatepost.mail.message import Receipt
from gatepost.process.health import HealthLedger
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.scanning.held_mail import HoldsMail, ReportObserver, bytes_ahead, ignore_report
from gatepost.scanning.request import Cut, Full, Load, ScanRequest, ScanResult, first_received_id
from gatepost.scanning.spool import MessageBody
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.smtp.services import ReportIntake, ReportReading
from gatepost.store.errors import StorageError
from gatepost.store.feedback import ReportedMessage
from gatepost.store.message_records import Holding, MessageRecord
from gatepost.store.record_packing import HEAD_BYTES, compress, cut_header
from gatepost.store.store import Store
from gatepost.times import DAY
from gatepost.view.values import NotShown
from gatepost.workers.fair_queue import FairQueue, QueueCounters, Slot
from gatepost.workers.jobs import EMPTY, Job, Snapshot
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import ATTACHED, FEATURES, JUDGE, STRIP, Extracted

PURGE_SECONDS = 3_600.0
# What may come on top of the longest analysis before a stop ends what is left.
STOP_GRACE_SECONDS = 10.0

log = Logger("gatepost.guard")

ScanObserver = Callable[[MessageRecord, float], None]


def ignore_scan(_record: MessageRecord, _seconds: float) -> None:
    """The observer of a core without metrics and events."""


class Guard:
    """One core. Pool and answerer start and end with it; the store is closed by its owner. `node` is in the record of
    every message, `reports` takes what is attached to mail for report mailboxes."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        pool: WorkerPool,
        answerer: Answerer,
        queue: FairQueue,
        *,
        lists: ListAnswers | None = None,
        sender_histories: SenderHistories | None = None,
        campaigns: Campaigns | None = None,
        learnt: LearntModelSnapshots | None = None,
        observe: ScanObserver = ignore_scan,
        clock: Callable[[], float] = time.time,
        health: HealthLedger | None = None,
        node: str = "",
        actions: ActionPlanner | None = None,
        dns_counters: Callable[[], DnsCounters] = DnsCounters,
    ) -> None:
        self._node, self._actions, self.dns_counters = node, actions, dns_counters
        self._settings, self._store, self.pool = settings, store, pool
        self._answerer, self._queue = answerer, queue
        self._observe, self._clock = observe, clock
        self._lists = lists or ListAnswers(store, clock)
        self._sender_histories = sender_histories
        self._campaigns = campaigns
        self._learnt = learnt
        self._health = health or HealthLedger()
        self._quarantine: HoldsMail | None = None
        self.reports: ReportIntake | None = None
        self._stop_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._present = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._purging = PeriodicWork(self._purge, PURGE_SECONDS, "history could not be purged", log)

    @property
    def _stopping(self) -> bool:
        return self._stop_begun.done()

    @property
    def rest_enabled(self) -> bool:
        """Whether `restApi` is among the scan sources."""
        return self._settings.scan_sources.rest_api is not None

    @property
    def waiting(self) -> tuple[int, int]:
        """How many messages wait for a slot, and their bytes."""
        return self._queue.waiting

    def keep_with(self, quarantine: HoldsMail) -> None:
        """Keep what is to be held of REST scans in this quarantine from now on (`restApi: {keep: held}`)."""
        self._quarantine = quarantine

    def load(self) -> Load:
        """How busy it is, and what keeps it from its work."""
        return self._queue.load().with_reasons(self._health)

    async def look(self) -> None:
        """Look again at what all messages need, where that was not done just now."""
        await self._health.look()

    def queue_counters(self) -> QueueCounters:
        return self._queue.counters()

    async def start(self) -> None:
        """Start the workers, and what runs beside them."""
        await self.pool.start()
        self._lists.start()
        if self._sender_histories:
            self._sender_histories.start()
        if self._campaigns is not None:
            self._campaigns.start()
        if self._learnt:
            await self._learnt.start()
        self._purging.start()

    async def stop(self) -> None:
        """Take nothing new, finish what is in flight, then end."""
        if not self._stopping:
            self._stop_begun.set_result(None)
        settings = self._settings
        longest = (settings.analysis_timeout + settings.max_throttle_delay) / 1_000 + STOP_GRACE_SECONDS
        try:
            async with asyncio.timeout(longest):
                await self._idle.wait()
        except TimeoutError:
            log.warning("stopping with messages in processing", count=self._present)
        await self._purging.stop()
        await self.pool.stop()
        await self._answerer.close()
        await self._lists.stop()
        if self._sender_histories:
            await self._sender_histories.stop()
        if self._campaigns is not None:
            await self._campaigns.stop()
        if self._learnt:
            await self._learnt.stop()

    async def scan(
        self, request: ScanRequest, body: MessageBody, judged: ReportObserver = ignore_report
    ) -> ScanResult | Full:
        """Analyse one message of a mail server, which waits a little for a slot. Raises `StorageError` where the result
        cannot be put on record."""
        slot = await self._take_slot(request, body)
        return await self._scan_in(slot, request, body, judged=judged) if isinstance(slot, Slot) else Full(self.load())

    async def scan_in_turn(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> ScanResult | Full | ClientLeft:
        """Analyse one message of a client that waits for a slot. What is to be held is kept, if this core keeps such
        mail: then the answer comes when the bytes are safe. Raises `StorageError`."""
        # Before there is a slot: lists that change all the time keep the mail of their tenant waiting, and no slot.
        lists = await self._read_lists(request)
        slot = await self._take_slot(request, body, client)
        if not isinstance(slot, Slot):
            return slot
        quarantine = None if request.is_trial else self._quarantine
        if quarantine is None:
            return await self._scan_in(slot, request, body, lists)
        async with bytes_ahead(quarantine, request.ggrid, body) as judged:
            result = await self._scan_in(slot, request, body, lists, judged)
            if result.report.decision == "quarantine":
                await quarantine.keep(request, result, body)
        return result

    async def read_features(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> Extracted | NotShown | Full | ClientLeft:
        """Read a message that came with a complaint, for what models learn from it. Nothing is asked or kept."""
        slot = await self._take_slot(request, body, client)
        if not isinstance(slot, Slot):
            return slot
        async with self._processing(slot):
            return await self.pool.run(Job(FEATURES, request.ggrid, request.envelope, body, self._clock()))

    async def read_report(self, request: ScanRequest, body: MessageBody) -> ReportReading | Full:
        """Read a report by mail: judge the mail that carries it, and read what is attached to it. Nothing is kept."""
        slot = await self._take_slot(request, body)
        if not isinstance(slot, Slot):
            return Full(self.load())
        async with self._processing(slot):
            # Twenty people who report the same mail are no burst of it.
            job = Job(JUDGE, request.ggrid, request.envelope, body, self._clock(), is_trial=True)
            try:
                return await self._read_attached(request, body, await self.pool.run(job))
            finally:
                self._answerer.forget(request.ggrid)

    async def _read_attached(self, request: ScanRequest, body: MessageBody, carrier: Report) -> ReportReading:
        """Read what is attached to a mail that was judged."""
        found = await self.pool.run(Job(ATTACHED, request.ggrid, request.envelope, body, self._clock()))
        if isinstance(found, NotShown):
            return ReportReading(undecided("it could not be read"))
        read = (ReportedMessage(each.sha256, each.row, each.signature, each.sender) for each in found.messages)
        return ReportReading(carrier, tuple(each for each in read if each.features))

    async def _take_slot(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient | None = None
    ) -> Slot | Full | ClientLeft:
        """Return a slot, at once as a rule; all sources ask here. Where others have to be waited for, the message lies
        on disk meanwhile. A client of the API waits until it leaves, a mail server for `patience` seconds."""
        queue, tenant = self._queue, request.envelope.tenant
        if self._stopping:
            return Full(self.load())
        if (free := queue.enter(tenant)) is not None:
            return free
        if queue.waiting_bytes.has_room(tenant, body.size):
            await body.to_disk()
        # Others may have come meanwhile.
        if not queue.waiting_bytes.has_room(tenant, body.size):
            return Full(self.load(), overloaded=True)
        gone = [asyncio.ensure_future(client.wait_until_gone())] if client else []
        patience, order = None if client else queue.patience, id_order(request.ggrid)
        try:
            slot = await queue.wait(tenant, order, body.size, (*gone, self._stop_begun), patience)
        finally:
            for each in gone:
                each.cancel()
        stops = self._stop_begun.done()
        if slot is not None and stops:  # given while the stop began, which waits for nothing that starts now
            slot.leave()
        if stops or not (slot or client):
            return Full(self.load())
        return slot or ClientLeft()

    @asynccontextmanager
    async def _processing(self, slot: Slot) -> AsyncIterator[None]:
        """Count a message in processing, which a stop waits for, from when its analysis may start to its end."""
        self._idle.clear()
        self._present += 1
        try:
            await slot.delay_start()
            yield
        finally:
            slot.leave()
            self._present -= 1
            if not self._present:
                self._idle.set()

    async def _read_lists(self, request: ScanRequest) -> Snapshot | None:
        """Return the lists by which a message that has come is judged; None where they cannot be read."""
        try:
            return await self._lists.snapshot(request.envelope.tenant)
        except StorageError as fault:
            log.error("lists could not be read", ggrid=request.ggrid, reason=str(fault))
            return None

    async def _scan_in(
        self,
        slot: Slot,
        request: ScanRequest,
        body: MessageBody,
        lists: Snapshot | None = None,
        judged: ReportObserver = ignore_report,
    ) -> ScanResult:
        started = time.perf_counter()
        async with self._processing(slot):
            report = await self._analyse(request, body, lists or await self._read_lists(request))
            planned = await self._plan(request, body, report) if request.can_act else Planned(report)
            holding = judged(planned.report)
            record = await self._record(request, body, planned.report, round(slot.delay * 1_000), holding)
        seconds = time.perf_counter() - started
        if not request.is_trial:
            self._observe(record, seconds)
        log.info(
            "message scanned",
            ggrid=record.ggrid,
            verdict=record.report.verdict,
            decision=record.report.decision,
            size=record.size,
            milliseconds=round(seconds * 1_000, 1),
        )
        return ScanResult(
            ggrid=record.ggrid,
            created=record.created,
            completed=record.completed,
            report=record.report,
            receipt=record.receipt,
            edits=planned.edits,
            is_held=record.holding is not None,
        )

    async def _plan(self, request: ScanRequest, body: MessageBody, report: Report) -> Planned:
        """Choose the action that follows the verdict, for a source that can carry one out."""
        if self._actions is None:
            return Planned(report)

        async def find_parts(parts: tuple[str, ...]) -> tuple[Cut, ...]:
            job = Job(STRIP, request.ggrid, request.envelope, body, self._clock(), parts=parts)
            found = await self.pool.run(job)
            return () if isinstance(found, NotShown) else found.cuts

        return await self._actions.plan(request, body.size, report, find_parts)

    async def _analyse(self, request: ScanRequest, body: MessageBody, lists: Snapshot | None) -> Report:
        if request.unfit and body.size > MAX_BODY:
            return msgspec.structs.replace(undecided(f"Held: {request.unfit}"), decision="quarantine")
        if lists is None:
            return undecided("the lists could not be read")
        tenant = request.envelope.tenant
        reports = self.reports if self.reports and self.reports.is_for_mailboxes(request) else None
        learnt = await self._learnt.snapshot(tenant) if self._learnt and self._learnt.versions else EMPTY
        job = Job(
            JUDGE,
            request.ggrid,
            request.envelope,
            body,
            self._clock(),
            lists=lists,
            learnt=learnt,
            # What is sent on to be looked into is no mail like others: it teaches only as a report.
            is_trial=request.is_trial or reports is not None,
            for_mailboxes=reports is not None,
        )
        try:
            report = await self.pool.run(job)
            if reports and not request.is_trial:
                await reports.keep(request, await self._read_attached(request, body, report))
            if request.unfit and report.decision in ("deliver", "bounce"):
                reason = f"Held: {request.unfit}. {report.reason}"
                report = msgspec.structs.replace(report, decision="quarantine", reason=reason)
            if report.lists:
                report = await self._with_comments(request, report)
            if not job.is_trial:
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

    async def _record(
        self, request: ScanRequest, body: MessageBody, report: Report, throttled: int, holding: Holding | None
    ) -> MessageRecord:
        # The border MTA, which alone calls the scanning API, may have written its Received field already.
        is_rest, prepared = request.source == "rest", report.prepared
        if prepared is None:
            # The header section is looked for and not parsed.
            header = cut_header(body.head(HEAD_BYTES))
            prepared = PreparedRecord(header=compress(header), queue_id=first_received_id(header))
        queue_id = prepared.queue_id if is_rest else request.queue_id
        record = MessageRecord(
            ggrid=request.ggrid,
            created=request.created,
            completed=max(request.created, int(self._clock() * 1_000)),
            envelope=request.envelope,
            size=body.size,
            sha256=body.sha256,
            report=report,
            source=request.source,
            header=prepared.header if self._settings.history.headers else None,
            receipt=Receipt(self._node, request.client, queue_id, throttled),
            holding=holding,
        )
        try:
            # Another core may have been quicker with the same ggrid; then its result stands.
            return await self._store.messages.record(record, self._present - 1)
        except StorageError:
            log.error("result could not be kept", ggrid=request.ggrid)
            raise

    async def _purge(self) -> None:
        moment = int(self._clock() * 1_000)
        before = moment - self._settings.history.retention * DAY
        limits = await self._store.tenants.retention_limits("history", moment)
        await self._store.message_notes.purge(before)
        await self._store.removed_mail.purge(before)
        if deleted := await self._store.messages.purge(before, limits):
            log.info("history purged", count=deleted)
