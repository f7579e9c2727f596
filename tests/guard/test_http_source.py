"""Over real sockets with the client that abby uses, and every refusal beside it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from tests.waiting_client import WaitingClient

from gatepost.abby.remote_core import RemoteCore
from gatepost.analysis.report import Report
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.api.server import server_config
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.service import Guard
from gatepost.mail.message import Envelope
from gatepost.process import logs
from gatepost.process.metrics import Timed, exposition
from gatepost.scanning.request import CONTENT_TYPE, Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.service.certificates import sign_certificate

SECRET = "a shared secret"
REPORT = Report("clean", "deliver", ("a:b",), 0, "nothing")
HEAD = b'{"ggrid":"0198A000-0000-7000-8000-00000000000a","created":7,"envelope":{"sender":"s","recipients":["r"]}}'
FRAME = len(HEAD).to_bytes(4) + HEAD + b"Subject: x\r\n\r\nbody"
TYPE = {"content-type": CONTENT_TYPE}


class Core(Guard):
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.requests: list[ScanRequest] = []
        self.bodies: list[bytes] = []
        self.present = 3
        self.sizes: list[int] = []
        self.full: Full | None = None
        self.fault: Exception | None = None

    async def look(self) -> None:
        """Nothing has changed."""

    def load(self) -> Load:
        return Load(self.present, 5, 10)

    async def scan_in_turn(
        self, request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> ScanResult | Full | ClientLeft:
        if self.fault:
            raise self.fault
        if self.full:
            return self.full
        self.requests.append(request)
        self.sizes.append(body.size)
        self.bodies.append(body.read() if body.size < 1_000 else b"")
        return ScanResult(request.ggrid, request.created, request.created + 1, REPORT)


def app(core: Core, folder: Path) -> httpx.ASGITransport:
    registry = CollectorRegistry()
    registry.register(Timed("things", "Things", ()))
    return httpx.ASGITransport(build_rest_app(core, SECRET, Spool(folder), lambda: exposition(registry)))


def asked(
    core: Core, folder: Path, method: str = "POST", path: str = "/scan", secret: str = SECRET, **options: object
) -> httpx.Response:
    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=app(core, folder), base_url="http://core") as client:
            headers = {"authorization": f"Bearer {secret}", **options.pop("headers", {})}  # type: ignore[dict-item]
            return await client.request(method, path, headers=headers, **options)  # type: ignore[arg-type]

    return asyncio.run(run())


def test_a_scan(tmp_path: Path) -> None:
    core = Core()
    answer = asked(core, tmp_path, content=FRAME, headers=TYPE)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    result = answer.json()
    assert (result["ggrid"], result["created"], result["completed"]) == ("0198a000-0000-7000-8000-00000000000a", 7, 8)
    assert result["report"]["tags"] == ["a:b"]
    assert core.bodies == [b"Subject: x\r\n\r\nbody"]
    assert core.requests[0].envelope == Envelope("s", ("r",))


def test_load_health_and_metrics(tmp_path: Path) -> None:
    assert asked(Core(), tmp_path, "GET", "/load").json() == {"in_processing": 3, "threshold": 5, "maximum": 10}
    assert asked(Core(), tmp_path, "GET", "/load", secret="x").status_code == 401
    assert asked(Core(), tmp_path, "GET", "/healthz", secret="x").json() == {"status": "ok"}
    metrics = asked(Core(), tmp_path, "GET", "/metrics", secret="x")
    assert metrics.status_code == 200
    assert "things_seconds_count" in metrics.text


@pytest.mark.parametrize(
    ("client", "header", "status"),
    [("127.0.0.1", "", 200), ("::1", "", 200), ("192.0.2.7", "", 403), ("127.0.0.1", "192.0.2.7", 403), ("", "", 403)],
)
async def test_metrics_are_for_this_machine(tmp_path: Path, client: str, header: str, status: int) -> None:
    transport = app(Core(), tmp_path)
    transport.client = (client, 1)
    async with httpx.AsyncClient(transport=transport, base_url="http://core") as asking:
        answer = await asking.get("/metrics", headers={"x-forwarded-for": header} if header else {})
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"] == "forbidden"


@pytest.mark.parametrize(
    ("method", "path", "secret", "content", "content_type", "status", "code"),
    [
        ("POST", "/scan", "wrong", FRAME, CONTENT_TYPE, 401, "unauthorized"),
        ("POST", "/scan", "", FRAME, CONTENT_TYPE, 401, "unauthorized"),
        ("POST", "/scan", SECRET + "x", FRAME, CONTENT_TYPE, 401, "unauthorized"),
        ("POST", "/scan", SECRET, FRAME, "application/json", 415, "unsupported_media_type"),
        ("POST", "/scan", SECRET, FRAME, "", 415, "unsupported_media_type"),
        ("POST", "/scan", SECRET, b"", CONTENT_TYPE, 400, "malformed_request"),
        ("POST", "/scan", SECRET, FRAME[: 4 + len(HEAD)], CONTENT_TYPE, 400, "empty_email"),
        ("POST", "/scan", SECRET, b"\0\0\0\2{}body", CONTENT_TYPE, 400, "invalid_parameters"),
        ("GET", "/scan", SECRET, b"", CONTENT_TYPE, 405, "method_not_allowed"),
        ("POST", "/load", SECRET, b"", CONTENT_TYPE, 405, "method_not_allowed"),
        ("GET", "/", SECRET, b"", CONTENT_TYPE, 404, "not_found"),
        ("POST", "/scan/", SECRET, FRAME, CONTENT_TYPE, 404, "not_found"),
        ("BREW", "/nowhere", "", b"", CONTENT_TYPE, 404, "not_found"),
    ],
)
def test_refusals(
    tmp_path: Path, method: str, path: str, secret: str, content: bytes, content_type: str, status: int, code: str
) -> None:
    core = Core()
    answer = asked(core, tmp_path, method, path, secret, content=content, headers={"content-type": content_type})
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert status != 401 or answer.headers["www-authenticate"] == "Bearer"
    assert status != 405 or answer.headers["allow"]
    assert core.requests == []


@pytest.mark.parametrize("overloaded", [False, True])
def test_a_core_that_takes_no_message(tmp_path: Path, overloaded: bool) -> None:
    core = Core()
    core.full = Full(Load(10, 5, 10), overloaded=overloaded)
    answer = asked(core, tmp_path, content=FRAME, headers=TYPE)
    assert answer.status_code == 503
    assert (answer.json()["error"], answer.json()["overloaded"]) == ("full", overloaded)
    assert answer.json()["load"] == {"in_processing": 10, "threshold": 5, "maximum": 10}


def test_a_full_core_takes_a_message_that_can_wait(tmp_path: Path) -> None:
    core = Core()
    core.present = 10
    assert asked(core, tmp_path, content=FRAME, headers=TYPE).status_code == 200


def test_a_fault_of_ours_has_a_reference_that_is_in_the_log(tmp_path: Path) -> None:
    core = Core()
    core.fault = RuntimeError("private detail")
    with logs.capture() as logged:
        answer = asked(core, tmp_path, content=FRAME, headers=TYPE)
    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert "private" not in answer.text
    assert logged[0]["reference"] in answer.json()["message"]


@contextlib.asynccontextmanager
async def served(core: Core, folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """The source over HTTPS, as the service runs it."""
    certificate, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    transport = app(core, folder / "spool")
    config = server_config(transport.app, certificate=folder / "cert.pem", key=folder / "key.pem")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.ensure_future(server._serve([listener]))
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}", folder / "cert.pem"
        finally:
            server.should_exit = True
            await serving


def over_https(folder: Path, core: Core, test: Callable[[RemoteCore, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served(core, folder) as (address, ca):
            remote = RemoteCore(address, SECRET, ca)
            context = ssl.create_default_context(cafile=ca)
            headers = {"Authorization": f"Bearer {SECRET}"}
            try:
                async with httpx.AsyncClient(base_url=address, headers=headers, verify=context, timeout=60) as client:
                    await test(remote, client)
            finally:
                await remote.close()

    asyncio.run(run())


def test_with_the_client_that_abby_uses(tmp_path: Path) -> None:
    async def test(remote: RemoteCore, _client: httpx.AsyncClient) -> None:
        assert await remote.ask_load() == Load(3, 5, 10)
        with Spool(tmp_path / "theirs").new() as body:
            body.write(b"mail")
            await body.finish()
            ggrid, envelope = "0198a000-0000-7000-8000-00000000000b", Envelope("ü@s", ("r",), "192.0.2.1", "h", "t")
            asked, client = ScanRequest(ggrid, 5, envelope), WaitingClient()
            assert await remote.scan(asked, body, client) == ScanResult(ggrid, 5, 6, REPORT)
            assert core.requests[0].envelope == envelope
            for core.full in (Full(Load(10, 5, 10)), Full(Load(10, 5, 10, waiting=3), overloaded=True)):
                assert await remote.scan(asked, body, client) == core.full

    core = Core()
    over_https(tmp_path, core, test)


async def _pieces(total: int) -> AsyncIterator[bytes]:
    yield len(HEAD).to_bytes(4) + HEAD
    piece = bytes(1 << 20)
    for start in range(0, total, len(piece)):
        yield piece[: total - start]


@pytest.mark.parametrize("announced", [True, pytest.param(False, marks=pytest.mark.variant)])
def test_fifty_mebibytes_and_one_byte_more(tmp_path: Path, announced: bool) -> None:
    async def test(_remote: RemoteCore, client: httpx.AsyncClient) -> None:
        for total, status in ((52_428_800, 200), (52_428_801, 413), (60 << 20, 413), (5, 200)):
            length = {"content-length": str(4 + len(HEAD) + total)} if announced else {}
            answer = await client.post("/scan", content=_pieces(total), headers={**TYPE, **length})
            assert answer.status_code == status, answer.text
            assert status == 200 or answer.json()["error"] == "payload_too_large"
        assert core.sizes == [52_428_800, 5]

    core = Core()
    over_https(tmp_path, core, test)


def test_a_large_upload_that_is_refused_gets_its_answer(tmp_path: Path) -> None:
    """Also where the refusal is known before the upload has ended."""

    async def test(_remote: RemoteCore, client: httpx.AsyncClient) -> None:
        for headers, status in ((TYPE, 503), ({**TYPE, "authorization": "Bearer wrong"}, 401), ({}, 415)) * 2:
            answer = await client.post("/scan", content=_pieces(20 << 20), headers=headers)
            assert answer.status_code == status

    core = Core()
    core.full = Full(Load(10, 5, 10))
    over_https(tmp_path, core, test)
