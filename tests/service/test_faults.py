"""What the service says of each fault: status, readiness, metrics, alerts, events and log, with the real fault.

One service for each group of faults. `docs/faults.md` is the table, which `Watched.tells` compares with what is told; a
row that is not tried here, or a fault without a row, fails.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import smtplib
import subprocess
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import psutil
import pytest
from bench.noloss import _EICAR
from bench.ports import free_port
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.own_postgres import OwnPostgres, own_postgres
from tests.service.running_service import RunningCommand
from tests.service.watched_service import PAGE, RULES, SECRET, Watched, write_text

from gatepost.settings.files import ABBY_FILE


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: MailSink) -> Iterator[Watched]:
    """A service on SQLite; tests put right what they break."""
    running = Watched(tmp_path_factory.mktemp("watched"), "sqlite:gatepost.db", lasting_next_hop)
    yield running
    running.stop()


@contextlib.contextmanager
def answering(sink: MailSink, **answers: str) -> Iterator[None]:
    sink.answers.update(answers)
    try:
        yield
    finally:
        for command in answers:
            del sink.answers[command]


def feed_away(node: Watched) -> None:
    """The first row: nobody is there from the start, and three failures in a row are an alert."""
    for _ in range(3):
        assert run_command("feeds", "run", "away", "--data", node.data)[0] == 2
    # The service looks now and then at what the runs have left.
    node.until(lambda: node.figure("gatepost_feed_failures") > 2)
    node.tells("feed away")


def hanging(node: Watched) -> None:
    """Before those that are answered at MAIL, which would be told first, and before much mail that is taken."""
    node.sink.open.clear()
    try:
        node.tells("next hop hanging", lambda: node.send_at_once(12))
        assert 'answer="none"' in node.metrics
    finally:
        node.sink.open.set()


def full_for_one(node: Watched) -> None:
    with answering(node.sink, **{"RCPT TO:<full@example.com>": "452 4.2.2 Mailbox full"}):
        node.until(lambda: set(node.send(times=30)) == {250})
        assert set(node.send(recipient="full@example.com", times=5)) == {452}
        node.tells("next hop full for one recipient")
    assert 'answer="4xx",route="default",stage="RCPT"} 5.0' in node.metrics, "one mailbox is no outage"


def refusing(node: Watched) -> None:
    with answering(node.sink, MAIL="451 4.3.0 The mailbox store is away"):
        node.tells("next hop refusing", lambda: node.send(times=4))
        assert node.figure("gatepost_queue_status") == 1
        assert "answers 451 4.3.0 to MAIL" in node.log
        assert 'answer="4xx",route="default",stage="MAIL"' in node.metrics
    # Three messages in a row are enough, whatever the share of the last minutes is.
    node.until(lambda: node.send() == [250] and node.colour == "GREEN")


def refusing_for_good(node: Watched) -> None:
    with answering(node.sink, MAIL="554 5.7.1 Relaying denied"):
        node.tells("next hop refusing for good", lambda: node.send(times=10))
        assert "answers 554 5.7.1 to MAIL" in node.log
    # After relapses it takes many in a row, which tries alone would take long to be.
    node.until(lambda: node.send() == [250] and node.colour == "GREEN")


def slow(node: Watched) -> None:
    codes: list[int] = []

    def send_slowly() -> None:
        node.sink.open.clear()
        threading.Timer(0.7, node.sink.open.set).start()
        threading.Thread(target=lambda: codes.extend(node.send())).start()
        time.sleep(0.3)

    try:
        node.tells("next hop slow", send_slowly)
    finally:
        node.sink.open.set()
    node.until(lambda: codes and set(codes) == {250})


def dns_dead(node: Watched) -> None:
    node.names.state = "silent"
    try:
        # The warning is of the last seconds here, so mail must go on until somebody has looked twice.
        node.tells("DNS dead", lambda: node.send_at_once(4))
    finally:
        node.names.state = "well"
    node.until(lambda: ("dns", "ok") in node.health)


def dns_slow(node: Watched) -> None:
    node.names.state = "slow"
    try:
        failures = node.figure("gatepost_dns_failures_total")
        assert node.send(times=2) == [250, 250]
        node.tells("DNS slow")
        assert node.figure("gatepost_dns_failures_total") == failures
    finally:
        node.names.state = "well"


def dns_lying(node: Watched) -> None:
    # A zone that did not answer before is muted for a minute.
    node.until(lambda: node.figure("gatepost_reputation_muted") == 0, 120)
    node.begin()
    node.names.state = "lying"
    try:
        node.tells("DNS lying", lambda: node.send(times=2))
    finally:
        node.names.state = "well"


def clock_jumped(node: Watched) -> None:
    # Not so far that the session of whoever reads the pages ends.
    node.offset.write_text("1200")
    try:
        node.tells("clock jumped", node.send)
        assert "went forward by 1,20" in node.log
        assert 'gatepost_health_warning{component="clock"} 1.0' in node.metrics
        node.until(lambda: "check time synchronisation" in node.read_outputs("clock")["readyz"])
    finally:
        node.offset.unlink()
    node.until(lambda: "went back by 1," in node.log)
    assert node.send() == [250]


def certificate_expired(node: Watched) -> None:
    node.write_certificate(datetime.now(UTC) - timedelta(days=4_000))
    try:
        node.tells("certificate expired")
        assert "the certificate own.pem expired on" in node.log
        assert 'gatepost_health_warning{component="certificate"} 1.0' in node.metrics
    finally:
        node.write_certificate(datetime.now(UTC))
    node.until(lambda: ("certificate", "ok") in node.health)
    # A file that cannot be used keeps nobody from mail, but the service from its next start.
    (node.data / ABBY_FILE).with_name("own.pem").write_bytes(b"half a fi")
    try:
        node.until(lambda: "changed certificate not taken over" in node.read_outputs("certificate")["readyz"])
    finally:
        node.write_certificate(datetime.now(UTC))
    node.until(lambda: not node.read_outputs("certificate")["readyz"])


def object_store_away(node: Watched) -> None:
    held = _EICAR.encode() + b"\r\nLonger than what the database keeps." * 2_000
    assert node.send(body=held) == [451], "what cannot be held stays with its sender"
    # Here it is told for a second, and in a service for a minute: an event comes for what is seen twice.
    node.tells("object store away", lambda: node.send(body=held))
    assert node.send() == [250]


def webhook_away(node: Watched) -> None:
    node.receiver.answer = lambda _number: 500
    try:
        node.tells("webhook away", node.send)
    finally:
        node.receiver.answer = lambda _number: 200
    node.until(lambda: node.figure("gatepost_events_waiting_bytes") == 0)


def storage_moved(node: Watched) -> None:
    """Somebody moves the file: what is written goes into a file that ends with the service."""
    file = node.data / "gatepost.db"
    aside = file.rename(file.with_suffix(".aside"))
    try:
        node.until(lambda: node.colour == "RED")
        assert node.send() == [451]
        node.tells("storage moved away")
    finally:
        aside.rename(file)
    node.until(lambda: node.colour == "GREEN" and node.ready == 200)


def storage_locked(node: Watched) -> None:
    """Another program holds the file: nothing is written, and nobody says why."""
    import apsw

    other = apsw.Connection(str(node.data / "gatepost.db"))
    other.set_busy_timeout(60_000)
    other.execute("BEGIN EXCLUSIVE")
    try:
        node.until(lambda: node.colour == "RED")
        assert node.send() == [451]
        assert node.figure("gatepost_queue_status") == 2
        node.tells("storage frozen")
    finally:
        other.execute("ROLLBACK")
        other.close()
    node.until(lambda: node.colour == "GREEN" and node.ready == 200)


# The rows of the table, in the order in which they are tried.
ROWS: dict[str, Callable[[Watched], None]] = {
    "feed away": feed_away,
    "next hop hanging": hanging,
    "next hop full for one recipient": full_for_one,
    "next hop refusing": refusing,
    "next hop refusing for good": refusing_for_good,
    "next hop slow": slow,
    "DNS dead": dns_dead,
    "DNS slow": dns_slow,
    "DNS lying": dns_lying,
    "clock jumped": clock_jumped,
    "certificate expired": certificate_expired,
    "object store away": object_store_away,
    "webhook away": webhook_away,
    "storage moved away": storage_moved,
    "storage frozen": storage_locked,
}
# What is away from the start, and what is told of for an hour.
LASTING = ("feed away", "clock jumped")
# The others take as long again, and show that what goes on beside mail does not change its status.
ALWAYS = ("object store away",)


def try_row(fault: str, node: Watched) -> None:
    """A service that is well gets a fault, and is well again when it is over."""
    node.begin()
    ROWS[fault](node)
    if fault not in LASTING:
        node.ends(fault)


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.variant) for name in ROWS]
)
def test_what_is_said_of_a_fault(fault: str, watched: Watched) -> None:
    try_row(fault, watched)


class NumberedMail:
    """Sends numbered messages for as long as it runs, as a mail server does: what gets no last reply, or a temporary
    one, comes again two seconds later, until it is taken or refused."""

    def __init__(self, node: Watched) -> None:
        self._node, self._ends, self._tag = node, threading.Event(), uuid.uuid4().hex
        self._waiting: deque[tuple[float, int]] = deque()
        self._sent = 0
        self.attempts: Counter[int] = Counter()
        # The last reply to each number, and those of which an attempt had no last reply, so that the next hop may have
        # them all the same (RFC 1047).
        self.codes: dict[int, int] = {}
        self.cut_off: set[int] = set()
        self._thread = threading.Thread(target=self._send_on, daemon=True)

    def _send_on(self) -> None:
        while not self._ends.wait(0.2):
            if self._waiting and self._waiting[0][0] < time.monotonic():
                self._send(self._waiting.popleft()[1])
            else:
                self._sent += 1
                self._send(self._sent)
        deadline = time.monotonic() + 120
        while self._waiting and time.monotonic() < deadline:
            self._send(self._waiting.popleft()[1])

    def _send(self, number: int) -> None:
        self.attempts[number] += 1
        text = f"From: n@numbered.example\r\nSubject: {self._tag} {number}\r\nMessage-ID: <{number}@{self._tag}>\r\n"
        code = 0
        try:
            with smtplib.SMTP("127.0.0.1", self._node.smtp, timeout=60) as client:
                client.sendmail("n@numbered.example", ["numbers@example.com"], f"{text}\r\n{write_text()}\r\n")
            code = 250
        except smtplib.SMTPResponseException as fault:
            code = fault.smtp_code
            if code < 0 or "Connection to next hop lost" in str(fault.smtp_error):
                self.cut_off.add(number)
        except smtplib.SMTPRecipientsRefused as fault:
            code = fault.recipients["numbers@example.com"][0]
        except (smtplib.SMTPException, OSError):
            self.cut_off.add(number)
        self.codes[number] = code
        if code != 250 and code < 500:
            self._waiting.append((time.monotonic() + 2, number))

    def __enter__(self) -> "NumberedMail":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(240)

    def expect_all(self) -> None:
        """All are at the next hop, or were refused; twice only what had its reply cut off."""
        pattern = re.compile(rb"^Subject: %b (\d+)\r?$" % self._tag.encode(), re.MULTILINE)
        found = (pattern.search(raw) for _, _, raw in self._node.sink.mail)
        delivered = Counter(int(each[1]) for each in found if each)
        refused = {number for number, code in self.codes.items() if code >= 500}
        lost = self.codes.keys() - refused - delivered.keys()
        twice = {number for number, times in delivered.items() if times > 1}
        told = f"{len(self.codes)} messages, {self.attempts.total()} attempts: {len(lost)} lost, {len(refused)} refused"
        # The figures of bench/RESULTS.md.
        print(f"{told}, {len(twice)} twice, {len(self.cut_off)} had a reply cut off")  # noqa: T201
        assert (lost, twice - self.cut_off, refused & delivered.keys() - self.cut_off) == (set(), set(), set())


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_no_numbered_message_is_lost_under_any_fault(watched: Watched) -> None:
    with NumberedMail(watched) as numbered:
        for fault in ROWS:
            try_row(fault, watched)
    numbered.expect_all()


class OnPostgres:
    """A service on a server of its own, with a next hop of its own, which can die."""

    def __init__(self, folder: Path, server: OwnPostgres, sink: MailSink) -> None:
        self.server, self.node = server, Watched(folder, server.url(), sink)

    def expect_outage(self, fault: str) -> None:
        node = self.node
        node.until(lambda: node.colour == "RED")
        assert node.figure("gatepost_queue_status") == 2
        assert set(node.send(times=2)) == {451}
        node.tells(fault)

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


def storage_stopped(case: OnPostgres) -> None:
    case.server.stop()
    try:
        case.expect_outage("storage stopped")
        assert "connection refused" in case.node.log
    finally:
        case.server.start()
    case.expect_recovery()


def server_frozen(case: OnPostgres) -> None:
    case.server.signal_all(signal.SIGSTOP)
    try:
        case.node.until(lambda: case.node.colour == "RED")
        case.node.tells("storage server frozen")
    finally:
        case.server.signal_all(signal.SIGCONT)
    case.expect_recovery()


def storage_table_locked(case: OnPostgres) -> None:
    """An administrator's transaction keeps the table of results: other tables can be written."""
    locked, over = threading.Event(), threading.Event()

    def lock() -> None:
        async def hold() -> None:
            connection = await asyncpg.connect(case.server.socket_url("postgres"))
            async with connection.transaction():
                await connection.execute("LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
                locked.set()
                await asyncio.to_thread(over.wait)
            await connection.close()

        asyncio.run(hold())

    thread = threading.Thread(target=lock)
    thread.start()
    assert locked.wait(60)
    sending = threading.Thread(target=case.node.send)
    try:
        sending.start()
        case.node.tells("storage locked")
    finally:
        over.set()
        thread.join()
        sending.join()
    case.expect_recovery()


def server_read_only(case: OnPostgres) -> None:
    def set_read_only(value: str) -> None:
        case.server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()")

    set_read_only("on")
    try:
        case.expect_outage("storage read-only")
    finally:
        # A transaction that says so itself may write.
        case.server.execute(
            "SET default_transaction_read_only = off", "ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()"
        )
    case.expect_recovery()


def next_hop_dead(case: OnPostgres) -> None:
    """A mail server that ends with all of its connections, and is started again."""
    node = case.node
    assert node.send() == [250]
    node.sink.halt()
    try:
        node.tells("next hop dead", node.send)
        assert node.figure("gatepost_queue_status") == 1
        assert node.log.count('"event":"next hops do not take mail"') == 1, "one outage is one line"
    finally:
        node.sink.resume()


# Those that need a database server.
SERVER_ROWS: dict[str, Callable[[OnPostgres], None]] = {
    "storage stopped": storage_stopped,
    "storage server frozen": server_frozen,
    "storage locked": storage_table_locked,
    "storage read-only": server_read_only,
    "next hop dead": next_hop_dead,
}


def try_server_row(fault: str, case: OnPostgres) -> None:
    case.node.begin()
    SERVER_ROWS[fault](case)
    case.node.ends(fault)
    # One outage is one line; what became of a message has a line of its own.
    told = [json.loads(line) for line in case.node.log.splitlines() if line.startswith("{")]
    lines = Counter(each["event"] for each in told if each["level"] in ("warning", "error") and "ggrid" not in each)
    assert all(times == 1 for times in lines.values()), lines


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=() if name == "next hop dead" else pytest.mark.variant) for name in SERVER_ROWS]
)
def test_what_is_said_of_a_fault_with_a_server(fault: str, on_postgres: OnPostgres) -> None:
    try_server_row(fault, on_postgres)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_no_numbered_message_is_lost_under_a_fault_with_a_server(on_postgres: OnPostgres) -> None:
    with NumberedMail(on_postgres.node) as numbered:
        for fault in SERVER_ROWS:
            try_server_row(fault, on_postgres)
    numbered.expect_all()


