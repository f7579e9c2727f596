"""abby as a real server: uvicorn with TLS on a loopback port, in a thread of its own, over cores and a store that a
test can steer."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import uvicorn
from tests.https_servers import Pair, write_certificate

from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, Down
from gatepost.analysis.report import Line, Report
from gatepost.api.http import ConnectedClient
from gatepost.api.server import server_config
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.store import open_store
from gatepost.store.message_records import MessageRecord
from gatepost.store.tenants import Tenant
from gatepost.view.values import NotShown
from gatepost.web.registry import build_site
from gatepost.workers.protocol import Extracted

TOKEN = "5f" * 32
READER = "6a" * 32
TENANT = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
RECORD = "0198c5a2-7c11-7d3e-9f00-0000000000ff"
LINES = (
    Line(kind="file:macro", title="t", where="1.2", facts={}, weight=310, counted=310, verdict="malware"),
    Line(kind="url:qr-code", title="t", where="1.3", facts={"a": "b"}, weight=120, counted=90, verdict="phishing"),
)
REPORT = Report("malware", "quarantine", ("file:macro", "url:qr-code"), 400, "because", lines=LINES)


class FakeCore:
    """A core elsewhere whose answers a test decides. `holding` keeps scans until it is cleared. What comes when it is
    full waits there, up to so many bytes."""

    def __init__(self, name: str = "fake", maximum: int = 20, waiting_limit: int = 1 << 30) -> None:
        self.name = name
        self.maximum = maximum
        self.threshold = maximum
        self.in_processing = 0
        self.queued = self._queued_bytes = 0
        self._waiting_limit = waiting_limit
        self.reset()

    def reset(self) -> None:
        """Idle and well."""
        self.enabled = True
        self.holding = False
        self.alive = True
        self.broken = False
        self.scanned: list[ScanRequest] = []
        self.bodies: list[MessageBody] = []
        self.sizes: list[int] = []

    async def scan(self, request: ScanRequest, body: MessageBody, _client: ConnectedClient) -> ScanResult | Full | Down:
        if not self.alive:
            return Down("dead", begun=False)
        if self.in_processing >= self.maximum and not await self._wait_for_slot(body.size):
            return Full(self._load(), overloaded=True)
        self.in_processing += 1
        try:
            self.scanned.append(request)
            self.bodies.append(body)
            self.sizes.append(len(body.read()))
            while self.holding and self.alive:  # noqa: ASYNC110  the test that steers it is in another thread
                await asyncio.sleep(0.005)
        finally:
            self.in_processing -= 1
        if self.broken:
            raise RuntimeError("secret detail")
        if not self._load_now():
            return Down("died")
        return ScanResult(request.ggrid, request.created, request.created + 7, REPORT)

    async def read_features(
        self, _request: ScanRequest, _body: MessageBody, _client: ConnectedClient
    ) -> Extracted | NotShown | Full | Down:
        return NotShown("it reads no reported messages")

    async def ask_load(self) -> Load | Down:
        return self._load_now() or Down("dead", begun=False)

    def load_now(self) -> Load | None:
        return None

    @property
    def waiting(self) -> tuple[int, int]:
        return 0, 0

    def trust(self, _ca: Path) -> None: ...

    async def close(self) -> None:
        return None

    async def _wait_for_slot(self, size: int) -> bool:
        if self._queued_bytes + size > self._waiting_limit:
            return False
        self.queued += 1
        self._queued_bytes += size
        try:
            while self.in_processing >= self.maximum and self.alive:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.005)
        finally:
            self.queued -= 1
            self._queued_bytes -= size
        return True

    def _load_now(self) -> Load | None:
        return self._load() if self.alive else None

    def _load(self) -> Load:
        return Load(self.in_processing, self.threshold, self.maximum, waiting=self.queued)


class OneMessage:
    async def find(self, ggrid: str, tenant: str | None = None) -> MessageRecord | None:
        envelope = Envelope("a@example.org", ("b@example.net",), "192.0.2.1", "mx.example.org", TENANT)
        return MessageRecord(RECORD, 1, 8, envelope, 10, "0" * 64, REPORT) if ggrid == RECORD else None


class EmptyQuarantine:
    async def find(self, ggrid: str, tenant: str | None = None) -> None:
        return None


class OneTenant:
    async def find(self, uid: str) -> Tenant | None:
        return Tenant(TENANT, "tenant", 1) if uid == TENANT else None


class NoApiKeys:
    def note_token_use(self, name: str, address: str) -> None: ...


class FakeStore:
    """One tenant and one record: all that these endpoints ask for. Of own rules there are none to ask for."""

    messages, quarantine, tenants, api_keys, own_rules = OneMessage(), EmptyQuarantine(), OneTenant(), NoApiKeys(), None


class Server:
    """A server in a thread, on a loopback port with or without TLS, and a client of it."""

    server: uvicorn.Server
    thread: threading.Thread

    def __init__(self, certificate: Pair, encrypted: bool = True) -> None:
        self.encrypted = encrypted
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.url = f"{'https' if encrypted else 'http'}://127.0.0.1:{self.port}"
        self.ca = str(certificate[0])
        self.tls = ssl.create_default_context(cafile=self.ca)
        self.client = httpx.Client(base_url=self.url, verify=self.tls, timeout=60, trust_env=False)

    def stop(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(60)
        self.socket.close()

    def connect(self) -> socket.socket:
        """A bare connection, for what no client would send."""
        plain = socket.create_connection(("127.0.0.1", self.port), 60)
        return self.tls.wrap_socket(plain, server_hostname="127.0.0.1") if self.encrypted else plain


class Service(Server):
    """A running abby."""

    def __init__(self, app: Any, certificate: Pair, cores: list[FakeCore], spool: Path, encrypted: bool) -> None:
        super().__init__(certificate, encrypted)
        self.cores, self.core, self.spool = cores, cores[0], spool
        chain, key = certificate if encrypted else (None, None)
        self.server = uvicorn.Server(server_config(app, certificate=chain, key=key))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        wait_for(lambda: self.server.started)

    def submit(self, parameters: Any = None, email: bytes = b"Subject: x\r\n\r\ny", **options: Any) -> httpx.Response:
        """A scan as an ordinary client sends it."""
        headers = {"Authorization": f"Bearer {options.pop('token', TOKEN)}"}
        stated = parameters if isinstance(parameters, bytes) else json.dumps(parameters or PARAMETERS).encode()
        files = {"parameters": (None, stated, "application/json"), "email": ("m.eml", email, "message/rfc822")}
        return self.client.post("/v1/messageQueue/submitEmail", files=files, headers=headers, **options)


PARAMETERS = {"borderMtaData": {"envelopeFrom": "a@example.org", "envelopeRecipients": ["b@example.net"]}}


def wait_for(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A certificate for the loopback address, with its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def launched(
    certificate: Pair,
    folder: Path,
    cores: list[FakeCore] | None = None,
    encrypted: bool = True,
    long_request_seconds: float = 3600.0,
    **options: Any,
) -> Service:
    """Start an abby over these cores."""
    fakes = cores or [FakeCore()]
    tokens = [
        StaticApiTokenSettings(name="mta", token=TOKEN),
        StaticApiTokenSettings(name="reader", token=READER, permissions=["messages.read"]),
    ]
    made = Cores(fakes, poll_seconds=0.1, grace_seconds=0.5)
    store: Any = FakeStore()
    services = create_services(cores=made, store=store, spool=Spool(folder), scan_seconds=long_request_seconds)
    site = build_site(services)
    app = create_app(services, tokens=tokens, routes=site.routes, error_page=site.error_page, **options)
    return Service(app, certificate, fakes, folder, encrypted)


@pytest.fixture
def start(certificate: Pair, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """`start([cores], …)` is an abby of the test's own; it ends with the test."""
    running: list[Service] = []

    def started(cores: list[FakeCore] | None = None, **options: Any) -> Service:
        running.append(launched(certificate, tmp_path / "spool", cores, **options))
        return running[-1]

    yield started
    for service in running:
        for core in service.cores:
            core.holding = False
        service.stop()


