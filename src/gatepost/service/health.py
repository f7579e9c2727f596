"""Looks at what a process needs, and notes in its ledger what is wrong and what will go wrong (`process.health`).

`HealthWatch` emits `health.changed` when a part changes its state. It looks every two seconds, and a state counts once
it was seen twice in a row: a queue that is full for the time of one message is no event.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from gatepost.events.schema import HealthChanged, HealthComponent, HealthState
from gatepost.events.stream import Emits
from gatepost.process.health import COMPONENTS, Component, Health, HealthLedger, State
from gatepost.process.logs import ExpectedError, Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.service.plan import Plan
from gatepost.settings.consistency import describe_end
from gatepost.smtp.replies import Deferral
from gatepost.store.change_groups import WritingState
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.guard.answers.dns import DnsCounters
    from gatepost.smtp.intake import Intake
    from gatepost.smtp.services import Services
    from gatepost.workers.fair_queue import QueueCounters

log = Logger("gatepost")

T = TypeVar("T")

WATCH_SECONDS = 2.0
STORAGE_SECONDS = 5.0
# Whoever reads the state has a look that is at most so old, and waits for one at most so long.
FRESH_SECONDS, PATIENCE_SECONDS = 0.25, 0.5
# What spool, quarantine and database need to take anything at all.
LEAST_FREE = 16 << 20
# So many results that could not be stored, and none that could, within so many looks, are a fault.
MIN_FAILED, WRITING_LOOKS = 3, 10
_NO_ANSWER = f"storage does not answer within {STORAGE_SECONDS:.0f} seconds"


class PatientCall(Generic[T]):
    """A call that may hang, such as one of a database whose server is frozen: then even its cancellation would hang,
    since a transaction ends with a word of the server. So it is left alone, and nothing else is asked until it ends."""

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._task: asyncio.Future[T] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    async def within(self, seconds: float | None) -> T:
        """Call, or go on to wait for the call before, and return what it returns; raises its fault, or `TimeoutError`
        when that takes longer."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._call())
            # What comes after nobody waits any more is known by the next call.
            self._task.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Another caller may begin the next call before this one goes on.
        task = self._task
        ended, _ = await asyncio.wait([task], timeout=seconds)
        if not ended:
            raise TimeoutError
        return task.result()


class ConditionWatch:
    """Looks every two seconds, and whenever the state is asked for, at what all messages of a process need.

    Storage has to keep a change, not only to answer: a full disk can still be read. The data folder has to take a new
    file: a file system that met an error of its device takes none, and still has room.
    """

    def __init__(self, ledger: HealthLedger, store: Store, data: Path) -> None:
        self._ledger, self._store, self._data = ledger, store, data
        ledger.look = self.look_if_old
        self._proof = PatientCall(store.prove_writable)
        self._disk = PatientCall(partial(asyncio.to_thread, _make_file, data))
        self._writing: deque[WritingState] = deque([store.messages.writing], maxlen=WRITING_LOOKS)
        self._looking, self._seen_at = PatientCall(self._look), -FRESH_SECONDS
        # What clients are told has no path in it; the log has the whole reason.
        self._detail = ""
        self.periodic = PeriodicWork(self.look, WATCH_SECONDS, "the condition of the service could not be seen", log)

    async def explains(self, fault: ExpectedError) -> bool:
        """Whether storage is away, which has a line in the log already, so that other work fails by it, too."""
        await self.look()
        return isinstance(fault, StorageError) and bool(self._ledger.noted("storage") or self._ledger.noted("disk"))

    async def look_if_old(self) -> None:
        """Look where the last look is old, and wait for it a little: storage that hangs is told of when its time is
        over, and nobody who asks hangs with it."""
        if read_clock() - self._seen_at >= FRESH_SECONDS:
            with contextlib.suppress(TimeoutError):
                await self._looking.within(PATIENCE_SECONDS)

    async def look(self) -> None:
        """Look once. What a look that is under way sees may be older than this, so one more follows it."""
        if self._looking.is_under_way:
            await self._looking.within(None)
        await self._looking.within(None)

    async def _look(self) -> None:
        self._detail = ""
        disk = await self._check_disk()
        self._ledger.note("disk", disk, self._detail)
        if not disk:
            self._detail = ""
            fault = await self._check_storage()
            self._ledger.note("storage", fault, self._detail)
        # Asked here so that its begin and its end are logged although nobody reads the state.
        _ = self._ledger.reasons
        self._seen_at = read_clock()

    async def _check_disk(self) -> str:
        try:
            free = await self._disk.within(STORAGE_SECONDS)
        except OSError as fault:
            if isinstance(fault, TimeoutError):
                return f"the disk of the data folder does not answer within {STORAGE_SECONDS:.0f} seconds"
            self._detail = str(fault)
            reason = os.strerror(fault.errno).lower() if fault.errno else "see the log"
            return f"the data folder takes no files: {reason}"
        return "" if free >= LEAST_FREE else f"the disk of the data folder is full: {free >> 20} MiB are left"

    async def _check_storage(self) -> str:
        try:
            await self._proof.within(STORAGE_SECONDS)
        except StorageError as fault:
            self._detail = str(fault)
            return "storage cannot be used"
        except TimeoutError:
            return _NO_ANSWER
        return self._check_writing()

    def _check_writing(self) -> str:
        """Whether results of messages are stored. What proves that storage can be written is another table: one that
        somebody has locked, or a limit that larger changes reach, shows only here."""
        now, before = self._store.messages.writing, self._writing[0]
        self._writing.append(now)
        failed = now.failed - before.failed
        if now.seconds >= STORAGE_SECONDS:
            self._detail = f"a result has been waiting to be stored for {now.seconds:.0f} seconds"
            return _NO_ANSWER
        if failed >= MIN_FAILED and now.written == before.written:
            self._detail = f"none of the last {failed:,} results of messages could be stored, see above"
            return "storage cannot be used"
        return ""


