"""Hours of mixed load with faults on one node: is an answer or a change lost, and does anything grow?

`python -m bench soak --minutes 120` starts `gatepost serve` with sealed workers on PostgreSQL,
or on SQLite where there is none, and about ten messages a second: REST scans of real, generated and hostile mail for
two tenants and none, SMTP, list changes, exports, searches, pages, and clients that hang up. Meanwhile workers,
loaders and the whole node are killed (-9), the disk of the data folder is full (a tmpfs), name servers are
silent and the database is away. Clients behave as mail servers and tools do: what fails is sent again. At the end every
message that was answered is on record, delivered or held, and every list has exactly the entries that its changes were
acknowledged for. Memory, descriptors and threads of each process are sampled; their slope is that of a least-squares
line over each stretch without a restart. SIGTERM ends a run early, with the figures so far.
"""

import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from bench.soak.clients import Load
from bench.soak.faults import Faults
from bench.soak.node import SoakNode
from bench.soak.report import describe, describe_interim
from bench.soak.samples import Sampler

MINUTES = 120.0


def run(minutes: float = MINUTES, *, sqlite: bool = False) -> str:
    """Run for so many minutes; return what was seen, as markdown."""
    with tempfile.TemporaryDirectory(prefix="gatepost-soak-") as name, contextlib.ExitStack() as stack:
        node = SoakNode(Path(name), sqlite=sqlite)
        stack.callback(node.close)
        node.prepare()
        load = Load(node)
        sampler = Sampler(node, load)
        sampler.on_interim = lambda: _say(describe_interim(load.account, sampler))
        faults = Faults(node, minutes * 60)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: faults.stop())
        load.start()
        sampling = threading.Thread(target=sampler.run, name="sampler")
        sampling.start()
        began = time.monotonic()
        try:
            faults.run(_say)
        finally:
            load.stop()
            _say(f"log: {_log_summary(node.folder / 'output')}")
            sampler.stop()
            sampling.join()
        seconds = time.monotonic() - began
        outcome = load.judge()
        return describe(outcome, sampler, faults, node, seconds)


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}", file=sys.stderr, flush=True)


def _log_summary(output: Path) -> str:
    """How often the node has logged what, so that a run that goes on for hours can be looked into."""
    counts: Counter[str] = Counter()
    for line in output.read_text("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            fault = str(entry.get("exception", "")).strip().rpartition("\n")[2]
            counts[" ".join(filter(None, (entry.get("level"), entry.get("event"), entry.get("reason"), fault)))] += 1
    return json.dumps(dict(counts.most_common(60)), indent=1)
