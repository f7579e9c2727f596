"""The guard of this process as a core: a message is handed over as it lies, and waits there for a slot."""

import asyncio
from pathlib import Path

from tests.guard.test_service import Deployment, until
from tests.idle_guard import IdleGuard
from tests.waiting_client import WaitingClient

from gatepost.abby.cores import Cores, LocalCore
from gatepost.analysis.report import undecided
from gatepost.api.errors import Failure
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody, MessageBody
from gatepost.settings.keys import GuardSettings
from gatepost.settings.scan_sources import RestApiSettings, ScanSourcesSettings
from gatepost.workers.fair_queue import FairQueue


class Straw(IdleGuard):
    """Takes every message, unless it stops."""

    def __init__(self) -> None:
        self.stops, self.busy = False, 0
        self.bodies: list[MessageBody] = []

    def load(self) -> Load:
        return Load(self.busy, 2, 2)

    async def scan_in_turn(
        self, request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> ScanResult | Full | ClientLeft:
        self.bodies.append(body)
        if self.stops:
            return Full(self.load())
        return ScanResult(request.ggrid, request.created, request.created, undecided(""))


BODY = BytesBody(b"mail")


async def scan(seconds: float, *guards: Straw, busy: int = 0) -> object:
    cores = Cores(map(LocalCore, guards))
    await cores.start()
    guards[0].busy = busy
    try:
        return await cores.scan(ScanRequest("1", 0, Envelope()), BODY, WaitingClient(), seconds)
    finally:
        await cores.stop()


async def test_the_message_is_handed_over() -> None:
    guard = Straw()
    assert isinstance(await scan(5, guard), ScanResult)
    assert guard.bodies == [BODY]


async def test_a_guard_that_stops_calls_itself_full_and_is_not_asked_without_pause() -> None:
    guard = Straw()
    guard.stops = True
    assert not isinstance(await scan(0.5, guard), ScanResult)
    assert 1 <= len(guard.bodies) < 20


async def test_slots_that_others_take_are_seen_at_once() -> None:
    full, other = Straw(), Straw()
    assert isinstance(await scan(5, full, other, busy=2), ScanResult)
    assert (full.bodies, other.bodies) == ([], [BODY])


async def test_a_scan_waits_in_a_guard_that_is_full(tmp_path: Path) -> None:
    deployment, queue = Deployment(tmp_path), FairQueue(1, 20, 0.0)
    settings = GuardSettings(scan_sources=ScanSourcesSettings(rest_api=RestApiSettings()))
    cores = Cores([LocalCore(deployment.made(settings=settings, queue=queue))])
    await cores.start()
    slot = queue.enter(None)
    assert slot

    async def ask(seconds: float) -> object:
        return await cores.scan(ScanRequest(new_id(), 0, Envelope()), BODY, WaitingClient(), seconds)

    late = await ask(0.1)
    assert isinstance(late, Failure)
    assert late.error.code == "analysis_timeout"
    waiting = asyncio.ensure_future(ask(60))
    await until(lambda: cores.waiting == 1)
    assert (cores.waiting_bytes, deployment.pool.jobs) == (BODY.size, [])
    slot.leave()
    assert isinstance(await waiting, ScanResult)
    assert (cores.waiting, cores.waiting_bytes) == (0, 0)
    await cores.stop()
    await deployment.store.close()
