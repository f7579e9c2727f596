"""One door for SMTP and HTTP: with 20 slots busy, the 21st mail over SMTP waits until it gets 451 4.3.2, and the 21st
scan over HTTP waits for a slot.

Real sockets on both sides; only the analysis is one that ends when the test says so. A slot that SMTP frees goes to the
scan that waits, at once: polling is switched off here, so nothing else could tell abby of it.
"""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import pytest
from tests.https_servers import serving
from tests.smtp.conftest import StrawHolding

from gatepost.abby import cores as abby_cores
from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, LocalCore
from gatepost.abby.remote_core import RemoteCore
from gatepost.analysis.report import Report
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.service import Guard
from gatepost.scanning.spool import Spool
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.settings.scan_sources import RestApiSettings, ScanSourcesSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.intake import Intake
from gatepost.smtp.services import MessageHandler, Services
from gatepost.store import open_store
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.jobs import Job
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import JUDGE

T = TypeVar("T")

SLOTS, TOKEN, SECRET = 20, "5f" * 32, "shared"
SETTINGS = Settings(scan_sources=ScanSourcesSettings(rest_api=RestApiSettings()))
MAIL = b"Subject: x\r\n\r\ny\r\n"


class Pool(WorkerPool):
    """Analyses that end when they are told to, by the word in their sender."""

    def __init__(self) -> None:
        self.ends = {kind: asyncio.Event() for kind in ("smtp", "http", "first", "late")}
        self.running: list[str] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def run(self, job: Job[T]) -> T:
        assert job.purpose is JUDGE
        kind = job.envelope.sender.partition("@")[0]
        self.running.append(kind)
        await self.ends[kind].wait()
        self.running.remove(kind)
        return cast("T", Report("policy", "drop", (), 0, ""))


class Gate:
    """guard with both sources, and abby before it, on loopback ports."""

    def __init__(self, folder: Path) -> None:
        self.pool, self.queue = Pool(), FairQueue(SLOTS, SLOTS, 5.0, patience=0.05)
        self.store: Any = open_store("sqlite:g.db", folder)
        self.guard = Guard(SETTINGS, self.store, self.pool, Answerer(Resolver([], 0.1)), self.queue)
        self.spool = Spool(folder / "spool")
        self.smtp = socket.create_server(("127.0.0.1", 0))
        self.cores: Cores
        self.client: httpx.AsyncClient

    def intake(self) -> Intake:
        services = Services(
            guard=self.guard,
            handler=MessageHandler(self.guard, StrawHolding()),
            routing=None,
            tenancy=Tenancy({}, self.store.tenants.of_domain),
            spool=self.spool,
            hostname="gate.example",
            limits=SmtpLimits(greeting_pause=0.0),
        )
        return Intake(services, [self.smtp], 100)

    async def scan(self, sender: str) -> httpx.Response:
        stated = {"borderMtaData": {"envelopeFrom": f"{sender}@x.example", "envelopeRecipients": ["b@y.example"]}}
        files = {
            "parameters": (None, json.dumps(stated).encode(), "application/json"),
            "email": ("m.eml", MAIL, "message/rfc822"),
        }
        return await self.client.post("/v1/messageQueue/submitEmail", files=files)

    async def turns(self, colour: str) -> None:
        """The status may be a quarter of a second old."""
        async with asyncio.timeout(180):
            while (await self.client.post("/v1/admin/status")).json()["messageQueueStatus"] != colour:  # noqa: ASYNC110  the service tells nobody
                await asyncio.sleep(0.02)


