"""One core as abby knows it: whether it answers, and how many slots it has free.

A core's load is heard now and then, and in between abby counts its own scans. `others` is what remains of the load when
one's own are taken away: messages from SMTP or from another abby. The estimate leans to optimism: a core that turns out
to be full says so and nothing is lost, but a slot that is believed taken stays idle.

One message at several cores: where the core that has it falls silent, another may get it as well.

Trying twice is harmless. Both analyses have the same ggrid, the first record of a ggrid is the one that stays, and
whichever core answers first answers with that record. So nobody has to decide whether a silent core is dead or slow.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
import structlog

from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult

MISSES_UNTIL_LOST = 3
# A core that takes no connections any more may be finishing what it has; that can take as long as an analysis may.
MISSES_UNTIL_ENDED = 60

log = structlog.get_logger("gatepost.abby")


class Down(msgspec.Struct, frozen=True):
    """The core gave no result. `begun` says whether it may have started on the message, `answered` whether it at least
    said that it failed, `refused` that nobody listens any more where it was."""

    reason: str
    begun: bool = True
    answered: bool = False
    refused: bool = False


class Core(Protocol):
    """A core, in this process or far away."""

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
    """One core with what is known about it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.answers = False
        self.mentioned = False
        self.heard: Load | None = None
        self.heard_at = 0.0
        self.poked = asyncio.Event()
        self.doubtful = False
        self.followers: set[asyncio.Event] = set()
        self._reserved = 0
        self.begun = 0
        self._others = 0
        self._said_full = False
        self._misses = 0
        self._leashes: set[asyncio.Timeout] = set()

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
        """The core has told its load, of which `begun` were scans from here."""
        if not self.answers:
            log.info("core answers", core=self.core.name)
        self.answers, self.heard, self.heard_at, self._misses = True, load, now, 0
        self._said_full = self.doubtful = False
        self._others = max(0, load.in_processing - begun)

    def doubt(self) -> None:
        """The core takes long to tell its load. Whoever waits for it may want to ask another one as well."""
        self.doubtful = True
        for follower in self.followers:
            follower.set()

    def fail(self, down: Down) -> None:
        """The core did not answer; it gets no more scans until it is heard again."""
        if self.answers or not self.mentioned:
            log.warning("core does not answer", core=self.core.name, reason=down.reason)
        self.answers, self.mentioned = False, True

    def miss(self, down: Down) -> None:
        """The core did not tell its load. Scans in its hands are given up once that has happened too often."""
        self.fail(down)
        self.doubt()
        self._misses += 1
        if self._misses >= (MISSES_UNTIL_ENDED if down.refused else MISSES_UNTIL_LOST):
            now = asyncio.get_running_loop().time()
            for leash in self._leashes:
                leash.reschedule(now)

    def reserve(self) -> None:
        """Keep a slot for a scan that is about to begin."""
        self._reserved += 1

    def release(self) -> None:
        """The slot is not needed any more."""
        self._reserved -= 1

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        """Have a message scanned; whoever reserved the slot gives it back."""
        self.begun += 1
        leash = asyncio.timeout(None)
        try:
            async with leash:
                self._leashes.add(leash)
                outcome = await self.core.scan(request)
        except TimeoutError:
            if not leash.expired():
                raise
            outcome = Down("it stopped answering with the message in its hands")
        finally:
            self._leashes.discard(leash)
            self.begun -= 1
        # Whatever its figures say: a core that calls itself full is full until something ends or it is heard again.
        self._said_full = isinstance(outcome, Full)
        if isinstance(outcome, Full):
            self._others = max(0, outcome.load.in_processing - self.begun)
        return outcome


class CoreAttempts:
    """Every attempt at one message. `ended` is called when one is over and its slot is free again."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._running: dict[asyncio.Task[ScanResult | Full | Down], CoreState] = {}
        self._news = asyncio.Event()
        self._result: ScanResult | None = None
        self._fault: BaseException | None = None
        self.begun = self.deaths = self.refusals = 0

    @property
    def places(self) -> frozenset[CoreState]:
        """Who is at it."""
        return frozenset(self._running.values())

    @property
    def hopeful(self) -> bool:
        """Is one of them a core that answers as it should?"""
        return any(not place.doubtful for place in self._running.values())

    @property
    def result(self) -> ScanResult | None:
        """What the first that succeeded said; raises what went wrong on our side."""
        if self._fault:
            raise self._fault
        return self._result

    def begin(self, place: CoreState, work: Coroutine[Any, Any, ScanResult | Full | Down]) -> None:
        """Have a core try, in a slot that was reserved."""
        task = asyncio.create_task(work)
        self._running[task] = place
        self.begun += 1
        place.followers.add(self._news)
        task.add_done_callback(self._over)

    async def news(self) -> None:
        """Return when an attempt is over, when its core falls silent, or when `wake` was called."""
        await self._news.wait()
        self._news.clear()

    def wake(self, _future: object = None) -> None:
        """Something has happened."""
        self._news.set()

    def give_up(self) -> None:
        """Nobody needs the attempts that still run."""
        for task in self._running:
            task.cancel()

    def _over(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        place = self._running.pop(task)
        if place not in self._running.values():
            place.followers.discard(self._news)
        place.release()
        if not task.cancelled():
            self._note(task)
        self._news.set()
        self._ended()

    def _note(self, task: asyncio.Task[ScanResult | Full | Down]) -> None:
        if fault := task.exception():
            self._fault = self._fault or fault
            return
        outcome = task.result()
        if isinstance(outcome, ScanResult):
            self._result = self._result or outcome
        self.deaths += isinstance(outcome, Down) and outcome.begun
        self.refusals += isinstance(outcome, Down) and not outcome.begun
