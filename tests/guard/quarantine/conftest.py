"""A quarantine with a real store, a folder of bytes and a next hop."""

from pathlib import Path
from typing import Any, Self

import pytest
from tests.conftest import Enter

from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store

RAW = b"Received: from elsewhere\r\nSubject: lunch\r\nX-Gatepost-Verdict: clean\r\n\r\n.dot\r\n\xffend"
ENVELOPE = Envelope("ann@x.example", ("bob@y.example", "cy@y.example"), "192.0.2.1", "mx")
REPORT = Report("spam", "quarantine", ("text:lure",), 730, "it adds up", subject="lunch")


def request(envelope: Envelope = ENVELOPE, ggrid: str = "") -> ScanRequest:
    return ScanRequest(ggrid or new_id(), 1_000, envelope)


def result(asked: ScanRequest, report: Report = REPORT) -> ScanResult:
    return ScanResult(asked.ggrid, asked.created, 2_000, report)


class Deployment:
    """A quarantine with all that it stands on, closed by leaving its context. `now` is its clock, in seconds."""

    def __init__(self, url: str, folder: Path, next_hop: str | None, **options: Any) -> None:
        self.store, self.raw = open_store(url, folder), RawFolder(folder / "q")
        self.relay = Relay(next_hop, "off", "gatepost.test") if next_hop else None
        self.now = 1_800_000_000.0
        routing = Routing.through(self.relay) if self.relay else None
        self.quarantine = Quarantine(self.store, self.raw, routing, clock=lambda: self.now, **options)
        self.tidying = Cleanup(self.store, self.raw, 30, clock=lambda: self.now)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.quarantine.finish()
        if self.relay:
            await self.relay.close()
        await self.store.close()

    async def hold(self, raw: bytes = RAW, envelope: Envelope = ENVELOPE, report: Report = REPORT) -> str:
        asked = request(envelope)
        await self.quarantine.keep(asked, result(asked, report), BytesBody(raw))
        return asked.ggrid

    async def state(self, ggrid: str) -> str:
        mail = await self.store.quarantine.find(ggrid)
        return mail.state if mail else "none"


@pytest.fixture
def deployment(storage_url: str, tmp_path: Path, next_hop: Any, enter: Enter) -> Deployment:
    return enter(Deployment(storage_url, tmp_path, next_hop.url))
