"""Mail through guard compared with a Postfix that only relays: the same mail, cores and next hop for both.

"Over REST" is the same mail through the Email Scanning API in the same run. "Without the analysis" is the same intake
and relay in one process, with a core that lets everything pass. Every message goes out with MAIL, RCPT and DATA
pipelined, over eight connections; server CPU is that of all processes of each. Postfix answers when the message is in
its queue and delivers later, so its run ends when the next hop has the last one. A name server answers every question
with "no such name" at once: with one that does not answer, the benchmark measured the wait for DNS.

Client, next hop and name server run in the process of the benchmark, on the same cores. Over REST the client speaks TLS
and there is no next hop; over SMTP the client speaks no TLS, and what is not held goes to the next hop. So the rates
compare unequal work, and server CPU is compared as well.
"""

import asyncio
import contextlib
import multiprocessing
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import psutil

from bench import corpus, load, scanning
from bench.gateway import Gateway, NoSuchName, Sink, await_greeting, postfix, postfix_missing
from bench.ports import free_port
from bench.scanning import cpu

MESSAGES = int(os.environ.get("BENCH_SMTP_MESSAGES", "1000"))
CONNECTIONS = 8
ROUNDS = 3
SLOTS = (5, 20, 2000)


@dataclass(frozen=True)
class Server:
    """Somebody who takes mail and passes it on."""

    name: str
    port: int
    process: psutil.Process


@dataclass(frozen=True)
class Round:
    rate: float
    p50: float
    p99: float
    cpu: float
    beside: float
    refused: int
    held: int


def run() -> str:
    """Run what can be run here."""
    try:
        mails = corpus.mail(MESSAGES)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    messages = [wired(mail.raw) for mail in mails]
    rounds: dict[str, list[Round]] = {}
    missing = postfix_missing()
    sink = Sink()
    sink.keep = False
    with tempfile.TemporaryDirectory(prefix="gatepost-smtp-") as name, contextlib.ExitStack() as stack:
        names = NoSuchName()
        stack.callback(names.close)
        servers = [
            stack.enter_context(with_analysis(Path(name), sink, names.address)),
            stack.enter_context(without_analysis(sink)),
        ]
        rest = stack.enter_context(scanning.gatepost(mails, names.address))
        if missing is None:
            servers.append(stack.enter_context(relaying_postfix(Path(name), sink)))
        for server in servers:
            measured(server, messages[:50], sink)
        load.send(rest.url, rest.requests[:50], CONNECTIONS)
        for _ in range(ROUNDS):
            for server in servers:
                rounds.setdefault(server.name, []).append(measured(server, messages, sink))
            rounds.setdefault("Gatepost over REST", []).append(over_rest(rest))
    sink.close()
    remark = f"\n\nPostfix not run: {missing}." if missing else ""
    return table(rounds, messages) + remark + "\n\n" + throttle()


def wired(raw: bytes) -> bytes:
    """A message of the corpus as it goes after DATA."""
    text = raw.replace(b"\0", b"").replace(b"\r\n", b"\n").replace(b"\r", b"").replace(b"\n", b"\r\n")
    text = (b"\r\n" + text.removesuffix(b"\r\n")).replace(b"\r\n.", b"\r\n..")[2:]
    return text + b"\r\n.\r\n"


@contextlib.contextmanager
def with_analysis(folder: Path, sink: Sink, nameserver: str) -> Iterator[Server]:
    (folder / "gate").mkdir()
    with Gateway(folder / "gate", sink.port, more="mainWorkerCount: 100\n", nameserver=nameserver) as gateway:
        assert gateway.process is not None
        yield Server("Gatepost", gateway.port, psutil.Process(gateway.process.pid))


@contextlib.contextmanager
def without_analysis(sink: Sink) -> Iterator[Server]:
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=pass_through, args=(port, sink.port), daemon=True)
    process.start()
    await_greeting(port)
    try:
        yield Server("Gatepost without the analysis", port, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join(10)


@contextlib.contextmanager
def relaying_postfix(folder: Path, sink: Sink) -> Iterator[Server]:
    port = free_port()
    main = f"default_transport = smtp:[127.0.0.1]:{sink.port}\nrelay_transport = smtp:[127.0.0.1]:{sink.port}\n"
    with postfix(folder / "postfix", main, f"127.0.0.1:{port} inet n - n - - smtpd\n", port):
        pid = int((folder / "postfix" / "queue" / "pid" / "master.pid").read_text())
        yield Server("Postfix, relaying only", port, psutil.Process(pid))


def pass_through(port: int, next_hop: int) -> None:
    """Intake and relay with a core that says yes."""
    import uvloop

    from gatepost.analysis.report import Report
    from gatepost.process.logs import configure
    from gatepost.scanning.request import ScanRequest, ScanResult
    from gatepost.scanning.spool import Spool
    from gatepost.smtp.client import Tenancy
    from gatepost.smtp.intake import Intake
    from gatepost.smtp.routing import Relay, Routing
    from gatepost.smtp.services import MessageHandler, Services

    class Yes:
        async def scan(self, request: ScanRequest, *_: object) -> ScanResult:
            return ScanResult(request.ggrid, request.created, request.created, Report("clean", "deliver", (), 0, ""))

        async def forget(self, _ggrid: str) -> None:
            pass

        async def tenant_of(self, _domain: str) -> str | None:
            return None

    async def serve(folder: Path) -> None:
        yes: Any = Yes()
        services = Services(
            guard=yes,
            handler=MessageHandler(yes, yes),
            routing=Routing.through(Relay(f"smtp://127.0.0.1:{next_hop}", "off", "gate.example")),
            tenancy=Tenancy({}, yes.tenant_of),
            spool=Spool(folder),
            hostname="gate.example",
        )
        await Intake(services, [socket.create_server(("127.0.0.1", port))], 100).run_here()

    configure("warning")
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(folder)))


