"""Choosing a core, waiting for one, and trying again.

Scans are served first come, first served: a scan takes the core with most free slots, or queues. A core that is full
puts the scan back to its place in the queue; a core that dies with a message in its hands costs the client nothing but
time, for the scan is done again elsewhere under the same ggrid, and the first record of a ggrid is the one that stays.

Every core is heard about once a second. One that takes long to say how it is gets nothing new, and what it has in its
hands is tried at another core as well, where that has a slot to spare; if it stays silent, its scans are taken away and
go back to their places in the queue. It is one of the cores again as soon as it is heard.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Literal, Protocol

import structlog

from gatepost.abby.core_state import Core, CoreAttempts, CoreState, Down
from gatepost.api.errors import ANALYSIS_TIMEOUT, CORE_UNAVAILABLE, OVERLOADED, SCANNING_DISABLED, Failure
from gatepost.api.requests import ClientLeft
from gatepost.scanning.request import ROOM_SECONDS, Full, Load, ScanRequest, ScanResult

WAITING_LIMIT = 1 << 30
POLL_SECONDS = 1.0
IMPATIENT_SECONDS = 0.1
BREATH_SECONDS = 0.05
HEAR_SECONDS = 3.0
# How long a core may take to tell its load before nobody relies on it; a busy machine can be slow without being dead.
DOUBT_SECONDS = 1.0
# How long a restart may take before it is noticed.
GRACE_SECONDS = 10.0
FRESH_SECONDS = 0.25
MAX_DEATHS = 3
# A core that tells its load and takes no scan is tried about twenty times a second: for so long as a restart may take.
MAX_REFUSALS = 200

Status = Literal["GREEN", "YELLOW", "RED"]

log = structlog.get_logger("gatepost.abby")


class Client(Protocol):
    """Who waits for a scan."""

    def park(self) -> None:
        """The scan is about to wait: the message goes from memory to disk."""
        ...

    async def gone(self) -> None:
        """Returns when the client has left."""
        ...


class _Waiter:
    """One scan in the queue; `turn` becomes the place it may go to, or the failure that ends its wait.

    `beside` are the places that have the message already, where a second attempt is wanted.
    """

    def __init__(self, ticket: int, beside: frozenset[CoreState] = frozenset()) -> None:
        self.ticket, self.beside = ticket, beside
        self.turn: asyncio.Future[CoreState | Failure] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "_Waiter") -> bool:
        return self.ticket < other.ticket

    def withdraw(self) -> None:
        """It does not wait any more; a slot that was kept for it is free again."""
        if self.turn.done() and not self.turn.cancelled() and isinstance(place := self.turn.result(), CoreState):
            place.release()
        self.turn.cancel()


class Cores:
    """All cores, and everybody who waits for one."""

    def __init__(
        self,
        cores: Iterable[Core],
        *,
        waiting_limit: int = WAITING_LIMIT,
        poll_seconds: float = POLL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        hear_seconds: float = HEAR_SECONDS,
        doubt_seconds: float = DOUBT_SECONDS,
    ) -> None:
        self._places = tuple(CoreState(core) for core in cores)
        self._waiting_limit = waiting_limit
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._hear_seconds = hear_seconds
        self._doubt_seconds = doubt_seconds
        self._tickets = itertools.count()
        self._queue: list[_Waiter] = []
        self._seconds: list[_Waiter] = []
        self._silent_since: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.waiting_bytes = 0
        self.waiting = 0
        self.attempts_again = 0

    async def start(self) -> None:
        """Hear every core once, then again and again."""
        self._silent_since = self._now()
        await asyncio.gather(*(self._hear(place) for place in self._places))
        self._tasks = [asyncio.create_task(self._watch(place)) for place in self._places]

    async def stop(self) -> None:
        """Stop listening and let the cores go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(place.core.close() for place in self._places))

    @property
    def answering(self) -> int:
        """How many cores answer."""
        return sum(place.answers for place in self._places)

    @property
    def states(self) -> tuple[tuple[str, Load | None], ...]:
        """Every core by name with its load as far as it is known; None for one that does not answer."""
        return tuple((place.core.name, place.load) for place in self._places)

    @property
    def colour(self) -> Status:
        """The queue's colour as far as it is known."""
        known = colour([place.load for place in self._places])
        return "YELLOW" if known == "GREEN" and any(place.doubtful for place in self._places) else known

    async def status(self) -> Status:
        """The queue's colour, from loads that were heard just now; who is silent is not waited for."""
        stale = self._now() - FRESH_SECONDS
        asked = [place for place in self._places if place.answers and not place.doubtful and place.heard_at < stale]
        try:
            async with asyncio.timeout(self._doubt_seconds):
                await asyncio.gather(*map(self._hear, asked))
        except TimeoutError:
            return "YELLOW" if self.colour == "GREEN" else self.colour
        return self.colour

    async def scan(self, request: ScanRequest, client: Client, seconds: float) -> ScanResult | Failure | ClientLeft:
        """Have a message scanned by some core within so many seconds."""
        if not any(place.core.enabled for place in self._places):
            return Failure(SCANNING_DISABLED, "scanning over this interface is switched off")
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._scan(request, client)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failure(ANALYSIS_TIMEOUT, "there was no slot or no result in time")

    async def _scan(self, request: ScanRequest, client: Client) -> ScanResult | Failure | ClientLeft:
        ticket, attempts = next(self._tickets), CoreAttempts(self._serve)
        turn: CoreState | Failure | ClientLeft | None = None if self._queue else self._reserved()
        turn = turn or await self._wait(ticket, request.body.size, client)
        try:
            while True:
                if isinstance(turn, CoreState):
                    attempts.begin(turn, self._scan_at(turn, request))
                elif turn is not None:
                    return turn
                turn = await self._further(attempts, ticket, request.body.size, client)
                if attempts.result is not None:
                    self._unneeded(turn)
                    return attempts.result
                if attempts.deaths >= MAX_DEATHS or attempts.refusals >= MAX_REFUSALS:
                    self._unneeded(turn)
                    return Failure(CORE_UNAVAILABLE, "the cores that answer did not take the message to its end")
        finally:
            attempts.give_up()

    async def _further(
        self, attempts: CoreAttempts, ticket: int, size: int, client: Client
    ) -> CoreState | Failure | ClientLeft | None:
        """Where to try next; None where something has come of an attempt, or may have."""
        places = attempts.places
        if places and (attempts.hopeful or len(places) >= MAX_DEATHS):
            await attempts.news()
            return None
        if attempts.result is not None or attempts.deaths >= MAX_DEATHS:
            return None
        turn = await (self._beside(attempts, ticket) if places else self._wait(ticket, size, client))
        self.attempts_again += isinstance(turn, CoreState)
        return turn

    async def _beside(self, attempts: CoreAttempts, ticket: int) -> CoreState | None:
        """A place to try beside those that are silent, once one has a slot that nobody waits for."""
        waiter = _Waiter(ticket, attempts.places)
        waiter.turn.add_done_callback(attempts.wake)
        heappush(self._seconds, waiter)
        try:
            self._serve()
            await attempts.news()
        except BaseException:
            waiter.withdraw()
            raise
        finally:
            self._seconds.remove(waiter)
            heapify(self._seconds)
        if waiter.turn.done():
            found = waiter.turn.result()
            return found if isinstance(found, CoreState) else None
        waiter.turn.cancel()
        return None

    def _unneeded(self, turn: object) -> None:
        """A place was found, and what was wanted of it has come from elsewhere."""
        if isinstance(turn, CoreState):
            turn.release()
            self._serve()

    async def _scan_at(self, place: CoreState, request: ScanRequest) -> ScanResult | Full | Down:
        outcome = await place.scan(request)
        if isinstance(outcome, Down):
            log.warning("scan has to start again", ggrid=request.ggrid, core=place.core.name, reason=outcome.reason)
            if not outcome.answered:
                place.fail(outcome)
                self._note_silence()
                place.poked.set()
        return outcome

    async def _wait(self, ticket: int, size: int, client: Client) -> CoreState | Failure | ClientLeft:
        if self._given_up():
            return _unavailable()
        if self.waiting_bytes + size > self._waiting_limit:
            return Failure(OVERLOADED, "too many messages wait for a slot")
        waiter = _Waiter(ticket)
        heappush(self._queue, waiter)
        self.waiting += 1
        self.waiting_bytes += size
        try:
            self._serve()
            if waiter.turn.done():
                return waiter.turn.result()
            client.park()
            return await self._turn(waiter, client)
        except BaseException:
            waiter.withdraw()
            raise
        finally:
            self.waiting -= 1
            self.waiting_bytes -= size

    async def _turn(self, waiter: _Waiter, client: Client) -> CoreState | Failure | ClientLeft:
        for place in self._places:
            place.poked.set()
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait((waiter.turn, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if waiter.turn.done():
            return waiter.turn.result()
        waiter.withdraw()
        return ClientLeft()

    def _best(self, but: frozenset[CoreState] = frozenset()) -> CoreState | None:
        best, most = None, 0
        for place in self._places:
            if (free := place.free) > most and place not in but:
                best, most = place, free
        return best

    def _reserved(self) -> CoreState | None:
        if place := self._best():
            place.reserve()
        return place

    def _serve(self) -> None:
        """Give free slots to those who wait longest, and what is left to second attempts."""
        queue = self._queue
        while queue:
            if queue[0].turn.done():
                heappop(queue)
            elif place := self._reserved():
                heappop(queue).turn.set_result(place)
            else:
                return
        for waiter in sorted(self._seconds):
            silent = all(place.doubtful for place in waiter.beside)
            if silent and not waiter.turn.done() and (place := self._best(waiter.beside)):
                place.reserve()
                waiter.turn.set_result(place)

    async def _watch(self, place: CoreState) -> None:
        """Hear one core for as long as the service runs: about every second, and when it has what is waited for."""
        while True:
            await asyncio.sleep(BREATH_SECONDS)
            wanted = bool(self._queue)
            if not (wanted and place.answers):
                await self._poked(place, IMPATIENT_SECONDS if wanted else self._poll_seconds)
            place.poked.clear()
            await self._hear(place, once_free=bool(self._queue))
            if self._given_up():
                self._turn_away()

    async def _poked(self, place: CoreState, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await place.poked.wait()

    async def _hear(self, place: CoreState, *, once_free: bool = False) -> None:
        begun, slack = place.begun, ROOM_SECONDS if once_free else 0.0
        doubt = asyncio.get_running_loop().call_later(slack + self._doubt_seconds, place.doubt)
        try:
            async with asyncio.timeout(slack + self._hear_seconds):
                load = await place.core.load(once_free=once_free)
        except TimeoutError:
            load = Down("it did not tell its load in time", begun=False)
        finally:
            doubt.cancel()
        if isinstance(load, Down):
            place.miss(load)
            self._note_silence()
        else:
            place.hear(load, max(begun, place.begun), self._now())
            self._silent_since = None
            self._serve()

    def _note_silence(self) -> None:
        if self._silent_since is None and not self.answering:
            self._silent_since = self._now()

    def _given_up(self) -> bool:
        """Has no core answered for longer than a restart takes?"""
        return self._silent_since is not None and self._now() - self._silent_since > self._grace_seconds

    def _turn_away(self) -> None:
        while self._queue:
            waiter = heappop(self._queue)
            if not waiter.turn.done():
                waiter.turn.set_result(_unavailable())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def colour(loads: Iterable[Load | None]) -> Status:
    """The status of cores with these loads; None for a core that does not answer."""
    every = list(loads)
    answering = [load for load in every if load is not None]
    if all(load.full for load in answering):
        return "RED"
    if len(answering) < len(every) or any(load.throttling or load.full for load in answering):
        return "YELLOW"
    return "GREEN"


def _unavailable() -> Failure:
    return Failure(CORE_UNAVAILABLE, "no core answers")
