"""The version of lists that each message asks for: no node misses a change, and messages share a statement."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.guard.conftest import both_engines

from gatepost.guard.answers.lists import ListAnswers
from gatepost.lists.catalogue import BY_NAME
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

PHRASES, CHANGES = BY_NAME["blocked-phrases"], 40
# Another node: every line that it reads is a phrase, and it says whether the lists of its next message have it.
NODE = """
import asyncio, json, sys
from pathlib import Path
from gatepost.guard.answers.lists import ListAnswers
from gatepost.store import open_store

async def main():
    store = open_store(sys.argv[1], Path(sys.argv[2]))
    answers, loop = ListAnswers(store), asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while line := await lines.readline():
        print(json.dumps(line.strip() in (await answers.snapshot(sys.argv[3])).data), flush=True)
    await store.close()

asyncio.run(main())
"""


@asynccontextmanager
async def node(url: str, folder: Path, tenant: str) -> AsyncIterator[Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", NODE, url, str(folder), tenant),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert await process.stdout.readline() == b"ready\n"

    async def has(phrase: str) -> bool:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{phrase}\n".encode())
        return bool(json.loads(await process.stdout.readline()))

    yield has
    process.stdin.close()
    assert await process.wait() == 0


@both_engines
@pytest.mark.process
async def test_no_message_misses_a_change_on_either_node(store: Store, storage_url: str, tmp_path: Path) -> None:
    """Each change is acknowledged, and then a message comes to each node."""
    tenant = await store.tenants.create("tenant")
    assert isinstance(tenant, Tenant)
    own, missed = ListAnswers(store), []
    async with node(storage_url, tmp_path, tenant.uid) as other_has:
        for number in range(CHANGES):
            phrase = f"phrase-{number:05}-end"
            assert not await other_has(phrase)
            assert await store.lists.add(tenant.uid, PHRASES, [NewEntry(phrase, phrase)], CLI) == 1
            if not await other_has(phrase) or phrase.encode() not in (await own.snapshot(tenant.uid)).data:
                missed.append(number)
    assert missed == []


class SlowStore:
    """Storage whose answers a test lets through one by one. `begun` counts the statements."""

    def __init__(self) -> None:
        self.begun, self.gates = 0, list[asyncio.Future[str]]()

    @property
    def list_lookup(self) -> "SlowStore":
        return self

    async def unkeyed_version(self, _tenant: str | None) -> str:
        self.begun += 1
        self.gates.append(asyncio.get_running_loop().create_future())
        return await self.gates[-1]


async def test_messages_share_a_statement_that_began_after_all_of_them_came() -> None:
    store = SlowStore()
    answers = ListAnswers(store)  # type: ignore[arg-type]
    first = asyncio.ensure_future(answers._read_version("t"))
    await asyncio.sleep(0)
    later = [asyncio.ensure_future(answers._read_version("t")) for _ in range(20)]
    await asyncio.sleep(0)
    assert store.begun == 1
    store.gates[0].set_result("old")
    assert await first == "old"
    await asyncio.sleep(0)
    assert store.begun == 2, "the statement of the first began before these came"
    assert not any(each.done() for each in later)
    store.gates[1].set_result("new")
    assert set(await asyncio.gather(*later)) == {"new"}
    assert store.begun == 2


async def test_the_failure_of_a_statement_is_that_of_one_message() -> None:
    store = SlowStore()
    answers = ListAnswers(store)  # type: ignore[arg-type]
    waiting = [asyncio.ensure_future(answers._read_version("t")) for _ in range(3)]
    for fault in (StorageError("away"), StorageError("away"), None):
        await asyncio.sleep(0.01)
        if fault:
            store.gates[-1].set_exception(fault)
        else:
            store.gates[-1].set_result("new")
    said = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in said[:2]] == [StorageError, StorageError]
    assert said[2] == "new"
