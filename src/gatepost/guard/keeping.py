"""REST scans whose raw mail is kept: with `restApi: {keep: held}`, what is to be held can be released later."""

from typing import Protocol

from gatepost.guard.holding import Holding
from gatepost.guard.scan import Full, Load, ScanRequest, ScanResult


class Core(Protocol):
    """The core that scans; `guard.core.Guard` is one."""

    @property
    def rest_enabled(self) -> bool: ...

    def load(self) -> Load: ...

    async def room(self) -> None: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...


class Keeping:
    """A core that keeps what it holds. The answer comes when the bytes are safe, or not at all."""

    def __init__(self, core: Core, holding: Holding) -> None:
        self._core, self._holding = core, holding

    @property
    def rest_enabled(self) -> bool:
        return self._core.rest_enabled

    def load(self) -> Load:
        """How busy it is."""
        return self._core.load()

    async def room(self) -> None:
        """Return once a slot is free, or a little later."""
        await self._core.room()

    async def scan(self, request: ScanRequest) -> ScanResult | Full:
        """Analyse one message, and keep it where it is not to go on. Raises `StorageError`."""
        result = await self._core.scan(request)
        if isinstance(result, ScanResult) and result.report.decision == "quarantine":
            await self._holding.keep(request, result, request.body)
        return result
