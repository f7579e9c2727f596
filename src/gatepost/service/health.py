"""What is told of the health of a running service: `health.changed` when one of its parts changes its state.

Each part is looked at every two seconds, and a state counts once it was seen twice in a row: a queue that is full for
the time of one message is no event. This runs only where events have an output.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
import structlog

from gatepost.events.schema import HealthChanged, HealthState
from gatepost.events.stream import Emits
from gatepost.scanning.request import Condition
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.abby.cores import Cores
    from gatepost.scanning.request import Load

WATCH_SECONDS = 2.0
STORAGE_SECONDS = 5.0
# What spool, quarantine and database need to take anything at all.
LEAST_FREE = 16 << 20
SEEN_UNTIL_TOLD = 2
# A uid that no tenant has: looking it up shows whether storage answers.
_NO_TENANT = "00000000-0000-0000-0000-000000000000"

log = structlog.get_logger("gatepost")

Component: TypeAlias = Literal["messageQueue", "storage", "certificate", "quarantine", "dns", "smtp"]
Seen: TypeAlias = tuple[HealthState, str]
Probe: TypeAlias = Callable[[], Awaitable[Seen]]

COLOURS: dict[str, HealthState] = {"GREEN": "ok", "YELLOW": "degraded", "RED": "failed"}


class NodeHealth(msgspec.Struct, frozen=True):
    """How a node is: `fault` is why it cannot do its work, "" if it can."""

    state: HealthState = "ok"
    fault: str = ""
    in_processing: int = 0
    slots: int = 0
    slowed: str = ""


class HasLoad(Protocol):
    """A core of this process."""

    def load(self) -> "Load": ...


class ConditionWatch:
    """Looks every two seconds at what all messages of a process need, and writes what it sees into the condition that
    the queue's status, `/readyz`, metrics, alerts and `gatepost nodes` are told from.

    Storage has to keep a change, not only to answer: a full disk can still be read. `next_hop` returns why the next hop
    of the SMTP source cannot be reached, "" if it can or if there is none; `flow` why limits of flow control do not
    hold.
    """

    def __init__(
        self,
        condition: Condition,
        store: Store,
        data: Path,
        next_hop: Callable[[], str],
        flow: Callable[[], str] = str,
    ) -> None:
        self._condition, self._store, self._data = condition, store, data
        self._next_hop, self._flow = next_hop, flow
        # What clients are told has no path in it; the log has the whole reason.
        self._detail = ""

    async def run(self) -> None:
        """Look for as long as the process serves."""
        while True:
            await self.look()
            await asyncio.sleep(WATCH_SECONDS)

    async def look(self) -> None:
        """Look once."""
        fault = self._check_disk() or await self._check_storage()
        if fault and self._flow():
            fault += "; limits of flow control do not hold"
        reason = self._next_hop()
        slowed = f"the next hop cannot be reached: {reason}" if reason else ""
        condition = self._condition
        if fault and not condition.fault:
            log.error("no message can be taken to its end", reason=fault, detail=self._detail)
        elif condition.fault and not fault:
            log.info("messages can be taken to their end again")
        condition.fault, condition.slowed = fault, slowed

    def _check_disk(self) -> str:
        try:
            free = shutil.disk_usage(self._data).free
        except OSError as fault:
            self._detail = str(fault)
            return "the data folder cannot be used"
        return "" if free >= LEAST_FREE else f"the disk of the data folder is full: {free >> 20} MiB are left"

    async def _check_storage(self) -> str:
        try:
            async with asyncio.timeout(STORAGE_SECONDS):
                await self._store.prove_writable()
        except StorageError as fault:
            self._detail = str(fault)
            return "storage cannot be used"
        except TimeoutError:
            return f"storage does not answer within {STORAGE_SECONDS:.0f} seconds"
        return ""


async def check_storage(store: Store) -> str | None:
    """Return why the service is not ready; None if storage answers."""
    try:
        await store.tenants.find(_NO_TENANT)
    except StorageError:
        return "storage cannot be read"
    return None


def probe_storage(store: Store) -> Probe:
    """Return a probe of the storage: it fails where it cannot be read, and is degraded where commits failed lately."""
    known = store.counters().failures

    async def probe() -> Seen:
        nonlocal known
        before, known = known, store.counters().failures
        if reason := await check_storage(store):
            return "failed", reason
        return ("degraded", f"{known - before} commits failed") if known > before else ("ok", "")

    return probe


def state_of(load: "Load") -> HealthState:
    """Return the health that a load means: a full core takes no message."""
    return "failed" if load.full or load.fault else "degraded" if load.throttling or load.slowed else "ok"


def probe_core(core: HasLoad) -> Probe:
    """Return a probe of the queue of one core, for a process without the API service."""

    async def probe() -> Seen:
        load = core.load()
        if load.fault or load.slowed:
            return state_of(load), load.fault or load.slowed
        return state_of(load), f"{load.in_processing} of {load.maximum} slots in use"

    return probe


def probe_cores(cores: "Cores") -> Probe:
    """Return a probe of the queue of all cores: `messageQueueStatus`, as the API answers it."""

    async def probe() -> Seen:
        status = await cores.status()
        return COLOURS[status], f"messageQueueStatus is {status}"

    return probe


def probe_warning(condition: Condition, component: Component) -> Probe:
    """Return a probe of something that is well until it is warned of."""

    async def probe() -> Seen:
        text = condition.warnings.get(component, "")
        return ("degraded", text) if text else ("ok", "")

    return probe


class HealthWatch:
    """Looks at the parts of a service from `start` to `stop`, and emits what changed."""

    def __init__(self, events: Emits, store: Store, seconds: float = WATCH_SECONDS) -> None:
        self._events, self._seconds = events, seconds
        self._probes: dict[Component, Probe] = {"storage": probe_storage(store)}
        self._told: dict[Component, HealthState] = {}
        self._seen: dict[Component, tuple[HealthState, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def watch_queue(self, probe: Probe) -> None:
        """Set the probe of the queue; that of the API service replaces that of a core."""
        self._probes["messageQueue"] = probe

    def watch_warnings(self, condition: Condition) -> None:
        """Tell of warnings, too; `health_warnings` looks for them."""
        warned: tuple[Component, ...] = ("certificate", "quarantine", "dns", "smtp")
        for component in warned:
            self._probes[component] = probe_warning(condition, component)

    def start(self) -> None:
        """Start to look."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop looking."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Look at every part once."""
        for component, probe in self._probes.items():
            state, reason = await probe()
            last, times = self._seen.get(component, (state, 0))
            times = times + 1 if state == last else 1
            self._seen[component] = state, times
            before = self._told.get(component, "ok")
            if state != before and times >= SEEN_UNTIL_TOLD:
                self._told[component] = state
                self._events.emit(HealthChanged, component=component, before=before, after=state, reason=reason)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._seconds)
