"""The cores that abby hands mail to: which one gets a message, and what happens when a core does not answer.

A scan goes to the core with most free slots. Where none has any, it waits in the queue of the core with the fewest
messages (`workers.fair_queue`): tenants take their turns there, over all abbys. A core that dies during a scan costs
the client nothing but time: the scan is repeated at another core under the same ggrid, and the first record of a ggrid
is the one that stays, so each core answers with that record. So abby does not have to decide whether a silent core is
dead or slow: one that takes long to tell its load gets no new scans, and the messages that it has are tried at another
core as well, where that has a slot to spare. The silent core is used again as soon as it answers.

A core's load is asked for about once a second, and in between abby counts its own scans. `others` is what remains of
the load without them: messages from SMTP or from another abby.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from gatepost.api.errors import (
    ANALYSIS_TIMEOUT,
    CORE_UNAVAILABLE,
    OVERLOADED,
    SCANNING_DISABLED,
    STORAGE_UNAVAILABLE,
    Failure,
)
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.process.background_work import background
from gatepost.process.health import OF_SLOTS, Health, HealthLedger, Reason, State, make_reason
from gatepost.process.logs import Logger
from gatepost.scanning.held_mail import CarriesOutOrders, HeldMailOrder, NotHeld, ReleaseOrder
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult, Shares
from gatepost.scanning.spool import MessageBody
from gatepost.store.errors import StorageError
from gatepost.times import now
from gatepost.view.values import NotShown
from gatepost.workers.fair_queue import WAITING_LIMIT
from gatepost.workers.protocol import Extracted

if TYPE_CHECKING:
    from gatepost.guard.service import Guard

POLL_SECONDS = 1.0
# How soon a core is asked for its load again while a scan waits for one that takes it.
RETRY_SECONDS = 0.05
LOAD_SECONDS = 3.0
# How long a core may take to tell its load before it gets no new scans; a busy machine can be slow without being dead.
SILENT_SECONDS = 1.0
# How long a restart may take before it is noticed.
GRACE_SECONDS = 10.0
FRESH_SECONDS = 0.25
MISSES_UNTIL_LOST = 3
# A core that takes no connections any more may be finishing what it has; that can take as long as an analysis may.
MISSES_UNTIL_ENDED = 60
MAX_DEATHS = 3
# A core that tells its load and takes no scan is tried about twenty times a second: for so long as a restart may take.
MAX_REFUSALS = 200

_UNAVAILABLE = Failure(CORE_UNAVAILABLE, "no core answers")
_NOT_TAKEN = Failure(CORE_UNAVAILABLE, "the cores that answer did not take the message to its end")
_STORAGE_LOST = Failure(STORAGE_UNAVAILABLE, "the storage of the cores cannot be used now")
_OVERLOADED = Failure(OVERLOADED, "too many messages wait for a slot")

R = TypeVar("R")

log = Logger("gatepost.abby")


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

    async def scan(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> ScanResult | Full | Down | ClientLeft: ...

    async def read_features(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> Extracted | NotShown | Full | Down | ClientLeft: ...

    async def ask_load(self) -> Load | Down: ...

    def load_now(self) -> Load | None:
        """The load of this very moment, where that can be had without asking: then the core is in this process."""
        ...

    @property
    def waiting(self) -> tuple[int, int]:
        """How many scans wait for a slot in this process, and their bytes."""
        ...

    def trust(self, ca: Path) -> None:
        """Verify the certificate of the core with this file from now on; raises `OSError` if it cannot be read."""
        ...

    async def close(self) -> None: ...


class LocalCore:
    """The guard of this process as one of the cores, with the mail that it holds. `close` does not stop it."""

    name = "local"

    def __init__(self, guard: "Guard", quarantine: CarriesOutOrders | None = None) -> None:
        self._guard, self._quarantine = guard, quarantine

    @property
    def enabled(self) -> bool:
        return self._guard.rest_enabled

    def scan(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> Coroutine[Any, Any, ScanResult | Full | ClientLeft]:
        return self._guard.scan_in_turn(request, body, client)

    async def read_features(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> Extracted | NotShown | Full | ClientLeft:
        return await self._guard.read_features(request, body, client)

    async def ask_load(self) -> Load:
        await self._guard.look()
        return self._guard.load()

    def load_now(self) -> Load | None:
        return self._guard.load()

    @property
    def waiting(self) -> tuple[int, int]:
        return self._guard.waiting

    def trust(self, _ca: Path) -> None:
        """It has no certificate to verify."""

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Do what the order says with mail in the quarantine of this process.

        A release raises `StorageError` where the others return `Down`: its caller must learn that storage failed.
        """
        if self._quarantine is None:
            return NotHeld()
        try:
            return await self._quarantine.carry_out(order)
        except StorageError as fault:
            if isinstance(order, ReleaseOrder):
                raise
            return Down(str(fault), answered=True)

    async def close(self) -> None:
        return None


