"""What the service says of each fault: status, readiness, metrics, events and log, with the real fault.

One service for each group of faults runs as it is installed, but looks for warnings every second and not every minute.
`docs/faults.md` has the same table for people; a row that is not tested here, or a fault without a row, fails.
"""

import contextlib
import json
import os
import re
import signal
import smtplib
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from bench.noloss import _EICAR
from bench.ports import free_ports
from bench.processes import await_output
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.events.receivers import Receiver
from tests.own_postgres import OwnPostgres, own_postgres

from gatepost.service.certificates import sign_certificate
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

ROOT = Path(__file__).parents[2]
TOKEN = "5f" * 32
MAIL = (
    b"From: ann@{host}\r\nTo: bob@example.com\r\nSubject: Minutes\r\nMessage-ID: <{host}>\r\n\r\n"
    b"See you at nine: https://{host}/\r\n"
)
# Warnings are looked for every second, by the questions of that second; a file says by how much the clock is wrong.
START = """
import sys, time
from pathlib import Path
from gatepost.service import health
health.WARNING_SECONDS, health.DNS_QUERIES = 1.0, 2
offset = Path(sys.argv.pop(1))
real = time.time
health.read_wall = lambda: real() + (float(offset.read_text()) if offset.exists() else 0.0)
from gatepost.cli import main
main()
"""


class NameServer:
    """A name server over UDP: well, silent, slow or lying. Nothing is what a healthy one knows (NXDOMAIN)."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.state = "well"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                query, client = self._socket.recvfrom(4_096)
            except OSError:
                return
            if self.state == "silent":
                continue
            delay = 0.2 if self.state == "slow" else 0.0
            threading.Timer(delay, self._answer, (query, client)).start()

    def _answer(self, query: bytes, client: Any) -> None:
        end = 12
        while query[end]:
            end += query[end] + 1
        question, is_address = query[12 : end + 5], query[end + 1 : end + 3] == b"\0\1"
        if self.state == "lying" and is_address:
            # As resolvers of access providers do: every name has an address, that of their own page.
            answer = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 1, 4) + socket.inet_aton("127.0.0.2")
            reply = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question + answer
        else:
            reply = query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question
        with contextlib.suppress(OSError):
            self._socket.sendto(reply, client)

    def close(self) -> None:
        self._socket.close()


class Watched:
    """A running service with everything around it that can fail."""

    def __init__(self, folder: Path, storage: str, sink: MailSink) -> None:
        self.folder, self.data, self.sink = folder, folder / "data", sink
        self.output, self.offset = folder / "output", folder / "offset"
        self.names, self.receiver = NameServer(), Receiver()
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        self.guard, self.abby, self.smtp, self.feed = free_ports(4)
        self.number = 0
        guard = f"""
scanSources: {{restApi: {{port: {self.guard}}}, smtp: {{port: {self.smtp}}}}}
delivery: {{nextHop: "{sink.url}", tls: "off", timeout: 1000}}
quarantine: {{url: "s3://gatepost-quarantine/held"}}
dns: {{nameservers: ["{self.names.address}"], timeout: 1500}}
reputation:
  zones:
    - {{name: zone, zone: zone.example, asks: domain, answers: [{{codes: ["127.0.0.2"], means: listed, text: bad}}]}}
mainWorkerCount: 4
workerProcesses: 1
frontProcesses: 1
storage: {{url: "{storage}"}}
events: {{file: {{}}, webhooks: [{{url: "{self.receiver.url}", secret: "{"ab" * 32}"}}]}}
"""
        abby = f"""
