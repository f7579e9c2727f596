"""Scanning real mail beside rspamd and SpamAssassin, on the same cores.

The same messages go to each scanner in turns, over eight connections. Server CPU is that of all processes of each, from
the process table. "Nothing" is the same upload over TLS to a handler that reads it and answers: the
difference is the cost of the analysis and of everything around it.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import psutil

from bench import corpus, load
from bench.ports import free_port
from gatepost.speedups import describe_speedups

MESSAGES = int(os.environ.get("BENCH_MESSAGES", "1500"))
SLOW_MESSAGES = 150
ROUNDS = 3
CONNECTIONS = 8
PEERS = Path(__file__).parents[2] / "shared" / "bench" / "peers.sh"
PEERS_NAMESERVER = "127.0.0.77:53"
PEERS_FOLDER = Path(tempfile.gettempdir()) / "gatepost-peers"


@dataclass(frozen=True)
class Server:
    """A scanner that runs: where, and which processes are its."""

    name: str
    url: str
    process: psutil.Process
    requests: list[bytes]


@dataclass(frozen=True)
class Round:
    """One run over all messages."""

    rate: float
    p50: float
    p99: float
    cpu: float
    worker_cpu: float
    errors: int
    parts: dict[str, float]


def run() -> str:
    """Run everything that can be run here and say what could not."""
    try:
        messages = corpus.mail(MESSAGES)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    rounds: dict[str, list[Round]] = {}
    memory: dict[str, float] = {}
    remarks: list[str] = []
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(gatepost(messages)), stack.enter_context(nothing(messages))]
        try:
            servers += stack.enter_context(peers(messages))
        except (OSError, subprocess.CalledProcessError) as fault:
            remarks.append(f"rspamd and SpamAssassin not run: {fault}")
        for server in servers:
            load.send(server.url, server.requests[:100], CONNECTIONS, exchanges(server))
        for _ in range(ROUNDS):
            for server in servers:
                rounds.setdefault(server.name, []).append(measured(server))
                memory[server.name] = pss(server.process)
    return table(rounds, memory, messages) + "".join(f"\n\n{remark}" for remark in remarks)


def measured(server: Server) -> Round:
    before, workers_before = cpu(server.process), worker_cpu(server.process)
    parts_before = cpu_by_part(server.process)
    result = load.send(server.url, server.requests, CONNECTIONS, exchanges(server))
    spent, workers_spent = cpu(server.process) - before, worker_cpu(server.process) - workers_before
    parts = cpu_by_part(server.process)
    each = 1000 / len(server.requests)
    refused = (
        sum(b" 200 " not in answer.split(b"\n", 1)[0] + b" " for answer in result.answers)
        if server.name != "SpamAssassin"
        else 0
    )
    return Round(
        result.rate,
        result.percentile(0.5),
        result.percentile(0.99),
        spent * each,
        workers_spent * each,
        result.errors + refused,
        {part: (seconds - parts_before.get(part, 0.0)) * each for part, seconds in parts.items()},
    )


def family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def cpu(process: psutil.Process) -> float:
    """CPU seconds of a process, its children and theirs, ended ones included."""
    total = 0.0
    for member in family(process):
        with contextlib.suppress(psutil.Error):
            times = member.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def worker_cpu(process: psutil.Process) -> float:
    """The part of it that analysis workers spent: the children of the loader."""
    total = 0.0
    for child in process.children():
        for worker in child.children():
            with contextlib.suppress(psutil.Error):
                times = worker.cpu_times()
                total += times.user + times.system
    return total


def cpu_by_part(process: psutil.Process) -> dict[str, float]:
    """CPU seconds of the parts of a service that runs as one process: its event loop, which also asks DNS, the thread
    that writes, its other threads, and the processes that analyse."""
    threads = {"event loop, with DNS": 0.0, "writer thread": 0.0, "other threads": 0.0}
    for thread in process.threads():
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip()
            part = "writer thread" if name == "store-writer" else "other threads"
            part = "event loop, with DNS" if thread.id == process.pid else part
            threads[part] += thread.user_time + thread.system_time
    return {**threads, "workers": worker_cpu(process)}


def pss(process: psutil.Process) -> float:
    """Memory in MB, shared pages counted in parts."""
    total = 0
    for member in family(process):
        with contextlib.suppress(psutil.Error, OSError):
            rollup = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
            found = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
            total += int(found.group(1)) if found else 0
    return total / 1024


def exchanges(server: Server) -> Callable[[load.Connection, bytes], bytes] | None:
    """How a request is sent where it is not plain HTTP."""
    return spamd_exchange if server.name == "SpamAssassin" else None


def spamd_exchange(connection: load.Connection, request: bytes) -> bytes:
    """spamd answers once per connection and then closes it."""
    place = connection.url.removeprefix("http://").split(":")
    with socket.create_connection((place[0], int(place[1]))) as stream:
        stream.sendall(request)
        stream.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: stream.recv(65_536), b""))


@contextlib.contextmanager
def gatepost(messages: list[corpus.Mail], nameserver: str = PEERS_NAMESERVER, more: str = "") -> Iterator[Server]:
    """The service as `gatepost serve` runs it, on free ports, asking the name server of the peers or another one;
    `more` is added to guard.yml."""
    with tempfile.TemporaryDirectory() as folder:
        port, core = free_port(), free_port()
        configure(Path(folder), port, core, nameserver, more)
        arguments = [sys.executable, "-m", "gatepost", "serve", "--data", folder]
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                await_port(port)
                requests = [load.upload(mail.raw, mail.envelope, TOKEN) for mail in messages]
                yield Server("Gatepost", f"https://127.0.0.1:{port}", psutil.Process(process.pid), requests)
            finally:
                process.terminate()
                process.wait(90)


TOKEN = "b" * 64


def configure(folder: Path, port: int, core: int, nameserver: str = PEERS_NAMESERVER, more: str = "") -> None:
    """The two files that `gatepost serve` would write, but for ports, token and name server."""
    guard, abby = folder / "guard" / "core" / "guard.yml", folder / "abby" / "abby" / "abby.yml"
    for file in (guard, abby):
        file.parent.mkdir(parents=True)
    guard.write_text(
        f"scanSources:\n  restApi: {{host: 127.0.0.1, port: {core}}}\n"
        f"dns: {{nameservers: ['{nameserver}'], timeout: 1000}}\nlog: {{level: warning}}\n{more}"
    )
    abby.write_text(
        f"listen: {{host: 127.0.0.1, port: {port}}}\nlog: {{level: warning}}\n"
        f"serviceProviders:\n  core: {{hosts: ['https://127.0.0.1:{core}']}}\n"
        f"staticApiTokens:\n  - {{name: bench, token: '{TOKEN}', permissions: [messages.read, messages.search]}}\n"
    )


@contextlib.contextmanager
def nothing(messages: list[corpus.Mail]) -> Iterator[Server]:
    """A handler on the same server and TLS that reads the upload and answers."""
    port = free_port()
    arguments = [sys.executable, "-m", "bench.nothing", str(port)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port)
            requests = [load.upload(mail.raw, mail.envelope, TOKEN) for mail in messages]
            yield Server("nothing", f"https://127.0.0.1:{port}", psutil.Process(process.pid), requests)
        finally:
            process.terminate()
            process.wait(90)


@contextlib.contextmanager
def peers(messages: list[corpus.Mail]) -> Iterator[list[Server]]:
    """rspamd and spamd, started by the script in the data folder's neighbour."""
    if not PEERS.exists():
        raise FileNotFoundError("../shared/bench/peers.sh is not present")
    subprocess.run([PEERS, "start"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield [
            Server("rspamd", "http://127.0.0.1:11333", peer("rspamd"), [rspamd_request(mail) for mail in messages]),
            Server(
                "SpamAssassin",
                "http://127.0.0.1:1783",
                peer("spamd"),
                [spamd_request(mail) for mail in messages[:SLOW_MESSAGES]],
            ),
        ]
    finally:
        subprocess.run([PEERS, "stop"], check=False)


def peer(name: str) -> psutil.Process:
    return psutil.Process(int((PEERS_FOLDER / f"{name}.pid").read_text()))


def rspamd_request(mail: corpus.Mail) -> bytes:
    fields = {"Rcpt": "r@example.org"}
    for key, name in (("remoteAddress", "IP"), ("senderHelo", "Helo"), ("envelopeFrom", "From")):
        value = str(mail.envelope.get(key, ""))
        if value and value.isascii():
            fields[name] = value
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /checkv2 HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(mail.raw)}\r\n\r\n".encode() + mail.raw


def spamd_request(mail: corpus.Mail) -> bytes:
    return b"SYMBOLS SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(mail.raw) + mail.raw


def await_port(port: int) -> None:
    for _ in range(2_400):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


def table(rounds: dict[str, list[Round]], memory: dict[str, float], messages: list[corpus.Mail]) -> str:
    size = mean(len(mail.raw) for mail in messages) / 1000
    lines = [
        "| | msg/s | p50 ms | p99 ms | server CPU ms/msg | of it in workers | memory MB (PSS) | errors |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, runs in rounds.items():
        workers = f"{mean(r.worker_cpu for r in runs):.2f}" if name == "Gatepost" else ""
        cells = [
            name,
            f"{mean(r.rate for r in runs):.0f}",
            f"{mean(r.p50 for r in runs):.1f}",
            f"{mean(r.p99 for r in runs):.1f}",
            f"{mean(r.cpu for r in runs):.2f}",
            workers,
            f"{memory[name]:.0f}",
            str(sum(r.errors for r in runs)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    setting = (
        f"{len(messages)} messages, mean {size:.1f} KB, {CONNECTIONS} connections, {ROUNDS} rounds in turns "
        f"(SpamAssassin: {SLOW_MESSAGES} messages), speedups: {describe_speedups()}, {psutil.cpu_count()} cores "
        "shared with the client; means of the rounds."
    )
    return "\n".join([setting, "", *lines, "", *parts_table(rounds["Gatepost"]), "", *ratios(rounds)])


def parts_table(runs: list[Round]) -> list[str]:
    """Where Gatepost's CPU goes."""
    lines = ["| Part of Gatepost | CPU ms/msg, mean | least of the rounds |", "|---|---:|---:|"]
    for part in runs[0].parts:
        each = [run.parts[part] for run in runs]
        lines.append(f"| {part} | {mean(each):.2f} | {min(each):.2f} |")
    return lines


def ratios(rounds: dict[str, list[Round]]) -> list[str]:
    ours = rounds["Gatepost"]
    total, workers = mean(r.cpu for r in ours), mean(r.worker_cpu for r in ours)
    idle = mean(r.cpu for r in rounds["nothing"])
    share = (
        f"- Analysis share of CPU: {workers / total:.0%}; outside the analysis {total - workers:.2f} ms, "
        f"{(total - workers) / idle:.1f} times the handler that does nothing ({idle:.2f} ms)."
    )
    lines = [share]
    if "rspamd" in rounds:
        theirs = rounds["rspamd"]
        lines.insert(
            0,
            f"- Against rspamd: {total / mean(r.cpu for r in theirs):.2f} of its CPU per message, "
            f"{mean(r.rate for r in ours) / mean(r.rate for r in theirs):.1f} times its messages per second.",
        )
    return lines
