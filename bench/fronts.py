"""The path without analysis, with one front process and with two: what a message costs, by the number of connections.

The whole path but the analysis: TLS, HTTP, multipart, credential, admission, lists, the record on disk, the answer. CPU
is that of all processes of the service, from the process table. Client and service share the cores of the machine, so
on a small one the rate says little about what two processes could do on cores of their own: compare the CPU.
Connections are opened before the measurement and used in turns, 20 requests at a time.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import psutil

from bench import load
from bench.ports import free_ports
from bench.processes import await_output
from bench.scanning import pss
from gatepost.service.commands import EXAMPLE
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

MESSAGES = int(os.environ.get("BENCH_FRONTS_MESSAGES", "2000"))
CONNECTIONS = (1, 20, 200, 1000)
ROUNDS = int(os.environ.get("BENCH_FRONTS_ROUNDS", "3"))
TOKEN = "5f" * 32
# Requests at once: more would measure the threads of the client.
IN_FLIGHT = 20


def run() -> str:
    """Measure both in turns, so that what else the machine does meets them alike."""
    with tempfile.TemporaryDirectory() as folder:
        services = {fronts: Service(Path(folder) / str(fronts), fronts) for fronts in (1, 2)}
        try:
            figures: dict[tuple[int, int], list[tuple[float, float]]] = {}
            for service in services.values():
                service.measure(20, MESSAGES // 4)
            for _ in range(ROUNDS):
                for connections in CONNECTIONS:
                    for fronts, service in services.items():
                        figures.setdefault((fronts, connections), []).append(service.measure(connections, MESSAGES))
            memory = {fronts: pss(psutil.Process(service.process.pid)) for fronts, service in services.items()}
        finally:
            for service in services.values():
                service.stop()
    return _table(figures, memory)


class Service:
    """A `gatepost serve` without analysis, with so many front processes."""

    def __init__(self, folder: Path, fronts: int) -> None:
        abby, guard = free_ports(2)
        files = {
            GUARD_FILE: f"frontProcesses: {fronts}\nworkerProcesses: 2\nmainWorkerCount: 2000\n"
            f"scanSources: {{restApi: {{port: {guard}}}}}\nlog: {{level: warning}}\n",
            ABBY_FILE: f"listen: {{host: 127.0.0.1, port: {abby}}}\nlog: {{level: warning}}\n"
            f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}\n'
            f'staticApiTokens: [{{name: bench, token: "{TOKEN}"}}]\n',
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.url = f"https://127.0.0.1:{abby}"
        output = folder / "output"
        with output.open("wb") as sink:
            command = [sys.executable, "-m", "bench.unanalysed", str(folder), str(folder / "data")]
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink)
        # A weak token is warned of once everything serves.
        await_output(self.process, output, '"configuration warning"')
        self._request = _request()

    def measure(self, connections: int, messages: int) -> tuple[float, float]:
        """Return CPU a message in ms, and messages a second, with so many connections open, used in turns."""
        pool: SimpleQueue[load.Connection] = SimpleQueue()
        context = load.unverified()
        several = [load.Connection(f"{self.url}/", context=context) for _ in range(connections)]
        for connection in several:
            connection.stream = connection.connect()
            pool.put(connection)

        def exchange(_own: load.Connection, request: bytes) -> bytes:
            connection = pool.get()
            try:
                return connection.exchange(request)
            finally:
                pool.put(connection)

        before = self._cpu()
        result = load.send(f"{self.url}/", [self._request] * messages, min(connections, IN_FLIGHT), exchange)
        time.sleep(0.1)
        cpu = self._cpu() - before
        for connection in several:
            connection.close()
        assert not result.errors, result.errors
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in result.answers), result.answers[0]
        return cpu / messages * 1000, result.rate

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def _cpu(self) -> float:
        parent = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
        return sum(each.user + each.system for each in times)


def _request() -> bytes:
    mail = EXAMPLE.encode() + b"A line of text as it stands in many messages.\r\n" * 180
    parameters = (
        b'{"borderMtaData":{"envelopeFrom":"ann@example.org","envelopeRecipients":["bob@example.com"],'
        b'"remoteAddress":"192.0.2.1","senderHelo":"mx.example.org"}}'
    )
    part = b"--b\r\nContent-Disposition: form-data; name=%b\r\nContent-Type: %b\r\n\r\n%b\r\n"
    body = part % (b'"parameters"', b"application/json", parameters)
    body += part % (b'"email"; filename="m.eml"', b"message/rfc822", mail) + b"--b--\r\n"
    head = (
        f"POST /v1/messageQueue/submitEmail HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _table(figures: dict[tuple[int, int], list[tuple[float, float]]], memory: dict[int, float]) -> str:
    lines = [
        "| Connections | CPU ms a message, 1 front | 2 fronts | ratio | msg/s, 1 front | 2 fronts |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for connections in CONNECTIONS:
        one, two = (_middle(figures[fronts, connections]) for fronts in (1, 2))
        lines.append(
            f"| {connections:,} | {one[0]:.2f} | {two[0]:.2f} | {two[0] / one[0]:.2f} | {one[1]:.0f} | {two[1]:.0f} |"
        )
    cores = os.cpu_count()
    remark = (
        f"Median of {ROUNDS} rounds of {MESSAGES:,} messages of 8 KB, SQLite, {cores} cores shared with the client. "
        f"Memory of all processes without workers: {memory[1]:.0f} MB with one front, {memory[2]:.0f} MB with two."
    )
    return "\n".join([*lines, "", remark])


def _middle(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    return median(cpu for cpu, _ in rounds), median(rate for _, rate in rounds)