listen: {{host: 127.0.0.1, port: {self.abby}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{self.guard}"]}}}}
staticApiTokens: [{{name: test, token: "{TOKEN}"}}]
storage: {{url: "{storage}"}}
feeds: [{{name: away, listName: blocked-urls, url: "http://127.0.0.1:{self.feed}/list", every: 60, allowHttp: true}}]
tls: {{certificate: own.pem, key: own.key}}
events: {{file: {{}}, webhooks: [{{url: "{self.receiver.url}", secret: "{"ab" * 32}"}}]}}
"""
        for name, text in ((GUARD_FILE, guard), (ABBY_FILE, abby)):
            (self.data / name).parent.mkdir(parents=True)
            (self.data / name).write_text(text)
        self.write_certificate(datetime.now(UTC))
        # Nobody listens there: the object store is away from the start.
        environment = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.feed}", "AWS_ALLOW_HTTP": "true"}
        environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
        with self.output.open("wb") as log:
            command = [sys.executable, "-c", START, str(self.offset), "serve", "--data", str(self.data)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        await_output(self.process, self.output, '"service listening"')
        trusted = ssl._create_unverified_context()
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{self.abby}", verify=trusted, trust_env=False, timeout=60
        )

    def write_certificate(self, issued: datetime) -> None:
        folder = (self.data / ABBY_FILE).parent
        pem, key = sign_certificate(["127.0.0.1"], issued)
        (folder / "own.key").write_bytes(key)
        (folder / "own.pem").write_bytes(pem)

    @property
    def colour(self) -> str:
        answer = self.client.post("/v1/admin/status", headers={"Authorization": f"Bearer {TOKEN}"})
        return str(answer.json()["messageQueueStatus"])

    @property
    def ready(self) -> int:
        return self.client.get("/readyz").status_code

    def figure(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line)]
        assert values, name
        return sum(values)

    @property
    def log(self) -> str:
        return self.output.read_text("utf-8", "replace")

    @property
    def health(self) -> list[tuple[str, str]]:
        """Component and state of every change of health that was told."""
        file = self.data / "events/events.jsonl"
        found = [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
        return [(each["component"], each["after"]) for each in found if each["event"] == "health.changed"]

    @property
    def warnings(self) -> str:
        code, printed, _ = run_command("nodes", "--json", "--data", self.data)
        return "; ".join(json.loads(printed)["nodes"][0]["warnings"]) if code == 0 else ""

    def send(self, *, recipient: str = "bob@example.com", body: bytes = b"", times: int = 1) -> list[int]:
        """Send messages as a border MTA does; the replies to them, 0 where none came."""
        codes = []
        for _ in range(times):
            self.number += 1
            head, _, text = MAIL.replace(b"{host}", b"shop%d.com" % self.number).partition(b"\r\n\r\n")
            raw = head + b"\r\n\r\n" + (body or text)
            try:
                with smtplib.SMTP("127.0.0.1", self.smtp, timeout=60) as client:
                    client.sendmail(f"ann@shop{self.number}.com", [recipient], raw)
                codes.append(250)
            except smtplib.SMTPResponseException as fault:
                codes.append(fault.smtp_code)
            except smtplib.SMTPRecipientsRefused as fault:
                codes.append(fault.recipients[recipient][0])
            except (smtplib.SMTPException, OSError):
                codes.append(0)
        return codes

    def until(self, condition: Callable[[], object], seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.colour, self.health, self.log[-3_000:])
            assert self.process.poll() is None, self.log[-3_000:]
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.client.close()
        self.names.close()
        self.receiver.shutdown()
        self.receiver.server_close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: MailSink) -> Iterator[Watched]:
    """A service on SQLite; tests put right what they break."""
    running = Watched(tmp_path_factory.mktemp("watched"), "sqlite:gatepost.db", lasting_next_hop)
    yield running
    running.stop()


Scenario: TypeAlias = Callable[[Watched], None]
ROWS: dict[str, Scenario] = {}


def row(name: str) -> Callable[[Scenario], Scenario]:
    """A row of the table."""

    def keep(scenario: Scenario) -> Scenario:
        ROWS[name] = scenario
        return scenario

    return keep


@contextlib.contextmanager
def answering(sink: MailSink, **answers: str) -> Iterator[None]:
    sink.answers.update(answers)
    try:
        yield
    finally:
        for command in answers:
            del sink.answers[command]


def clear_answers(node: Watched) -> None:
    """Send so much mail that answers before are less than a fifth."""
    node.until(lambda: set(node.send(times=10)) == {250} and node.colour == "GREEN")


@row("next hop full for one recipient")
def full_for_one(node: Watched) -> None:
    with answering(node.sink, **{"RCPT TO:<full@example.com>": "452 4.2.2 Mailbox full"}):
        assert set(node.send(times=30)) == {250}
        assert set(node.send(recipient="full@example.com", times=5)) == {452}
    assert (node.colour, node.ready) == ("GREEN", 200), "one mailbox is no outage"
    assert 'answer="4xx",route="default",stage="RCPT"} 5.0' in node.client.get("/metrics").text


@row("next hop refusing")
def refusing(node: Watched) -> None:
    with answering(node.sink, MAIL="451 4.3.0 The mailbox store is away"):
        node.until(lambda: set(node.send(times=4)) == {451} and node.colour == "YELLOW")
        assert node.ready == 200
        assert node.figure("gatepost_queue_status") == 1
        node.until(lambda: ("messageQueue", "degraded") in node.health)
        node.until(lambda: "answers 451 4.3.0 to MAIL" in node.log)
    clear_answers(node)


@row("next hop hanging")
def hanging(node: Watched) -> None:
    node.sink.open.clear()
    try:
        node.until(lambda: 250 not in node.send(times=2) and node.colour == "YELLOW")
        assert node.ready == 200
        assert 'answer="none"' in node.client.get("/metrics").text
        node.until(lambda: "hangs up or does not answer at DATA" in node.log)
    finally:
        node.sink.open.set()
    clear_answers(node)


@row("next hop slow")
def slow(node: Watched) -> None:
    node.sink.open.clear()
    threading.Timer(0.5, node.sink.open.set).start()
    assert node.send() == [250]
    assert (node.colour, node.ready) == ("GREEN", 200), "mail flows, if slowly"


@row("DNS dead")
def dns_dead(node: Watched) -> None:
    node.names.state = "silent"
    try:
        node.until(lambda: node.send(times=4) and "DNS does not answer" in node.log)
        assert (node.colour, node.ready) == ("GREEN", 200), "mail flows, without authentication"
        assert node.figure("gatepost_dns_failures_total") > 2
        # The warning is of the last second here, so mail must go on until somebody has looked.
        node.until(lambda: node.send(times=4) and ("dns", "degraded") in node.health)
    finally:
        node.names.state = "well"
    node.until(lambda: ("dns", "ok") in node.health)


@row("DNS slow")
def dns_slow(node: Watched) -> None:
    node.names.state = "slow"
    try:
        failures = node.figure("gatepost_dns_failures_total")
        assert node.send(times=2) == [250, 250]
        assert node.figure("gatepost_dns_failures_total") == failures
        assert (node.colour, node.ready) == ("GREEN", 200)
    finally:
        node.names.state = "well"


@row("DNS lying")
def dns_lying(node: Watched) -> None:
    node.names.state = "lying"
    try:
        node.until(lambda: node.send(times=2) and node.figure("gatepost_reputation_muted") == 1)
        assert "reputation zone is muted" in node.log
        assert (node.colour, node.ready) == ("GREEN", 200)
    finally:
        node.names.state = "well"


@row("clock jumped")
def clock_jumped(node: Watched) -> None:
    node.offset.write_text("7200")
    try:
        node.until(lambda: "the clock of this machine went forward by 7,200 seconds at once" in node.log)
        node.until(lambda: ("clock", "degraded") in node.health)
        node.until(lambda: "check time synchronisation" in node.warnings)
        assert (node.colour, node.ready) == ("GREEN", 200)
    finally:
        node.offset.unlink()


@row("certificate expired")
def certificate_expired(node: Watched) -> None:
    node.write_certificate(datetime.now(UTC) - timedelta(days=4_000))
    try:
        node.until(lambda: "the certificate own.pem has ended" in node.log)
        node.until(lambda: ("certificate", "degraded") in node.health)
        assert (node.colour, node.ready) == ("GREEN", 200)
    finally:
        node.write_certificate(datetime.now(UTC))
    node.until(lambda: ("certificate", "ok") in node.health)


@row("object store away")
def object_store_away(node: Watched) -> None:
    held = _EICAR.encode() + b"\r\nLonger than what the database keeps." * 2_000
    assert node.send(body=held) == [451], "what cannot be held stays with its sender"
    assert node.figure("gatepost_quarantine_failures_total") >= 1
    node.until(lambda: "the quarantine did not take" in node.log)
    # Here it is told for a second, and in a service for a minute: an event comes for what is seen twice.
    node.until(lambda: node.send(body=held) == [451] and ("quarantine", "degraded") in node.health)
    assert (node.colour, node.ready) == ("GREEN", 200), "other mail flows"
    assert node.send() == [250]


@row("feed away")
def feed_away(node: Watched) -> None:
    node.until(lambda: node.figure("gatepost_feed_failures") >= 1)
    assert "feed" in node.log
    assert (node.colour, node.ready) == ("GREEN", 200)


@row("webhook away")
def webhook_away(node: Watched) -> None:
    before = node.figure("gatepost_events_failures_total")
    node.receiver.answer = lambda _number: 500
    try:
        node.send()
        node.until(lambda: node.figure("gatepost_events_failures_total") > before)
        assert node.figure("gatepost_events_waiting_bytes") > 0
        assert (node.colour, node.ready) == ("GREEN", 200)
    finally:
        node.receiver.answer = lambda _number: 200
    node.until(lambda: node.figure("gatepost_events_waiting_bytes") == 0)


@row("storage frozen")
def storage_locked(node: Watched) -> None:
    """Another program holds the file: nothing is written, and nobody says why."""
    import apsw

    other = apsw.Connection(str(node.data / "gatepost.db"))
    other.set_busy_timeout(60_000)
    other.execute("BEGIN EXCLUSIVE")
    try:
        node.until(lambda: node.colour == "RED")
        assert node.ready == 503
        assert node.figure("gatepost_queue_status") == 2
        assert "no message can be taken to its end" in node.log
        assert node.send() == [451]
    finally:
        other.execute("ROLLBACK")
        other.close()
    node.until(lambda: node.colour == "GREEN" and node.ready == 200)
    node.until(lambda: ("messageQueue", "failed") in node.health)


# The others take as long again, and show that what goes on beside mail does not change its status.
ALWAYS = ("next hop refusing", "object store away", "storage frozen")


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.variant) for name in ROWS]
)
def test_what_is_said_of_a_fault(fault: str, watched: Watched) -> None:
    watched.until(lambda: watched.colour == "GREEN")
    ROWS[fault](watched)
    watched.until(lambda: watched.colour == "GREEN" and watched.ready == 200)


class OnPostgres:
    """A service on a server of its own, with a next hop of its own, which can die."""

    def __init__(self, folder: Path, server: OwnPostgres, sink: MailSink) -> None:
        self.server, self.node = server, Watched(folder, server.url(), sink)

    def expect_outage(self, words: str) -> None:
        node = self.node
        node.until(lambda: node.colour == "RED")
        assert node.ready == 503
        assert node.figure("gatepost_queue_status") == 2
        node.until(lambda: "no message can be taken to its end" in node.log and words in node.log)
        assert set(node.send(times=2)) == {451}

    def expect_recovery(self) -> None:
        node = self.node
        node.until(lambda: node.colour == "GREEN" and node.ready == 200)
        node.until(lambda: node.send() == [250])
        node.until(lambda: [state for part, state in node.health if part == "messageQueue"][-1:] in ([], ["ok"]))


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnPostgres]:
    with own_postgres() as server, MailSink() as sink:
        threading.Thread(target=sink.serve_forever, args=(0.02,), daemon=True).start()
        running = OnPostgres(tmp_path_factory.mktemp("on_postgres"), server, sink)
        yield running
        running.node.stop()


ServerScenario: TypeAlias = Callable[[OnPostgres], None]
SERVER_ROWS: dict[str, ServerScenario] = {}


def server_row(name: str) -> Callable[[ServerScenario], ServerScenario]:
    """A row of the table that needs a database server."""

    def keep(scenario: ServerScenario) -> ServerScenario:
        SERVER_ROWS[name] = scenario
        return scenario

    return keep


@server_row("storage stopped")
def storage_stopped(case: OnPostgres) -> None:
    case.server.stop()
    try:
        case.expect_outage("connection refused")
        case.node.until(lambda: {("storage", "failed"), ("messageQueue", "failed")} <= set(case.node.health))
    finally:
        case.server.start()
    case.expect_recovery()


@server_row("storage server frozen")
def server_frozen(case: OnPostgres) -> None:
    case.server.signal_all(signal.SIGSTOP)
    try:
        case.node.until(lambda: case.node.colour == "RED")
        assert case.node.ready == 503
        assert "storage does not answer within 5 seconds" in case.node.log
    finally:
        case.server.signal_all(signal.SIGCONT)
    case.expect_recovery()


@server_row("storage read-only")
def server_read_only(case: OnPostgres) -> None:
    def set_read_only(value: str) -> None:
        case.server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()")

    set_read_only("on")
    try:
        case.expect_outage("in a read-only transaction (25006); name the primary")
    finally:
        # A transaction that says so itself may write.
        case.server.execute(
            "SET default_transaction_read_only = off", "ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()"
        )
    case.expect_recovery()


@server_row("node long away and back")
def node_away(case: OnPostgres) -> None:
    """Halted for longer than a node may be silent, as a virtual machine that is moved."""
    node = case.node
    node.process.send_signal(signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 60
        shown = ""
        while "silent" not in shown:
            assert time.monotonic() < deadline, shown
            shown = run_command("nodes", "--data", node.data)[1]
            time.sleep(0.5)
    finally:
        node.process.send_signal(signal.SIGCONT)
    case.expect_recovery()
    node.until(lambda: "silent" not in run_command("nodes", "--data", node.data)[1])


@server_row("next hop dead")
def next_hop_dead(case: OnPostgres) -> None:
    """The last one: it does not come back."""
    node = case.node
    assert node.send() == [250]
    node.sink.shutdown()
    node.sink.server_close()
    # A connection that is kept still goes to a thread of the sink; new ones are refused, and tell of it.
    node.until(lambda: node.send() and node.figure("gatepost_next_hop_up") == 0)
    assert (node.colour, node.ready) == ("YELLOW", 200)
    assert node.figure("gatepost_queue_status") == 1
    node.until(lambda: ("messageQueue", "degraded") in node.health[-3:])
    assert "next hop not available" in node.log
    assert "mail waits with its senders" in node.log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=() if name in ("storage stopped", "next hop dead") else pytest.mark.variant)
        for name in SERVER_ROWS
    ],
)
def test_what_is_said_of_a_fault_with_a_server(fault: str, on_postgres: OnPostgres) -> None:
    SERVER_ROWS[fault](on_postgres)


@pytest.mark.variant
def test_what_is_said_of_a_full_disk(tmp_path: Path, lasting_next_hop: MailSink) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("not run: no file system can be mounted here")
    try:
        node = Watched(folder, "sqlite:gatepost.db", lasting_next_hop)
        try:
            filler = folder / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            node.until(lambda: node.colour == "RED")
            assert node.ready == 503
            assert node.send() in ([451], [452], [421], [0])
            filler.unlink()
            node.until(lambda: node.colour == "GREEN" and node.ready == 200)
            node.until(lambda: node.send() == [250])
            assert "the disk of the data folder is full" in node.log
        finally:
            node.stop()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


ELSEWHERE = {"storage full", "identity provider away"}


def test_the_page_has_every_row_and_no_other() -> None:
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    rows = set(re.findall(r"^\| ([^|`]+?) \|", page, re.MULTILINE)) - {"Fault", "---"}
    assert rows == ROWS.keys() | SERVER_ROWS.keys() | ELSEWHERE
    alerts = set(re.findall(r"`(Gatepost[A-Za-z]+)`", page))
    rules = (ROOT / "contrib/prometheus/gatepost.rules.yml").read_text("utf-8")
    assert alerts <= set(re.findall(r"alert: (\w+)", rules))
