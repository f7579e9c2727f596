"""Results on PostgreSQL: CPU of Gatepost and of the server for each message, and the rate from one and four processes.

Results of real mail, as workers hand them over, are stored through the store of the service, each on disk before it is
acknowledged. Each process has sixteen under way, as a busy service has, or one. The server is one of its own with the
settings of a usual one (fsync on) and runs on the same machine: what it takes, the processes do not have, so the CPU of
both is told apart. What the server would allow if it had all cores to itself is their number divided by its CPU for
each message.
"""

import asyncio
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec
import psutil

from bench.cluster import Cluster
from bench.corpus import NotPresentError, mail
from bench.equal import judge
from gatepost.analysis.report import PreparedRecord
from gatepost.ids import new_id
from gatepost.mail.message import Envelope, Receipt
from gatepost.store import open_store
from gatepost.store.evidence import index_evidence
from gatepost.store.message_records import MessageRecord
from gatepost.store.record_packing import HEAD_BYTES, compress, cut_header, pack_report

REAL = 400
SECONDS = 10.0
WARMING = 2.0
SERVING = ("shared_buffers = '512MB'", "max_wal_size = '4GB'", "max_connections = 150")
# Processes, and how many results each has under way.
SCENES = ((1, 1), (1, 16), (4, 16))
_encode = msgspec.msgpack.Encoder().encode


def run() -> str:
    """The table as markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            (folder / "records").write_bytes(pickle.dumps(_read_real_mail()))
        except NotPresentError as fault:
            return f"Not run ({fault})."
        with Cluster(folder / "server") as cluster:
            cluster.configure(SERVING)
            asyncio.run(open_store(cluster.url, folder).close())
            rows = [_measure(cluster, folder, *scene) for scene in SCENES]
            size = int(cluster.query("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"))
            count = int(cluster.query("SELECT count(*) FROM messages"))
    columns = (
        *(
            "Processes",
            "under way in each",
            "messages a second",
            "CPU of Gatepost, ms each",
            "CPU of PostgreSQL, ms each",
        ),
        *("with all cores for PostgreSQL", "acknowledged after, ms (median, 99 %)"),
    )
    head = [f"| {' | '.join(columns)} |", "|---:" * len(columns) + "|"]
    return "\n".join([*head, *rows, "", f"{os.cpu_count()} cores; {size / count:,.0f} bytes a message."])


def _read_real_mail() -> list[MessageRecord]:
    made = []
    for number, message in enumerate(mail(REAL)):
        envelope = Envelope(str(message.envelope["envelopeFrom"]), ("r@example.org",), "192.0.2.25", "mx.example")
        header = compress(cut_header(message.raw[:HEAD_BYTES]))
        receipt = Receipt("node", "192.0.2.25", f"4Queue{number}", 0)
        made.append(
            MessageRecord(
                *("", 0, 0, envelope, len(message.raw), f"{number:064x}", judge(message)),
                source="smtp",
                header=header,
                receipt=receipt,
            )
        )
    return made


def _measure(cluster: Cluster, folder: Path, processes: int, under_way: int) -> str:
    command = [sys.executable, "-m", "bench.recording", cluster.url, str(folder), str(under_way)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
    for each in started:
        assert each.stdout
        each.stdout.readline()  # it is warm
    before, begun = _server_cpu(cluster), time.perf_counter()
    for each in started:
        assert each.stdin
        each.stdin.write(b"go\n")
        each.stdin.flush()
    found: list[dict[str, Any]] = []
    for each in started:
        assert each.stdout
        found.append(json.loads(each.stdout.readline()))
    server, seconds = _server_cpu(cluster) - before, time.perf_counter() - begun
    for each in started:
        each.communicate()
    count = sum(one["count"] for one in found)
    own = sum(one["cpu"] for one in found) / count * 1000
    waits = sorted(wait for one in found for wait in one["waits"])
    middle, last = quantiles(waits, n=100)[49], quantiles(waits, n=100)[98]
    alone = (os.cpu_count() or 1) / (server / count)
    rates = f"{count / seconds:,.0f} | {own:.3f} | {server / count * 1000:.3f} | {alone:,.0f}"
    return f"| {processes} | {under_way} | {rates} | {middle:.1f}, {last:.1f} |"


def _server_cpu(cluster: Cluster) -> float:
    """CPU seconds of the server so far; those of its processes that have ended are counted with the first."""
    first = cluster.process
    spent = 0.0
    for each in first.children():
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            spent += times.user + times.system
    times = first.cpu_times()
    return float(spent + times.user + times.system + times.children_user + times.children_system)


async def _store(url: str, folder: Path, under_way: int) -> None:
    """Store results for some seconds, when told to, and print what it took."""
    records: list[MessageRecord] = pickle.loads((folder / "records").read_bytes())
    prepared = [
        PreparedRecord(
            pack_report(_encode(record.report)), record.header or b"", evidence=index_evidence(record.detail)
        )
        for record in records
    ]
    store = open_store(url, folder)
    waits: list[float] = []
    place = 0

    async def work(until: float) -> None:
        nonlocal place
        while time.perf_counter() < until:
            place = (place + 1) % len(records)
            moment = time.time_ns()
            completed = moment // 1_000_000
            record = msgspec.structs.replace(
                records[place], ggrid=new_id(moment), created=completed - 9, completed=completed
            )
            record.report.remember(prepared[place])
            begun = time.perf_counter()
            await store.messages.record(record, under_way - 1)
            waits.append((time.perf_counter() - begun) * 1000)

    async def all_work(seconds: float) -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(work(until) for _ in range(under_way)))

    await all_work(WARMING)
    waits.clear()
    print("warm", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    before = time.process_time()
    await all_work(SECONDS)
    print(json.dumps({"count": len(waits), "cpu": time.process_time() - before, "waits": waits}), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_store(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
