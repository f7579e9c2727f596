"""Messages that wait for a slot while processors are idle: what is counted, when a node says so, and where."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from tests.command_line import run_command

from gatepost.scanning.request import Condition
from gatepost.service import health
from gatepost.service.commands import EXAMPLE
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.examination import check_nodes
from gatepost.service.doctor.rows import read_files
from gatepost.service.health import CpuUse, SlotWatch, read_cpu
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.workers.fair_queue import FairQueue, QueueCounters

IDLE, BUSY = (0.0, 100.0), (95.0, 100.0)


class Counted:
    """A queue and a system of which a test says what they have counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moment = 0.0
        self.cpu: tuple[CpuUse, ...] = (CpuUse(0.0, 0.0),)
        self.counters: QueueCounters | None = QueueCounters(0, 0, 0, 0.0)
        self.condition = Condition()
        self.watch = SlotWatch(self.condition, lambda: self.counters, lambda: "raise mainWorkerCount")
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
        return self.condition.warnings.get("slots", "")


def test_it_is_said_while_messages_wait_and_processors_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    assert counted.after(0, IDLE, waited=100) == "", "one look says nothing"
    assert counted.after(10, BUSY, waited=100) == "", "the processors are busy"
    assert counted.after(10, IDLE, waited=20) == (
        "6.0 messages waited for a slot on average in the last 20 seconds, while 52% of the CPU was idle:"
        " raise mainWorkerCount"
    )
    assert counted.condition.warned
    for _ in range(health.SLOT_LOOKS):
        said = counted.after(10, IDLE)
    assert said == "", "nothing waits any more"
    assert not counted.condition.warned


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
        slot = queue.enter_at_once(None)
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