def _make_file(data: Path) -> int:
    """Make a file without a name in a folder, and return how many bytes of its disk are free. Nothing less shows that a
    file system takes changes: one that stopped after an error still says that it may be written."""
    free = shutil.disk_usage(data).free
    if free >= LEAST_FREE:
        tempfile.TemporaryFile(dir=data).close()
    return free


# The last looks, one a minute; so many transactions of that time, and this share of them, are more than an accident.
DEFERRAL_LOOKS = 5
MIN_DEFERRED, DEFERRED_SHARE = 5, 0.2

DeferralReason: TypeAlias = Deferral | Literal["connections"]

DEFERRAL_REASONS: dict[DeferralReason, str] = {
    "slots": "no slot was free (maxGuardRequestsInProcessing)",
    "sessions": "a tenant had its share of the sessions (maxConnections)",
    "spool": "the spool had no room",
    "failure": "storage or another part failed, see the log",
    "undecided": "an analysis came to no decision",
    "route": "no route leads to the recipient",
    "nextHop": "a next hop could not be reached or hung up",
    "recipients": "recipients could not be verified (recipientVerification)",
    "connections": "the port had no room for the connection (maxConnections)",
}


class SmtpCounts(msgspec.Struct, frozen=True):
    """What one process has counted: transactions that were begun or found no connection, and why some
    were put off."""

    attempts: int = 0
    put_off: Counter[DeferralReason] = msgspec.field(default_factory=Counter)


def count_source(intake: "Intake", services: "Services") -> SmtpCounts:
    """Return what a source of mail servers, SMTP or milter, has counted."""
    full = intake.turned_away_full
    reasons: dict[DeferralReason, int] = {"connections": full, **dict(services.deferred.items())}
    return SmtpCounts(services.attempts + full, Counter(reasons))


class DeferralWatch:
    """Whether a source, SMTP or milter, puts mail off for reasons that lie here, by the counts of the last minutes. Its
    senders keep the mail and come again.

    Replies of our own with a 4xx code count (`smtp.replies.DEFERRALS`), and connections for which the port had no room.
    Limits of outbound senders are what the operator has asked for, what the next hop answers is counted by its route
    (`smtp.hop_answers`), and a 5xx reply leaves nothing to wait for.
    """

    def __init__(self, source: str = "SMTP") -> None:
        self._source = source
        self._seen: deque[SmtpCounts] = deque([SmtpCounts()], maxlen=DEFERRAL_LOOKS + 1)

    def warn(self, counts: SmtpCounts | None) -> str:
        """Return what is wrong with the time since the oldest look; "" if nothing is, and without a source."""
        if counts is None:
            return ""
        if not (counts.put_off - self._seen[-1].put_off).total():
            # It is over: nothing was put off since the last look.
            self._seen.clear()
            self._seen.append(counts)
            return ""
        before = self._seen[0]
        self._seen.append(counts)
        reasons = counts.put_off - before.put_off
        attempts, late = counts.attempts - before.attempts, reasons.total()
        if late < MIN_DEFERRED or late < attempts * DEFERRED_SHARE:
            return ""
        worst, times = reasons.most_common(1)[0]
        because = f"{'because' if times == late else 'mostly because'} {DEFERRAL_REASONS[worst]}"
        return f"{self._source} puts mail off: {late:,} of {attempts:,} messages of the last minutes, {because}"


