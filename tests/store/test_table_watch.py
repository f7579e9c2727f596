"""A list that nobody changes is not asked for on PostgreSQL, and no message misses a change that was acknowledged."""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gatepost.guard.answers.lists import ListAnswers
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import open_store, table_watch
from gatepost.store.audit import CLI
from gatepost.store.engine import Read, Write
from gatepost.store.lists import NewEntry
from gatepost.store.sql import compose
from gatepost.store.store import Store
from gatepost.store.table_watch import is_watched
from gatepost.store.tenants import Tenant

PHRASES = BY_NAME["blocked-phrases"]
CHANGES = int(os.environ.get("LIST_CHANGES", "300"))
# Nodes watch again soon, so that most changes find them watching.
QUIET = 0.003


class Node:
    """Another node (`list_watcher`)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def message(self, phrase: str) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{phrase}\n".encode())
        answer: dict[str, Any] = json.loads(await self.process.stdout.readline())
        return answer

    async def rely(self, phrase: str) -> None:
        """Wait until it asks nothing."""
        for _ in range(500):
            if not (await self.message(phrase))["asked"]:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it asks for each message")


@asynccontextmanager
async def node(url: str, folder: Path, tenant: str, quiet: float) -> AsyncIterator[Node]:
    arguments = (sys.executable, "-m", "tests.store.list_watcher", url, str(folder), tenant, str(quiet))
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield Node(process)
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
        await process.wait()


def run(url: str, folder: Path, scenario: Callable[[Store, str], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = open_store(url, folder)
        try:
            tenant = await store.tenants.create("tenant")
            assert isinstance(tenant, Tenant)
            await scenario(store, tenant.uid)
        finally:
            await store.close()

    asyncio.run(whole())


async def add(store: Store, tenant: str, phrase: str) -> None:
    assert await store.lists.add(tenant, PHRASES, [NewEntry(phrase, phrase)], CLI) == 1


def test_no_message_misses_a_change_on_either_node(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is acknowledged, then a message comes to the other node, which watches for most of the time."""
    monkeypatch.setattr(table_watch, "QUIET_SECONDS", QUIET)

    async def scenario(store: Store, tenant: str) -> None:
        chance = random.Random(5)
        missed, unasked, own = [], 0, ListAnswers(store)
        async with node(postgres_url, tmp_path, tenant, QUIET) as other:
            for number in range(CHANGES):
                phrase = f"phrase-{number:05}-end"
                assert not (await other.message(phrase))["has"]
                await add(store, tenant, phrase)
                if not (await other.message(phrase))["has"]:
                    missed.append(number)
                if phrase.encode() not in (await own.snapshot(tenant)).data:
                    missed.append(number)
                await asyncio.sleep(chance.random() * 0.012)
                # The first message asks after a change, the next does not.
                await other.message(phrase)
                unasked += not (await other.message(phrase))["asked"]
        assert missed == []
        assert unasked > CHANGES / 10, "the other node relied on its watch"

    run(postgres_url, tmp_path, scenario)


def test_a_message_asks_nothing_while_lists_stay_as_they_are(postgres_url: str, tmp_path: Path) -> None:
    async def scenario(store: Store, tenant: str) -> None:
        await add(store, tenant, "first-phrase")
        async with node(postgres_url, tmp_path, tenant, 0.05) as other:
            await other.rely("first-phrase")
            answers = [await other.message("first-phrase") for _ in range(1_000)]
            assert {(each["has"], each["asked"]) for each in answers} == {(True, 0)}
            # Longer than a lease: the beats renew it.
            await asyncio.sleep(table_watch.LEASE_SECONDS + 0.5)
            assert (await other.message("first-phrase"))["asked"] == 0

    run(postgres_url, tmp_path, scenario)


def test_a_change_without_a_notice_waits_for_a_beat(postgres_url: str, tmp_path: Path) -> None:
    """As an older version, or somebody with psql, changes lists."""

    async def scenario(store: Store, tenant: str) -> None:
        await add(store, tenant, "first-phrase")
        async with node(postgres_url, tmp_path, tenant, 0.05) as other:
            await other.rely("first-phrase")
            connection = await asyncpg.connect(postgres_url)
            begun = time.monotonic()
            await connection.execute("UPDATE scopes SET unkeyed = unkeyed + 1")
            assert time.monotonic() - begun < 2 * table_watch.BEAT_SECONDS
            assert (await other.message("first-phrase"))["asked"] == 1
            await connection.close()

    run(postgres_url, tmp_path, scenario)


def test_a_node_that_hangs_holds_up_a_change_for_seconds_and_relies_on_nothing_then(
    postgres_url: str, tmp_path: Path
) -> None:
    async def scenario(store: Store, tenant: str) -> None:
        await add(store, tenant, "first-phrase")
        async with node(postgres_url, tmp_path, tenant, 0.05) as other:
            await other.rely("first-phrase")
            other.process.send_signal(signal.SIGSTOP)
            begun = time.monotonic()
            await add(store, tenant, "second-phrase")
            assert time.monotonic() - begun < table_watch.IDLE_SECONDS + 2
            other.process.send_signal(signal.SIGCONT)
            assert (await other.message("second-phrase"))["has"]

    run(postgres_url, tmp_path, scenario)


def test_where_notices_do_not_arrive_each_message_asks(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler in transaction mode."""
    monkeypatch.setattr(table_watch, "PROOF_SECONDS", 0.2)

    async def deaf(_connection: Any, _channel: str, _callback: Any) -> None:
        return None

    monkeypatch.setattr(asyncpg.Connection, "add_listener", deaf)

    async def scenario(store: Store, tenant: str) -> None:
        answers = ListAnswers(store)
        for number in range(5):
            await add(store, tenant, f"phrase-{number}")
            assert f"phrase-{number}".encode() in (await answers.snapshot(tenant)).data
            assert store.list_lookup.state_number() is None
            await asyncio.sleep(0.1)

    run(postgres_url, tmp_path, scenario)


def test_which_steps_are_announced() -> None:
    assert is_watched(Write(compose("UPDATE scopes SET unkeyed_bytes = $2")))
    assert is_watched(Write(compose("INSERT INTO scopes (scope) VALUES ($1)")))
    assert is_watched(Write(compose("DELETE FROM scopes WHERE scope = $1")))
    assert not is_watched(Read(compose("SELECT unkeyed FROM scopes")))
    assert not is_watched(Write(compose("UPDATE lists SET size = 1 WHERE scope IN (SELECT scope FROM scopes)")))