def measured(server: Server, messages: list[bytes], sink: Sink) -> Round:
    """Send all messages once; ends when the next hop has every message that was accepted."""
    before, had, started = cpu(server.process), sink.taken.total(), time.perf_counter()
    beside = time.process_time()
    latencies, codes = send(server.port, messages)
    passed = sum(code.startswith(b"250") and b"reference" not in code for code in codes)
    while sink.taken.total() - had < passed and time.perf_counter() - started < 120:
        time.sleep(0.005)
    seconds = time.perf_counter() - started
    spent = (cpu(server.process) - before) * 1000 / len(messages)
    ordered = sorted(latencies)
    return Round(
        len(messages) / seconds,
        ordered[len(ordered) // 2] * 1000,
        ordered[int(len(ordered) * 0.99)] * 1000,
        spent,
        (time.process_time() - beside) * 1000 / len(messages),
        sum(not code.startswith(b"250") for code in codes),
        sum(b"reference" in code for code in codes),
    )


def over_rest(server: scanning.Server) -> Round:
    """Send all messages once through the Email Scanning API, which holds nothing itself."""
    beside = time.process_time()
    found = scanning.measured(server)
    beside = (time.process_time() - beside) * 1000 / len(server.requests)
    return Round(found.rate, found.p50, found.p99, found.cpu, beside, found.errors, 0)


def send(port: int, messages: list[bytes], connections: int = CONNECTIONS) -> tuple[list[float], list[bytes]]:
    numbers, lock = iter(range(len(messages))), threading.Lock()
    latencies, codes = [0.0] * len(messages), [b""] * len(messages)

    def work() -> None:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
            connection.makefile("rb") as lines,
        ):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reply(lines)
            connection.sendall(b"EHLO bench.example\r\n")
            reply(lines)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    break
                start = time.perf_counter()
                codes[number] = transaction(connection, lines, messages[number])
                latencies[number] = time.perf_counter() - start

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies, codes


def transaction(connection: socket.socket, lines: Any, message: bytes) -> bytes:
    connection.sendall(b"MAIL FROM:<ann@example.org> BODY=8BITMIME\r\nRCPT TO:<bob@example.com>\r\nDATA\r\n")
    answers = [reply(lines) for _ in range(3)]
    if not answers[2].startswith(b"354"):
        connection.sendall(b"RSET\r\n")
        reply(lines)
        return answers[0] if not answers[0].startswith(b"250") else answers[2]
    connection.sendall(message)
    return reply(lines)


def reply(lines: Any) -> bytes:
    while (line := lines.readline()) and line[3:4] == b"-":
        pass
    return bytes(line)


def table(rounds: dict[str, list[Round]], messages: list[bytes]) -> str:
    size = mean(map(len, messages)) / 1000
    setting = (
        f"{len(messages)} messages, mean {size:.1f} KB, {CONNECTIONS} connections, {ROUNDS} rounds in turns, "
        f"{psutil.cpu_count()} cores shared with client and next hop; means of the rounds."
    )
    lines = [
        setting,
        "",
        "| | msg/s | p50 ms | p99 ms | server CPU ms/msg | client, next hop and name server | held | not 250 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, runs in rounds.items():
        figures = [mean(getattr(each, key) for each in runs) for key in ("rate", "p50", "p99", "cpu", "beside")]
        cells = [name, f"{figures[0]:.0f}", *(f"{each:.1f}" for each in figures[1:3])]
        cells += [f"{each:.2f}" for each in figures[3:]]
        lines.append(f"| {' | '.join(cells)} | {runs[0].held} | {sum(each.refused for each in runs)} |")
    rates = {name: mean(each.rate for each in runs) for name, runs in rounds.items()}
    share = rates["Gatepost"] / rates["Gatepost over REST"]
    spent = {name: mean(each.cpu for each in runs) for name, runs in rounds.items()}
    apart = spent["Gatepost over REST"] / spent["Gatepost"]
    said = (
        f"Messages a second over SMTP are {share:.0%} of those over REST (aim: at least 90 %); by server CPU alone, "
        f"without client and next hop, {apart:.0%}."
    )
    return "\n".join([*lines, "", said])


def throttle() -> str:
    """The delay that a message gets with n in processing, against the formula."""
    from gatepost.workers.fair_queue import FairQueue

    threshold, maximum, delay = SLOTS
    queue = FairQueue(maximum, threshold, delay / 1000)

    async def entered() -> list[float]:
        async def one() -> float:
            slot = queue.enter(None)
            assert slot is not None
            started = time.perf_counter()
            await asyncio.sleep(slot.delay)
            return (time.perf_counter() - started) * 1000

        return await asyncio.gather(*(one() for _ in range(maximum)))

    waited = asyncio.run(entered())
    wanted = [max(0.0, delay * (n - threshold + 1) / (maximum - threshold + 1)) for n in range(maximum)]
    off = max(abs(got - want) for got, want in zip(waited, wanted, strict=True))
    shown = ", ".join(f"{n}: {waited[n]:.0f} ({wanted[n]:.0f})" for n in (4, 5, 8, 12, 16, 19))
    return (
        f"Throttle, threshold {threshold}, maximum {maximum}, longest delay {delay} ms; with n in processing, "
        f"ms waited (formula): {shown}. Largest difference: {off:.1f} ms."
    )
