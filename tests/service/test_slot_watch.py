"""Messages that wait for a slot while processors are idle: what is counted, when a node says so, and where."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from bench.name_server import NameServer
from bench.ports import free_ports
from tests.data_folders import write_files
from tests.events.receivers import eventually
from tests.service.running_service import RunningService, connect

from gatepost.process.health import HealthLedger
from gatepost.service import health
from gatepost.service.commands import EXAMPLE
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.examination import check_nodes
from gatepost.service.doctor.rows import read_files
from gatepost.service.health import CpuUse, SlotWatch, read_cpu
from gatepost.workers.fair_queue import FairQueue, QueueCounters

IDLE, BUSY = (0.0, 100.0), (95.0, 100.0)


class Counted:
    """A queue and a system of which a test says what they have counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moment = 0.0
        self.cpu: tuple[CpuUse, ...] = (CpuUse(0.0, 0.0),)
        self.counters: QueueCounters | None = QueueCounters(0, 0, 0, 0.0)
        self.ledger = HealthLedger()
        self.watch = SlotWatch(self.ledger, lambda: self.counters, lambda: "raise mainWorkerCount")
        monkeypatch.setattr(health, "read_cpu", lambda: self.cpu)
        monkeypatch.setattr(health, "read_clock", lambda: self.moment)

    def after(self, seconds: float, cpu: tuple[float, float], waited: float = 0.0, refused: int = 0) -> str:
        """What is said after this."""
        self.moment += seconds
        self.cpu = tuple(CpuUse(each.used + cpu[0], each.whole + cpu[1]) for each in self.cpu)
        if self.counters:
            seen = self.counters
            self.counters = QueueCounters(0, 0, seen.refused + refused, seen.waited + waited)
        asyncio.run(self.watch.look())
        noted = self.ledger.noted("slots")
        return noted.sentence if noted else ""


def test_it_is_said_while_messages_wait_and_processors_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    assert counted.after(0, IDLE, waited=100) == "", "one look says nothing"
    assert counted.after(10, BUSY, waited=100) == "", "the processors are busy"
    assert counted.after(10, IDLE, waited=20) == (
        "6.0 messages waited for a slot on average in the last 20 seconds, while 52% of the CPU was idle:"
        " raise mainWorkerCount"
    )
    assert [each.state for each in counted.ledger.reasons] == ["GREEN"]
    for _ in range(health.SLOT_LOOKS):
        said = counted.after(10, IDLE)
    assert said == "", "nothing waits any more"
    assert not counted.ledger.reasons


def test_mail_that_is_refused_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.after(10, IDLE)
    assert counted.after(10, IDLE, refused=1) == ""
    assert "and 5 were refused" in counted.after(10, IDLE, refused=4)


def test_what_a_system_does_not_count_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.cpu = ()
    counted.after(10, IDLE)
    assert counted.after(10, IDLE, waited=100) == ""
    counted.counters = None
    assert counted.after(10, IDLE) == ""


def test_the_time_of_messages_that_still_wait_counts() -> None:
    async def run() -> None:
        queue, never = FairQueue(1, 1, 0.0), asyncio.get_running_loop().create_future()
        slot = queue.enter(None)
        assert slot
        waiting = [asyncio.create_task(queue.wait(None, order, 1, [never])) for order in range(3)]
        await asyncio.sleep(0)
        began = time.monotonic()
        await asyncio.sleep(0.2)
        passed = time.monotonic() - began
        assert queue.counters().waited > 2.5 * passed, "three at once, so that a second counts three"
        slot.leave()
        for each in waiting:
            (await each).leave()  # type: ignore[union-attr]
        seen = queue.counters().waited
        await asyncio.sleep(0.05)
        assert queue.counters().waited == seen, "nobody waits"
        never.cancel()

    asyncio.run(run())


