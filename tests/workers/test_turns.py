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
from gatepost.workers.protocol import JUDGE, StatusPage, new_status_page


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
    page = StatusPage(new_status_page())
    return WorkerProcess(1, nothing, nothing, page, print, print)


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
    """A worker in one stage for good, whose CPU time the test decides."""

    def __init__(self, worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu = 40.0
        worker.status_page = SimpleNamespace(word=7, state=SimpleNamespace(stage="parse"))
        monkeypatch.setattr(WorkerProcess, "_cpu_seconds", lambda _: self.cpu)


def test_the_limit_of_a_stage_holds_whatever_else_the_machine_does(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a processor nearly all of the time. That was not counted, up to twice the limit, so that a stage had
    three times its limit on the busy machine where it matters."""
    clock = Clock(worker, monkeypatch)
    waited = [40.0]
    # As `/proc/PID/schedstat` has it.
    monkeypatch.setattr(WorkerProcess, "_waited_seconds", lambda _: waited[0], raising=False)
    worker.begin_turn(suspended(worker, "a"), 100.0)
    assert not worker.is_stalled(100.0, 5.0)
    clock.cpu += 0.1
    waited[0] += 4.9
    assert not worker.is_stalled(104.9, 5.0)
    assert worker.is_stalled(105.0, 5.0)


def test_what_uses_more_than_its_account_is_ended_in_any_stage(
    worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, job = Clock(worker, monkeypatch), suspended(worker, "a")
    job.cpu = 0.5
    job.draw(1.0)
    assert job.most_cpu == 1.375 == 0.5 + 0.5 + 0.375
    worker.begin_turn(job, 100.0)
    for number in range(8):
        clock.cpu += 0.1
        worker.status_page = SimpleNamespace(word=number, state=SimpleNamespace(stage=f"check:{number}"))  # type: ignore[assignment]
        assert not worker.is_stalled(100.0 + number, 5.0)
    clock.cpu += 0.1
    assert worker.is_stalled(108.0, 5.0)
    assert worker.take_cpu() == pytest.approx(0.9)
    assert worker.take_cpu() == 0.0


def test_what_a_worker_loads_is_not_the_message_s(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, job = Clock(worker, monkeypatch), suspended(worker, "a")
    job.sent["load lists"] = ("lists", "1")
    job.draw(1.0)
    worker.begin_turn(job, 100.0)
    worker.status_page = SimpleNamespace(word=1, state=SimpleNamespace(stage="load lists"))  # type: ignore[assignment]
    clock.cpu += 3.0
    assert not worker.is_stalled(103.0, 5.0)
    worker.status_page = SimpleNamespace(word=2, state=SimpleNamespace(stage="parse"))  # type: ignore[assignment]
    clock.cpu += 1.4
    assert not worker.is_stalled(104.0, 5.0)
    clock.cpu += 0.1
    assert worker.is_stalled(104.0, 5.0)


def test_the_message_that_executes_pays(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, first, second = Clock(worker, monkeypatch), suspended(worker, "a0"), suspended(worker, "a1")
    clock.cpu += 3.0
    worker.begin_turn(first, 100.0)
    clock.cpu += 0.1
    worker.begin_turn(second, 100.0)
    assert worker.turn is first
    assert worker.end_turn(first.number) is first
    assert worker.take_cpu() == pytest.approx(0.1), "not what it did before, when it was nobody's turn"
    assert worker.turn is second
    clock.cpu += 0.2
    worker.end_turn(second.number)
    assert worker.take_cpu() == pytest.approx(0.2)
    assert not worker.turns
    clock.cpu += 2.0
    assert worker.idle_cpu() == pytest.approx(2.0)


def test_what_a_process_has_used_is_known_when_it_has_ended(worker: WorkerProcess) -> None:
    assert worker._cpu_seconds() == 0.0
    worker._pid = os.getpid()
    assert (used := worker._cpu_seconds()) > 0.0
    worker._pid = 1 << 27
    assert worker._cpu_seconds() == used
