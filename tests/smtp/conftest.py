"""An SMTP intake on a loopback port, with a core and a quarantine of straw and a next hop that does as it is told."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gatepost.analysis.report import Report
from gatepost.auth.origin import parse_networks
from gatepost.policy.rules import MessageAction
from gatepost.scanning.held_mail import ReportObserver
from gatepost.scanning.request import Edit, Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.service.certificates import sign_certificate
from gatepost.service.plan import bind, port_of
from gatepost.smtp.client import Tenancy
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.intake import Intake
from gatepost.smtp.next_hop import NextHopTimeouts
from gatepost.smtp.routing import HopTls, Relay, Routing, SeenFeatures
from gatepost.smtp.services import MessageHandler, Services
from gatepost.store.errors import StorageError

ALL = ("PIPELINING", "SIZE 60000000", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES")
QUICK = SmtpLimits(greeting_pause=0.0)


class FixedTls(HopTls, frozen=True):
    """TLS with a context that the test has made."""

    context: ssl.SSLContext | None = None

    def build_context(self) -> ssl.SSLContext | None:
        return self.context


class StrawGuard:
    """Decides as it is told."""

    def __init__(self) -> None:
        self.decision = "deliver"
        self.action: MessageAction | None = None
        self.edits: tuple[Edit, ...] = ()
        self.senders: tuple[str, ...] = ()
        self.message_id = ""
        self.is_full = False
        self.fault: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.scanned: list[ScanRequest] = []
        self.raw: list[bytes] = []

    async def scan(self, request: ScanRequest, body: MessageBody, judged: ReportObserver) -> ScanResult | Full:
        if self.is_full:
            return Full(Load(1, 1, 1))
        self.scanned.append(request)
        self.raw.append(body.read())
        await self.may_end.wait()
        if self.fault:
            raise self.fault
        seen = {"senders": self.senders, "message_id": self.message_id}
        report = Report("clean", self.decision, ("list:x", "url:y"), 0, "why", action=self.action, **seen)  # type: ignore[arg-type]
        judged(report)
        return ScanResult(request.ggrid, request.created, request.created, report, edits=self.edits)


class StrawHolding:
    """Keeps in memory, or cannot."""

    def __init__(self) -> None:
        self.kept: list[tuple[ScanRequest, bytes]] = []
        self.broken = False
        self.digests: list[str] = []
        self.taken_back: list[str] = []
        # Of which the bytes were begun, and neither kept nor forgotten.
        self.begun: set[str] = set()

    def begin(self, ggrid: str, raw: MessageBody) -> None:
        self.begun.add(ggrid)

    async def forget(self, ggrid: str) -> None:
        self.begun.discard(ggrid)

    async def take_back(self, ggrid: str) -> None:
        self.taken_back.append(ggrid)

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        if self.broken:
            raise StorageError("no disk, secret detail")
        self.begun.discard(request.ggrid)
        self.kept.append((request, raw.read()))

    async def undecided_before(self, digest: str) -> int:
        self.digests.append(digest)
        return self.digests.count(digest) - 1


class Domains:
    """Domains to tenants as a store has them."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.broken = False

    async def tenant_of(self, domain: str) -> str | None:
        if self.broken:
            raise StorageError("gone")
        return self.of.get(domain)