# Sources for mail servers that ask for a verdict and deliver themselves.
ASKERS: tuple[Component, ...] = ("milter", "spamd", "rspamd")
WARNING_SECONDS = 60.0
QUARANTINE_SHARE = 0.8
# So many runs of a feed that failed in a row are no accident.
FEED_FAILURES = 3
# So many questions of a minute say something about DNS, and this share of them may fail: names of strangers often do.
DNS_QUERIES, DNS_SHARE = 20, 0.5


class Signs(msgspec.Struct, frozen=True):
    """What shows that something will become a fault: the plan in force, which changed certificates could not be taken
    over, what the resolver and each source of mail servers have counted, and how many messages could not be held."""

    plan: Plan
    certificates: str = ""
    dns: "DnsCounters | None" = None
    sources: Mapping[str, SmtpCounts] = {}
    held_failures: int = 0


class HealthWarnings:
    """Looks for warnings for as long as the process serves. While storage is away, they stay as they were."""

    def __init__(self, ledger: HealthLedger, store: Store, read: Callable[[], Signs]) -> None:
        self._ledger, self._store, self._read = ledger, store, read
        self._deferrals: dict[Component, DeferralWatch] = {"smtp": DeferralWatch()}
        self._deferrals |= {name: DeferralWatch(f"The {name} source") for name in ASKERS}
        self._before, self._clock = read(), ClockWatch()
        self.periodic = PeriodicWork(self.look, WARNING_SECONDS, "warnings could not be looked for", log)

    async def look(self) -> None:
        signs = self._read()
        ends = await asyncio.to_thread(warn_of_certificates, signs.plan, datetime.now(UTC))
        found: dict[Component, str] = {
            "certificate": "; ".join(filter(None, (signs.certificates, ends))),
            "quarantine": await self._warn_of_quarantine(signs),
            "dns": self._warn_of_dns(signs.dns),
            "clock": self._clock.warn(),
            "feeds": await self._warn_of_feeds(signs.plan),
            **self._warn_of_deferrals(signs.sources),
        }
        self._before = signs
        before = self._ledger.noted("clock")
        if before and before.sentence != found["clock"]:
            # Numbers of others change from look to look; another jump is another fault.
            self._ledger.note("clock", "")
        for component, text in found.items():
            self._ledger.note(component, text)

    async def _warn_of_feeds(self, plan: Plan) -> str:
        names = {feed.name for feed in plan.abby.feeds} if plan.abby else set()
        states = await self._store.feeds.states() if names else ()
        failed = [each.name for each in states if each.name in names and each.record.failures >= FEED_FAILURES]
        return f"the feed {failed[0]} fails again and again" if failed else ""

    def _is_told(self) -> bool:
        """Whether storage is away or next hops take no mail, whose consequences need no warning of their own."""
        return bool({each.code for each in self._ledger.reasons} & {"storage", "disk", "nextHop"})

    async def _warn_of_quarantine(self, signs: Signs) -> str:
        if signs.plan.guard is None:
            return ""
        # Where storage is away, that is told already.
        if (failed := signs.held_failures - self._before.held_failures) > 0 and not self._is_told():
            return f"the quarantine did not take {failed:,} messages in the last minute, see the log"
        _, used = await self._store.quarantine.totals()
        share = used / signs.plan.guard.quarantine.max_size
        return f"the quarantine is {share:.0%} full (quarantine.maxSize)" if share >= QUARANTINE_SHARE else ""

    def _warn_of_deferrals(self, sources: Mapping[str, SmtpCounts]) -> dict[Component, str]:
        found = {name: watch.warn(sources.get(name)) for name, watch in self._deferrals.items()}
        return dict.fromkeys(found, "") if self._is_told() else found

    def _warn_of_dns(self, now: "DnsCounters | None") -> str:
        before = self._before.dns
        if now is None or before is None:
            return ""
        asked, failed = now.queries - before.queries, now.failures - before.failures
        if asked < DNS_QUERIES or failed < asked * DNS_SHARE:
            return ""
        return f"DNS does not answer: {failed:,} of {asked:,} questions of the last minute failed"


