"""Memory over many messages on the path without analysis, and what a message costs from the first to the last of them.

The whole path but the analysis: TLS, HTTP, multipart, credential, admission, lists, the record on disk, the answer. CPU
is that of all processes of the service, from the process table. Connections are opened before the measurement and used
in turns, 20 requests at a time. After a warm-up, memory (PSS of all processes) is read at equal distances; the slope is
that of a straight line through the second half of the readings. The record of each message is on disk, and the page
cache of the database is no memory of the service.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue

import psutil

from bench import load
from bench.ports import free_ports
from bench.processes import await_output
from bench.scanning import pss
from gatepost.service.commands import EXAMPLE
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

MESSAGES = int(os.environ.get("BENCH_STEADY_MESSAGES", "100000"))
READINGS = 20
CONNECTIONS = 20
# Requests at once: more would measure the threads of the client.
IN_FLIGHT = 20
TOKEN = "5f" * 32


def run() -> str:
    """Send the messages and read the memory in between."""
    step = MESSAGES // READINGS
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            process = psutil.Process(service.process.pid)
            service.measure(CONNECTIONS, min(step, 2000))
            memory, costs = [pss(process)], []
            for _ in range(READINGS):
                costs.append(service.measure(CONNECTIONS, step)[0])
                memory.append(pss(process))
        finally:
            service.stop()
    return _table(step, memory, costs)


class Service:
    """A `gatepost serve` without analysis."""

    def __init__(self, folder: Path) -> None:
        abby, guard = free_ports(2)
        files = {
            GUARD_FILE: "workerProcesses: 2\nmainWorkerCount: 2000\n"
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


def slope(values: list[float]) -> float:
    """Return by how much values at equal distances grow from one to the next: the least-squares line through them."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(len(values)))


def _table(step: int, memory: list[float], costs: list[float]) -> str:
    grown = slope(memory[len(memory) // 2 :]) / step * 1000 * 1024
    shown = range(0, len(memory), max(1, len(memory) // 5))
    lines = ["| After messages | memory MB (PSS) | CPU ms a message |", "|---:|---:|---:|"]
    lines += [
        f"| {place * step:,} | {memory[place]:.1f} | {f'{costs[place - 1]:.2f}' if place else ''} |" for place in shown
    ]
    remark = (
        f"{MESSAGES:,} messages of 8 KB, {CONNECTIONS} connections. Slope over the second half: {grown:.2f} KB for "
        "each 1,000 messages."
    )
    return "\n".join([*lines, "", remark])
