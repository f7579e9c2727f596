"""Disposable children: whatever they do costs them, and neither their nursery nor who asked."""

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gatepost.process.children import MAX_SECONDS, ChildAnswer, Nursery, find_leaks_of_child, open_nursery
from gatepost.process.sandbox import bare_environment

START = """
import sys
sys.path.insert(0, sys.argv[1])
from gatepost.process import children
children.TASKS = {"own": "tests.process.child_tasks"}
children.main()
"""


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Nursery, subprocess.Popen[bytes]]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = str(Path(__file__).parents[2])
    with theirs:
        command = [sys.executable, "-c", START, root]
        process = subprocess.Popen(command, stdin=theirs.fileno(), env=bare_environment())
    with ours:
        yield Nursery(ours), process
    assert process.wait(60) == 0


@pytest.fixture
def nursery(started: tuple[Nursery, subprocess.Popen[bytes]]) -> Nursery:
    return started[0]


@pytest.fixture
def nursery_process(started: tuple[Nursery, subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return started[1]


def ask(nursery: Nursery, word: str, seconds: float = MAX_SECONDS, most: int = 1 << 20) -> ChildAnswer:
    return nursery.run("own", word.encode(), seconds, most)


def test_a_child_answers_and_is_gone(nursery: Nursery) -> None:
    found = ask(nursery, "echo")
    assert (found.answer, found.ended) == (b"begun echo", "")
    assert 0 < found.cpu_seconds < MAX_SECONDS


@pytest.mark.parametrize(
    ("word", "ended"),
    [("spin", "time"), ("hoard", "memory"), ("fall", "crash"), ("raise", "crash")],
)
def test_what_a_child_does_costs_it_alone(nursery: Nursery, word: str, ended: str) -> None:
    found = ask(nursery, word, 0.1 if word == "spin" else MAX_SECONDS)
    assert (found.answer, found.ended) == (b"begun ", ended)
    assert ask(nursery, "echo").answer == b"begun echo"


def test_no_code_in_a_child_puts_off_its_end(nursery: Nursery) -> None:
    found = ask(nursery, "refuse to end", 0.3)
    assert (found.answer, found.ended) == (b"begun " + b"refused " * 5, "time")
    assert found.cpu_seconds >= 0.3


def test_a_child_that_waits_is_ended_by_the_wall_clock(nursery: Nursery) -> None:
    found = ask(nursery, "sleep", 0.1)
    assert (found.answer, found.ended) == (b"begun ", "time")
    assert found.cpu_seconds < 0.1, "what its CPU time ends has used all of it"


def test_of_an_endless_answer_a_part_is_taken(nursery: Nursery) -> None:
    found = ask(nursery, "flood", most=100_000)
    assert len(found.answer) == 100_000
    assert found.ended in ("crash", "time")


def test_a_child_can_do_nothing_but_compute(nursery: Nursery) -> None:
    assert ask(nursery, "leaks").answer == b"begun "
    assert find_leaks_of_child() == ()


def test_the_time_of_children_is_counted(nursery: Nursery) -> None:
    before = nursery.cpu_seconds
    spent = ask(nursery, "spin", 0.1).cpu_seconds + ask(nursery, "echo").cpu_seconds
    assert nursery.cpu_seconds - before == pytest.approx(spent)


def test_many_processes_share_a_nursery(nursery: Nursery, nursery_process: subprocess.Popen[bytes]) -> None:
    """One child hangs; those of other connections do not wait for it."""
    connections = [nursery.connect() for _ in range(4)]
    others = list(map(Nursery, connections))
    found: dict[int, ChildAnswer] = {}
    threads = [
        threading.Thread(target=lambda at=at: found.update({at: ask(others[at], "echo" if at else "sleep")}))
        for at in range(4)
    ]
    threads[0].start()
    while not (children := psutil.Process(nursery_process.pid).children()):
        time.sleep(0.01)
    for thread in threads[1:]:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    assert 0 not in found
    children[0].kill()
    threads[0].join()
    for connection in connections:
        connection.close()
    assert [found[at].ended for at in range(4)] == ["crash", "", "", ""]


REQUEST = struct.pack("<dd", 0.1, 1.0)


@pytest.mark.parametrize("asked", [b"x", REQUEST, REQUEST + b"none", REQUEST + b"\xff", struct.pack("<d", 0.1)])
def test_a_request_that_is_none_ends_one_connection(nursery: Nursery, asked: bytes) -> None:
    with nursery.connect() as connection:
        connection.send(asked)
        assert connection.recv(100) == b""
    assert ask(nursery, "echo").answer == b"begun echo"


def test_nobody_has_two_children_at_once(nursery: Nursery) -> None:
    with nursery.connect() as connection:
        connection.send(REQUEST + b"own")
        connection.send(REQUEST + b"own")
        assert connection.recv(100) == b"\0"
        assert connection.recv(100) == b""
    assert ask(nursery, "echo").answer == b"begun echo"


def test_without_a_nursery_nothing_is_run_and_that_is_said() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours:
        assert Nursery(ours).run("page", b"", 0.1, 100).ended == "crash"


def test_a_process_starts_its_own_nursery_once() -> None:
    assert open_nursery() is open_nursery()