class Sender:
    """One SMTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, line: bytes) -> bytes:
        self._writer.write(line + b"\r\n")
        return await self.reply()

    async def reply(self) -> bytes:
        while (line := await self._reader.readline())[3:4] == b"-":
            pass
        return line

    async def message(self, sender: bytes = b"smtp") -> bytes:
        """The last reply to a whole message, or the one that ended it before."""
        for line in (b"MAIL FROM:<%b@x.example>" % sender, b"RCPT TO:<b@y.example>", b"DATA"):
            if not (said := await self.say(line)).startswith((b"250", b"354")):
                return said
        return await self.say(MAIL + b".")

    def close(self) -> None:
        self._writer.close()


async def connected(gate: Gate) -> Sender:
    sender = Sender(*await asyncio.open_connection(*gate.smtp.getsockname()))
    await sender.reply()
    await sender.say(b"EHLO c")
    return sender


async def until(condition: Any) -> None:
    async with asyncio.timeout(180):
        while not condition():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def gated(folder: Path, certificate: tuple[Path, Path], *, apart: bool) -> AsyncIterator[Gate]:
    gate = Gate(folder)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(gate.store.close)
        intake = gate.intake()
        running = asyncio.create_task(intake.run_here())
        await intake.ready.wait()
        core: LocalCore | RemoteCore = LocalCore(gate.guard)
        if apart:
            app = build_rest_app(gate.guard, SECRET, gate.spool, bytes)
            core = RemoteCore(await stack.enter_async_context(serving(app, certificate)), SECRET, certificate[0])
        gate.cores = Cores([core], poll_seconds=600)
        tokens = [StaticApiTokenSettings(name="mta", token=TOKEN)]
        made = create_app(create_services(cores=gate.cores, store=gate.store, spool=gate.spool), tokens=tokens)
        url = await stack.enter_async_context(serving(made, certificate))
        gate.client = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=url,
                verify=ssl.create_default_context(cafile=str(certificate[0])),
                trust_env=False,
                timeout=60,
                headers={"Authorization": f"Bearer {TOKEN}"},
            )
        )
        try:
            yield gate
        finally:
            for end in gate.pool.ends.values():
                end.set()
            intake.should_exit = True
            await running


@pytest.mark.parametrize("apart", [False, True], ids=["one process", "over HTTPS"])
async def test_the_21st_mail_gets_451_and_the_21st_scan_waits_and_is_woken(
    apart: bool, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody polls: only the core itself can say that a slot is free.
    monkeypatch.setattr(abby_cores, "RETRY_SECONDS", 600.0)
    async with asyncio.timeout(60), gated(tmp_path, certificate, apart=apart) as gate:
        senders = [await connected(gate) for _ in range(12)]
        mails = [asyncio.create_task(sender.message()) for sender in senders[:10]]
        first = asyncio.create_task(senders[10].message(b"first"))
        scans = [asyncio.create_task(gate.scan("http")) for _ in range(9)]
        await until(lambda: len(gate.pool.running) == SLOTS)
        await gate.turns("RED")

        extra = senders[11]
        assert (await extra.message()).startswith(b"451 4.3.2")
        waiting = [asyncio.create_task(gate.scan("late")), asyncio.create_task(gate.scan("late"))]
        await until(lambda: gate.guard.waiting[0] == 2)
        assert (await extra.message()).startswith(b"451 4.3.2")
        assert gate.guard.load().in_processing == SLOTS
        assert "late" not in gate.pool.running

        # One mail ends; its slot is the first scan's, while everything else stays as busy as it was.
        gate.pool.ends["first"].set()
        assert (await first).startswith(b"250")
        await until(lambda: gate.pool.running.count("late") == 1)
        assert gate.guard.waiting[0] == 1
        assert gate.cores.waiting == (0 if apart else 1), "what waits in another process is that one's"
        assert len(gate.pool.running) == SLOTS

        for kind in ("smtp", "http", "late"):
            gate.pool.ends[kind].set()
        assert all(reply.startswith(b"250") for reply in await asyncio.gather(*mails))
        assert {answer.status_code for answer in await asyncio.gather(*scans, *waiting)} == {200}
        assert (await extra.message()).startswith(b"250")
        await gate.turns("GREEN")
        assert gate.queue.counters().admitted == 10 + 1 + 9 + 2 + 1
        for sender in senders:
            sender.close()
