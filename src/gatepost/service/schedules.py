"""What a node does by itself every so many seconds: run feeds, look back, train pools, send digests and reports.

Every node looks whether something is due; a lease in storage (`store.jobs`) lets one of them do it. What came of it is
in storage as well, so all nodes report the same figures to Prometheus. Feeds, trainings and looking back are commands
of `gatepost` in processes of their own, so that neither their computing nor their memory is felt by mail that is being
scanned.
"""

import asyncio
import contextlib
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.digests.mail import DigestSender
from gatepost.guard.answers.dns import Resolver
from gatepost.process.logs import Logger
from gatepost.process.metrics import counter, gauge
from gatepost.process.periodic import PeriodicWork
from gatepost.service.plan import Plan, SharedParts
from gatepost.service.routes import hostname
from gatepost.settings.delivery import SentReportSettings
from gatepost.settings.feeds import FeedSettings, WebSettingsError, build_feed
from gatepost.settings.keys import GuardSettings, LearningSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.routing import Routing
from gatepost.smtp.sent_reports import ReportSender
from gatepost.smtp.signing import SigningKeys
from gatepost.store.digests import DIGEST, digest_run
from gatepost.store.feeds import FEED, FeedRecord, feed_state
from gatepost.store.jobs import Job
from gatepost.store.learning import LEARNING, PoolSummary
from gatepost.store.look_backs import LOOK_BACK
from gatepost.store.sent_reports import REPORT
from gatepost.store.store import Store
from gatepost.times import DAY, now

if TYPE_CHECKING:
    from gatepost.service.core import CoreParts

# What is kept of the output of a command; more is read and dropped.
MAX_OUTPUT = 1 << 20


class JobKind(msgspec.Struct, frozen=True):
    """A kind of jobs: after how many seconds a node looks whether one is due, the log that says why that failed and how
    it begins, and the metric that counts runs, with its text and its labels."""

    seconds: float
    log: str
    fault: str
    metric: str
    said: str
    labels: tuple[str, ...] = ("result",)


KINDS: dict[str, JobKind] = {
    FEED: JobKind(
        15, "feeds", "feeds cannot be run", "gatepost_feed_runs", "Runs of feeds by this process", ("feed", "result")
    ),
    LOOK_BACK: JobKind(
        20, "lists", "cannot look back", "gatepost_look_back_runs", "Runs that look back, by this process"
    ),
    LEARNING: JobKind(
        60, "learning", "pools cannot be trained", "gatepost_learning_runs", "Trainings of pools by this process"
    ),
    DIGEST: JobKind(
        60, "digests", "digests cannot be sent", "gatepost_digests", "Digests of held mail by this process"
    ),
    REPORT: JobKind(
        300,
        "reports",
        "reports cannot be sent",
        "gatepost_sent_reports",
        "Reports to others by this process",
        ("state",),
    ),
}


class Schedule(Collector):
    """Looks whether jobs of a kind are due, and does them, while its `periodic` work runs. While storage does not
    answer, the log says so, and the next look comes as usual. Who stops it has a command that is under way killed; what
    that had begun is done after its lease has run out."""

    def __init__(self, kind: str, store: Store, seconds: float | None = None) -> None:
        self._kind, self._store = KINDS[kind], store
        self._log = Logger(f"gatepost.{self._kind.log}")
        self._runs: Counter[tuple[str, ...]] = Counter()
        self.periodic = PeriodicWork(self.look, seconds or self._kind.seconds, self._kind.fault, self._log)

    @abstractmethod
    async def look(self) -> None:
        """Do what is due."""

    def gauges(self) -> Iterator[Metric]:
        """Yield what is known of jobs of this kind beside the runs."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        runs = counter(self._kind.metric, self._kind.said, labels=self._kind.labels)
        for labels, count in self._runs.items():
            runs.add_metric(labels, count)
        yield runs
        yield from self.gauges()


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended, with what it wrote. `code` is None for one that took too long and was killed."""

    code: int | None
    output: str
    fault: str


