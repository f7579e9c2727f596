"""Suspended messages whose answers are there: tenants take turns inside of a worker, too."""

from types import SimpleNamespace
from typing import Any

import pytest

from gatepost.workers import process
from gatepost.workers.process import MAX_TURNS, WorkerProcess


class Sent:
    """In place of the worker's socket: the frames that went to it."""

    def __init__(self, *_arguments: Any) -> None:
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> WorkerProcess:
    nothing: Any = None
    monkeypatch.setattr(process, "Channel", Sent)
    return WorkerProcess(1, nothing, nothing, nothing, print, print)


def suspended(worker: WorkerProcess, name: str) -> Any:
    """A message of the tenant that its name begins with."""
    attempt: Any = SimpleNamespace(name=name, tenant=name[0], size=1, deadline=9.0, number=0, answers=b"")
    worker.take(attempt)
    return attempt


def served(worker: WorkerProcess) -> list[str]:
    """The order in which the worker gets the answers, each when it has done with one before."""
    while worker.turns:
        worker.end_turn(next(iter(worker.turns)))
        worker.resume(0.0)
    return [frame.decode() for frame in worker.channel.frames]  # type: ignore[attr-defined]


def test_one_message_of_a_tenant_does_not_wait_for_all_of_another(worker: WorkerProcess) -> None:
    flood = [suspended(worker, f"a{number}") for number in range(7)]
    other = suspended(worker, "b")
    for attempt in (*flood, other):
        worker.keep_answers(attempt, attempt.name.encode())
        worker.resume(0.0)
    assert len(worker.turns) == MAX_TURNS, "it is at one, and has the next"
    assert served(worker) == ["a0", "a1", "b", "a2", "a3", "a4", "a5", "a6"]


def test_what_is_given_up_has_no_turn(worker: WorkerProcess) -> None:
    attempts = [suspended(worker, f"a{number}") for number in range(4)]
    for attempt in attempts:
        worker.keep_answers(attempt, attempt.name.encode())
        worker.resume(0.0)
    worker.release(attempts[2])
    assert served(worker) == ["a0", "a1", "a3"]
    assert all(attempt.answers == b"" for attempt in attempts if attempt is not attempts[2])
