"""`kill -9` of a real service amid many calls: what was acknowledged stays, and no call is half there."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bench.ports import free_port
from bench.processes import await_output

from gatepost.client import Client
from gatepost.client.calls import ClientError, Retries
from gatepost.settings.files import ABBY_FILE
from gatepost.store import open_store
from gatepost.store.audit import AuditFilter
from gatepost.store.paging import Page

CLIENTS = 6
PER_CALL = 7
ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.variant)]


class Abby:
    """`gatepost abby` in a process of its own, which can be killed and started again on the same port."""

    def __init__(self, folder: Path, storage: str, key: str) -> None:
        self._folder, self._key = folder, key
        self._port = free_port()
        (folder / ABBY_FILE).parent.mkdir(parents=True)
        (folder / ABBY_FILE).write_text(
            f"listen: {{host: 127.0.0.1, port: {self._port}}}\n"
            'serviceProviders: {core: {hosts: ["https://127.0.0.1:1"]}}\n'
            f'storage: {{url: "{storage}"}}\n'
        )
        self._output = folder / "output"
        self.start()

    def start(self) -> None:
        """Return when it listens."""
        with self._output.open("wb") as sink:
            command = [sys.executable, "-m", "gatepost", "abby", "--config", str(self._folder)]
            self.process = subprocess.Popen(
                [*command, "--data", str(self._folder)], stdout=sink, stderr=sink, env={**os.environ}
            )
        await_output(self.process, self._output, '"service listening"')

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(90)

    def client(self) -> Client:
        ca = self._folder / "tls/certificate.pem"
        url = f"https://127.0.0.1:{self._port}"
        return Client(url, api_key=self._key, ca=ca, timeout=60, retries=Retries(attempts=1))


class Tally:
    """What was asked for and what was acknowledged: each call has a number, and entries that are its alone."""

    def __init__(self) -> None:
        self.added: set[int] = set()
        self.deletion_asked: set[int] = set()
        self.deleted: set[int] = set()
        self.numbers = count()
        self.over = threading.Event()

    @property
    def acknowledged(self) -> int:
        return len(self.added) + len(self.deleted)


def entries(number: int) -> list[str]:
    return [f"{number}-{each}.example" for each in range(PER_CALL)]


def keep_calling(abby: Abby, tally: Tally) -> None:
    """Add, and delete every third, until told that it is over. A service that is away is asked again later."""
    while not tally.over.is_set():
        with abby.client() as client:
            try:
                for number in tally.numbers:
                    client.add_entries("blocked-urls", entries(number))
                    tally.added.add(number)
                    if number % 3 == 0:
                        tally.deletion_asked.add(number)
                        client.delete_entries("blocked-urls", entries(number))
                        tally.deleted.add(number)
            except ClientError:
                tally.over.wait(0.05)


async def _prepared(url: str) -> str:
    store = open_store(url, Path("/"))
    made: Any = await store.api_keys.create("test", None, read_only=False, expires=None)
    await store.close()
    return str(made[0])


async def _kept(url: str) -> tuple[list[str], int, int]:
    """The entries of the list, how many it says it has, and how many the audit trail has counted."""
    store = open_store(url, Path("/"))
    async with aclosing(store.lists.stream(None, "blocked-urls")) as batches:
        found = [entry.key async for batch in batches for entry in batch]
    size = next(state.size for state in await store.lists.all(None) if state.definition.name == "blocked-urls")
    total, page = 0, await store.audit.page(AuditFilter(), limit=1_000)
    while page.rows:
        total += sum(record.count for record in page.rows if record.action == "entries.add")
        total -= sum(record.count for record in page.rows if record.action == "entries.delete")
        page = await store.audit.page(AuditFilter(), page.next, 1_000) if page.next else Page(())
    await store.close()
    return found, size, total


@pytest.fixture
def abby(storage: str, tmp_path: Path) -> Iterator[Abby]:
    running = Abby(tmp_path, storage, asyncio.run(_prepared(storage)))
    yield running
    running.kill()


@pytest.mark.parametrize("storage", ["sqlite", pytest.param("postgresql", marks=pytest.mark.variant)], indirect=True)
@pytest.mark.parametrize("calls", [120, pytest.param(1_000, marks=pytest.mark.long)])
def test_a_killed_service_loses_nothing_that_it_acknowledged(abby: Abby, storage: str, calls: int) -> None:
    tally = Tally()
    callers = [threading.Thread(target=keep_calling, args=(abby, tally), daemon=True) for _ in range(CLIENTS)]
    for caller in callers:
        caller.start()
    for most in (calls // 2, calls):
        while tally.acknowledged < most:
            assert abby.process.poll() is None
            time.sleep(0.005)
        abby.kill()
        if most < calls:
            abby.start()
    tally.over.set()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    found, size, audited = asyncio.run(_kept(storage))
    present = Counter(int(entry.split("-")[0]) for entry in found)
    assert set(present.values()) == {PER_CALL}, "a call is there whole, or not at all"
    assert not present.keys() & tally.deleted
    assert tally.added - tally.deletion_asked <= present.keys()
    assert size == audited == len(found)