# So far apart are the two clocks after a jump, and so long it is told of.
JUMP_SECONDS, JUMP_TOLD_SECONDS = 60.0, 3_600.0

read_wall, read_clock = time.time, time.monotonic


class ClockWatch:
    """Whether the clock of the machine has jumped: the time of day has gone on otherwise than the monotonic clock.

    Small steps are the work of time synchronisation. A large one makes the times of results wrong, lets retention,
    sessions and links end too early or too late, and comes also where a virtual machine was halted."""

    def __init__(self) -> None:
        self._seen = read_wall(), read_clock()
        self._said, self._until = "", 0.0

    def warn(self) -> str:
        """Return that it has jumped, for an hour; "" if it has not."""
        before, self._seen = self._seen, (read_wall(), read_clock())
        jump = (self._seen[0] - before[0]) - (self._seen[1] - before[1])
        if abs(jump) >= JUMP_SECONDS:
            way = "forward" if jump > 0 else "back"
            self._said = (
                f"the clock of this machine went {way} by {abs(jump):,.0f} seconds at once: check time synchronisation"
            )
            self._until = self._seen[1] + JUMP_TOLD_SECONDS
        return self._said if self._seen[1] < self._until else ""


def warn_of_certificates(plan: Plan, now: datetime) -> str:
    """Return which certificates that this process shows are not valid, or will not be soon; "" if there are none."""
    pairs = (plan.certificate if plan.abby else None, plan.guard_certificate if plan.guard else None)
    found = []
    for file in dict.fromkeys(pair[0] for pair in pairs if pair):
        # The certificate watch tells of files that cannot be used.
        with contextlib.suppress(OSError, ValueError):
            if said := describe_end(file.read_bytes(), now):
                found.append(f"the certificate {file.name} {said}")
    return "; ".join(found)


SLOT_SECONDS = 10.0
# The last looks that are judged together.
SLOT_LOOKS = 6
# On average so many messages waited, or so many were refused a minute; and this share of the CPU was not used.
WAITING, REFUSED = 0.5, 10
IDLE_SHARE = 0.3

STAT = Path("/proc/stat")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


class CpuUse(NamedTuple):
    """CPU that was used, and CPU that there was, both since some time in the past and in the same unit."""

    used: float
    whole: float


def read_cpu() -> tuple[CpuUse, ...]:
    """What the processors of this process did, and what its control group used of its limit; empty where the system
    does not say."""
    return (*_read_processors(), *_read_group())


def _read_processors() -> tuple[CpuUse, ...]:
    try:
        lines = STAT.read_text("ascii").splitlines()
        allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    except (OSError, AttributeError, ValueError):
        return ()
    # user, nice, system, idle, iowait, irq, softirq, steal; what guests used is part of the first two.
    counts = [[int(each) for each in line.split()[1:9]] for line in lines if line.partition(" ")[0] in allowed]
    whole, idle = sum(map(sum, counts)), sum(each[3] + each[4] for each in counts)
    return (CpuUse(whole - idle, whole),) if counts else ()


def _read_group() -> tuple[CpuUse, ...]:
    """Of the groups that this process is in, those whose CPU is limited."""
    try:
        path = OWN_GROUP.read_text("utf-8").splitlines()[0].rpartition("::")[2].strip("/")
        folders = [GROUPS / path, *(GROUPS / path).parents] if path else [GROUPS]
        return tuple(use for folder in folders if folder.is_relative_to(GROUPS) for use in _read_limit(folder))
    except (OSError, ValueError, IndexError):
        return ()


def _read_limit(folder: Path) -> tuple[CpuUse, ...]:
    limit = folder / "cpu.max"
    if not limit.exists():
        return ()
    quota, period = limit.read_text("ascii").split()
    if quota == "max":
        return ()
    counts = dict(line.split() for line in (folder / "cpu.stat").read_text("ascii").splitlines())
    return (CpuUse(int(counts["usage_usec"]) / 1e6, time.monotonic() * int(quota) / int(period)),)


