"""What is told of the health of a running service: `health.changed` when the queue or the storage changes its state.

Each part is looked at every two seconds, and a state counts once it was seen twice in a row: a queue that is full for
the time of one message is no event. This runs only where events have an output.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from gatepost.events.schema import HealthChanged, HealthState
from gatepost.events.stream import Emits
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.abby.cores import Cores
    from gatepost.scanning.request import Load

WATCH_SECONDS = 2.0
SEEN_UNTIL_TOLD = 2
# A uid that no tenant has: looking it up shows whether storage answers.
_NO_TENANT = "00000000-0000-0000-0000-000000000000"

Component: TypeAlias = Literal["messageQueue", "storage"]
Seen: TypeAlias = tuple[HealthState, str]
Probe: TypeAlias = Callable[[], Awaitable[Seen]]

_COLOURS: dict[str, HealthState] = {"GREEN": "ok", "YELLOW": "degraded", "RED": "failed"}


class HasLoad(Protocol):
    """A core of this process."""

    def load(self) -> "Load": ...


async def check_storage(store: Store) -> str | None:
    """Return why the service is not ready; None if storage answers."""
    try:
        await store.tenant(_NO_TENANT)
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


def probe_core(core: HasLoad) -> Probe:
    """Return a probe of the queue of one core, for a process without the API service."""

    async def probe() -> Seen:
        load = core.load()
        state: HealthState = "failed" if load.full else "degraded" if load.throttling else "ok"
        return state, f"{load.in_processing} of {load.maximum} slots in use"

    return probe


def probe_cores(cores: "Cores") -> Probe:
    """Return a probe of the queue of all cores: `messageQueueStatus`, as the API answers it."""

    async def probe() -> Seen:
        status = await cores.status()
        return _COLOURS[status], f"messageQueueStatus is {status}"

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
