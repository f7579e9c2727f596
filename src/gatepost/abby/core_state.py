"""One core as abby knows it, and the attempts at one message.

A core's load is polled now and then, and in between abby counts its own scans. `others` is what remains of the load
without them: messages from SMTP or from another abby. The estimate is optimistic: a core that turns out to be full
says so and nothing is lost, but a slot that is believed taken stays idle.

Where the core that has a message falls silent, another core may get the message as well. Trying twice is harmless: both
analyses have the same ggrid, the first record of a ggrid is the one that stays, and each core answers with that
record. So abby does not have to decide whether a silent core is dead or slow.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Protocol

import msgspec
import structlog

from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult

MISSES_UNTIL_LOST = 3
# A core that takes no connections any more may be finishing what it has; that can take as long as an analysis may.
MISSES_UNTIL_ENDED = 60

Status = Literal["GREEN", "YELLOW", "RED"]

log = structlog.get_logger("gatepost.abby")


class Down(msgspec.Struct, frozen=True):
    """The core gave no result. `begun` says whether it may have started on the message, `answered` whether it at least
    said that it failed, `refused` that the connection was refused, `storage` that its storage failed. `core` names the
    core that has the bytes of a held message, or may have them."""

    reason: str
    begun: bool = True
    answered: bool = False
    refused: bool = False
    storage: bool = False
    core: str = ""


class ScanCore(Protocol):
    """A core, in this process or on another host."""

    @property
    def name(self) -> str: ...

    @property
    def enabled(self) -> bool:
        """Does it take scans over this interface (`restApi` under `scanSources`)?"""
        ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down: ...

    async def load(self, *, once_free: bool = False) -> Load | Down:
        """Ask for the load; `once_free` lets the core answer when it has a free slot, or `SLOT_SECONDS` later."""
        ...

    def peek(self) -> Load | None:
        """The load of this very moment, where that can be had without asking."""
        ...

    async def close(self) -> None: ...


class CoreState:
    """One core with its last known load, and the scans that abby has started there."""

    def __init__(self, core: ScanCore) -> None:
        self.core = core
        self.answers = False
        self.mentioned = False
        self.heard: Load | None = None
        self.heard_at = 0.0
        self.poked = asyncio.Event()
        self.doubtful = False
        self.followers: set[asyncio.Event] = set()
        self._reserved = 0
        self._slots: Counter[str] = Counter()
        self.begun = 0
        self._others = 0
        self._said_full = False
        self._misses = 0
        self._limits: set[asyncio.Timeout] = set()

    @property
    def load(self) -> Load | None:
        """The load as far as it is known; None for a core that does not answer."""
        if not self.answers or self.heard is None:
            return None
        return self.core.peek() or msgspec.structs.replace(self.heard, in_processing=self._others + self.begun)

    @property
    def free(self) -> int:
        """Slots that seem free."""
        if not self.answers or self.doubtful or self.heard is None or self._said_full or not self.core.enabled:
            return 0
        load = self.core.peek()
        if load is not None:
            self._others = max(0, load.in_processing - self.begun)
        return self.heard.maximum - self._others - self._reserved

    def hear(self, load: Load, begun: int, now: float) -> None:
        """Note the load that the core has told, of which `begun` were scans from here."""
        if not self.answers:
            log.info("core answers", core=self.core.name)
        self.answers, self.heard, self.heard_at, self._misses = True, load, now, 0
        self._said_full = self.doubtful = False
        self._others = max(0, load.in_processing - begun)

    def doubt(self) -> None:
        """Note that the core takes long to tell its load; its scans may be tried at another core as well."""
        self.doubtful = True
        for follower in self.followers:
            follower.set()

    def fail(self, down: Down) -> None:
        """Note that the core did not answer; it gets no more scans until it tells its load again."""
        if self.answers or not self.mentioned:
            log.warning("core does not answer", core=self.core.name, reason=down.reason)
        self.answers, self.mentioned = False, True

    def miss(self, down: Down) -> None:
        """Note that the core did not tell its load. Its scans are given up once that has happened too often."""
        self.fail(down)
        self.doubt()
        self._misses += 1
        if self._misses >= (MISSES_UNTIL_ENDED if down.refused else MISSES_UNTIL_LOST):
            now = asyncio.get_running_loop().time()
            for limit in self._limits:
                limit.reschedule(now)

    def reserve(self, tenant: str) -> None:
        """Reserve a slot for a scan of this tenant that is about to begin."""
        self._reserved += 1
        self._slots[tenant] += 1

    def release(self, tenant: str) -> None:
        """Give a reserved slot back."""
        self._reserved -= 1
        self._slots -= Counter((tenant,))

    def slots_of(self, tenant: str) -> int:
        """How many slots scans of this tenant have from here."""
        return self._slots[tenant]

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        """Have a message scanned in a reserved slot; the caller gives the slot back."""
        self.begun += 1
        try:
            # A core that tells its load without being asked is in this process: it does not fall silent alone.
            outcome = await (self._scan_until_lost(request) if self.core.peek() is None else self.core.scan(request))
        finally:
            self.begun -= 1
        # Whatever its figures say: a core that calls itself full is full until something ends or it is heard again.
        self._said_full = isinstance(outcome, Full)
        if isinstance(outcome, Full):
            self._others = max(0, outcome.load.in_processing - self.begun)
        return outcome

    async def _scan_until_lost(self, request: ScanRequest) -> ScanResult | Full | Down:
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits.add(limit)
                return await self.core.scan(request)
        except TimeoutError:
            if not limit.expired():
                raise
            return Down("it stopped answering before the result")
        finally:
            self._limits.discard(limit)


class CoreAttempts:
    """Every attempt at one message of a tenant. `ended` is called when one is over and its slot is free again."""

    def __init__(self, tenant: str, ended: Callable[[], None]) -> None:
        self.tenant, self._ended = tenant, ended
        self._running: dict[asyncio.Task[ScanResult | Full | Down], CoreState] = {}
        self._news = asyncio.Event()
        self._result: ScanResult | None = None
        self._fault: BaseException | None = None
        self.begun = self.deaths = self.refusals = 0
        self.has_lost_storage = False

    @property
    def states(self) -> frozenset[CoreState]:
        """The cores that have the message now."""
        return frozenset(self._running.values())

    @property
    def has_responsive(self) -> bool:
        """Does one of these cores answer in time?"""
        return any(not state.doubtful for state in self._running.values())

    @property
    def result(self) -> ScanResult | None:
        """The first result; raises the exception of an attempt that failed on our side."""
        if self._fault:
            raise self._fault
        return self._result

    def begin(self, state: CoreState, work: Coroutine[Any, Any, ScanResult | Full | Down]) -> None:
        """Start an attempt at a core, in a slot that was reserved."""
        task = asyncio.create_task(work)
        self._running[task] = state
        self.begun += 1
        state.followers.add(self._news)
        task.add_done_callback(self._finish)

    async def news(self) -> None:
        """Return when an attempt is over, when its core falls silent, or when `wake` was called."""
        await self._news.wait()
        self._news.clear()

    def wake(self, _future: object = None) -> None:
        """Make `news` return."""
        self._news.set()

    def give_up(self) -> None:
        """Cancel the attempts that still run."""
        for task in self._running:
            task.cancel()

    def _finish(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        state = self._running.pop(task)
        if state not in self._running.values():
            state.followers.discard(self._news)
        state.release(self.tenant)
        if not task.cancelled():
            self._note_outcome(task)
        self._news.set()
        self._ended()

    def _note_outcome(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        if fault := task.exception():
            self._fault = self._fault or fault
            return
        outcome = task.result()
        if isinstance(outcome, ScanResult):
            self._result = self._result or outcome
        if isinstance(outcome, Down) and outcome.storage:
            self.has_lost_storage = True
        self.deaths += isinstance(outcome, Down) and outcome.begun
        self.refusals += isinstance(outcome, Down) and not outcome.begun


def queue_colour(loads: Iterable[Load | None]) -> Status:
    """Return the status of cores with these loads; None is a core that does not answer."""
    every = list(loads)
    answering = [load for load in every if load is not None]
    if all(load.full or load.fault for load in answering):
        return "RED"
    if len(answering) < len(every) or any(each.throttling or each.full or each.trouble for each in answering):
        return "YELLOW"
    return "GREEN"
