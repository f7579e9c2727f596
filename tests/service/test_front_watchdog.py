"""A front that hangs is killed and replaced, also while it has the lock that all others need. Real processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import psutil
import pytest

from gatepost.process.node_memory import NodeMemory
from gatepost.service.watchdogs import ENDING, LOOKS_IN_ALL, LOOKS_WITH_LOCK, FrontWatchdog, Heartbeats


@contextlib.contextmanager
def stopped(do: Callable[[], object]) -> Iterator[int]:
    """A process that does something and then stops, as under SIGSTOP."""
    pid = os.fork()
    if not pid:
        do()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def look(watchdog: FrontWatchdog, fronts: dict[int, int], times: int) -> list[dict[int, str]]:
    return [watchdog.find_hung(fronts) for _ in range(times)]


def test_a_front_that_hangs_with_the_lock_is_found_soon() -> None:
    memory = NodeMemory(2)
    heartbeats = Heartbeats(memory)
    heartbeats.columns[0][0] = heartbeats.columns[1][0] = 1
    watchdog = FrontWatchdog(heartbeats)
    with stopped(memory.__enter__) as pid:
        assert memory.lock_holder() == pid
        seen = look(watchdog, {0: pid, 1: os.getpid()}, LOOKS_WITH_LOCK + 1)
        assert seen[:-1] == [{}] * LOOKS_WITH_LOCK
        assert list(seen[-1]) == [0]
    assert memory.lock_holder() == 0


def test_a_front_without_the_lock_has_more_time() -> None:
    heartbeats = Heartbeats(NodeMemory(1))
    heartbeats.columns[0][0] = 1
    watchdog = FrontWatchdog(heartbeats)
    seen = look(watchdog, {0: os.getpid()}, LOOKS_IN_ALL + 1)
    assert seen == [{}] * LOOKS_IN_ALL + [{0: "its event loop stands still"}]


@pytest.mark.parametrize("count", [0, ENDING])
def test_a_front_that_starts_or_ends_may_stand_still(count: int) -> None:
    heartbeats = Heartbeats(NodeMemory(1))
    heartbeats.columns[0][0] = count
    assert not any(look(FrontWatchdog(heartbeats), {0: os.getpid()}, LOOKS_IN_ALL * 2))


def test_a_front_that_counts_and_one_that_replaced_another_are_left_alone() -> None:
    heartbeats = Heartbeats(NodeMemory(2))
    watchdog = FrontWatchdog(heartbeats)
    for number in range(1, LOOKS_IN_ALL * 2):
        heartbeats.columns[0][0] = number
        heartbeats.columns[1][0] = 7
        assert not watchdog.find_hung({0: 10, 1: number})


def test_a_front_counts_while_its_event_loop_runs() -> None:
    heartbeats = Heartbeats(NodeMemory(1))

    async def run() -> None:
        heartbeats.start()
        await asyncio.sleep(0)
        assert heartbeats.columns[0][0] == 1
        heartbeats.end()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert heartbeats.columns[0][0] == ENDING


NODE = """
import os, signal, sys, time
from gatepost.process import logs
from gatepost.service import processes
from gatepost.service.node import NodeCells

logs.configure("debug", "human")
processes.LOOK_SECONDS = 0.02
cells = NodeCells(2, [], 64)
out = os.dup(1)

def front(number, control):
    cells.memory.member = number
    own = cells.heartbeats.columns[number]
    own[0] += 1
    control.send(processes.READY)
    control.settimeout(0.02)
    with cells.memory:
        os.write(out, b"%d serves\\n" % number)
    is_first = os.path.exists(sys.argv[1]) and number == 0
    while True:
        own[0] += 1
        if is_first and len(open(sys.argv[1]).read()):
            os.unlink(sys.argv[1])
            cells.memory.__enter__()
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            if not control.recv(64):
                return
        except TimeoutError:
            pass

node = processes._Node(None, {n: (lambda plan, control, n=n: front(n, control)) for n in (0, 1)}, cells, lambda: None)
node.run()
"""


def find_front(parent: int, number: int) -> int:
    for child in psutil.Process(parent).children():
        if child.name() == f"gatepost-front{number}":
            return child.pid
    raise AssertionError(f"there is no front {number}")


@pytest.mark.variant
def test_the_parent_replaces_a_front_that_was_stopped_with_the_lock(tmp_path: Path) -> None:
    """The second front is killed meanwhile: its cells can be given back only when the lock is free again."""
    go = tmp_path / "go"
    go.touch()
    with subprocess.Popen([sys.executable, "-c", NODE, str(go)], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout

        def read_served(count: int) -> list[str]:
            lines = (line for line in iter(node.stdout.readline, "") if "serves" in line)  # type: ignore[union-attr]
            return sorted(islice(lines, count))

        assert read_served(2) == ["0 serves\n", "1 serves\n"]
        go.write_text("hang")
        while go.exists():
            time.sleep(0.01)
        os.kill(find_front(node.pid, 1), signal.SIGKILL)
        assert read_served(2) == ["0 serves\n", "1 serves\n"]
        node.send_signal(signal.SIGTERM)
        assert node.wait(180) == 0
