"""guard as a mail gateway in a process of its own, a next hop that records what it takes, and a Postfix around it."""

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from bench.ports import free_port

POSTFIX_MASTER = Path("/usr/lib/postfix/sbin/master")
RECIPES = Path(__file__).parents[1] / "docs" / "postfix.md"
_ID = re.compile(rb"(?im)^Message-ID: <([^>]+)>")


class Sink:
    """A next hop in a thread. Each step fails with this chance: 4xx, 5xx, a closed connection or silence."""

    def __init__(self, failing: float = 0.0, stall: float = 1.0, seed: int = 1) -> None:
        self.failing, self.stall = failing, stall
        self.taken: Counter[str] = Counter()
        self.messages: list[bytes] = []
        self.lines: list[str] = []
        self.failures: Counter[str] = Counter()
        self.keep = True
        self.port = 0
        self._random = random.Random(seed)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(180)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._session, "127.0.0.1", 0, limit=64 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.write(b"220 sink ESMTP\r\n")
            while True:
                line = (await reader.readuntil(b"\r\n")).decode("utf-8", "replace").strip()
                if self.keep:
                    self.lines.append(line)
                if not await self._obey(line, reader, writer):
                    break
        writer.close()

    async def _obey(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        verb = line[:4].upper()
        if verb == "EHLO":
            writer.write(
                b"250-sink\r\n250-PIPELINING\r\n250-SIZE 60000000\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 DSN\r\n"
            )
        elif verb == "QUIT":
            writer.write(b"221 bye\r\n")
            return False
        elif verb in ("RSET", "NOOP", "HELO"):
            writer.write(b"250 fine\r\n")
        elif verb == "DATA":
            writer.write(b"354 go\r\n")
            message = await reader.readuntil(b"\r\n.\r\n")
            return await self._fails(verb, writer) or self._takes(message, writer)
        elif not await self._fails(verb, writer):
            writer.write(b"250 fine\r\n")
        else:
            return not writer.is_closing()
        return True

    async def _fails(self, verb: str, writer: asyncio.StreamWriter) -> bool:
        """Perhaps fail; whatever fails was not taken."""
        if self._random.random() >= self.failing:
            return False
        # 5xx ends a message's way for good, so only a few get one.
        kind = self._random.choices(("4xx", "drop", "stall", "5xx"), (10, 5, 2, 1))[0]
        self.failures[f"{verb} {kind}"] += 1
        if kind == "stall":
            await asyncio.sleep(self.stall)
        if kind in ("stall", "drop"):
            writer.transport.abort()
            raise ConnectionResetError
        writer.write(b"451 4.3.0 later\r\n" if kind == "4xx" else b"550 5.7.1 never\r\n")
        return True

    def _takes(self, message: bytes, writer: asyncio.StreamWriter) -> bool:
        found = _ID.search(message)
        self.taken[found[1].decode() if found else ""] += 1
        if self.keep:
            self.messages.append(message[:-3])
        writer.write(b"250 2.0.0 taken\r\n")
        return True


def held_mail(folder: Path) -> dict[str, bytes]:
    """The bytes of every message that a data folder with SQLite holds, by ggrid; b"" where a message has none. Bytes
    that no row knows are no mail."""
    with contextlib.closing(apsw.Connection(str(folder / "gatepost.db"))) as database:
        held = dict.fromkeys((ggrid for (ggrid,) in database.execute("SELECT ggrid FROM held")), b"")
        held |= dict(database.execute("SELECT ggrid, content FROM held_bytes"))
    for file in (folder / "quarantine").rglob("*.eml"):
        if file.stem in held and not file.name.startswith("."):
            held[file.stem] = file.read_bytes()
    return held


class NoSuchName:
    """A name server in a thread that answers every question with "no such name" (RFC 1035 section 4.1.1), at once or
    after some seconds; while `answering` is False, with nothing.

    Without one, each message waits until DNS has failed, and a benchmark measures that.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        self.answering = True
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:{1}".format(*self._socket.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        waiting: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        with contextlib.suppress(OSError):
            while True:
                self._socket.settimeout(max(0.0005, waiting[0][0] - time.monotonic()) if waiting else None)
                with contextlib.suppress(TimeoutError):
                    query, client = self._socket.recvfrom(4096)
                    if self.answering:
                        waiting.append((time.monotonic() + self._delay, query, client))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, query, client = waiting.popleft()
                    self._socket.sendto(_deny(query), client)

    def close(self) -> None:
        self._socket.close()


def _deny(query: bytes) -> bytes:
    """One question, no record; the response bit and "name error"."""
    end = 12
    while end < len(query) and query[end]:
        end += query[end] + 1
    return query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + query[12 : end + 5]


@dataclass
class Gateway:
    """A guard with the SMTP source, and with those of `sources`, lines of YAML."""

    folder: Path
    next_hop: int
    smtp: str = ""
    more: str = ""
    sources: str = ""
    timeout: int = 60_000
    nameserver: str = "127.0.0.1:9"
    dns_timeout: int = 100
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 90.0) -> None:
        """Start it, and return when it answers."""
        file = self.folder / "guard" / "core" / "guard.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"scanSources:\n  smtp: {{host: 127.0.0.1, port: {self.port}{self.smtp}}}\n{self.sources}"
            f"delivery: {{nextHop: 'smtp://127.0.0.1:{self.next_hop}', timeout: {self.timeout}}}\n"
            f"dns: {{nameservers: ['{self.nameserver}'], timeout: {self.dns_timeout}}}\n"
            f"log: {{level: warning}}\n{self.more}"
        )
        data = str(self.folder)
        arguments = [sys.executable, "-m", "gatepost", "guard", "--config", data, "--data", data]
        log = (self.folder / "guard.log").open("ab")
        self.process = subprocess.Popen(arguments, stdout=log, stderr=log)
        log.close()
        try:
            await_greeting(self.port, seconds, self.process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """As a power cut does it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(90)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(180)

    def __enter__(self) -> "Gateway":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            self.stop()


def await_greeting(port: int, seconds: float = 180.0, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until somebody says 220."""
    import socket

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process and process.poll() is not None:
            raise ChildProcessError(f"it ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            if connection.recv(100).startswith(b"220"):
                connection.sendall(b"QUIT\r\n")
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody greets on port {port}")


def postfix_missing() -> str | None:
    """Why Postfix cannot be run here; None where it can."""
    if not POSTFIX_MASTER.exists() or not shutil.which("postfix"):
        return "Postfix is not installed"
    return None if os.geteuid() == 0 else "Postfix's master needs root"


def recipe(kind: str, name: str) -> str:
    """A block of docs/postfix.md."""
    found = re.search(rf"(?ms)^```{re.escape(kind)} {name}\n(.*?)^```", RECIPES.read_text("utf-8"))
    assert found, f"docs/postfix.md has no block {kind} {name}"
    return found[1]


@contextlib.contextmanager
def postfix(folder: Path, main: str, master: str, port: int) -> Iterator[Path]:
    """A Postfix of its own, in a folder of its own; yields its log."""
    for name in ("etc", "queue", "data"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    folder.parent.chmod(0o711)  # Postfix's processes run as a user of their own
    shutil.chown(folder / "data", "postfix")
    log = folder / "log"
    (folder / "etc" / "main.cf").write_text(
        f"compatibility_level = 3.6\nqueue_directory = {folder}/queue\ndata_directory = {folder}/data\n"
        f"maillog_file = {log}\nmaillog_file_prefixes = {folder}\nmyhostname = mx.example.org\nmydestination =\n"
        "inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.0/8\nalias_maps =\n"
        "relay_domains = example.com\nlocal_recipient_maps =\nsmtp_tls_security_level =\nsmtpd_peername_lookup = no\n"
        "disable_dns_lookups = yes\nsmtp_host_lookup = native\nminimal_backoff_time = 1s\nqueue_run_delay = 1s\n"
        f"maximal_backoff_time = 2s\nsmtpd_client_port_logging = no\n{main}"
    )
    (folder / "etc" / "master.cf").write_text(master + _PLUMBING)
    subprocess.run(["postfix", "-c", folder / "etc", "check"], check=True, capture_output=True)
    command = [str(POSTFIX_MASTER), "-c", str(folder / "etc"), "-d"]
    # It ends its children as one process group, so it needs one of its own.
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            await_greeting(port)
            yield log
        finally:
            process.terminate()
            process.wait(90)


_PLUMBING = """
pickup    unix  n - n 60 1 pickup
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
tlsmgr    unix  - - n 1000? 1 tlsmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
verify    unix  - - n - 1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
smtp      unix  - - n - - smtp
relay     unix  - - n - - smtp
showq     unix  n - n - - showq
error     unix  - - n - - error
retry     unix  - - n - - error
discard   unix  - - n - - discard
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
"""
