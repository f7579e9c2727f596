"""A core to which no message comes, for tests of what else a core does."""

from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.guard.service import Guard
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody


class IdleGuard(Guard):
    """Tells its load, and is never asked to scan."""

    rest_enabled = True
    waiting = (0, 0)

    def __init__(self, load: Load | None = None) -> None:
        self._load = load or Load(0, 1, 1)

    async def look(self) -> None:
        """Nothing has changed."""

    def load(self) -> Load:
        return self._load

    async def scan_in_turn(
        self, request: ScanRequest, _body: MessageBody, _client: ConnectedClient
    ) -> ScanResult | Full | ClientLeft:
        raise AssertionError(f"{request.ggrid} was to be scanned")