class SlowNames:
    """A name server that knows no name and takes its time to say so."""

    def __init__(self, seconds: float) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self._seconds = seconds
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, address = self.socket.recvfrom(4096)
                answer = data[:2] + b"\x81\x83" + data[4:6] + b"\0\0\0\0\0\0" + data[12:].partition(b"\0\0\x29")[0]
                timer = threading.Timer(self._seconds, self._reply, (answer, address))
                timer.daemon = True
                timer.start()

    def _reply(self, answer: bytes, address: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendto(answer, address)


class CpuFile:
    """What a system would say in `/proc/stat`, which goes on by itself."""

    def __init__(self, path: Path) -> None:
        self._path, self._counts = path, [0, 0]
        self.is_idle = True
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._write()
        self._thread.start()

    def _go_on(self) -> None:
        while not self._end.wait(0.05):
            self._counts[self.is_idle] += 5
            self._write()

    def _write(self) -> None:
        busy, idle = self._counts
        text = "\n".join(f"cpu{each} {busy} 0 0 {idle} 0 0 0 0" for each in sorted(os.sched_getaffinity(0)))
        self._path.with_suffix(".new").write_text(text)
        self._path.with_suffix(".new").replace(self._path)

    def end(self) -> None:
        self._end.set()
        self._thread.join()


SLOTS = 2
GUARD_YML = """
workerProcesses: 1
mainWorkerCount: {slots}
scanSources: {{restApi: {{port: {guard}}}}}
dns: {{nameservers: ["127.0.0.1:{dns}"], timeout: 5000}}
log: {{level: info, format: json}}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {abby}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}
staticApiTokens: [{{name: test, token: "{token}"}}]
"""
TOKEN = "5f" * 32
# The service as it is, but for how often it looks and where it reads what the system says.
PROGRAM = """
import sys
from pathlib import Path
from gatepost.service import health
health.STAT, health.GROUPS = Path(sys.argv.pop()), Path("/nowhere")
health.SLOT_SECONDS, health.SLOT_LOOKS = 0.3, 5
from gatepost.cli import main
main()
"""


class SlowService:
    """A service of two slots whose name server is slow, and clients that keep it busy while they shall."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.names, self.cpu = SlowNames(0.15), CpuFile(folder / "stat")
        self.abby, self.guard = free_ports(2)
        values = {"slots": SLOTS, "guard": self.guard, "dns": self.names.port, "abby": self.abby, "token": TOKEN}
        for name, text in ((GUARD_FILE, GUARD_YML), (ABBY_FILE, ABBY_YML)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.format(**values))
        command = [sys.executable, "-c", PROGRAM, "serve", "--config", folder, "--data", self.data, folder / "stat"]
        with (folder / "output").open("wb") as sink:
            self.popen = subprocess.Popen(list(map(str, command)), stdout=sink, stderr=sink)
        await_output(self.popen, folder / "output", "service listening")
        self.sends = threading.Event()
        self._end = threading.Event()
        self._senders = [threading.Thread(target=self._send, args=(number,)) for number in range(3 * SLOTS)]
        for each in self._senders:
            each.start()

    def _send(self, sender: int) -> None:
        url = f"https://127.0.0.1:{self.abby}/v1/messageQueue/submitEmail"
        with httpx.Client(verify=False, trust_env=False, timeout=60) as client:
            number = 0
            while not self._end.wait(0.02):
                if not self.sends.is_set():
                    continue
                number += 1
                data: dict[str, object] = {"envelopeFrom": f"a@s{sender}n{number}.example"}
                data |= {"envelopeRecipients": ["bob@example.com"]}
                files = {
                    "parameters": ("", json.dumps({"borderMtaData": data}), "application/json"),
                    "email": ("m", EXAMPLE, "message/rfc822"),
                }
                with contextlib.suppress(httpx.HTTPError):
                    client.post(url, files=files, headers={"Authorization": f"Bearer {TOKEN}"})

    def warned(self) -> list[str]:
        """What the core says of itself where its load is asked for."""
        headers = {"Authorization": f"Bearer {DataFolder(self.data).secret.read_text().strip()}"}
        answer = httpx.get(
            f"https://127.0.0.1:{self.guard}/load", headers=headers, verify=False, trust_env=False, timeout=60
        )
        return [str(each) for each in answer.json().get("warned", ())]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 180
        while not condition():
            assert time.monotonic() < deadline, (self.folder / "output").read_text()[-3000:]
            time.sleep(0.1)

    def stop(self) -> None:
        self._end.set()
        for each in self._senders:
            each.join()
        self.popen.terminate()
        self.popen.wait(90)
        self.cpu.end()
        self.names.socket.close()


@pytest.fixture
def slow_service(tmp_path: Path) -> Iterator[SlowService]:
    running = SlowService(tmp_path)
    yield running
    running.stop()


@pytest.mark.variant
def test_a_service_whose_slots_wait_says_so_while_its_processors_are_idle(slow_service: SlowService) -> None:
    assert slow_service.warned() == [], "nothing waits"
    slow_service.sends.set()
    slow_service.until(lambda: bool(slow_service.warned()))
    (said,) = slow_service.warned()
    assert "waited for a slot" in said
    assert said.endswith("raise mainWorkerCount (now 2) in guard.yml")
    assert '"component":"slots"' in (slow_service.folder / "output").read_text()

    def of_nodes() -> list[str]:
        code, out, err = run_command("nodes", "--json", "--config", slow_service.folder, "--data", slow_service.data)
        assert code == 0, err
        return [str(each) for node in json.loads(out)["nodes"] for each in node["warnings"]]

    slow_service.until(lambda: "mainWorkerCount" in str(of_nodes()))
    rows = list(check_nodes(read_files(slow_service.folder), DataFolder(slow_service.data), datetime.now(UTC)))
    # A core whose slots are all taken at that moment has failed, else it is warned of.
    assert any(row.state != "ok" and "raise mainWorkerCount" in row.found for row in rows), rows

    slow_service.cpu.is_idle = False
    slow_service.until(lambda: not slow_service.warned())
    time.sleep(1.0)
    assert slow_service.warned() == [], "they wait, and the processors are busy"
    slow_service.sends.clear()
    slow_service.cpu.is_idle = True
    time.sleep(2.0)
    assert slow_service.warned() == [], "the processors are idle, and nothing waits"