def signal_tree(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process and all that it has started, as a machine halts."""
    for each in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(number)


def read_nodes(node: Watched) -> dict[str, dict[str, object]]:
    """What `gatepost nodes` says, by services: the one with the API, and the core alone."""
    printed = json.loads(run_command("nodes", "--json", "--data", node.data)[1])
    return {"core" if each["services"] == ["guard"] else "both": each for each in printed["nodes"]}


@pytest.mark.variant
def test_what_is_said_of_a_node_that_is_long_away(tmp_path: Path, lasting_next_hop: MailSink) -> None:
    """Two nodes; one is halted for longer than it may be silent. That a node takes over the version which it missed is
    shown in `test_publishing.py`, with kills."""
    port = free_port()
    with own_postgres() as server:
        node = Watched(tmp_path, server.url(), lasting_next_hop, (port,))
        data = tmp_path / "core"
        # The same certificate for both, which the API trusts.
        shutil.copytree(node.data / "tls", data / "tls")
        source = f"scanSources: {{restApi: {{port: {port}, secret: '{SECRET}'}}}}"
        write_files(data, f"{source}\nworkerProcesses: 1\nstorage: {{url: '{server.url()}'}}\n")
        core = RunningCommand(tmp_path / "core-output", "guard", "--data", data)
        try:
            core.until()
            node.until(lambda: len(read_nodes(node)) == 2)
            node.begin()
            signal_tree(core.popen, signal.SIGSTOP)
            try:
                with NumberedMail(node) as numbered:
                    node.tells("node long away and back")
                    node.until(lambda: read_nodes(node)["core"]["health"] == "silent")
                    assert read_nodes(node)["both"]["health"] != "silent"
            finally:
                signal_tree(core.popen, signal.SIGCONT)
            numbered.expect_all()
            node.until(lambda: node.colour == "GREEN")
            node.until(lambda: {each["health"] for each in read_nodes(node).values()} == {"GREEN"})
        finally:
            core.stop()
            node.stop()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own at a folder; yields the file that makes it fail, as an error of its device does."""
    folder.mkdir()
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(160 << 20)
    commands = (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop,errors=remount-ro", str(image), str(folder)])
    for command in commands:
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("not run: no file system can be mounted here")
    try:
        device = next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line)
        yield Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.variant
def test_what_is_said_of_a_disk(tmp_path: Path, lasting_next_hop: MailSink) -> None:
    """The disk of the data folder is full, is frozen, and then takes no change at all."""
    data = tmp_path / "data"
    with small_disk(data) as failure:
        node = Watched(tmp_path, "sqlite:gatepost.db", lasting_next_hop)
        try:
            with NumberedMail(node) as numbered:
                node.begin()
                filler = data / "filler"
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(1 << 16))
                # Events are written to this disk, too, which is full for the service long before its last byte.
                os.truncate(filler, filler.stat().st_size - (2 << 20))
                node.tells("storage full", node.send)
                assert node.send()[0] in (451, 452, 421, 0)
                filler.unlink()
                node.begin()
                subprocess.run(["fsfreeze", "-f", str(data)], check=True)
                try:
                    node.until(lambda: node.colour == "RED" and node.ready == 503)
                    # Events are written to this disk, too. A state counts when it was seen twice, and each look at
                    # storage takes five seconds now.
                    node.until(lambda: not [each for each in node.find_missing("disk frozen") if "event" not in each])
                    time.sleep(25)
                finally:
                    subprocess.run(["fsfreeze", "-u", str(data)], check=True)
                node.until(lambda: node.colour == "GREEN" and node.ready == 200)
                node.until(lambda: ("messageQueue", "failed") in node.health)
                node.until(lambda: node.send() == [250])
            numbered.expect_all()
            node.begin()
            failure.write_text("1")
            node.until(lambda: node.colour == "RED" and node.ready == 503)
            node.until(lambda: not [each for each in node.find_missing("disk read-only") if "event" not in each])
            assert node.send() == [451]
        finally:
            node.stop()


# Tests of their own; that of the provider is in tests/web/test_openid.py.
ELSEWHERE = {"storage full", "disk frozen", "disk read-only", "node long away and back", "identity provider away"}


def test_the_page_has_every_row_and_no_other() -> None:
    assert PAGE.keys() == ROWS.keys() | SERVER_ROWS.keys() | ELSEWHERE
    alerts = {name for each in PAGE.values() for name in re.findall(r"`(Gatepost[A-Za-z]+)`", each.alert)}
    assert alerts <= set(re.findall(r"alert: (\w+)", RULES.read_text("utf-8")))
