"""Three cores and the API service as real processes over two PostgreSQL databases: each tenant's mail is where the map
says, and a database that is stopped puts off the mail of its own tenants alone."""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from bench import load
from bench.ports import free_port
from bench.scanning import TOKEN, await_port

from gatepost.store import open_store
from gatepost.store.tenants import Tenant

SECRET = "c" * 64
CORES = 3
SCANS = 12
GTUBE = b"XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
PLAIN = b"From: Ann <ann@shop.example>\r\nTo: bob@example.org\r\nSubject: hello\r\n\r\nSee you on Tuesday.\r\n"
HELD = PLAIN.replace(b"See you on Tuesday.", GTUBE)
STOP = (
    "ALTER DATABASE gatepost_other ALLOW_CONNECTIONS false",
    """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = 'gatepost_other' AND application_name = 'gatepost'""",
)
START = ("ALTER DATABASE gatepost_other ALLOW_CONNECTIONS true",)


def query(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements as somebody with the database does; returns the rows of the last."""

    async def run() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return [tuple(row) for row in rows]
        finally:
            await connection.close()

    return asyncio.run(run())


def make_tenants(url: str, folder: Path) -> tuple[str, str]:
    """Two tenants, of which the map will name the second."""

    async def run() -> tuple[str, str]:
        store = open_store(url, folder)
        try:
            made = [await store.tenants.create(name) for name in ("near", "far")]
        finally:
            await store.close()
        near, far = (tenant.uid for tenant in made if isinstance(tenant, Tenant))
        return near, far

    return asyncio.run(run())


class Deployment:
    """Three cores and abby, over two databases."""

    def __init__(self, first: str, other: str, folder: Path) -> None:
        self.first, self.other, self.folder = first, other, folder
        self.near, self.far = make_tenants(first, folder)
        self.storage = (
            f"storage:\n  url: '{first}'\n  databases: {{other: '{other}'}}\n  tenants: {{{self.far}: other}}\n"
        )
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """All four processes."""
        with ExitStack() as stack:
            folders, ports = [self.folder / f"core{number}" for number in range(CORES)], []
            for folder in folders:
                ports.append(self._configure_core(folder))
                stack.enter_context(_started("guard", folder))
            for port in ports:
                await_port(port)
            port = self._configure_abby(folders, ports)
            stack.enter_context(_started("abby", self.folder / "abby"))
            await_port(port)
            self.url = f"https://127.0.0.1:{port}"
            until(lambda: self.status() == "GREEN")
            yield

    def _configure_core(self, folder: Path) -> int:
        file, port = folder / "guard" / "core" / "guard.yml", free_port()
        file.parent.mkdir(parents=True)
        file.write_text(
            f"scanSources:\n  restApi: {{host: 127.0.0.1, port: {port}, secret: '{SECRET}', keep: held}}\n"
            f"workerProcesses: 1\ndns: {{nameservers: ['127.0.0.77:53'], timeout: 50}}\n{self.storage}"
            f"quarantine: {{url: 'file:{self.folder / 'held'}'}}\nlog: {{level: warning}}\n"
        )
        return port

    def _configure_abby(self, folders: list[Path], ports: list[int]) -> int:
        file, port = self.folder / "abby" / "abby" / "abby" / "abby.yml", free_port()
        file.parent.mkdir(parents=True)
        trusted = self.folder / "cores.pem"
        trusted.write_bytes(b"".join((each / "tls" / "certificate.pem").read_bytes() for each in folders))
        hosts = ", ".join(f"'https://127.0.0.1:{each}'" for each in ports)
        file.write_text(
            f"listen: {{host: 127.0.0.1, port: {port}}}\n{self.storage}log: {{level: warning}}\n"
            f"serviceProviders:\n  core: {{hosts: [{hosts}], secret: '{SECRET}', ca: '{trusted}'}}\n"
            f"staticApiTokens:\n  - {{name: bench, token: '{TOKEN}'}}\n"
        )
        return port

    def scan(self, tenant: str | None, raw: bytes = PLAIN, to: str = "bob@example.org") -> tuple[int, dict[str, Any]]:
        """Scan one message on a connection of its own; returns the status and the answer."""
        envelope: dict[str, object] = {"envelopeFrom": "ann@shop.example", "envelopeRecipients": [to]}
        return self.ask(load.upload(raw, envelope, TOKEN, tenant=tenant))

    def scan_many(self, tenants: list[str | None], raw: bytes = PLAIN) -> Counter[int]:
        """Scan messages of these tenants, six at a time; returns the codes."""
        with ThreadPoolExecutor(6) as pool:
            return Counter(code for code, _ in pool.map(lambda tenant: self.scan(tenant, raw), tenants))

    def ask(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """Send a request."""
        connection = load.Connection(self.url)
        try:
            head, _, body = connection.exchange(request).partition(b"\n")
        finally:
            connection.close()
        return int(head.split()[1]), json.loads(body or b"{}")

    def status(self) -> str:
        """What `POST /v1/admin/status` says."""
        request = (
            f"POST /v1/admin/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n"
        )
        return str(self.ask(request.encode())[1]["messageQueueStatus"])

    def command(self, *words: str) -> str:
        """What a command prints, with the configuration of abby."""
        place = ("--config", str(self.folder / "abby"), "--data", str(self.folder / "abby"))
        command = [sys.executable, "-m", "gatepost", *words, *place]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        return ended.stdout or ended.stderr


@contextmanager
def _started(service: str, folder: Path) -> Iterator[None]:
    with (folder / f"{service}.log").open("ab") as log:
        command = [sys.executable, "-m", "gatepost", service, "--config", str(folder), "--data", str(folder)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def until(true: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


@pytest.mark.variant
@pytest.mark.process
def test_three_cores_over_two_databases(postgres_url: str, other_postgres_url: str, tmp_path: Path) -> None:
    house = Deployment(postgres_url, other_postgres_url, tmp_path)
    tenants: list[str | None] = [house.near, house.far, None]
    with house.running():
        assert house.scan_many(tenants * SCANS) == Counter({200: 3 * SCANS})
        assert house.scan_many(tenants, HELD) == Counter({200: 3})
        assert house.scan(house.far, to="eve@example.org")[0] == 200
        # Each tenant's where the map says, and from every core.
        by_tenant = "SELECT tenant, count(*)::int FROM messages GROUP BY 1"
        assert dict(query(house.other, by_tenant)) == {house.far: SCANS + 2}
        assert dict(query(house.first, by_tenant)) == {house.near: SCANS + 1, None: SCANS + 1}
        assert query(house.other, "SELECT tenant FROM held") == [(house.far,)]
        assert len(query(house.first, "SELECT 1 FROM held")) == 2
        # Readers of one tenant, and of all.
        assert len(json.loads(house.command("quarantine", "list", "--json"))) == 3
        (held,) = json.loads(house.command("quarantine", "list", "--tenant", house.far, "--json"))
        assert "deleted" in house.command("quarantine", "delete", held["ggrid"])
        assert query(house.other, "SELECT 1 FROM held") == []
        assert query(house.first, "SELECT 1 FROM audit WHERE action = 'quarantine.delete'") == [(1,)]
        house.command("privacy", "erase", "eve@example.org", "--yes")
        assert dict(query(house.other, by_tenant)) == {house.far: SCANS + 1}
        assert "database other" in house.command("doctor")
        _stop_and_start(house, tenants)
        total = [query(url, "SELECT count(*)::int FROM messages")[0][0] for url in (house.first, house.other)]
        assert total == [2 * SCANS + 2 + 4, SCANS + 1 + 2]


def _stop_and_start(house: Deployment, tenants: list[str | None]) -> None:
    """The second database stops and comes back; each tenant is asked for before and after."""
    try:
        query(house.first, *STOP)
        code, said = house.scan(house.far)
        assert code == 503, said
        assert house.scan_many([house.near, None]) == Counter({200: 2})
        until(lambda: house.status() == "YELLOW")
        assert house.scan(house.far)[0] == 503
    finally:
        query(house.first, *START)
    until(lambda: house.scan(house.far)[0] == 200)
    until(lambda: house.status() == "GREEN")
    assert house.scan_many(tenants) == Counter({200: 3})
