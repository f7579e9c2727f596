"""A PostgreSQL primary with a synchronous standby, and a PgBouncer that leads to the one which takes writes."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import asyncpg

from bench.ports import free_ports
from bench.scanning import await_port

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
INI = """[databases]
gatepost = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 60
max_client_conn = 500
server_login_retry = 1
"""


def find_programs() -> Path | None:
    """The folder with the programs of the newest PostgreSQL that the system has."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_basebackup"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def databases_missing() -> str | None:
    """Why they cannot be run here; None where they can."""
    if not shutil.which("pgbouncer", path=PATH):
        return "PgBouncer is not installed"
    return None if find_programs() and os.geteuid() == 0 else "PostgreSQL is not installed, or this is not root"


class Databases:
    """The servers run from `start` to `stop`; `url` is a `storage.url`, `direct` leads past PgBouncer."""

    def __init__(self, folder: Path) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs, self._folder = programs, folder
        primary, standby, self._pooler_port = free_ports(3)
        self._ports = {"primary": primary, "standby": standby}
        self._current = "primary"
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._pooler: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@127.0.0.1:{self._pooler_port}/gatepost?pooler=transaction"
        folder.mkdir()
        folder.chmod(0o755)
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    @property
    def direct(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._ports[self._current]}/gatepost"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, user="postgres", capture_output=True, cwd=self._folder, check=False, timeout=180)
        assert done.returncode == 0, (program, done.stderr)

    def start(self) -> None:
        """Make both servers and the database, and start all three."""
        self._run("initdb", "-D", f"{self._folder}/primary", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
        self._start_server("primary")
        self.run("CREATE DATABASE gatepost", database="postgres")
        origin = f"host=127.0.0.1 port={self._ports['primary']} user=postgres application_name=standby"
        copied = ("-D", f"{self._folder}/standby", "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
        self._run("pg_basebackup", "-d", origin, *copied)
        self._start_server("standby")
        self.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
        self._write_ini()
        program = shutil.which("pgbouncer", path=PATH)
        assert program
        with (self._folder / "pgbouncer.log").open("wb") as log:
            command = [program, "-u", "postgres", str(self._folder / "pgbouncer.ini")]
            self._pooler = subprocess.Popen(command, stdout=log, stderr=log)
        await_port(self._pooler_port)

    def _start_server(self, name: str) -> None:
        settings = (
            f"port={self._ports[name]}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self._folder}",
        )
        options = [f"--{each}" for each in (*settings, "fsync=off", "max_connections=200")]
        command = [str(self._programs / "postgres"), "-D", f"{self._folder}/{name}", *options]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._servers[name] = subprocess.Popen(command, user="postgres", stdout=log, stderr=log, cwd=self._folder)
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(AssertionError):
                self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self._ports[name]))
                return
            assert time.monotonic() < end, f"the {name} does not start"
            time.sleep(0.1)

    def _write_ini(self) -> None:
        text = INI.format(server=self._ports[self._current], port=self._pooler_port)
        (self._folder / "pgbouncer.ini").write_text(text)

    def fail_over(self, away: float) -> None:
        """End the primary as a crash does, promote the standby some seconds later, and have PgBouncer lead to it."""
        self._end("primary")
        time.sleep(away)
        self._run("pg_ctl", "promote", "-w", "-D", f"{self._folder}/standby")
        self._current = "standby"
        self._write_ini()
        assert self._pooler
        self._pooler.send_signal(signal.SIGHUP)

    def _end(self, name: str) -> None:
        process = self._servers.pop(name, None)
        if process:
            process.send_signal(signal.SIGQUIT)
            process.wait(60)

    def run(self, *statements: str, database: str = "gatepost") -> None:
        """Execute statements on the server that takes writes."""

        async def execute() -> None:
            connection = await asyncpg.connect(self.direct.replace("/gatepost", f"/{database}"))
            for statement in statements:
                await connection.execute(statement)
            await connection.close()

        asyncio.run(execute())

    def ask(self, statement: str) -> Any:
        """The first value of the first row."""

        async def fetch() -> Any:
            connection = await asyncpg.connect(self.direct)
            found = await connection.fetchval(statement)
            await connection.close()
            return found

        return asyncio.run(fetch())

    def stop(self) -> None:
        if self._pooler:
            self._pooler.terminate()
            self._pooler.wait(60)
        for name in list(self._servers):
            self._end(name)