@pytest.fixture(scope="session")
def lasting_service(certificate: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = launched(certificate, tmp_path_factory.mktemp("spool"))
    yield service
    service.stop()


@pytest.fixture
def service(lasting_service: Service) -> Service:
    """An abby over one idle core, which tests share and find as new."""
    lasting_service.core.reset()
    wait_for(lambda: lasting_service.client.get("/readyz").status_code == 200)
    return lasting_service


class Lists(Server):
    """A running abby over a real store, and that store for what only an administrator does."""

    def __init__(self, url: str, certificate: Pair, folder: Path) -> None:
        super().__init__(certificate)
        self.storage, self.folder = url, folder
        self._certificate = certificate
        self._ready = threading.Event()
        self.thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self.thread.start()
        assert self._ready.wait(180)
        self.key = self.new_key()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = open_store(self.storage, self.folder)
        cores = Cores([FakeCore()], poll_seconds=60)
        services = create_services(cores=cores, store=self.store, spool=Spool(self.folder / "spool"))
        permissions: Any = ["messages.search", "messages.read", "messages.release", "messages.delete"]
        token = StaticApiTokenSettings(name="soar", token=READER, permissions=permissions)
        app = create_app(services, tokens=[token], look_back=True)
        chain, key = self._certificate
        self.server = uvicorn.Server(server_config(app, certificate=chain, key=key))
        self.loop.call_soon(self._ready.set)
        await self.server.serve([self.socket])
        await self.store.close()

    def run(self, coroutine: Any) -> Any:
        """Have the store do something."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(180)

    def new_tenant(self) -> str:
        uid: str = self.run(self.store.tenants.create(f"tenant {new_id()}")).uid
        return uid

    def new_key(self, tenant: str | None = None, read_only: bool = False, expires: int | None = None) -> str:
        secret: str = self.run(self.store.api_keys.create("test", tenant, read_only, expires))[0]
        return secret

    def call(self, operation: str, body: Any, key: str = "", **options: Any) -> httpx.Response:
        """One call as an ordinary client makes it; `body` is JSON, or the bytes to send."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"apikey {key or self.key}", "Content-Type": "application/json"}
        headers |= options.pop("headers", {})
        return self.client.post(f"/api/public/lists/v1/{operation}", content=content, headers=headers, **options)

    def entries(self, name: str, tenant: str | None = None) -> list[Any]:
        """What `listEntries` streams."""
        response = self.call("listEntries", {"listName": name, "tenantUid": tenant})
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def lists(
    request: pytest.FixtureRequest, certificate: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lists]:
    """The List API on either engine; tests share it and make tenants of their own."""
    url = "sqlite:lists.db"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        # It is made again where tests on the other engine came in between.
        name = f"lists_{new_id().replace('-', '')}"
        url = server.replace("/postgres?", f"/{name}?")
        asyncio.run(_create_database(server, name))
    service = Lists(url, certificate, tmp_path_factory.mktemp(request.param))
    yield service
    service.stop()


async def _create_database(server: str, name: str) -> None:
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    await connection.close()


@pytest.fixture
def tenant(lists: Lists) -> str:
    """A new tenant of the List API."""
    return lists.new_tenant()


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The `storage.url` of an engine, for processes of their own."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return f"sqlite:{tmp_path}/shared.db"


def error(response: httpx.Response) -> tuple[int, str]:
    """The status and the code of a failure, which is JSON with these two fields."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error", "message"}
    return response.status_code, body["error"]