class CoreState:
    """One core with its last known load, and the scans that abby has started there."""

    def __init__(self, core: ScanCore) -> None:
        self.core = core
        # A core in this process does not fall silent alone.
        self.is_local = core.load_now() is not None
        self.answers = False
        self.told: Load | None = None
        self.told_at = 0.0
        self.silent = False
        self.begun = 0
        self._mentioned = False
        self._others = 0
        self._said_full = False
        self._misses = 0
        self._lost: set[asyncio.Event] = set()

    @property
    def load(self) -> Load | None:
        """The load as far as it is known; None for a core that does not answer."""
        if (load := self.core.load_now()) is not None:
            return load
        if not self.answers or self.told is None:
            return None
        return msgspec.structs.replace(self.told, in_processing=min(self.told.maximum, self._others + self.begun))

    @property
    def takes_scans(self) -> bool:
        """Whether a scan may be sent there now."""
        return self.core.enabled and self.answers and not self.silent and not self._said_full

    @property
    def free(self) -> int:
        """Slots that seem free; below zero the messages that seem to wait. The estimate is optimistic: a core that
        turns out to be full lets the message wait, but a slot that is believed taken stays idle."""
        if (load := self.core.load_now()) is not None:
            return load.maximum - load.in_processing - load.waiting
        return (self.told.maximum if self.told else 0) - self._others - self.begun

    def note_load(self, load: Load, begun: int, now: float) -> None:
        """Note the load that the core has told, of which `begun` were scans from here."""
        if not self.answers:
            log.info("core answers", core=self.core.name)
        self.answers, self.told, self.told_at, self._misses = True, load, now, 0
        self._said_full = self.silent = False
        self._others = max(0, load.in_processing + load.waiting - begun)

    def note_full(self, load: Load) -> None:
        """Note that the core took no message: whatever its figures say, it is full until it tells its load again."""
        self._said_full = True
        self._others = max(0, load.in_processing - self.begun)

    def note_failure(self, down: Down) -> None:
        """Note that the core did not answer; it gets no more scans until it tells its load again."""
        if self.answers or not self._mentioned:
            log.warning("core does not answer", core=self.core.name, reason=down.reason)
        self.answers, self._mentioned = False, True

    def note_miss(self, down: Down) -> None:
        """Note that the core did not tell its load. Its scans are given up once that has happened too often."""
        self.note_failure(down)
        self.silent = True
        self._misses += 1
        if self._misses >= (MISSES_UNTIL_ENDED if down.refused else MISSES_UNTIL_LOST):
            for event in self._lost:
                event.set()

    def start(self, call: Callable[[ScanCore], Awaitable[R]]) -> "asyncio.Task[R | Down]":
        """Have something done by the core, until it is done or the core counts as lost."""
        self.begun += 1
        task = asyncio.create_task(self._run(call))
        task.add_done_callback(self._note_end)
        return task

    async def _run(self, call: Callable[[ScanCore], Awaitable[R]]) -> R | Down:
        lost = asyncio.Event()
        self._lost.add(lost)
        work = asyncio.ensure_future(call(self.core))
        gone = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else Down("it stopped answering before the result")
        finally:
            work.cancel()
            gone.cancel()
            self._lost.discard(lost)

    def _note_end(self, _task: object) -> None:
        self.begun -= 1


class _Failures:
    """How attempts at one message failed, and when it is given up."""

    def __init__(self) -> None:
        self.deaths = self.refusals = 0
        self._has_lost_storage = False

    def count(self, down: Down) -> None:
        self.deaths += down.begun
        self.refusals += not down.begun
        self._has_lost_storage = self._has_lost_storage or down.storage

    @property
    def final(self) -> Failure | None:
        """The failure to answer, once there were too many."""
        if self.deaths < MAX_DEATHS and self.refusals < MAX_REFUSALS:
            return None
        return _STORAGE_LOST if self._has_lost_storage else _NOT_TAKEN


