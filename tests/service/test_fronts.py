"""A node of several processes, as it runs: one set of limits, lists and metrics, whichever process answers, and no
message lost when one of them is killed. Real processes, on both engines."""

import asyncio
import contextlib
import json
import os
import signal
import smtplib
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from tests.milter.conftest import MailServer

from gatepost.api.connections import client_context
from gatepost.service.commands import EXAMPLE
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.store import open_store
from gatepost.store.tenants import Tenant

FRONTS, MAXIMUM = 3, 6
TOKEN = "5f" * 32
FAULT_INJECTION = str(Path(__file__).parents[1] / "fault_injection.py")
MAIL = EXAMPLE.encode()
GUARD_YML = f"""
frontProcesses: {FRONTS}
workerProcesses: {FRONTS}
maxGuardRequestsInProcessing: {MAXIMUM}
guardRequestThrottleThreshold: {MAXIMUM}
scanSources:
  restApi: {{port: %d}}
  smtp: {{port: %d}}
  milter: {{listen: ["127.0.0.1:%d", "unix:%s"]}}
delivery: {{nextHop: "%s", tls: "off"}}
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
storage: {{url: "%s"}}
"""
ABBY_YML = """
listen: {host: 127.0.0.1, port: %d}
serviceProviders: {core: {hosts: ["https://127.0.0.1:%d"]}}
staticApiTokens: [{name: test, token: "%s", permissions: [messages.read]}]
storage: {url: "%s"}
"""


def slow(milliseconds: int) -> bytes:
    return b"X-Gatepost-Fault: check:sleep=%d\r\n" % milliseconds + MAIL


class Node:
    """A running `gatepost serve` with several front processes."""

    def __init__(self, folder: Path, storage: str, next_hop: str) -> None:
        self.data, self.storage = folder / "data", storage
        self.abby, self.guard, self.smtp, self.milter = free_ports(4)
        self.milter_socket = folder / "milter"
        for name, text in (
            (GUARD_FILE, GUARD_YML % (self.guard, self.smtp, self.milter, self.milter_socket, next_hop, storage)),
            (ABBY_FILE, ABBY_YML % (self.abby, self.guard, TOKEN, storage)),
        ):
            (folder / "configuration" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "configuration" / name).write_text(text)
        self.output = folder / "output"
        command = [sys.executable, "-m", "gatepost", "serve", "--config", str(folder / "configuration")]
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.data)],
                stdout=sink,
                stderr=sink,
                env={**os.environ, "GATEPOST_FAULT_INJECTION": FAULT_INJECTION},
            )
        await_output(self.process, self.output, '"service listening"')
        self.trust = ssl.create_default_context(cafile=str(self.data / "tls/certificate.pem"))

    def children(self) -> dict[str, int]:
        """The processes that the parent has started, by name."""
        pid = self.process.pid
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {Path(f"/proc/{each}/comm").read_text().strip(): int(each) for each in pids}

    @property
    def fronts(self) -> dict[str, int]:
        return {name: pid for name, pid in self.children().items() if name.startswith("gatepost-front")}

    def client(self, **options: Any) -> httpx.Client:
        """Each client has connections of its own."""
        base = f"https://127.0.0.1:{self.abby}"
        return httpx.Client(base_url=base, verify=self.trust, trust_env=False, timeout=90, **options)

    def scan(self, raw: bytes = MAIL, tenant: str | None = None, client: httpx.Client | None = None) -> httpx.Response:
        border = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["bob@example.com"]}
        parameters = {"borderMtaData": border, **({"tenantUid": tenant} if tenant else {})}
        files: dict[str, tuple[str, str | bytes, str]] = {
            "parameters": ("p", json.dumps(parameters), "application/json"),
            "email": ("e", raw, "message/rfc822"),
        }
        with contextlib.ExitStack() as stack:
            caller = client or stack.enter_context(self.client())
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return caller.post("/v1/messageQueue/submitEmail", headers=headers, files=files)

    def in_processing(self) -> int:
        """What the core says, on a connection of its own and so by any of its processes."""
        secret = (self.data / "secret").read_text().strip()
        answer = httpx.get(
            f"https://127.0.0.1:{self.guard}/load",
            headers={"Authorization": f"Bearer {secret}"},
            verify=self.trust,
            trust_env=False,
            timeout=90,
        )
        return int(answer.json()["in_processing"])

    def figures(self) -> dict[str, float]:
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def settled_figures(self) -> dict[str, float]:
        """The metrics once every process has told its figures since now, give or take what it was about to write."""
        after = time.time_ns() + 200_000_000
        files = Path(f"/proc/{self.process.pid}/fd").iterdir()
        boards = [file for file in files if "memfd:gatepost-metrics" in str(file.readlink())]
        wait_for(lambda: sum(board.stat().st_mtime_ns > after for board in boards) >= FRONTS)
        return self.figures()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(120)


