"""Held mail in an object store, against a server process that speaks S3: cores with one bucket, kills and faults.

The server is moto's. It does not verify signatures, so that a wrong credential is not seen here.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.abby.cores import LocalCore
from gatepost.abby.held_mail import HeldMailOnCores
from gatepost.analysis.report import Report
from gatepost.guard.quarantine import raw_store
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine
from gatepost.guard.quarantine.raw_store import RawObjects
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import Deleted, DeleteOrder, ExportOrder, NotHeld, Released, ReleaseOrder
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

RAW = b"From: ann@x.example\r\nSubject: s\r\n\r\nbody\r\n" + b"x" * 100_000 + b"\r\n"
REPORT = Report("spam", "quarantine", (), 730, "it adds up")


def bucket_of(folder: Path) -> str:
    """A part of the bucket that no other test uses."""
    return f"s3://gatepost-quarantine/{folder.name}"


class Server:
    """`moto_server` on a loopback port, with the bucket."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        made = urllib.request.Request(f"{self.url}/gatepost-quarantine", method="PUT")
        while True:
            assert self.process.poll() is None
            try:
                with urllib.request.urlopen(made, timeout=30) as answer:
                    assert answer.status == 200
                    return
            except OSError:
                time.sleep(0.1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("moto.server", reason="not run: moto is not installed")
    started = Server()
    yield started
    started.process.kill()
    started.process.wait()


@pytest.fixture
def environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a service has in its environment, as `docs/quarantine.md` says."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


async def hold(quarantine: Quarantine, folder: Path, raw: bytes = RAW) -> str:
    with Spool(folder / "spool").new() as body:
        body.write(raw)
        await body.finish()
        asked = ScanRequest(new_id(), 1_000, Envelope("ann@x.example", ("bob@y.example",)))
        await quarantine.keep(asked, ScanResult(asked.ggrid, 1_000, 2_000, REPORT), body)
    return asked.ggrid


@pytest.mark.usefixtures("environment")
async def test_every_core_shows_releases_and_deletes_what_another_one_has_held(
    store: Store, tmp_path: Path, next_hop: Any
) -> None:
    relay = Relay(next_hop.url, "off", "gatepost.test")
    one, other = (Quarantine(store, RawObjects(bucket_of(tmp_path)), Routing.through(relay)) for _ in range(2))
    first, second, third = [await hold(one, tmp_path) for _ in range(3)]
    elsewhere = HeldMailOnCores(store.quarantine, [LocalCore(_NOBODY, other)])
    assert await elsewhere.carry_out(ExportOrder(first, by=CLI)) == RAW
    assert isinstance(await elsewhere.carry_out(ReleaseOrder(first, by=CLI)), Released)
    assert [raw.endswith(RAW) for _, _, raw in next_hop.mail] == [True]
    assert await elsewhere.carry_out(DeleteOrder(second, by=CLI)) == Deleted()
    bucket = RawObjects(bucket_of(tmp_path))
    assert [await bucket.get(ggrid) for ggrid in (first, second, third)] == [None, None, RAW]
    first_core = HeldMailOnCores(store.quarantine, [LocalCore(_NOBODY, one)])
    assert await first_core.carry_out(ExportOrder(second, by=CLI)) == NotHeld()
    # What a kill left without a record goes, and what has one stays.
    with Spool(tmp_path / "spool").new() as body:
        body.write(b"half way")
        await body.finish()
        await bucket.put(orphan := new_id(), body)
    assert await Cleanup(store, bucket, 30).sweep(age=0) == 1
    assert [await bucket.get(ggrid) for ggrid in (orphan, third)] == [None, RAW]
    await relay.close()


_NOBODY: Any = None
_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.guard.quarantine.test_object_store import bucket_of, hold
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawObjects
from gatepost.store import open_store

async def main():
    folder = Path(sys.argv[1])
    store = open_store("sqlite:g.db", folder)
    quarantine = Quarantine(store, RawObjects(bucket_of(folder)))
    print("ggrid", await hold(quarantine, folder), flush=True)
    async def dead(record, *_):
        print("ggrid", record.ggrid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    store.quarantine.hold = dead
    await hold(quarantine, folder)

asyncio.run(main())
"""


def hold_until_killed(folder: Path) -> list[str]:
    command = [sys.executable, "-c", _KILLED, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("ggrid")]


@pytest.mark.usefixtures("environment")
async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Killed between bytes and record: the first message is whole, of the second there are bytes without a record."""
    kept, lost = hold_until_killed(tmp_path)
    store, bucket = open_store("sqlite:g.db", tmp_path), RawObjects(bucket_of(tmp_path))
    assert await store.quarantine.find(kept) is not None
    assert await store.quarantine.find(lost) is None
    assert [await bucket.get(ggrid) for ggrid in (kept, lost)] == [RAW, RAW]
    assert await Cleanup(store, bucket, 30).sweep(age=0) >= 1
    assert [await bucket.get(ggrid) for ggrid in (kept, lost)] == [RAW, None]
    await store.close()


@pytest.mark.usefixtures("environment")
async def test_a_store_that_says_nothing_is_an_error_and_nothing_is_held(
    store: Store, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_store, "OBJECT_SECONDS", 0.2)
    quarantine = Quarantine(store, RawObjects(bucket_of(tmp_path)))
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StorageError, match="did not answer in time"):
            await hold(quarantine, tmp_path, b"short")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert (await store.quarantine.totals())[0] == 0
    monkeypatch.setattr(raw_store, "OBJECT_SECONDS", 30.0)
    assert await store.quarantine.find(await hold(quarantine, tmp_path)) is not None


@pytest.mark.usefixtures("environment")
async def test_a_bucket_that_does_not_exist_is_an_error_without_a_secret_in_it(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="s3://no-such-bucket/x cannot be used") as raised:
        await hold(Quarantine(store, RawObjects("s3://no-such-bucket/x")), tmp_path)
    assert "secret" not in str(raised.value)
    # A bucket that is not there is no message that is not there: no record may go for it.
    missing = RawObjects("s3://no-such-bucket/x")
    for call in (missing.get, missing.delete):
        with pytest.raises(StorageError, match="cannot be used"):
            await call(new_id())
    with pytest.raises(StorageError, match="cannot be used"):
        await Cleanup(store, missing, 30).sweep(age=0)
