"""Suspended messages whose answers are there: tenants take turns inside of a worker, too. And how long a turn may
last."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from gatepost.analysis.report import Report
from gatepost.mail.message import Envelope
from gatepost.scanning.spool import BytesBody
from gatepost.workers import process
from gatepost.workers.jobs import Job
from gatepost.workers.process import MAX_TURNS, WorkerProcess
from gatepost.workers.protocol import JUDGE


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


def suspended(worker: WorkerProcess, name: str) -> Job[Report]:
    """A message of the tenant that its name begins with."""
    job = Job(JUDGE, name, Envelope(tenant=name[0]), BytesBody(b"x"), 0.0)
    job.order = worker.suspended
    worker.take(job)
    return job


def served(worker: WorkerProcess) -> list[str]:
    """The order in which the worker gets the answers, each when it has done with one before."""
    while worker.turns:
        worker.end_turn(next(iter(worker.turns)))
        worker.resume(0.0)
    return [frame.decode() for frame in worker.channel.frames]  # type: ignore[attr-defined]


def test_one_message_of_a_tenant_does_not_wait_for_all_of_another(worker: WorkerProcess) -> None:
    flood = [suspended(worker, f"a{number}") for number in range(7)]
    other = suspended(worker, "b")
    for job in (*flood, other):
        worker.keep_answers(job, job.ggrid.encode())
        worker.resume(0.0)
    assert len(worker.turns) == MAX_TURNS, "it is at one, and has the next"
    assert served(worker) == ["a0", "a1", "b", "a2", "a3", "a4", "a5", "a6"]


def test_what_is_given_up_has_no_turn(worker: WorkerProcess) -> None:
    jobs = [suspended(worker, f"a{number}") for number in range(4)]
    for job in jobs:
        worker.keep_answers(job, job.ggrid.encode())
        worker.resume(0.0)
    worker.release(jobs[2])
    assert served(worker) == ["a0", "a1", "a3"]
    assert all(job.answers == b"" for job in jobs if job is not jobs[2])


class Clock:
    """A worker whose waiting for a processor the test decides, in one stage for good."""

    def __init__(self, worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited = 40.0
        worker.channel.flushed = True
        worker.status_page = SimpleNamespace(word=7, state=SimpleNamespace(stage="parse"))
        monkeypatch.setattr(WorkerProcess, "_waited_seconds", lambda _: self.waited)


def test_what_waits_for_a_processor_is_not_stalled(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(worker, monkeypatch)
    worker.begin_turn(suspended(worker, "a"), 100.0)
    assert not worker.is_stalled(100.0, 5.0)
    clock.waited += 3.0
    assert not worker.is_stalled(107.9, 5.0), "of eight seconds it has had five"
    assert worker.is_stalled(108.1, 5.0)
    clock.waited += 1_000.0
    assert not worker.is_stalled(114.9, 5.0)
    assert worker.is_stalled(115.1, 5.0), "in the end it counts all the same"


def test_what_does_not_run_is_stalled(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(worker, monkeypatch)
    worker.begin_turn(suspended(worker, "a"), 100.0)
    assert not worker.is_stalled(100.0, 5.0)
    assert not worker.is_stalled(104.9, 5.0)
    assert worker.is_stalled(105.1, 5.0)


def test_the_kernel_tells_for_how_long_a_process_waited(worker: WorkerProcess) -> None:
    assert worker._waited_seconds() == 0.0
    worker._pid = os.getpid()
    assert worker._waited_seconds() > 0.0
    worker._pid = 1 << 30
    assert worker._waited_seconds() == 0.0