async def run_command(*words: str, config: Path, data: Path, seconds: float) -> CommandResult:
    """Run `gatepost` with these words, on these folders, for JSON; it is killed after so many seconds, and when the
    caller is cancelled."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gatepost", *words, "--config", str(config), "--data", str(data), "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, fault = await asyncio.gather(_read_some(child.stdout), _read_some(child.stderr))
            return CommandResult(await child.wait(), output, fault.strip())
    except TimeoutError:
        return CommandResult(None, "", "it took too long")
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _read_some(stream: asyncio.StreamReader | None) -> str:
    """Return what a stream has to say, up to a limit; what comes after it is read and dropped."""
    kept = bytearray()
    while stream and (chunk := await stream.read(65536)):
        kept += chunk[: MAX_OUTPUT - len(kept)]
    return kept.decode("utf-8", "replace")


# What a run may take beyond the time for reading: comparing, changing, and looking back.
FEED_MORE_SECONDS = 900.0
# How long somebody waits for a dry run in the web interface.
FEED_TRY_SECONDS = 60.0


async def load_web_feeds(
    store: Store, of_files: Container[str], data: Path, *, paused: bool = False
) -> tuple[list[FeedSettings], dict[str, str]]:
    """Return the feeds of the web interface, and why some of them cannot be run; `paused` ones only where they are
    asked for. A feed of the files wins over one of the same name."""
    feeds, faults = [], {}
    for definition in await store.feeds.definitions():
        if definition.name in of_files or (definition.paused and not paused):
            continue
        try:
            feeds.append(build_feed(definition.name, definition.feed, data))
        except WebSettingsError as fault:
            faults[definition.name] = str(fault)
    return feeds, faults


async def try_feed(config: Path, data: Path, name: str) -> tuple[bool, str]:
    """Run a feed without changing anything, in a process of its own; return whether it could be read, and the JSON of
    what would change, or why it could not."""
    command = ("feeds", "run", name, "--dry-run")
    ended = await run_command(*command, config=config, data=data, seconds=FEED_TRY_SECONDS)
    if ended.code is None:
        return False, f"it took longer than {FEED_TRY_SECONDS:g} seconds; gatepost {' '.join(command)} has no limit"
    return (True, ended.output) if ended.output.strip() else (False, ended.fault[-500:])


class FeedSchedule(Schedule):
    """Runs the feeds that have a source, of the settings and of the web interface, one after the other. A feed is
    foreign data in any amount."""

    def __init__(
        self, store: Store, feeds: Sequence[FeedSettings], config: Path, data: Path, seconds: float | None = None
    ) -> None:
        super().__init__(FEED, store, seconds)
        self._config, self._data = config, data
        self._of_files = {feed.name: feed for feed in feeds}
        self._feeds = {name: feed for name, feed in self._of_files.items() if feed.is_scheduled}
        self._faults: dict[str, str] = {}
        self._jobs: dict[str, Job] = {}

    def gauges(self) -> Iterator[Metric]:
        gauges = {
            "gatepost_feed_entries": "Entries that the feed had when it was last read",
            "gatepost_feed_invalid": "Values among them that its list refused",
            "gatepost_feed_failures": "Runs in a row that failed or were refused",
            "gatepost_feed_last_success_seconds": "When a run succeeded last, in Unix seconds",
        }
        families = [gauge(name, text, labels=("feed",)) for name, text in gauges.items()]
        for name in self._feeds:
            record = self._record(name)
            figures = (record.counts.entries, record.counts.invalid, record.failures, record.succeeded / 1000)
            for family, figure in zip(families, figures, strict=True):
                family.add_metric((name,), figure)
        yield from families

    async def look(self) -> None:
        """Run the feeds that are due."""
        await self._load_feeds()
        await self._load_jobs()
        for name, feed in self._feeds.items():
            job, record, moment = self._jobs.get(name, Job(FEED, name)), self._record(name), now()
            is_other = record.fingerprint not in ("", feed.fingerprint)
            if job.locked_until <= moment and (job.next_run <= moment or (is_other and not record.failures)):
                await self._run(feed, only_due=not is_other)
                await self._load_jobs()

    async def _load_feeds(self) -> None:
        """Find all feeds that are run: those of the files, and those of the web interface that are not paused."""
        feeds, faults = await load_web_feeds(self._store, self._of_files, self._data)
        for name, fault in faults.items():
            if self._faults.get(name) != fault:
                self._log.warning("feed of the web interface cannot be run", feed=name, reason=fault)
        self._faults = faults
        self._feeds = {feed.name: feed for feed in (*self._of_files.values(), *feeds) if feed.is_scheduled}

    async def _load_jobs(self) -> None:
        self._jobs = {job.scope: job for job in await self._store.jobs.of_kind(FEED)}

    def _record(self, name: str) -> FeedRecord:
        return feed_state(self._jobs.get(name, Job(FEED, name))).record

    async def _run(self, feed: FeedSettings, *, only_due: bool) -> None:
        command = ("feeds", "run", feed.name, *(("--scheduled",) if only_due else ()))
        seconds = feed.timeout / 1000 + FEED_MORE_SECONDS
        await self._report(feed, await run_command(*command, config=self._config, data=self._data, seconds=seconds))

    async def _report(self, feed: FeedSettings, ended: CommandResult) -> None:
        record = (await self._store.feeds.state(feed.name)).record
        if record.finished == self._record(feed.name).finished:
            # The child ended before it had an outcome, or another node runs the feed.
            if ended.code != 0:
                self._runs[feed.name, "failed"] += 1
                self._log.warning("feed not run", feed=feed.name, reason=ended.fault[-500:])
            return
        self._runs[feed.name, record.result] += 1
        counts = record.counts
        if record.result in ("refused", "failed"):
            self._log.warning("feed not taken", feed=feed.name, result=record.result, reason=record.message)
        else:
            self._log.info(
                "feed read", feed=feed.name, result=record.result, entries=counts.entries, added=counts.added,
                removed=counts.removed, invalid=counts.invalid,
            )  # fmt: skip


# How long one run may take; what it has not reached waits for the next.
LOOK_BACK_SECONDS = 900.0


class LookBackSchedule(Schedule):
    """Looks back for entries that were added over the List API, where `lists.lookBack` is on. The child that is started
    takes the job, so that no other child does; it reads and judges the records itself."""

    def __init__(self, store: Store, config: Path, data: Path, seconds: float | None = None) -> None:
        super().__init__(LOOK_BACK, store, seconds)
        self._config, self._data = config, data
        self._waiting = 0
        self._runs.update({("done",): 0, ("failed",): 0})

    def gauges(self) -> Iterator[Metric]:
        yield gauge("gatepost_look_backs_waiting", "List API calls not looked back for", self._waiting)

    async def look(self) -> None:
        """Look back for the calls that wait, if there are any."""
        self._waiting = await self._store.look_backs.waiting()
        if not self._waiting or (await self._store.jobs.find(LOOK_BACK)).locked_until > now():
            return
        command = ("try", "--waiting")
        ended = await run_command(*command, config=self._config, data=self._data, seconds=LOOK_BACK_SECONDS)
        if ended.code is None:
            self._log.warning("look back took too long")
        result = "failed" if ended.code != 0 else "done"
        self._runs[result,] += 1
        self._log.info("look back for new entries ended", calls=self._waiting, result=result)


LEARNING_SECONDS = 1_800.0
# A pool that was never trained begins when it can teach something.
LEARNING_MIN_REPORTS = 40
_LEARNING_RESULTS = {0: "taken", 2: "refused"}


class LearningSchedule(Schedule):
    """Trains pools that have new reports and are due, one after the other; the training is sealed and of low priority
    (`learning.sealed_training`). Reports that are too old are forgotten here, too."""

    def __init__(self, store: Store, settings: LearningSettings, config: Path, data: Path) -> None:
        super().__init__(LEARNING, store)
        self._settings, self._config, self._data = settings, config, data
        self._pools: tuple[PoolSummary, ...] = ()
        self._models = 0

    def gauges(self) -> Iterator[Metric]:
        reports = gauge("gatepost_learning_reports", "Reports in training pools", labels=("pools", "says"))
        for name, pools in (
            ("deployment", [pool for pool in self._pools if pool.tenant is None]),
            ("tenants", [pool for pool in self._pools if pool.tenant]),
        ):
            reports.add_metric((name, "unwanted"), sum(pool.unwanted for pool in pools))
            reports.add_metric((name, "wanted"), sum(pool.wanted for pool in pools))
        yield reports
        yield gauge("gatepost_learnt_models", "Learnt models that take part", self._models)

    async def look(self) -> None:
        """Train the pools that are due, and forget reports that are too old."""
        self._pools = await self._store.learning.pools()
        self._models = len(await self._store.learning.current_models())
        jobs = {job.scope: job for job in await self._store.jobs.of_kind(LEARNING)}
        for pool in self._pools:
            if is_training_due(pool, jobs.get(pool.tenant or ""), now()):
                await self._run(pool.tenant)
        await self._store.learning.purge_reports(now() - self._settings.retention * DAY)

    async def _run(self, tenant: str | None) -> None:
        command = ("learn", "now", "--scheduled", *(("--tenant", tenant) if tenant else ()))
        ended = await run_command(*command, config=self._config, data=self._data, seconds=LEARNING_SECONDS)
        result = "failed" if ended.code is None else _LEARNING_RESULTS.get(ended.code, "failed")
        if ended.code is None:
            self._log.warning("training of a pool took too long", tenant=tenant)
        self._runs[result,] += 1
        self._log.info("pool trained", tenant=tenant, result=result)


def is_training_due(pool: PoolSummary, job: Job | None, moment: int) -> bool:
    """Whether a pool has reports that no training has seen, and may be trained again."""
    if job is None:
        return pool.unwanted + pool.wanted >= LEARNING_MIN_REPORTS
    return job.next_run <= moment and job.locked_until <= moment and pool.newest > job.finished


# How long a scope rests after a run that sent as many digests as one run may.
DIGEST_REST_MILLISECONDS = 3_600_000


def build_sender(settings: GuardSettings, store: Store, routing: Routing) -> DigestSender | None:
    """Return what sends digests; None without `publicUrl`, which every link begins with."""
    if settings.public_url is None:
        return None
    sender = settings.digests.sender or f"postmaster@{hostname(settings)}"
    tenancy = Tenancy(settings.tenants, store.tenants.of_domain)
    return DigestSender(store, routing, tenancy, settings.digests, settings.public_url, sender, settings.tenants)


class DigestSchedule(Schedule):
    """Sends digests that are due or wait, scope by scope. Without a sender it only says so."""

    def __init__(self, store: Store, sender: DigestSender | None) -> None:
        super().__init__(DIGEST, store)
        self._sender = sender
        self._waiting = 0
        self._warned = False

    def gauges(self) -> Iterator[Metric]:
        yield gauge("gatepost_digests_waiting", "Digests that wait to be sent", self._waiting)

    async def look(self) -> None:
        """Look at every scope once, and send what is to be sent."""
        enabled = {each.scope for each in await self._store.digests.scopes() if each.preferences.enabled}
        if not enabled:
            return
        if self._sender is None:
            if not self._warned:
                self._log.warning("digests cannot be sent: guard.yml needs publicUrl and delivery.nextHop")
            self._warned = True
            return
        jobs = [job for job in await self._store.jobs.of_kind(DIGEST) if (job.scope or None) in enabled]
        self._waiting = sum([(await self._store.digests.counts(job.scope)).waiting for job in jobs])
        for job in jobs:
            if await self._is_due(job):
                await self._run(self._sender, job.scope or None)

    async def _is_due(self, job: Job) -> bool:
        moment, record = now(), digest_run(job).record
        if job.locked_until > moment:
            return False
        if job.next_run <= moment or job.holder:
            # A lease that has run out is that of a process that died at its work.
            return True
        if record.is_cut and moment - record.finished < DIGEST_REST_MILLISECONDS:
            return False
        return bool(await self._store.digests.waiting(job.scope, 1))

    async def _run(self, sender: DigestSender, scope: str | None) -> None:
        record = await sender.run(scope)
        if record is None:
            return
        self._runs["sent",] += record.sent
        self._runs["failed",] += record.failed
        if record.sent or record.failed:
            self._log.info("digests sent", tenant=scope, sent=record.sent, failed=record.failed, reason=record.message)


# For how many days it is known what became of reports.
REPORT_KEPT_DAYS = 30


class ReportSchedule(Schedule):
    """Sends reports to others about their domains, where `domainReports.send` is set."""

    def __init__(
        self, store: Store, settings: GuardSettings, sent: SentReportSettings, routing: Routing | None
    ) -> None:
        super().__init__(REPORT, store)
        self._settings, self._stated, self._routing = settings, sent, routing
        self._keys = SigningKeys(settings.dkim.keys)

    async def look(self) -> None:
        """Send what is due, and forget what is old."""
        if self._routing is None:
            return
        resolver = Resolver(self._settings.dns.nameservers, self._settings.dns.timeout / 1_000)
        store = self._store
        sender = ReportSender(store.sent_reports, store.jobs, self._routing, self._keys, self._stated, resolver.ask)
        try:
            for state, count in (await sender.run()).items():
                self._runs[state,] += count
        finally:
            await resolver.close()
        await self._store.sent_reports.purge(now() // DAY - REPORT_KEPT_DAYS)


def build_schedules(plan: Plan, shared: SharedParts, core: "CoreParts | None") -> list[Schedule]:
    """Return the schedules of this process. Digests go the ways of the core's inbound mail, reports to others those of
    its outbound mail."""
    routing = core.routing if core else None
    found: list[Schedule] = []
    store, config, data = shared.store, plan.config, plan.data.path
    if config and plan.abby:
        found.append(FeedSchedule(store, plan.abby.feeds, config, data))
        if plan.abby.lists.look_back:
            found.append(LookBackSchedule(store, config, data))
    if config and plan.guard and plan.guard.learning.enabled:
        found.append(LearningSchedule(store, plan.guard.learning, config, data))
    if plan.guard:
        found.append(DigestSchedule(store, build_sender(plan.guard, store, routing) if routing else None))
        if sent := plan.guard.domain_reports.send:
            found.append(ReportSchedule(store, plan.guard, sent, core.outbound_routing if core else None))
    return found
