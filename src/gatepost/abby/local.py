"""A core in this very process: the message is handed over as it lies, without a second upload."""

from typing import Protocol

from gatepost.abby.place import Down
from gatepost.guard.holding import NotHeld, Outcome
from gatepost.guard.scan import Full, Load, ScanRequest, ScanResult
from gatepost.store.interface import Actor


class InProcess(Protocol):
    """What the guard of this process can do."""

    @property
    def rest_enabled(self) -> bool: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...

    def load(self) -> Load: ...


class Releases(Protocol):
    """The quarantine of this process."""

    async def release(self, ggrid: str, by: Actor) -> Outcome: ...


class LocalCore:
    """The guard of this process as one of the cores, with its quarantine. Whoever started it stops it."""

    name = "local"

    def __init__(self, guard: InProcess, quarantine: Releases | None = None) -> None:
        self._guard, self._quarantine = guard, quarantine

    @property
    def enabled(self) -> bool:
        return self._guard.rest_enabled

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        return await self._guard.scan(request)

    async def load(self) -> Load | Down:
        return self._guard.load()

    async def release(self, ggrid: str, by: Actor) -> Outcome | Down:
        return await self._quarantine.release(ggrid, by) if self._quarantine else NotHeld()

    def peek(self) -> Load | None:
        return self._guard.load()

    async def close(self) -> None:
        return None
