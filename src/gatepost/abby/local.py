"""A core in this very process: the message is handed over as it lies, without a second upload."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar

from gatepost.abby.place import Down
from gatepost.guard.custody import Custody
from gatepost.guard.holding import Busy, Deleted, NotHeld, Outcome
from gatepost.guard.scan import Full, Load, ScanRequest, ScanResult
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.view.shown import NotShown, Picture, View

T = TypeVar("T")


class InProcess(Protocol):
    """What the guard of this process can do."""

    @property
    def rest_enabled(self) -> bool: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...

    def load(self) -> Load: ...

    async def room(self) -> None: ...


class LocalCore:
    """The guard of this process as one of the cores, with the mail that it holds. Whoever started it stops it."""

    name = "local"

    def __init__(self, guard: InProcess, custody: Custody | None = None) -> None:
        self._guard, self._custody = guard, custody

    @property
    def enabled(self) -> bool:
        return self._guard.rest_enabled

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        return await self._guard.scan(request)

    async def load(self, *, once_free: bool = False) -> Load | Down:
        if once_free:
            await self._guard.room()
        return self._guard.load()

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome | Down:
        return await self._custody.release(ggrid, by, recipients, tenant) if self._custody else NotHeld()

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown | Down:
        return await _stored(self._custody.look(ggrid, tenant)) if self._custody else NotHeld()

    async def picture(self, ggrid: str, index: int, tenant: str | None = None) -> Picture | NotHeld | NotShown | Down:
        return await _stored(self._custody.picture(ggrid, index, tenant)) if self._custody else NotHeld()

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld | Down:
        return await _stored(self._custody.export(ggrid, by, tenant)) if self._custody else NotHeld()

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy | Down:
        return await _stored(self._custody.delete(ggrid, by, tenant)) if self._custody else NotHeld()

    def peek(self) -> Load | None:
        return self._guard.load()

    async def close(self) -> None:
        return None


async def _stored(answer: Awaitable[T]) -> T | Down:
    try:
        return await answer
    except StorageError as fault:
        return Down(str(fault), answered=True)