class Cores:
    """All cores; `own` is what is wrong in this process. A message is handed to one in a loop (`_run`)."""

    def __init__(
        self,
        cores: Iterable[ScanCore],
        own: HealthLedger | None = None,
        *,
        waiting_limit: int = WAITING_LIMIT,
        poll_seconds: float = POLL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        load_seconds: float = LOAD_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._states, self._own = tuple(CoreState(core) for core in cores), own or HealthLedger()
        self._silence: tuple[Reason, ...] = ()
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._load_seconds = load_seconds
        self._silent_seconds = silent_seconds
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._silent_since: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting, self._waiting_bytes = 0, Shares(waiting_limit)
        self.attempts_again = 0

    async def start(self) -> None:
        """Ask every core for its load once, then keep polling."""
        self._silent_since = self._now()
        await asyncio.gather(*map(self._ask_load, self._states))
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
            state.core.trust(ca)

    @property
    def answering(self) -> int:
        return sum(state.answers for state in self._states)

    @property
    def states(self) -> tuple[tuple[str, Load | None], ...]:
        """Every core by name with its load as far as it is known; None for one that does not answer."""
        return tuple((state.core.name, state.load) for state in self._states)

    @property
    def waiting(self) -> int:
        """How many scans wait in this process: for any core to answer, and for a slot of the core that is here."""
        return self._waiting + sum(state.core.waiting[0] for state in self._states)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of those."""
        return self._waiting_bytes.used + sum(state.core.waiting[1] for state in self._states)

    @property
    def silence(self) -> tuple[Reason, ...]:
        """That cores do not answer, or take long to tell their load."""
        mute = sum(state.silent or state.load is None for state in self._states)
        text = f"{mute:,} of {len(self._states):,} cores {'does' if mute == 1 else 'do'} not answer" if mute else ""
        text = text if any(state.load for state in self._states) else "no core answers"
        reason = self._silence[0] if self._silence else make_reason("cores", text, now())
        state: State = "RED" if text == "no core answers" else "YELLOW"
        self._silence = (msgspec.structs.replace(reason, sentence=text, state=state),) if text else ()
        return self._silence

    @property
    def health(self) -> Health:
        """How the queue of messages is, as far as it is known: a core that takes none is no outage while others do."""
        loads = [load.health for state in self._states if (load := state.load)]
        is_out = all(each.state == "RED" for each in loads)
        own = (each for each in (*self._own.reasons, *self.silence) if each.code not in OF_SLOTS)
        reasons = {(each.code, each.sentence): each for each in own}
        for each in (reason for health in loads for reason in health.reasons):
            eased = each if is_out or each.state != "RED" else msgspec.structs.replace(each, state="YELLOW")
            reasons.setdefault((each.code, each.sentence), eased)
        return Health.of(reasons.values())

    async def look(self) -> Health:
        """Return how the queue is, and look at what this process needs before; no other core is asked."""
        await self._own.look()
        return self.health

    async def status(self) -> Health:
        """Return how the queue is from fresh loads; a silent core is not waited for."""
        stale = self._now() - FRESH_SECONDS
        asked = [state for state in self._states if state.answers and not state.silent and state.told_at < stale]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._silent_seconds):
                await asyncio.gather(self._own.look(), *map(self._ask_load, asked))
        for state in asked:
            state.silent = state.silent or state.told_at < stale
        return self.health

    def scan(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient, seconds: float
    ) -> Coroutine[Any, Any, ScanResult | Failure | ClientLeft]:
        """Have a message scanned by some core within so many seconds."""
        return self._run(lambda core: core.scan(request, body, client), request, body, client, seconds)

    async def read_features(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient, seconds: float
    ) -> Extracted | NotShown | Failure | ClientLeft:
        """Have what models learn from a message read by some core within so many seconds."""
        return await self._run(lambda core: core.read_features(request, body, client), request, body, client, seconds)

    async def _run(
        self,
        call: Callable[[ScanCore], Awaitable[R | Full | Down | ClientLeft]],
        request: ScanRequest,
        body: MessageBody,
        client: ConnectedClient,
        seconds: float,
    ) -> R | Failure | ClientLeft:
        limit = asyncio.timeout(seconds)
        failures = _Failures()
        try:
            async with limit:
                while True:
                    state = self._choose() or await self._wait_for_core(request.envelope.tenant, body, client)
                    if not isinstance(state, CoreState):
                        return state
                    if state.is_local:
                        outcome = await call(state.core)
                        if isinstance(outcome, Full | Down):
                            self._note(state, outcome, request, failures)
                    else:
                        if state.free <= 0:
                            await body.to_disk()
                        outcome = await self._try(state, call, request, client, failures)
                    if not isinstance(outcome, Full | Down):
                        return outcome
                    if isinstance(outcome, Full) and outcome.overloaded and self._choose() is None:
                        return _OVERLOADED
                    if failure := failures.final:
                        return failure
                    self.attempts_again += 1
        except TimeoutError:
            if not limit.expired():
                raise
            return Failure(ANALYSIS_TIMEOUT, "there was no slot or no result in time")

    async def _try(
        self,
        first: CoreState,
        call: Callable[[ScanCore], Awaitable[R | Full | Down | ClientLeft]],
        request: ScanRequest,
        client: ConnectedClient,
        failures: _Failures,
    ) -> R | Full | Down | ClientLeft:
        """Try a core, and another beside it while those that have the message are silent; the first result counts."""
        background.note_mail()
        running = {first.start(call): first}
        gone = asyncio.ensure_future(client.wait_until_gone())
        outcome: R | Full | Down | ClientLeft = ClientLeft()
        try:
            while running and not gone.done():
                changed = asyncio.ensure_future(self._changed.wait())
                done, _ = await asyncio.wait((*running, gone, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                for task in [each for each in running if each in done]:
                    outcome = self._note(running.pop(task), task.result(), request, failures)
                    if not isinstance(outcome, Full | Down):
                        return outcome
                if failures.final is None and running and all(state.silent for state in running.values()):
                    second = self._choose(but=running.values(), free=1)
                    if second is not None and len(running) < MAX_DEATHS:
                        running[second.start(call)] = second
                        self.attempts_again += 1
            return ClientLeft() if gone.done() else outcome
        finally:
            gone.cancel()
            for task in running:
                task.cancel()

    def _note(self, state: CoreState, outcome: R, request: ScanRequest, failures: _Failures) -> R:
        """Note what an attempt says about its core, and return its outcome."""
        if isinstance(outcome, Full):
            state.note_full(outcome.load)
        elif isinstance(outcome, Down):
            log.warning("scan starts again", ggrid=request.ggrid, core=state.core.name, reason=outcome.reason)
            failures.count(outcome)
            if not outcome.answered:
                state.note_failure(outcome)
                self._note_silence()
        return outcome

    def _choose(self, but: Collection[CoreState] = (), free: int | None = None) -> CoreState | None:
        """Return the core with most free slots, or with the fewest messages that wait; with at least so many free."""
        if len(self._states) == 1 and not but and free is None:
            return self._states[0] if self._states[0].takes_scans else None
        able = [state for state in self._states if state.takes_scans and state not in but]
        best = max(able, key=_free, default=None)
        return best if best is None or free is None or best.free >= free else None

    async def _wait_for_core(
        self, tenant: str | None, body: MessageBody, client: ConnectedClient
    ) -> CoreState | Failure | ClientLeft:
        """Return a core as soon as one takes scans; meanwhile the message lies on disk, and the client may leave."""
        if not any(state.core.enabled for state in self._states):
            return Failure(SCANNING_DISABLED, "scanning over this interface is switched off")
        if self._has_given_up():
            return _UNAVAILABLE
        if not self._waiting_bytes.has_room(tenant, body.size):
            return _OVERLOADED
        self._waiting += 1
        self._waiting_bytes.take(tenant, body.size)
        self._wanted.set()
        gone = asyncio.ensure_future(client.wait_until_gone())
        try:
            await body.to_disk()
            while not gone.done():
                if state := self._choose():
                    return state
                if self._has_given_up():
                    return _UNAVAILABLE
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait((gone, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            return ClientLeft()
        finally:
            gone.cancel()
            self._waiting -= 1
            self._waiting_bytes.give_back(tenant, body.size)
            if not self._waiting:
                self._wanted.clear()

    async def _watch(self, state: CoreState) -> None:
        """Poll one core for as long as the service runs: about every second, and more often while scans wait."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._wanted.wait()
                    await asyncio.sleep(RETRY_SECONDS)
            await self._ask_load(state)

    async def _ask_load(self, state: CoreState) -> None:
        begun = state.begun
        silent = asyncio.get_running_loop().call_later(self._silent_seconds, self._note_silent, state)
        try:
            async with asyncio.timeout(self._load_seconds):
                load = await state.core.ask_load()
        except TimeoutError:
            load = Down("it did not tell its load in time", begun=False)
        finally:
            silent.cancel()
        if isinstance(load, Down):
            state.note_miss(load)
            self._note_silence()
        else:
            state.note_load(load, max(begun, state.begun), self._now())
            self._silent_since = None
        self._tell_changed()

    def _note_silent(self, state: CoreState) -> None:
        """Note that a core takes long to tell its load; its scans may be tried at another core as well."""
        state.silent = True
        self._tell_changed()

    def _tell_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _note_silence(self) -> None:
        if self._silent_since is None and not self.answering:
            self._silent_since = self._now()

    def _has_given_up(self) -> bool:
        """Has no core answered for longer than a restart takes?"""
        return self._silent_since is not None and self._now() - self._silent_since > self._grace_seconds

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _free(state: CoreState) -> int:
    return state.free