def test_processors_and_limits_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_cpu()
    spent = time.process_time()
    while time.process_time() - spent < 0.3:
        pass
    after = read_cpu()
    assert after[0].used > before[0].used
    assert after[0].whole >= after[0].used

    for name, number in (("STAT", "stat"), ("OWN_GROUP", "group"), ("GROUPS", "groups")):
        monkeypatch.setattr(health, name, tmp_path / number)
    assert read_cpu() == ()
    numbers = sorted(os.sched_getaffinity(0))
    lines = [f"cpu{number} 10 1 4 70 5 6 3 1 9 9" for number in (*numbers, max(numbers) + 1)]
    (tmp_path / "stat").write_text("\n".join(["cpu 1 1 1 1", *lines, "intr 5"]))
    assert read_cpu() == (CpuUse(25.0 * len(numbers), 100.0 * len(numbers)),), "of its own processors alone"

    group = tmp_path / "groups" / "a" / "b"
    group.mkdir(parents=True)
    (tmp_path / "group").write_text("0::/a/b\n")
    (group / "cpu.max").write_text("max 100000\n")
    (group.parent / "cpu.max").write_text("50000 100000\n")
    (group.parent / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 1\n")
    _, limited = read_cpu()
    assert limited.used == 3.0
    assert limited.whole == pytest.approx(time.monotonic() / 2, abs=5)


SLOTS, TOKEN = 2, "5f" * 32
# The service as it is, but for how often it looks and whether its processors are busy: while a file is there.
PROGRAM = """
import os, time
from pathlib import Path
from gatepost.service import health
def read_cpu():
    whole = time.monotonic()
    return (health.CpuUse(whole if Path(os.environ["BUSY"]).exists() else 0.0, whole),)
health.read_cpu, health.SLOT_SECONDS, health.SLOT_LOOKS = read_cpu, 0.3, 5
from gatepost.cli import main
main()
"""


class SlowService(RunningService):
    """A service of two slots whose name server is slow, and clients that keep it busy while they shall."""

    def __init__(self, folder: Path) -> None:
        self.names, self.busy = NameServer(), folder / "busy"
        self.names.state = "slow"
        abby, self.guard = free_ports(2)
        write_files(
            folder / "data",
            f"workerProcesses: 1\nmainWorkerCount: {SLOTS}\nscanSources: {{restApi: {{port: {self.guard}}}}}\n"
            f'dns: {{nameservers: ["{self.names.address}"], timeout: 5000}}\n',
            f'listen: {{port: {abby}}}\nserviceProviders: {{core: {{hosts: ["https://127.0.0.1:{self.guard}"]}}}}\n'
            f'staticApiTokens: [{{name: test, token: "{TOKEN}"}}]\n',
        )
        super().__init__(folder / "data", abby, ("-c", PROGRAM), BUSY=str(self.busy))
        self.sends, self._end = threading.Event(), threading.Event()
        self._senders = [threading.Thread(target=self._send, args=(number,)) for number in range(3 * SLOTS)]
        for each in self._senders:
            each.start()

    def _send(self, sender: int) -> None:
        with self.client() as client:
            for number in itertools.count():
                if self._end.wait(0.02):
                    return
                if not self.sends.is_set():
                    continue
                data = {"envelopeFrom": f"a@s{sender}n{number}.example", "envelopeRecipients": ["bob@example.com"]}
                files = {
                    "parameters": ("", json.dumps({"borderMtaData": data}), "application/json"),
                    "email": ("m", EXAMPLE, "message/rfc822"),
                }
                with contextlib.suppress(httpx.HTTPError):
                    client.post(
                        "/v1/messageQueue/submitEmail", files=files, headers={"Authorization": f"Bearer {TOKEN}"}
                    )

    def warned(self) -> list[str]:
        """What the core says of itself where its load is asked for."""
        headers = {"Authorization": f"Bearer {DataFolder(self.data).secret.read_text().strip()}"}
        with connect(self.data, self.guard) as client:
            found = client.get("/load", headers=headers).json().get("reasons", ())
            return [str(each["sentence"]) for each in found if each["code"] == "slots"]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self._end.set()
        for each in self._senders:
            each.join()
        self.names.close()
        return super().stop(number)


@pytest.fixture
def slow_service(tmp_path: Path) -> Iterator[SlowService]:
    running = SlowService(tmp_path)
    yield running
    running.stop()


@pytest.mark.variant
def test_a_service_whose_slots_wait_says_so_while_its_processors_are_idle(slow_service: SlowService) -> None:
    assert slow_service.warned() == [], "nothing waits"
    slow_service.sends.set()
    eventually(lambda: bool(slow_service.warned()))
    (said,) = slow_service.warned()
    assert "waited for a slot" in said
    assert said.endswith("raise mainWorkerCount (now 2) in guard.yml")
    assert '"component":"slots"' in slow_service.text

    eventually(lambda: "mainWorkerCount" in str(json.loads(slow_service.run("nodes", "--json"))["nodes"][0]["reasons"]))
    rows = list(check_nodes(read_files(slow_service.data), DataFolder(slow_service.data), datetime.now(UTC)))
    # A core whose slots are all taken at that moment has failed, else it is warned of.
    assert any(row.state != "ok" and "raise mainWorkerCount" in row.found for row in rows), rows

    slow_service.busy.touch()
    eventually(lambda: not slow_service.warned())
    time.sleep(1.0)
    assert slow_service.warned() == [], "they wait, and the processors are busy"
    slow_service.sends.clear()
    slow_service.busy.unlink()
    time.sleep(2.0)
    assert slow_service.warned() == [], "the processors are idle, and nothing waits"
