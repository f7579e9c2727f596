import asyncio

from gatepost.abby.core_clients import LocalCore
from gatepost.abby.cores import Cores
from gatepost.mail.message import Envelope
from gatepost.report import undecided
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult


class Guard:
    rest_enabled = True

    def __init__(self) -> None:
        self.stopping = False
        self.asked = 0
        self.busy = 0

    def load(self) -> Load:
        return Load(self.busy, 2, 2)

    async def wait_for_slot(self) -> None:
        await asyncio.sleep(0.01)

    async def scan(self, request: ScanRequest) -> ScanResult | Full:
        self.asked += 1
        if self.stopping:
            return Full(self.load())
        return ScanResult(request.ggrid, request.created, request.created, undecided(""))


class Body:
    size = 4

    def read(self) -> bytes:
        return b"mail"


class Client:
    def park(self) -> None:
        return None

    async def wait_until_gone(self) -> None:
        await asyncio.Event().wait()


REQUEST = ScanRequest("1", 0, Envelope(), Body())


def scan(guard: Guard, seconds: float) -> object:
    async def scanned() -> object:
        cores = Cores([LocalCore(guard)])
        await cores.start()
        try:
            return await cores.scan(REQUEST, Client(), seconds)
        finally:
            await cores.stop()

    return asyncio.run(scanned())


def test_the_message_is_handed_over() -> None:
    assert isinstance(scan(Guard(), 5), ScanResult)


def test_a_guard_that_stops_calls_itself_full_and_is_not_asked_without_pause() -> None:
    guard = Guard()
    guard.stopping = True
    assert not isinstance(scan(guard, 0.5), ScanResult)
    assert 1 <= guard.asked < 20


def test_slots_that_others_take_are_seen_at_once() -> None:
    guard = Guard()
    guard.busy = 2
    assert not isinstance(scan(guard, 0.2), ScanResult)
    assert guard.asked == 0