class _Look(NamedTuple):
    moment: float
    queue: "QueueCounters"
    cpu: tuple[CpuUse, ...]


class SlotWatch:
    """Warns while messages wait for a slot and processors are idle: of a node that could do more with its CPU.

    A slot is held for as long as a message is processed, and much of that time it waits for DNS. So a node with many
    processors can have all of its slots taken (`mainWorkerCount`) and most of its CPU unused. That costs nothing but
    time, and nothing else tells of it.

    What the processors did that this process may use is in `/proc/stat`. A container whose CPU is limited sees those of
    its host, so that the use of its control group is compared with its limit as well. `advise` says what to raise."""

    def __init__(
        self, ledger: HealthLedger, queue: "Callable[[], QueueCounters | None]", advise: Callable[[], str]
    ) -> None:
        self._ledger, self._queue, self._advise = ledger, queue, advise
        self._seen: deque[_Look] = deque(maxlen=SLOT_LOOKS + 1)
        self.periodic = PeriodicWork(self.look, SLOT_SECONDS, "waiting for slots could not be looked at", log)

    async def look(self) -> None:
        self._ledger.note("slots", self._judge())

    def _judge(self) -> str:
        counters = self._queue()
        if counters is None:
            return ""
        self._seen.append(_Look(read_clock(), counters, read_cpu()))
        first, last = self._seen[0], self._seen[-1]
        seconds = last.moment - first.moment
        idle = _find_idle_share(first.cpu, last.cpu)
        if not seconds or idle is None or idle < IDLE_SHARE:
            return ""
        waited, refused = last.queue.waited - first.queue.waited, last.queue.refused - first.queue.refused
        if waited < WAITING * seconds and refused * 60 < REFUSED * seconds:
            return ""
        late = f"{waited / seconds:.1f} messages waited for a slot on average"
        late += f" and {refused:,} were refused" if refused else ""
        return f"{late} in the last {seconds:.0f} seconds, while {idle:.0%} of the CPU was idle: {self._advise()}"


def _find_idle_share(before: tuple[CpuUse, ...], after: tuple[CpuUse, ...]) -> float | None:
    if not after or len(before) != len(after):
        return None
    shares = []
    for old, new in zip(before, after, strict=True):
        whole = new.whole - old.whole
        if whole <= 0:
            return None
        shares.append(max(0.0, 1 - (new.used - old.used) / whole))
    return min(shares)


SEEN_UNTIL_TOLD = 2
STATES: dict[State, HealthState] = {"GREEN": "ok", "YELLOW": "degraded", "RED": "failed"}


class HealthWatch:
    """Looks at the health of a service, and emits what changed. `ask` returns that of the queue of messages."""

    def __init__(self, events: Emits, ledger: HealthLedger, ask: Callable[[], Awaitable[Health]]) -> None:
        self._events, self._ledger, self._ask = events, ledger, ask
        self._told: dict[HealthComponent, HealthState] = {}
        self._seen: dict[HealthComponent, tuple[HealthState, int]] = {}
        self.periodic = PeriodicWork(self.look, WATCH_SECONDS, "the health of the service could not be seen", log)

    async def look(self) -> None:
        queue = await self._ask()
        worst = queue.reasons[0] if queue.state != "GREEN" else None
        self._see("messageQueue", STATES[queue.state], queue.trouble, worst.clears if worst else "")
        own = {each.code: each for each in self._ledger.reasons}
        for component in COMPONENTS:
            if reason := own.get(component):
                self._see(component, "failed" if reason.state == "RED" else "degraded", reason.sentence, reason.clears)
            else:
                self._see(component, "ok", "", "")

    def _see(self, component: HealthComponent, state: HealthState, reason: str, clears: str) -> None:
        last, times = self._seen.get(component, (state, 0))
        times = times + 1 if state == last else 1
        self._seen[component] = state, times
        before = self._told.get(component, "ok")
        if state != before and times >= SEEN_UNTIL_TOLD:
            self._told[component] = state
            self._events.emit(
                HealthChanged, component=component, before=before, after=state, reason=reason, clears=clears
            )
