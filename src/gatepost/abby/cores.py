"""Choosing a core, waiting for one, and trying again.

Scans are served first come, first served: a scan takes the core with most free slots, or queues. A core that is full
puts the scan back to its place in the queue; a core that dies with a message in its hands costs the client nothing but
time, for the scan is done again elsewhere under the same ggrid, and the first record of a ggrid is the one that stays.
"""

import asyncio
import itertools
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Literal, Protocol

import structlog

from gatepost.abby.multipart import Left
from gatepost.abby.place import Core, Down, Place
from gatepost.api.errors import ANALYSIS_TIMEOUT, CORE_UNAVAILABLE, OVERLOADED, SCANNING_DISABLED, Failure
from gatepost.guard.scan import Load, ScanRequest, ScanResult

WAITING_LIMIT = 1 << 30
POLL_SECONDS = 1.0
IMPATIENT_SECONDS = 0.1
BREATH_SECONDS = 0.05
HEAR_SECONDS = 3.0
GRACE_SECONDS = 3.0
FRESH_SECONDS = 0.25
MAX_DEATHS = 3

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
    """One scan in the queue; `turn` becomes the place it may go to, or the failure that ends its wait."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.turn: asyncio.Future[Place | Failure] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "_Waiter") -> bool:
        return self.ticket < other.ticket

    def withdraw(self) -> None:
        """It does not wait any more; a slot that was kept for it is free again."""
        if self.turn.done() and not self.turn.cancelled() and isinstance(place := self.turn.result(), Place):
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
    ) -> None:
        self._places = tuple(Place(core) for core in cores)
        self._waiting_limit = waiting_limit
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._hear_seconds = hear_seconds
        self._tickets = itertools.count()
        self._queue: list[_Waiter] = []
        self._silent_since: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.waiting_bytes = 0
        self.waiting = 0

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
    def answering(self) -> bool:
        """Does any core answer?"""
        return any(place.answers for place in self._places)

    @property
    def colour(self) -> Status:
        """The queue's colour as far as it is known."""
        return colour([place.load for place in self._places])

    async def status(self) -> Status:
        """The queue's colour, from loads that were heard just now."""
        stale = self._now() - FRESH_SECONDS
        await asyncio.gather(*(self._hear(place) for place in self._places if place.heard_at < stale))
        return self.colour

    async def scan(self, request: ScanRequest, client: Client, seconds: float) -> ScanResult | Failure | Left:
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

    async def _scan(self, request: ScanRequest, client: Client) -> ScanResult | Failure | Left:
        ticket, deaths = next(self._tickets), 0
        place = None if self._queue else self._best()
        while True:
            if place is None:
                turn = await self._wait(ticket, request.body.size, client)
                if not isinstance(turn, Place):
                    return turn
                place = turn
            else:
                place.reserve()
            outcome = await self._scan_at(place, request)
            if isinstance(outcome, ScanResult):
                return outcome
            deaths += isinstance(outcome, Down) and outcome.begun
            if deaths >= MAX_DEATHS:
                return Failure(CORE_UNAVAILABLE, "the cores that took the message stopped answering")
            place = None

    async def _scan_at(self, place: Place, request: ScanRequest) -> object:
        try:
            outcome = await place.scan(request)
        finally:
            self._serve()
        if isinstance(outcome, Down):
            log.warning("scan has to start again", ggrid=request.ggrid, core=place.core.name, reason=outcome.reason)
            if not outcome.answered:
                place.fail(outcome)
                self._note_silence()
                place.poked.set()
        return outcome

    async def _wait(self, ticket: int, size: int, client: Client) -> Place | Failure | Left:
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

    async def _turn(self, waiter: _Waiter, client: Client) -> Place | Failure | Left:
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
        return Left()

    def _best(self) -> Place | None:
        best, most = None, 0
        for place in self._places:
            if (free := place.free) > most:
                best, most = place, free
        return best

    def _serve(self) -> None:
        """Give free slots to those who wait longest."""
        queue = self._queue
        while queue:
            if queue[0].turn.done():
                heappop(queue)
            elif place := self._best():
                place.reserve()
                heappop(queue).turn.set_result(place)
            else:
                return

    async def _watch(self, place: Place) -> None:
        """Hear one core for as long as the service runs: about every second, more often while somebody waits."""
        while True:
            await asyncio.sleep(BREATH_SECONDS)
            try:
                async with asyncio.timeout(IMPATIENT_SECONDS if self._queue else self._poll_seconds):
                    await place.poked.wait()
            except TimeoutError:
                pass
            place.poked.clear()
            await self._hear(place)
            if self._given_up():
                self._turn_away()

    async def _hear(self, place: Place) -> None:
        begun = place.begun
        try:
            async with asyncio.timeout(self._hear_seconds):
                load = await place.core.load()
        except TimeoutError:
            load = Down("it did not tell its load in time", begun=False)
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
