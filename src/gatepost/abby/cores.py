"""Choosing a core for a scan, waiting for a free slot, and retrying.

A scan takes the core with most free slots, or waits: tenants take turns, and the scans of a tenant are served first
come, first served (`waiting_scans`). A core that is full puts the scan back to its position among them; a core that
dies during a scan costs the client nothing but time: the scan is repeated at another core under the same ggrid, and the
first record of a ggrid is the one that stays.

Every core is polled about once a second. One that takes long to answer gets no new scans, and the messages that it has
are tried at another core as well, where that has a slot to spare; if it stays silent, its scans are cancelled and go
back to their positions in the queue. The core is used again as soon as it answers.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from heapq import heapify, heappush
from pathlib import Path

import structlog

from gatepost.abby.core_state import CoreAttempts, CoreState, Down, ScanCore, Status, queue_colour
from gatepost.abby.waiting_scans import PATIENCE_SECONDS, Waiter, WaitingClient, WaitingScans
from gatepost.api.errors import (
    ANALYSIS_TIMEOUT,
    CORE_UNAVAILABLE,
    OVERLOADED,
    SCANNING_DISABLED,
    STORAGE_UNAVAILABLE,
    Failure,
)
from gatepost.api.http import ClientLeft
from gatepost.scanning.request import SLOT_SECONDS, Full, Load, ScanRequest, ScanResult
from gatepost.scanning.turns import SHARE, RecentTenants, Turns

WAITING_LIMIT = 1 << 30
POLL_SECONDS = 1.0
IMPATIENT_SECONDS = 0.1
BREATH_SECONDS = 0.05
HEAR_SECONDS = 3.0
# How long a core may take to tell its load before it gets no new scans; a busy machine can be slow without being dead.
DOUBT_SECONDS = 1.0
# How long a restart may take before it is noticed.
GRACE_SECONDS = 10.0
FRESH_SECONDS = 0.25
MAX_DEATHS = 3
# A core that tells its load and takes no scan is tried about twenty times a second: for so long as a restart may take.
MAX_REFUSALS = 200

_UNAVAILABLE = Failure(CORE_UNAVAILABLE, "no core answers")
_NOT_TAKEN = Failure(CORE_UNAVAILABLE, "the cores that answer did not take the message to its end")
_STORAGE_LOST = Failure(STORAGE_UNAVAILABLE, "the storage of the cores cannot be used now")

log = structlog.get_logger("gatepost.abby")


class Cores:
    """All cores, and the scans that wait for one."""

    def __init__(
        self,
        cores: Iterable[ScanCore],
        *,
        turns: Turns | None = None,
        waiting_limit: int = WAITING_LIMIT,
        poll_seconds: float = POLL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        hear_seconds: float = HEAR_SECONDS,
        doubt_seconds: float = DOUBT_SECONDS,
    ) -> None:
        self._states = tuple(CoreState(core) for core in cores)
        self._waiting_limit = waiting_limit
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._hear_seconds = hear_seconds
        self._doubt_seconds = doubt_seconds
        self._turns = turns or Turns()
        self._tenants = RecentTenants()
        self._queue: WaitingScans[Waiter] = WaitingScans(self._turns, self._may_have_slot)
        self._seconds: list[Waiter] = []
        self._retry: asyncio.TimerHandle | None = None
        self._silent_since: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.waiting_bytes = 0
        self.waiting = 0
        self.attempts_again = 0

    async def start(self) -> None:
        """Ask every core for its load once, then keep polling."""
        self._silent_since = self._now()
        await asyncio.gather(*(self._hear(state) for state in self._states))
        self._tasks = [asyncio.create_task(self._watch(state)) for state in self._states]

    async def stop(self) -> None:
        """Stop polling and close the cores."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(state.core.close() for state in self._states))

    def trust(self, ca: Path) -> None:
        """Verify the certificates of the cores with this file from now on; raises `OSError` if it cannot be read."""
        for state in self._states:
            if trusts := getattr(state.core, "trust", None):
                trusts(ca)

    @property
    def answering(self) -> int:
        """How many cores answer."""
        return sum(state.answers for state in self._states)

    @property
    def states(self) -> tuple[tuple[str, Load | None], ...]:
        """Every core by name with its load as far as it is known; None for one that does not answer."""
        return tuple((state.core.name, state.load) for state in self._states)

    @property
    def faults(self) -> list[str]:
        """Why cores that answer can take no message to its end."""
        return [load.fault for _, load in self.states if load and load.fault]

    @property
    def colour(self) -> Status:
        """The queue's colour as far as it is known."""
        known = queue_colour([state.load for state in self._states])
        return "YELLOW" if known == "GREEN" and any(state.doubtful for state in self._states) else known

    async def status(self) -> Status:
        """Return the queue's colour from fresh loads; a silent core is not waited for."""
        stale = self._now() - FRESH_SECONDS
        asked = [state for state in self._states if state.answers and not state.doubtful and state.heard_at < stale]
        try:
            async with asyncio.timeout(self._doubt_seconds):
                await asyncio.gather(*map(self._hear, asked))
        except TimeoutError:
            return "YELLOW" if self.colour == "GREEN" else self.colour
        return self.colour

    async def scan(
        self, request: ScanRequest, client: WaitingClient, seconds: float
    ) -> ScanResult | Failure | ClientLeft:
        """Have a message scanned by some core within so many seconds."""
        if not any(state.core.enabled for state in self._states):
            return Failure(SCANNING_DISABLED, "scanning over this interface is switched off")
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._scan(request, client)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failure(ANALYSIS_TIMEOUT, "there was no slot or no result in time")

    async def _scan(self, request: ScanRequest, client: WaitingClient) -> ScanResult | Failure | ClientLeft:
        tenant, ticket = request.envelope.tenant or "", self._turns.new_ticket()
        self._tenants.note(tenant)
        must_wait = bool(self._queue) or self._turns.others_wait or not self._may_have_slot(tenant)
        turn: CoreState | Failure | ClientLeft | None = None if must_wait else self._reserve_best(tenant)
        turn = turn or await self._wait(ticket, request, client)
        if len(self._states) == 1:
            return await self._scan_at_only_core(turn, ticket, request, client)
        attempts = CoreAttempts(tenant, self.serve_waiting)
        try:
            while True:
                if isinstance(turn, CoreState):
                    attempts.begin(turn, self._scan_at(turn, request))
                elif turn is not None:
                    return turn
                turn = await self._next_turn(attempts, ticket, request, client)
                if attempts.result is not None:
                    self._give_back(turn, request)
                    return attempts.result
                if attempts.deaths >= MAX_DEATHS or attempts.refusals >= MAX_REFUSALS:
                    self._give_back(turn, request)
                    return _STORAGE_LOST if attempts.has_lost_storage else _NOT_TAKEN
        finally:
            attempts.give_up()

    async def _scan_at_only_core(
        self, turn: CoreState | Failure | ClientLeft, ticket: int, request: ScanRequest, client: WaitingClient
    ) -> ScanResult | Failure | ClientLeft:
        """One attempt after the other, in this very task: there is no other core that could be tried beside."""
        deaths = refusals = 0
        lost_storage = False
        while isinstance(turn, CoreState):
            try:
                outcome = await self._scan_at(turn, request)
            finally:
                self._give_back(turn, request)
            if isinstance(outcome, ScanResult):
                return outcome
            if isinstance(outcome, Down):
                deaths, refusals = deaths + outcome.begun, refusals + (not outcome.begun)
                lost_storage = lost_storage or outcome.storage
                if deaths >= MAX_DEATHS or refusals >= MAX_REFUSALS:
                    return _STORAGE_LOST if lost_storage else _NOT_TAKEN
            turn = await self._wait(ticket, request, client)
            self.attempts_again += isinstance(turn, CoreState)
        return turn

    async def _next_turn(
        self, attempts: CoreAttempts, ticket: int, request: ScanRequest, client: WaitingClient
    ) -> CoreState | Failure | ClientLeft | None:
        """Return the core to try next; None where an attempt has ended, or may have."""
        states = attempts.states
        if states and (attempts.has_responsive or len(states) >= MAX_DEATHS):
            await attempts.news()
            return None
        if attempts.result is not None or attempts.deaths >= MAX_DEATHS:
            return None
        turn = await (self._find_second(attempts, ticket) if states else self._wait(ticket, request, client))
        self.attempts_again += isinstance(turn, CoreState)
        return turn

    async def _find_second(self, attempts: CoreAttempts, ticket: int) -> CoreState | None:
        """Return a core to try beside the silent ones, once one has a slot that no queued scan needs."""
        waiter = Waiter(ticket, attempts.tenant, attempts.states)
        waiter.turn.add_done_callback(attempts.wake)
        heappush(self._seconds, waiter)
        try:
            self.serve_waiting()
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

    def _give_back(self, turn: object, request: ScanRequest) -> None:
        """Give back the slot of a core that is not needed any more."""
        if isinstance(turn, CoreState):
            turn.release(request.envelope.tenant or "")
            self.serve_waiting()

    async def _scan_at(self, state: CoreState, request: ScanRequest) -> ScanResult | Full | Down:
        outcome = await state.scan(request)
        if isinstance(outcome, Down):
            log.warning("scan has to start again", ggrid=request.ggrid, core=state.core.name, reason=outcome.reason)
            if not outcome.answered:
                state.fail(outcome)
                self._note_silence()
                state.poked.set()
        return outcome

    async def _wait(self, ticket: int, request: ScanRequest, client: WaitingClient) -> CoreState | Failure | ClientLeft:
        size = request.body.size
        if self._has_given_up():
            return _UNAVAILABLE
        if self._turns.held_bytes + size > self._waiting_limit:
            return Failure(OVERLOADED, "too many messages wait for a slot")
        waiter = Waiter(ticket, request.envelope.tenant or "")
        self._queue.add(waiter)
        self._turns.hold(size)
        self.waiting += 1
        self.waiting_bytes += size
        try:
            self.serve_waiting()
            if waiter.turn.done():
                return waiter.turn.result()
            client.park()
            return await self._wait_for_turn(waiter, client)
        except BaseException:
            waiter.withdraw()
            raise
        finally:
            self._queue.discard(waiter)
            self._turns.release(size)
            self.waiting -= 1
            self.waiting_bytes -= size

    async def _wait_for_turn(self, waiter: Waiter, client: WaitingClient) -> CoreState | Failure | ClientLeft:
        for state in self._states:
            state.poked.set()
        gone = asyncio.ensure_future(client.wait_until_gone())
        try:
            await asyncio.wait((waiter.turn, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if waiter.turn.done():
            return waiter.turn.result()
        waiter.withdraw()
        return ClientLeft()

    def _find_best(self, but: frozenset[CoreState] = frozenset()) -> CoreState | None:
        best, most = None, 0
        for state in self._states:
            if (free := state.free) > most and state not in but:
                best, most = state, free
        return best

    def _reserve_best(self, tenant: str) -> CoreState | None:
        if state := self._find_best():
            state.reserve(tenant)
        return state

    def _may_have_slot(self, tenant: str) -> bool:
        """Whether a tenant may have another slot, or has its share of them already (see `scanning.turns`)."""
        if not self._tenants.are_several:
            return True
        has = sum(state.slots_of(tenant) for state in self._states)
        return not has or has < SHARE * sum(max(0, state.free) for state in self._states)

    def serve_waiting(self) -> None:
        """Give free slots to the scans whose turn it is, and what is left to second attempts."""
        while (waiter := self._queue.first()) is not None:
            state = self._find_best()
            if state is None:
                return
            if not self._queue.may_go(waiter):
                if self._retry is None:
                    self._retry = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._serve_again)
                return
            self._queue.serve(waiter)
            if not waiter.turn.done():
                # Not looked for again: another process may have taken the slot meanwhile, and then says so.
                state.reserve(waiter.tenant)
                waiter.turn.set_result(state)
        for waiter in sorted(self._seconds):
            silent = all(state.doubtful for state in waiter.beside)
            if silent and not waiter.turn.done() and (state := self._find_best(waiter.beside)):
                state.reserve(waiter.tenant)
                waiter.turn.set_result(state)

    def _serve_again(self) -> None:
        self._retry = None
        self.serve_waiting()

    async def _watch(self, state: CoreState) -> None:
        """Poll one core for as long as the service runs: about every second, and while scans wait, until it is free."""
        while True:
            await asyncio.sleep(BREATH_SECONDS)
            wanted = bool(self._queue)
            if not (wanted and state.answers):
                await self._wait_for_poke(state, IMPATIENT_SECONDS if wanted else self._poll_seconds)
            state.poked.clear()
            if self._queue:
                self._queue.announce()
            await self._hear(state, once_free=bool(self._queue))
            if self._has_given_up():
                self._turn_away()

    async def _wait_for_poke(self, state: CoreState, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await state.poked.wait()

    async def _hear(self, state: CoreState, *, once_free: bool = False) -> None:
        begun, slack = state.begun, SLOT_SECONDS if once_free else 0.0
        doubt = asyncio.get_running_loop().call_later(slack + self._doubt_seconds, state.doubt)
        try:
            async with asyncio.timeout(slack + self._hear_seconds):
                load = await state.core.load(once_free=once_free)
        except TimeoutError:
            load = Down("it did not tell its load in time", begun=False)
        finally:
            doubt.cancel()
        if isinstance(load, Down):
            state.miss(load)
            self._note_silence()
        else:
            state.hear(load, max(begun, state.begun), self._now())
            self._silent_since = None
            self.serve_waiting()

    def _note_silence(self) -> None:
        if self._silent_since is None and not self.answering:
            self._silent_since = self._now()

    def _has_given_up(self) -> bool:
        """Has no core answered for longer than a restart takes?"""
        return self._silent_since is not None and self._now() - self._silent_since > self._grace_seconds

    def _turn_away(self) -> None:
        while (waiter := self._queue.pop()) is not None:
            if not waiter.turn.done():
                waiter.turn.set_result(_UNAVAILABLE)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