class Hop:
    """A next hop. `says` answers a command that starts with a key; None closes, "stall" says nothing."""

    def __init__(self, features: tuple[str, ...] = ALL, tls: ssl.SSLContext | None = None) -> None:
        self.features, self.tls = features, tls
        self.says: dict[str, str | None] = {}
        self.lines: list[str] = []
        self.reads: list[int] = []
        self.messages: list[bytes] = []
        self.connections = 0
        self.encrypted = 0
        self._server: asyncio.Server
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.LimitOverrunError):
            writer.write((self.says.get("greeting") or "220 hop ESMTP").encode() + b"\r\n")
            while await self._obey((await reader.readuntil(b"\r\n")).decode().strip(), reader, writer):
                pass
        self._open.discard(writer)
        writer.close()

    async def _obey(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.lines.append(line)
        for start, said in self.says.items():
            if line.upper().startswith(start.upper()):
                if said is None:
                    return False
                if said != "stall":
                    writer.write(said.encode() + b"\r\n")
                return True
        verb = line.split(maxsplit=1)[0].upper()
        if verb == "EHLO":
            names = self.features + (("STARTTLS",) if self.tls else ())
            writer.write(b"".join(f"250-{name}\r\n".encode() for name in ("hop", *names)) + b"250 HELP\r\n")
        elif verb == "STARTTLS" and self.tls:
            writer.write(b"220 go\r\n")
            await writer.start_tls(self.tls)
            self.encrypted += 1
        elif verb == "DATA":
            writer.write(b"354 go\r\n")
            body = await reader.readuntil(b"\r\n.\r\n")
            if "dot" in self.says:
                said = self.says["dot"]
                if said is None:
                    return False
                if said != "stall":
                    writer.write(said.encode() + b"\r\n")
                return True
            self.messages.append(body[:-3])
            writer.write(b"250 2.0.0 Ok: queued\r\n")
        elif verb == "QUIT":
            writer.write(b"221 bye\r\n")
            return False
        else:
            writer.write(b"250 2.1.0 fine\r\n")
        return True


class Talker:
    """A client that sends bytes and reads replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def reply(self) -> str:
        """One whole reply, its lines joined with "|"; "" where the server closed."""
        lines = []
        async with asyncio.timeout(180):
            while line := await self.reader.readline():
                lines.append(line.decode("utf-8").removesuffix("\r\n"))
                if line[3:4] != b"-":
                    break
        return "|".join(lines)

    async def say(self, data: bytes | str) -> str:
        self.send(data)
        return await self.reply()

    def send(self, data: bytes | str) -> None:
        self.writer.write(data if isinstance(data, bytes) else data.encode() + b"\r\n")

    async def closed(self) -> bool:
        async with asyncio.timeout(180):
            return await self.reader.read(1) == b""

    async def up_to_data(self, sender: str = "a@x.example", recipient: str = "b@y.example") -> None:
        """The usual start, with a 354 at its end."""
        for line, code in (("EHLO c", "250"), (f"MAIL FROM:<{sender}>", "250"), (f"RCPT TO:<{recipient}>", "250")):
            said = await self.say(line)
            assert said.startswith(code), said
        assert (await self.say("DATA")).startswith("354")


class SourceParts:
    """What is behind a source: a core, a quarantine and domains of tenants. `clients` are hung up in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.guard, self.holding, self.domains = StrawGuard(), StrawHolding(), Domains()
        self.clients: list[Any] = []

    def make_services(
        self,
        limits: SmtpLimits,
        *,
        routing: Routing | None = None,
        tenants: dict[str, str] | None = None,
        after_queue: bool = False,
        **tls: Any,
    ) -> Services:
        return Services(
            guard=self.guard,
            handler=MessageHandler(self.guard, self.holding, after_queue=after_queue),
            routing=routing,
            tenancy=Tenancy(tenants or {}, self.domains.tenant_of),
            spool=Spool(self.folder / "spool"),
            hostname="gate.example",
            limits=limits,
            **tls,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what no event tells."""
        async with asyncio.timeout(180):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    @contextlib.asynccontextmanager
    async def serving(self, intake: Intake) -> AsyncIterator[None]:
        """Serve, and end whatever is under way when the test ends."""
        running = asyncio.create_task(intake.run_here())
        await intake.ready.wait()
        try:
            yield
        finally:
            for client in self.clients:
                client.writer.close()
            self.guard.may_end.set()
            intake.should_exit = True
            await running
            await asyncio.sleep(0.02)  # transports close in the loop's next turns


class Deployment(SourceParts):
    """The whole gateway."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.services: Services
        self.intake: Intake
        self.relay: Relay | None = None
        self.port = 0
        self.certificate: Path

    async def connect(self, greeted: bool = True) -> Talker:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        talker = Talker(reader, writer)
        self.clients.append(talker)
        if greeted:
            assert await talker.reply() == "220 gate.example ESMTP"
        return talker

    async def send(self, raw: bytes, **envelope: str) -> str:
        """Have a new client send a message; return the reply to it."""
        client = await self.connect()
        await client.up_to_data(**envelope)
        return await client.say(raw + b".\r\n")


@contextlib.asynccontextmanager
async def housed(
    folder: Path,
    hop: Hop | None = None,
    *,
    limits: SmtpLimits = QUICK,
    listed: tuple[str, ...] = (),
    tenants: dict[str, str] | None = None,
    tls: str = "offered",
    after_queue: bool = False,
    max_connections: int = 100,
    reserved: int = 0,
    delivery_tls: Any = "opportunistic",
    patience: float = 60.0,
    hop_context: ssl.SSLContext | None = None,
    seen: SeenFeatures | None = None,
    routing: Routing | None = None,
) -> AsyncIterator[Deployment]:
    """A gateway before this next hop."""
    deployment = Deployment(folder)
    chain, key = folder / "chain.pem", folder / "key.pem"
    made = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    chain.write_bytes(made[0])
    key.write_bytes(made[1])
    deployment.certificate = chain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    if hop is not None:
        url = f"smtp://127.0.0.1:{await hop.start()}"
        hop_tls = FixedTls(delivery_tls, context=hop_context) if hop_context else None
        timeouts = NextHopTimeouts.from_setting(patience)
        deployment.relay = Relay(url, delivery_tls, "gate.example", timeouts, hop_tls=hop_tls, seen=seen)
        routing = Routing.through(deployment.relay)
    deployment.services = deployment.make_services(
        limits,
        routing=routing,
        tenants=tenants,
        after_queue=after_queue,
        tls=None if tls == "off" else context,
        tls_required=tls == "required",
    )
    sockets = bind(("127.0.0.1",), 0, "test")
    deployment.port = port_of(sockets)
    known = parse_networks(tuple(listed))
    deployment.intake = Intake(deployment.services, sockets, max_connections, known, reserved=reserved)
    try:
        async with deployment.serving(deployment.intake):
            yield deployment
    finally:
        if hop is not None:
            await hop.stop()


Housed = Callable[..., contextlib.AbstractAsyncContextManager[Deployment]]


@pytest.fixture
def deployment(tmp_path: Path) -> Housed:
    """`async with deployment(Hop(), …) as gate:` is a gateway of the test's own."""
    return lambda hop=None, **options: housed(tmp_path, hop, **options)


@pytest.fixture
def hop() -> type[Hop]:
    return Hop


@pytest.fixture
def loop_runner() -> Iterator[asyncio.Runner]:
    """The loop that the service uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner
