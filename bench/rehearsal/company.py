"""The servers of a company: Postfix in front and behind, three nodes with abby, databases, mailboxes, and a clock."""

import asyncio
import contextlib
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.deployment import Deployment, RunningNode
from bench.gateway import NoSuchName, Sink, await_greeting, postfix
from bench.ports import free_ports
from bench.rehearsal.databases import Databases
from bench.rehearsal.mail import HOST
from gatepost.service.certificates import sign_certificate

GUARDS = 3
DISK_MIB, RELOADS, SLOTS = 64, 5, 10
CLOCK = Path(__file__).with_name("clock")
SOURCE = Path(__file__).parents[2] / "src"
_NAMED = re.compile(rb"<([a-z0-9]{2,20}@" + HOST.encode() + rb")>")
FRONT = """relay_domains = example.com, flood.example, example.org
transport_maps = regexp:{folder}/bounces, randmap:{{{hops}}}
smtp_fallback_relay = {others}
bounce_queue_lifetime = 1h
maximal_queue_lifetime = 1h
smtpd_recipient_limit = 1000
default_destination_recipient_limit = 50
smtp_data_done_timeout = 120s
"""
BEHIND = """relay_domains = example.com, flood.example, example.org
relay_transport = {hop}
default_transport = {hop}
relayhost = {relayhost}
smtpd_recipient_limit = 1000
"""


