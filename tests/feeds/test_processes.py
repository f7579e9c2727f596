"""`gatepost feeds` as real processes: one of two runs a feed, and the schedule of a service runs those that are due."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.command_line import run_command
from tests.feeds.running import keys

from gatepost.process.metrics import exposition
from gatepost.service.schedules import FeedSchedule
from gatepost.settings.files import load_abby
from gatepost.store import open_store
from gatepost.store.feeds import FEED
from gatepost.times import now

Served = Any

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path, served: Served, storage_url: str) -> Path:
    """A configuration with a feed of the server and one that reads standard input."""
    (tmp_path / "abby/abby").mkdir(parents=True)
    stated = {
        "serviceProviders": {"core": {"hosts": ["https://127.0.0.1:9785"]}},
        "storage": {"url": storage_url},
        "feeds": [
            {"name": "test", "listName": "blocked-urls", "url": served.url("/list"), "allowHttp": True},
            {"name": "hand", "listName": "blocked-senders", "format": "csv", "column": 2},
        ],
    }
    (tmp_path / "abby/abby/abby.yml").write_text(json.dumps(stated))
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gatepost", "feeds", *arguments, "--data", str(folder)]
    environment = {**os.environ, "GATEPOST_CONFIG": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def finish(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[int, str, str]:
    out, err = process.communicate(stdin, timeout=120)
    return process.returncode, out.decode(), err.decode()


def test_of_two_processes_one_runs_the_feed(folder: Path, served: Served, storage_url: str) -> None:
    served.say("/list", "a.example\nbad one!\nb.example\n")
    served.gate = threading.Event()
    first = start(folder, "run", "test", "--json")
    assert served.asked.wait(120)
    code, _, fault = finish(start(folder, "run", "test"))
    assert code == 3
    assert "is running the feed test" in fault
    served.gate.set()
    code, printed, _ = finish(first)
    outcome = json.loads(printed)
    assert (code, outcome["result"], outcome["counts"]["added"]) == (0, "changed", 2)
    assert outcome["rejected"][0]["value"] == "bad one!"
    assert len(served.requests) == 1

    async def look() -> None:
        store = open_store(storage_url, folder)
        assert await keys(store) == ["a.example", "b.example"]
        await store.close()

    asyncio.run(look())


@pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)
def test_the_commands(folder: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.say("/list", "a.example\n")
    monkeypatch.setenv("GATEPOST_CONFIG", str(folder))

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        return run_command("feeds", *words, "--data", folder, stdin=stdin)

    code, printed, _ = run("run", "hand", stdin=b"x,ann@evil.example\ny,\n")
    assert code == 0
    assert "added" in printed
    assert "Skipped ''" in printed
    code, printed, _ = run("list")
    assert "by hand" in printed
    assert "never run" in printed
    code, printed, _ = run("show", "hand", "--json")
    shown = json.loads(printed)
    assert (shown["result"], shown["counts"]["added"], shown["source"]) == ("changed", 1, "standard input")
    code, _, fault = run("run", "absent")
    assert code == 1
    assert "there are test, hand" in fault
    code, printed, _ = run("clear", "hand")
    assert "1 entries of hand deleted" in printed
    code, _, fault = run("clear", "test")
    assert "No feed named test" in fault
    served.say("/list", "", 500)
    code, printed, _ = run("run", "test")
    assert code == 2
    assert "answered 500" in printed


@pytest.mark.variant
@pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)
def test_a_schedule_runs_what_is_due(folder: Path, served: Served, storage_url: str) -> None:
    served.say("/list", "a.example\nbad one!\n")

    async def scenario() -> None:
        store = open_store(storage_url, folder)
        schedule = FeedSchedule(store, load_abby(folder).feeds, folder, folder, seconds=0.05)
        registry = CollectorRegistry()
        registry.register(schedule)
        schedule.periodic.start()
        wanted = b'gatepost_feed_runs_total{feed="test",result="changed"} 1.0'
        async with asyncio.timeout(120):
            while wanted not in exposition(registry):  # noqa: ASYNC110  the schedule reports nowhere else
                await asyncio.sleep(0.05)
        # It is not due again, so nothing more is asked.
        await asyncio.sleep(0.3)
        await schedule.periodic.stop()
        text = exposition(registry).decode()
        assert 'gatepost_feed_entries{feed="test"} 1.0' in text
        assert 'gatepost_feed_invalid{feed="test"} 1.0' in text
        assert 'gatepost_feed_failures{feed="test"} 0.0' in text
        assert "hand" not in text
        assert await keys(store) == ["a.example"]
        assert len(served.requests) == 1
        await store.close()

    asyncio.run(scenario())


@pytest.mark.variant
@pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)
def test_a_run_that_is_killed_is_completed_by_the_next(folder: Path, served: Served, storage_url: str) -> None:
    total = 5_000
    served.say("/list", "".join(f"h{number}.example\n" for number in range(total)), ETag='"1"')
    process = start(folder, "run", "test", "--look-back", "0")

    async def scenario() -> None:
        store = open_store(storage_url, folder)
        async with asyncio.timeout(120):
            while not await keys(store) and process.poll() is None:  # noqa: ASYNC110  another process writes
                await asyncio.sleep(0)
        process.kill()
        finish(process)
        job = await store.jobs.find(FEED, "test")
        size = next(each.size for each in await store.lists.all(None) if each.definition.name == "blocked-urls")
        # What was acknowledged are whole calls, and their number is right.
        assert size % 500 == 0
        assert len([entry async for batch in store.lists.stream(None, "blocked-urls") for entry in batch]) == size
        if job.holder:
            # Its lease would run out by itself.
            assert not await store.jobs.hold(FEED, "test", "me", now())
            assert await store.jobs.renew(job, 0)
        await store.close()

    asyncio.run(scenario())
    code, printed, _ = finish(start(folder, "run", "test", "--json"))
    assert code == 0
    assert json.loads(printed)["counts"]["entries"] == total

    async def look() -> None:
        store = open_store(storage_url, folder)
        assert [each.size for each in await store.lists.all(None) if each.definition.name == "blocked-urls"] == [total]
        await store.close()

    asyncio.run(look())
