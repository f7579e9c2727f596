"""One, two and four instances on one machine, which share an SMTP port and a PostgreSQL: memory, rate and CPU.

All have the processors of the machine among them: `workerProcesses` is their number divided by that of the instances,
and at least one. The same real mail goes to the shared port over 32 connections, which the kernel spreads over the
instances; "least share" is the part of the CPU time of the instance that had the least to do. A name server answers
every question with "no such name" at once. Memory (PSS) is that of all instances, before and after the mail; CPU is
that of all their processes, without PostgreSQL. Client, next hop, name server and PostgreSQL run on the same
processors.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

import psutil

from bench import corpus
from bench.cluster import Cluster
from bench.gateway import Gateway, NoSuchName, Sink
from bench.ports import free_port
from bench.scanning import await_port, cpu, pss
from bench.smtp import send, wired

INSTANCES = (1, 2, 4)
MESSAGES = int(os.environ.get("BENCH_INSTANCES_MESSAGES", "1000"))
CONNECTIONS = 32
WARM_UP = 100


def run() -> str:
    """Run what can be run here."""
    try:
        mails = corpus.mail(MESSAGES)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    messages = [wired(mail.raw) for mail in mails]
    processors = psutil.cpu_count() or 1
    setting = (
        f"{len(messages)} messages, {CONNECTIONS} connections, {processors} processors shared with client, next hop and"
        f" PostgreSQL; load average before: {os.getloadavg()[0]:.1f}."
    )
    lines = [
        setting,
        "",
        "| instances | workers each | msg/s | CPU ms/msg | MB before | MB after | least share | not 250 |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [_measure(count, max(1, processors // count), messages) for count in INSTANCES]
    return "\n".join(lines)


def _measure(count: int, workers: int, messages: list[bytes]) -> str:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatepost-instances-")))
        names, sink = NoSuchName(), Sink()
        stack.callback(names.close)
        stack.callback(sink.close)
        sink.keep = False
        cluster, port = stack.enter_context(Cluster(folder / "cluster")), free_port()
        more = f"workerProcesses: {workers}\nmainWorkerCount: 100\nstorage: {{url: '{cluster.url}'}}\n"
        processes = []
        for number in range(count):
            own = free_port()
            source = f"  restApi: {{host: 127.0.0.1, port: {own}}}\n"
            gateway = Gateway(folder / str(number), sink.port, ", reusePort: true", more, source, port=port)
            gateway.nameserver = names.address
            stack.enter_context(gateway)
            assert gateway.process is not None
            # The greeting may have been another one's.
            await_port(own)
            processes.append(psutil.Process(gateway.process.pid))
        time.sleep(5)
        before = sum(map(pss, processes))
        send(port, messages[:WARM_UP], CONNECTIONS)
        spent = [cpu(each) for each in processes]
        begun = time.perf_counter()
        _, codes = send(port, messages, CONNECTIONS)
        seconds = time.perf_counter() - begun
        used = [cpu(each) - was for each, was in zip(processes, spent, strict=True)]
        after = sum(map(pss, processes))
        refused = sum(not code.startswith(b"250") for code in codes)
        cells = (f"{count}", f"{workers}", f"{len(messages) / seconds:.0f}", f"{sum(used) * 1000 / len(messages):.2f}")
        return f"| {' | '.join(cells)} | {before:.0f} | {after:.0f} | {min(used) / sum(used):.0%} | {refused} |"
