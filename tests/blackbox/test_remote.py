"""A core over real HTTPS: guard's own source, with a guard behind it that a test steers."""

import contextlib
import http.client
import re
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn
from tests.idle_guard import IdleGuard
from tests.waiting_client import WaitingClient

from gatepost.abby.cores import Down
from gatepost.abby.remote_core import RemoteCore
from gatepost.analysis.report import undecided
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.api.server import server_config
from gatepost.guard import http_source
from gatepost.guard.http_source import build_rest_app
from gatepost.mail.message import Envelope
from gatepost.scanning.request import CONTENT_TYPE, Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody, Spool

GGRID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
REFERENCE = re.compile("[0-9a-f]{8}-[0-9a-f-]{27}")
ENVELOPE = Envelope("ä@b.example", ("c@d.example",), "192.0.2.1", "mx", GGRID)


class SteeredGuard(IdleGuard):
    def __init__(self) -> None:
        super().__init__()
        self.busy = 0
        self.full: Full | None = None
        self.scanned: list[tuple[ScanRequest, bytes]] = []
        self.broken = False
        self.other = False

    def load(self) -> Load:
        return Load(self.busy, 2, 2)

    async def scan_in_turn(
        self, request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> ScanResult | Full | ClientLeft:
        if self.broken:
            raise RuntimeError("broken")
        if self.full:
            return self.full
        self.scanned.append((request, body.read()))
        ggrid = "another" if self.other else request.ggrid
        return ScanResult(ggrid, request.created, 9, undecided("why"))


class Far:
    """A running guard source."""

    def __init__(self, certificate: tuple[Path, Path], folder: Path) -> None:
        self.guard = SteeredGuard()
        self.spool = Spool(folder, memory_limit=1000)
        app = build_rest_app(self.guard, "secret", self.spool, bytes)
        self.server = uvicorn.Server(server_config(app, certificate=certificate[0], key=certificate[1]))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        end = time.monotonic() + 180
        while not self.server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.ca = certificate[0]

    def core(
        self, secret: str = "secret", ca: Path | ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> RemoteCore:
        return RemoteCore(f"https://{host}:{self.port}", secret, ca or self.ca)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)


@pytest.fixture
def far(certificate: tuple[Path, Path], tmp_path: Path) -> Iterator[Far]:
    running = Far(certificate, tmp_path / "spool")
    yield running
    running.stop()


async def ask(core: RemoteCore, far: Far, content: bytes = b"mail") -> Any:
    try:
        with far.spool.new() as body:
            body.write(content)
            await body.finish()
            return await core.ask_load(), await core.scan(ScanRequest(GGRID, 5, ENVELOPE), body, WaitingClient())
    finally:
        await core.close()


@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
async def test_a_message_there_and_its_result_back(far: Far, size: int) -> None:
    load, result = await ask(far.core(), far, b"x" * size)
    assert load == Load(0, 2, 2)
    assert result == ScanResult(GGRID, 5, 9, undecided("why"))
    ((request, content),) = far.guard.scanned
    assert (request.ggrid, request.created, request.envelope) == (GGRID, 5, ENVELOPE)
    assert content == b"x" * size


@pytest.mark.parametrize("overloaded", [False, True])
async def test_a_core_that_takes_no_message_says_so(far: Far, overloaded: bool) -> None:
    far.guard.busy = 2
    far.guard.full = Full(Load(2, 2, 2, waiting=5), overloaded=overloaded)
    load, result = await ask(far.core(), far, b"x" * 3_000_000)
    assert load == Load(2, 2, 2)
    assert result == far.guard.full
    assert far.guard.scanned == []


async def test_a_core_without_a_free_slot_takes_what_can_wait(far: Far) -> None:
    far.guard.busy = 2
    load, result = await ask(far.core(), far)
    assert load == Load(2, 2, 2)
    assert isinstance(result, ScanResult)


async def test_a_wrong_secret(far: Far) -> None:
    load, result = await ask(far.core("wrong"), far)
    assert isinstance(load, Down)
    assert isinstance(result, Down)
    assert "secret" in result.reason
    assert far.guard.scanned == []


async def test_a_core_that_breaks_has_answered(far: Far) -> None:
    far.guard.broken = True
    _, result = await ask(far.core(), far)
    assert result == Down("it answered 500", begun=True, answered=True)


async def test_a_result_for_another_message_is_none(far: Far) -> None:
    far.guard.other = True
    _, result = await ask(far.core(), far)
    assert isinstance(result, Down)


async def test_a_certificate_that_is_not_trusted(far: Far) -> None:
    load, result = await ask(far.core(ca=ssl.create_default_context()), far)
    assert isinstance(load, Down)
    assert isinstance(result, Down)
    assert not result.begun
    assert far.guard.scanned == []


async def test_a_certificate_for_another_name(far: Far) -> None:
    load, _ = await ask(far.core(host="localhost"), far)
    assert isinstance(load, Down)


async def test_nobody_there(far: Far) -> None:
    core = far.core()
    far.stop()
    load, result = await ask(core, far)
    assert isinstance(load, Down)
    assert isinstance(result, Down)
    assert not result.begun


def frame(head: bytes, content: bytes = b"mail") -> bytes:
    return len(head).to_bytes(4, "big") + head + content


SOUND = frame(msgspec.json.encode(ScanRequest(GGRID, 5, ENVELOPE, "rest")))


@pytest.mark.parametrize(
    ("body", "headers", "state", "status", "direct"),
    [
        (SOUND, {}, {}, 200, True),
        (SOUND, {}, {"full": Full(Load(2, 2, 2), overloaded=True)}, 503, True),
        (SOUND, {}, {"broken": True}, 500, True),
        (SOUND, {"Authorization": "Bearer wrong"}, {}, 401, False),
        (SOUND, {"Content-Type": "text/plain"}, {}, 415, False),
        (frame(b"{}"), {}, {}, 400, False),
        (frame(b"no json"), {}, {}, 400, False),
        (SOUND[:20], {}, {}, 400, False),
        (b"xy", {}, {}, 400, False),
        (SOUND[:-4], {}, {}, 400, False),
    ],
)
def test_an_ordinary_scan_needs_no_asgi_and_is_answered_as_with_it(
    far: Far,
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    headers: dict[str, str],
    state: dict[str, Any],
    status: int,
    direct: bool,
) -> None:
    over_asgi: list[object] = []
    take = http_source._Source._take

    def count_and_take(source: Any, request: Any, work: Any) -> Any:
        over_asgi.append(request)
        return take(source, request, work)

    monkeypatch.setattr(http_source._Source, "_take", count_and_take)
    for name, value in state.items():
        setattr(far.guard, name, value)
    given = {"Authorization": "Bearer secret", "Content-Type": CONTENT_TYPE} | headers
    answers = []
    for content in (body, iter([body])):  # the second one goes in chunks, which is not ordinary
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", far.port, context=ssl._create_unverified_context())
        ) as connection:
            connection.request("POST", "/scan", content, given, encode_chunked=not isinstance(content, bytes))
            got = connection.getresponse()
            kept = [(name, value) for name, value in got.getheaders() if name != "date"]
            answers.append((got.status, kept, REFERENCE.sub("…", got.read().decode())))
    # How long a text is does not depend on its reference.
    assert answers[0] == answers[1]
    assert answers[0][0] == status
    assert len(over_asgi) == (1 if direct else 2)