class Mailboxes(Sink):
    """The last next hop: it counts each pair of Message-ID and recipient that it has taken."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()
        self._open: dict[asyncio.StreamWriter, list[str]] = {}
        super().__init__()
        self.keep = False

    async def _obey(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        verb = line[:4].upper()
        if verb in ("MAIL", "RSET", "QUIT"):
            self._open[writer] = []
        if verb == "RCPT":
            self._open.setdefault(writer, []).append(line.partition("<")[2].partition(">")[0].lower())
        going_on = await super()._obey(line, reader, writer)
        if verb == "QUIT":
            self._open.pop(writer, None)
        return going_on

    def _takes(self, message: bytes, writer: asyncio.StreamWriter) -> bool:
        found = _NAMED.search(message)
        if found:
            self.pairs.update((found[1].decode(), each) for each in self._open.get(writer, []))
        return super()._takes(message, writer)


class Node(RunningNode):
    """A node that is stopped and started while others serve."""

    def stop(self, seconds: float = 180.0) -> None:
        """End it as an operator does."""
        assert self.popen
        self.popen.terminate()
        self.popen.wait(seconds)

    def await_service(self) -> None:
        """Wait until it has said once more that it serves."""
        assert self.popen
        end = time.monotonic() + 240
        while self.text.count('"service listening"') < self.starts:
            assert self.popen.poll() is None, self.text[-3_000:]
            assert time.monotonic() < end, self.text[-3_000:]
            time.sleep(0.1)


class Company(Deployment):
    """Everything together, from `start` to `stop`."""

    node_type = Node
    command_seconds = 1_800.0

    def __init__(self, folder: Path, source: Path = SOURCE) -> None:
        self._stack = contextlib.ExitStack()
        self.names, self.mailboxes, self.bounces = NoSuchName(), Mailboxes(), Sink()
        for each in (self.names, self.mailboxes, self.bounces):
            self._stack.callback(each.close)
        self._page = _make_clock(folder / "clock")
        self.databases = Databases(folder / "databases")
        self.disk = folder / "guard0" / "data"
        self.disk.mkdir(parents=True)
        self.has_disk = _mount(self.disk)
        if self.has_disk:
            self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.disk)], check=False)
        self.held = self.disk / "held"
        self.front_port, self.behind_port = free_ports(2)
        super().__init__(folder, self.databases.url, GUARDS, f"smtp://127.0.0.1:{self.behind_port}")
        # Commands run as on a node, with its clock and its version.
        self.environment["REHEARSAL_CLOCK"] = str(folder / "clock")
        for node in self.all_nodes:
            node.environment = self.environment
        self.use(source)

    @property
    def running(self) -> list[Node]:
        """All nodes, abby last."""
        return [node for node in self.all_nodes if isinstance(node, Node)]

    def use(self, source: Path) -> None:
        """Have whatever starts from now on run this version."""
        self.environment["PYTHONPATH"] = os.pathsep.join((str(CLOCK), str(source)))

    def write_guard(self, folder: Path, number: int = 0, slots: int = SLOTS, more: str = "", policy: str = "") -> None:
        # One folder for the bytes of all nodes, so that each tidies what the others hold.
        more = f"quarantine: {{url: 'file:{self.held}'}}\n{more}"
        super().write_guard(folder, number, slots, more, policy)
        path = folder / "guard/core/guard.yml"
        text = path.read_text().replace("127.0.0.1:9", self.names.address)
        smtp = self.smtp_ports[number]
        path.write_text(text.replace(f"smtp: {{port: {smtp}}}", f"smtp: {{port: {smtp}, afterQueue: true}}"))

    def start(self) -> None:
        """Start the databases, one node after the other, and Postfix around them."""
        self._stack.callback(self.databases.stop)
        self.databases.start()
        for node in self.all_nodes:
            node.start()
            node.await_start()
        tenant = self.run("tenant", "create", "flood").stdout.strip()
        given = self.run("tenant", "domains", tenant, "flood.example")
        assert given.returncode == 0, given.stderr
        hop = f"smtp:[127.0.0.1]:{self.mailboxes.port}"
        behind = BEHIND.format(hop=hop, relayhost="")
        self.logs = [self._start_postfix("behind", behind, self.behind_port)]
        hops = [f"[127.0.0.1]:{port}" for port in self.smtp_ports]
        (self.folder / "front").mkdir()
        (self.folder / "front" / "bounces").write_text(
            f"/@example\\.org$/ smtp:[127.0.0.1]:{self.bounces.port}\n/@mx\\.example\\.org$/ discard:\n"
        )
        front = FRONT.format(
            folder=self.folder / "front", hops=", ".join(f"smtp:{each}" for each in hops), others=" ".join(hops)
        )
        self.logs.append(self._start_postfix("front", front, self.front_port))

    def _start_postfix(self, name: str, main: str, port: int) -> Path:
        master = f"127.0.0.1:{port} inet n - n - - smtpd\n"
        return self._stack.enter_context(postfix(self.folder / name, main, master, port))

    def stop(self) -> None:
        super().stop()
        self._stack.close()

    def count_queued(self, name: str) -> int:
        """How many messages wait in the queue of a Postfix."""
        command = ["postqueue", "-c", str(self.folder / name / "etc"), "-j"]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return len(found.stdout.splitlines())

    def bounced(self) -> set[str]:
        """Messages whose senders were told that they were not delivered."""
        return {found.decode() for raw in self.bounces.messages for found in _NAMED.findall(raw)}

    @property
    def offset(self) -> float:
        return float(struct.unpack("d", self._page)[0])

    def move_clock(self) -> str:
        """Set the clocks of all nodes to some seconds before midnight; returns which one."""
        now = time.time() + self.offset
        midnight = (now // 86_400 + 1) * 86_400
        self._page[:] = struct.pack("d", self.offset + midnight - 8 - now)
        return f"{datetime.fromtimestamp(midnight, UTC):%d %B}"

    def fill_disk(self) -> None:
        with (self.disk / "filler").open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free_disk(self) -> None:
        (self.disk / "filler").unlink()

    def renew_certificates(self) -> None:
        """Trust new certificates beside the old ones, then give each node its own."""
        made = [sign_certificate(["127.0.0.1", "localhost"], datetime.now(UTC)) for _ in self.nodes]
        with (self.folder / "cores.pem").open("ab") as file:
            file.write(b"".join(pem for pem, _ in made))
        time.sleep(2)
        for node, (pem, key) in zip(self.nodes, made, strict=True):
            for name, content in (("key.pem", key), ("certificate.pem", pem)):
                _replace(node.data / "tls" / name, content)
            assert node.popen
            node.popen.send_signal(signal.SIGHUP)

    def reload(self) -> None:
        """Have all nodes read their files again and again; each time they tidy the quarantine."""
        for _ in range(RELOADS):
            for node in self.nodes:
                assert node.popen
                node.popen.send_signal(signal.SIGHUP)
            time.sleep(1)

    def revive(self) -> None:
        """Start every node again that has ended."""
        for node in self.running:
            if node.popen and node.popen.poll() is not None:
                node.start()
                node.await_service()

    def await_nodes(self, seconds: float = 240.0) -> None:
        """Wait until every guard greets."""
        for port in self.smtp_ports:
            await_greeting(port, seconds)

    def check_upgrade(self) -> str:
        """What the new version says of the database."""
        rows: list[dict[str, Any]] = json.loads(self.run("upgrade", "check", "--json").stdout)
        return next(str(row["found"]) for row in rows if row["what"] == "database")


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def _make_clock(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}", file=sys.stderr, flush=True)