def wait_for(condition: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("node"), "sqlite:gatepost.db", lasting_next_hop.url)
    yield running
    running.stop()


def has_all_fronts(node: Node) -> bool:
    """Whether every front serves; one that was replaced takes connections once it has its workers."""
    return len(node.fronts) == FRONTS and node.figures()["gatepost_workers"] == FRONTS


def open_connections(node: Node, pid: int) -> int:
    """How many connections of abby's port a process has."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(file.readlink()))
    established = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        is_ours = fields[1].endswith(f":{node.abby:04X}") and fields[3] == "01"
        established += is_ours and f"socket:[{fields[9]}]" in sockets
    return established


def test_a_parent_with_a_writer_and_fronts(node: Node) -> None:
    assert sorted(node.children()) == ["gatepost-front0", "gatepost-front1", "gatepost-front2", "gatepost-writer"]
    assert len(list(Path(f"/proc/{node.process.pid}/task").iterdir())) == 1, "a parent with threads could not fork"
    assert (node.data / "guard.lock").read_text() == str(node.process.pid)
    assert node.output.read_text().count("Gatepost listens on") == 1


def test_connections_that_stay_open_are_spread(node: Node) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for _ in range(3 * FRONTS)]
        for client in clients:
            assert client.get("/healthz").status_code == 200

        def count() -> list[int]:
            return [open_connections(node, pid) for pid in node.fronts.values()]

        # Connections of tests before may still be closing.
        wait_for(lambda: sum(count()) == 3 * FRONTS)
        assert max(count()) - min(count()) <= 2, count()


def test_mail_servers_get_verdicts_on_tcp_and_unix_sockets_from_every_front(node: Node) -> None:
    async def ask() -> dict[str, float]:
        servers = []
        for _ in range(FRONTS):
            servers.append(MailServer(*await asyncio.open_connection("127.0.0.1", node.milter)))
            servers.append(MailServer(*await asyncio.open_unix_connection(node.milter_socket)))
        for server in servers:
            await server.negotiate()
            await server.greet()
            assert (await server.message([(b"From", b" a@x.example"), (b"Subject", b" Minutes")]))[-1] == (b"a", b"")
        figures = await asyncio.to_thread(node.settled_figures)
        for server in servers:
            server.send(b"Q")
            assert await server.read() == (b"", b"")
            server.writer.close()
        return figures

    figures = asyncio.run(ask())
    assert figures["gatepost_milter_sessions"] == figures["gatepost_milter_connections_total"] == 2 * FRONTS
    assert figures['gatepost_milter_messages_total{answer="accept"}'] == 2 * FRONTS


def test_the_maximum_holds_over_all_processes(node: Node) -> None:
    seen: set[int] = set()
    before = node.settled_figures()["gatepost_admitted_total"]
    with ThreadPoolExecutor(3 * MAXIMUM) as pool:
        scans = [pool.submit(node.scan, slow(300)) for _ in range(3 * MAXIMUM)]
        while not all(scan.done() for scan in scans):
            seen.add(node.in_processing())
            time.sleep(0.02)
        assert [scan.result().status_code for scan in scans] == [200] * len(scans)
    assert max(seen) == MAXIMUM, "reached, and never exceeded"
    wait_for(lambda: node.figures()["gatepost_admitted_total"] == before + len(scans))
    assert node.in_processing() == 0


@pytest.fixture(scope="module")
def tenants(node: Node) -> tuple[str, str]:
    async def create() -> tuple[str, str]:
        store = open_store(node.storage, node.data)
        one, other = await store.tenants.create("one"), await store.tenants.create("other")
        await store.close()
        assert isinstance(one, Tenant)
        assert isinstance(other, Tenant)
        return one.uid, other.uid

    return asyncio.run(create())


def test_one_tenants_flood_leaves_another_its_turn(node: Node, tenants: tuple[str, str]) -> None:
    flood = 8 * MAXIMUM
    with ThreadPoolExecutor(flood + 1) as pool:
        scans = [pool.submit(node.scan, slow(200), tenants[0]) for _ in range(flood)]
        wait_for(lambda: node.in_processing() == MAXIMUM)
        other = pool.submit(node.scan, slow(200), tenants[1]).result().json()
        completed = sorted(scan.result().json()["completed"] for scan in scans)
    meanwhile = [moment for moment in completed if other["created"] < moment <= other["completed"]]
    # At most: those in processing, one that goes first, and what other processes do while this one's worker is busy.
    assert len(meanwhile) <= MAXIMUM + 1 + (FRONTS - 1) * MAXIMUM, len(meanwhile)


def test_a_list_change_holds_for_the_next_message_everywhere(node: Node) -> None:
    async def create_key() -> str:
        store = open_store(node.storage, node.data)
        made = await store.api_keys.create("key", None, False, None)
        await store.close()
        assert isinstance(made, tuple)
        return made[0]

    headers = {"Authorization": f"apikey {asyncio.run(create_key())}"}
    with node.client() as client:
        for operation, entries, decisions in (
            ("addEntries", [{"entry": "ann@example.org"}], {"quarantine"}),
            ("deleteEntries", ["ann@example.org"], {"deliver"}),
        ):
            body = {"listName": "blocked-senders", "entries": entries}
            answer = client.post(f"/api/public/lists/v1/{operation}", headers=headers, json=body)
            assert answer.status_code == 200, answer.text
            assert {node.scan().json()["decision"] for _ in range(2 * FRONTS)} == decisions


def test_metrics_and_status_are_those_of_the_node(node: Node) -> None:
    before = node.settled_figures()['gatepost_scan_requests_total{decision="deliver",outcome="clean"}']
    for _ in range(2 * FRONTS):
        assert node.scan().status_code == 200
    name = 'gatepost_scan_requests_total{decision="deliver",outcome="clean"}'
    wait_for(lambda: {node.figures()[name] for _ in range(FRONTS)} == {before + 2 * FRONTS})
    figures = node.figures()
    assert (figures["gatepost_front_processes"], figures["gatepost_workers"]) == (FRONTS, FRONTS)
    assert (figures["gatepost_in_processing"], figures["gatepost_in_processing_maximum"]) == (0, MAXIMUM)
    ups = [value for name, value in figures.items() if name.startswith("gatepost_next_hop_up{")]
    assert ups
    assert set(ups) == {1.0}, "a next hop is up or not, whoever has reached it"
    assert [value for name, value in figures.items() if name.startswith("gatepost_build_info{")] == [1.0]
    assert figures["gatepost_workers_sealed"] == 1.0
    assert figures["gatepost_cores_answering"] == 1.0
    assert time.time() - 3_600 < figures["process_start_time_seconds"] <= time.time()
    with ThreadPoolExecutor(MAXIMUM + 1) as pool:
        scans = [pool.submit(node.scan, slow(1_000)) for _ in range(MAXIMUM)]
        wait_for(lambda: node.in_processing() == MAXIMUM)
        colours = set()
        for _ in range(FRONTS):
            with node.client() as client:
                answer = client.post("/v1/admin/status", headers={"Authorization": f"Bearer {TOKEN}"})
                colours.add(answer.json()["messageQueueStatus"])
        assert colours == {"RED"} or any(scan.done() for scan in scans)


def test_a_next_hop_that_takes_no_mail_is_told_by_every_front(node: Node, lasting_next_hop: Any) -> None:
    def states() -> set[str]:
        found = set()
        for _ in range(2 * FRONTS):
            with node.client() as client:
                answer = client.post("/v1/admin/status", headers={"Authorization": f"Bearer {TOKEN}"})
                found.add(answer.json()["messageQueueStatus"])
        return found

    lasting_next_hop.answers["MAIL"] = "451 4.3.0 The mailbox store is full"
    try:
        with contextlib.ExitStack() as stack:
            # Two of six for each front: no front has enough by itself.
            clients = [stack.enter_context(smtplib.SMTP("127.0.0.1", node.smtp, timeout=90)) for _ in range(6)]
            for client in clients:
                with pytest.raises(smtplib.SMTPSenderRefused, match="mailbox store is full"):
                    client.sendmail("ann@example.org", ["bob@example.com"], MAIL)
        assert states() == {"YELLOW"}
        assert node.settled_figures()["gatepost_queue_status"] == 1
    finally:
        del lasting_next_hop.answers["MAIL"]
    with smtplib.SMTP("127.0.0.1", node.smtp, timeout=90) as client:
        for _ in range(30):
            client.sendmail("ann@example.org", ["bob@example.com"], MAIL)
    assert states() == {"GREEN"}, "the share of those put off has fallen below a fifth, whoever sent the rest"


def test_a_killed_front_loses_only_its_own_connections(node: Node) -> None:
    counted = node.settled_figures()["gatepost_messages_total{" + 'decision="deliver",verdict="clean"}']
    name, pid = sorted(node.fronts.items())[1]
    answered: list[int] = []
    with ThreadPoolExecutor(9) as pool, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for _ in range(9)]
        for client in clients:
            client.get("/healthz")
        own = open_connections(node, pid)

        def scan(client: httpx.Client) -> None:
            with contextlib.suppress(httpx.HTTPError):
                answered.append(node.scan(slow(300), client=client).status_code)

        scans: list[Future[None]] = [pool.submit(scan, client) for client in clients]
        wait_for(lambda: node.in_processing() >= MAXIMUM)
        os.kill(pid, signal.SIGKILL)
        for each in scans:
            each.result()
    assert set(answered) == {200}
    assert len(answered) >= 9 - own, "every request to another process was answered"
    wait_for(lambda: node.in_processing() == 0)
    wait_for(lambda: node.fronts.get(name, pid) != pid)
    wait_for(lambda: has_all_fronts(node))
    figures = node.figures()
    assert figures["gatepost_front_restarts_total"] == 1
    assert figures["gatepost_messages_total{" + 'decision="deliver",verdict="clean"}'] >= counted, "no counter falls"
    assert {node.scan().status_code for _ in range(2 * FRONTS)} == {200}


def test_no_mail_is_lost_when_processes_are_killed(node: Node, lasting_next_hop: Any) -> None:
    """As mail servers do, senders try again what was not answered with 2xx; a front and the writer are killed."""
    names = [f"m{number}@fronts.example" for number in range(40)]
    todo, accepted, lock = list(names), set[str](), threading.Lock()

    def send() -> None:
        while True:
            with lock:
                if not todo:
                    return
                name = todo.pop(0)
            raw = EXAMPLE.replace("<minutes-1@example.org>", f"<{name}>")
            try:
                with smtplib.SMTP("127.0.0.1", node.smtp, timeout=90) as client:
                    client.sendmail("ann@example.org", ["bob@example.com"], raw)
                accepted.add(name)
            except (OSError, smtplib.SMTPException):
                time.sleep(0.05)
                with lock:
                    todo.append(name)

    senders = [threading.Thread(target=send) for _ in range(6)]
    for sender in senders:
        sender.start()
    for victim in ("gatepost-front2", "gatepost-writer"):
        target = len(accepted) + 5
        wait_for(lambda target=target: len(accepted) >= target)  # type: ignore[misc]
        os.kill(node.children()[victim], signal.SIGKILL)
    for sender in senders:
        sender.join(180)
    assert accepted == set(names)
    taken = b"".join(raw for _, _, raw in lasting_next_hop.mail)
    assert [name for name in names if f"<{name}>".encode() not in taken] == []
    wait_for(lambda: has_all_fronts(node))
    assert node.in_processing() == 0


@pytest.mark.parametrize("port", ["abby", "guard"])
def test_any_front_resumes_a_tls_session(node: Node, port: str) -> None:
    context = client_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(4 * FRONTS):
        with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            assert client.get(f"https://127.0.0.1:{getattr(node, port)}/healthz").status_code == 200
    assert context.counts.handshakes == 4 * FRONTS
    assert context.counts.resumed == 4 * FRONTS - 1, "whichever of them answers"


def test_a_stop_finishes_what_is_in_flight(node: Node) -> None:
    children = list(node.children().values())
    with ThreadPoolExecutor(MAXIMUM) as pool:
        scans = [pool.submit(node.scan, slow(500)) for _ in range(MAXIMUM)]
        wait_for(lambda: node.in_processing() == MAXIMUM)
        status = node.stop()
        assert [scan.result().status_code for scan in scans] == [200] * MAXIMUM
    assert status == 0
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    assert not list(node.data.glob("*.sock"))
    with pytest.raises(httpx.ConnectError):
        node.scan()


@pytest.mark.variant
def test_fronts_share_postgresql(tmp_path: Path, postgres_url: str, next_hop: Any) -> None:
    node = Node(tmp_path, postgres_url, next_hop.url)
    try:
        assert sorted(node.children()) == sorted(node.fronts), "nobody needs to write for the others"
        with ThreadPoolExecutor(2 * MAXIMUM) as pool:
            scans = [pool.submit(node.scan, slow(100)) for _ in range(2 * MAXIMUM)]
            seen = {node.in_processing() for _ in range(10)}
            assert {scan.result().status_code for scan in scans} == {200}
        assert max(seen) <= MAXIMUM
        test_a_list_change_holds_for_the_next_message_everywhere(node)
        os.kill(node.fronts["gatepost-front0"], signal.SIGKILL)
        assert {node.scan().status_code for _ in range(2 * FRONTS)} == {200}
    finally:
        assert node.stop() == 0
