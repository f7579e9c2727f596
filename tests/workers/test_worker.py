"""The loop inside a worker, driven over its socket by a test that plays guard."""

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
from tests.own_names import replace_in

from gatepost.analysis.report import Report
from gatepost.analysis.stages import INDISPENSABLE, STAGES, Context
from gatepost.mail.message import Envelope
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Asking, Dns, DnsAnswer, Question
from gatepost.workers import protocol, worker
from gatepost.workers.protocol import (
    IDLE,
    LARGE,
    MAX_QUESTIONS,
    MAX_STEPS,
    Frame,
    FrameReader,
    JobHeader,
    StageNames,
    StatusPage,
    StepAnswers,
    WorkerState,
    new_status_page,
)

Analyse = Callable[[bytes, Envelope, Context], Asking[Report]]
ALL = StageNames(STAGES, INDISPENSABLE)
Said = tuple[Frame, int, bytes]


def reported(reason: str) -> Report:
    return Report("clean", "deliver", (), 0, reason)


def question(name: str) -> Dns:
    return Dns(f"{name}.example", "A")


class Guard:
    """Guard's end: sends frames, reads what comes back."""

    def __init__(self, sock: socket.socket, page: StatusPage) -> None:
        self.sock = sock
        self.page = page
        self._reader = FrameReader()
        self._frames: list[Said] = []
        policy = msgspec.msgpack.encode(shipped_policy())
        self.sock.sendall(protocol.snapshot_header(0, "policy", len(policy)) + policy)

    def send(self, kind: Frame, number: int, body: msgspec.Struct) -> None:
        self.sock.sendall(protocol.pack_frame(kind, number, body))

    def job(self, number: int, raw: bytes = b"raw", known: dict[Question, DnsAnswer] | None = None) -> None:
        self.send(Frame.JOB, number, JobHeader(Envelope(), 0.0, "", {}, tuple((known or {}).items())))
        self.sock.sendall(protocol.raw_header(number, len(raw)) + raw)

    def give(self, number: int, step: int, *answers: DnsAnswer) -> None:
        self.send(Frame.ANSWERS, number, StepAnswers(step, answers))

    def hear(self) -> Said:
        while not self._frames:
            self._frames.extend(self._reader.feed(self.sock.recv(65536)))
        return self._frames.pop(0)

    def hear_report(self, number: int) -> str:
        kind, got, body = self.hear()
        assert (kind, got) == (Frame.DONE, number)
        return protocol.read_report(body).reason

    def hear_ask(self, number: int) -> protocol.Ask:
        kind, got, body = self.hear()
        assert (kind, got) == (Frame.ASK, number)
        return protocol.read_ask(body)


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch, analyse: Analyse) -> Iterator[Guard]:
    monkeypatch.setattr(worker, "analyse", analyse)
    descriptor = new_status_page()
    page, theirs = StatusPage(descriptor, ALL), StatusPage(descriptor, ALL)
    os.close(descriptor)
    ours, other = socket.socketpair()
    ours.settimeout(60)
    thread = threading.Thread(target=worker.Worker(other, theirs).loop)
    thread.start()
    try:
        yield Guard(ours, page)
    finally:
        ours.close()
        thread.join(60)
        other.close()
        page.close()
        theirs.close()


FOUND = DnsAnswer("found", ("192.0.2.1",))
NONE = DnsAnswer("no-name")


def asks_twice(raw: bytes, _envelope: Envelope, context: Context) -> Asking[Report]:
    context.mark("authenticate")
    (first,) = yield (question("first"),)
    yield ()
    second = yield (question("first"), question("second"), question("second"))
    return reported(f"{raw.decode()} {first.status} {'/'.join(answer.status for answer in second)}")


def test_jobs_wait_for_their_answers_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, asks_twice) as guard:
        guard.job(1, b"one")
        assert guard.hear_ask(1).questions == (question("first"),)
        guard.job(2, b"two")
        assert guard.hear_ask(2).questions == (question("first"),)
        assert guard.page.state == WorkerState(0, IDLE)
        guard.give(2, 1, NONE)
        assert guard.hear_ask(2) == protocol.Ask(2, (question("second"),))
        guard.give(1, 1, FOUND)
        assert guard.hear_ask(1) == protocol.Ask(2, (question("second"),))
        guard.give(1, 2, NONE)
        guard.give(2, 2, FOUND)
        assert guard.hear_report(1) == "one found found/no-name/no-name"
        assert guard.hear_report(2) == "two no-name no-name/found/found"


def test_free_memory_is_given_back_every_so_often_and_after_large_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(worker, "GIVE_BACK_EVERY", 2)
    monkeypatch.setattr(worker, "COLLECT_ALL_EVERY", 4)
    monkeypatch.setattr(worker, "give_back_memory", lambda: done.append("given"))
    replace_in(monkeypatch, worker, "gc", collect=lambda: done.append("collected"))

    def report(_raw: bytes, _envelope: Envelope, _context: Context) -> Asking[Report]:
        yield ()
        return reported("done")

    with running(monkeypatch, report) as guard:
        for number, raw in enumerate([b"raw"] * 4 + [bytes(LARGE + 1), b"raw"], 1):
            guard.job(number, raw)
            guard.hear_report(number)
    # The worker has ended with the socket, so that the last of them counts too.
    assert (done.count("given"), done.count("collected")) == (4, 2), "each second, each fourth, and the large one"


def test_known_answers_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, asks_twice) as guard:
        guard.job(1, b"one", {question("first"): FOUND})
        assert guard.hear_ask(1).questions == (question("second"),)
        guard.job(2, b"two", {question("first"): FOUND, question("second"): NONE})
        assert guard.hear_report(2) == "two found found/no-name/no-name"


def test_a_cancelled_job_is_gone_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, asks_twice) as guard:
        guard.job(1)
        guard.hear_ask(1)
        guard.sock.sendall(protocol.raw_frame(Frame.CANCEL, 1, b"") + protocol.raw_frame(Frame.CANCEL, 77, b""))
        guard.give(1, 1, FOUND)
        guard.job(2, b"two", {question("first"): FOUND, question("second"): NONE})
        assert guard.hear_report(2).startswith("two")


def test_answers_of_another_step_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, asks_twice) as guard:
        guard.job(1, b"one")
        guard.hear_ask(1)
        guard.give(1, 2, NONE)
        guard.give(1, 1, FOUND)
        guard.hear_ask(1)
        guard.give(1, 2, NONE)
        assert guard.hear_report(1) == "one found found/no-name/no-name"


def test_many_questions_are_asked_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    def curious(_raw: bytes, _envelope: Envelope, _context: Context) -> Asking[Report]:
        answers = yield tuple(question(str(number)) for number in range(MAX_QUESTIONS + 3))
        return reported(answers[MAX_QUESTIONS].status)

    with running(monkeypatch, curious) as guard:
        guard.job(1)
        assert len(guard.hear_ask(1).questions) == MAX_QUESTIONS
        guard.give(1, 1, *[NONE] * MAX_QUESTIONS)
        assert len(guard.hear_ask(1).questions) == 3
        guard.give(1, 2, *[FOUND] * 3)
        assert guard.hear_report(1) == "found"


def failure(guard: Guard, number: int) -> protocol.Failed:
    kind, got, body = guard.hear()
    assert (kind, got) == (Frame.FAILED, number)
    return protocol.read_failed(body)


def test_one_that_never_stops_asking_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_raw: bytes, _envelope: Envelope, context: Context) -> Asking[Report]:
        context.mark("authenticate")
        for number in range(10 * MAX_STEPS):
            yield (question(str(number)),)
        return reported("never")

    with running(monkeypatch, endless) as guard:
        guard.job(1)
        for step in range(1, MAX_STEPS + 1):
            assert guard.hear_ask(1).step == step
            guard.give(1, step, NONE)
        assert failure(guard, 1) == protocol.Failed("authenticate", "it asked too many questions")


def test_a_crash_is_told_with_its_stage_and_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(raw: bytes, _envelope: Envelope, context: Context) -> Asking[Report]:
        context.mark("parse")
        if raw == b"bad":
            raise LookupError("a secret")
        yield ()
        return reported("well")

    with running(monkeypatch, crash) as guard:
        guard.job(1, b"bad")
        assert failure(guard, 1) == protocol.Failed("parse", "it crashed (LookupError)")
        guard.job(2, b"good")
        assert guard.hear_report(2) == "well"


def test_reports_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(raw: bytes, _envelope: Envelope, context: Context) -> Asking[Report]:
        context.mark("judge")
        yield ()
        return reported("x" * protocol.MAX_REPORT if raw == b"long" else "half \ud83d a pair, \U0001f600 whole")

    with running(monkeypatch, odd) as guard:
        guard.job(1, b"half")
        assert guard.hear_report(1) == "half � a pair, \U0001f600 whole"
        guard.job(2, b"long")
        assert failure(guard, 2) == protocol.Failed("judge", "its report is too long")


def test_a_large_message_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 24 << 20

    def weigh(raw: bytes, _envelope: Envelope, _context: Context) -> Asking[Report]:
        peak = tracemalloc.get_traced_memory()[1]
        yield ()
        return reported(f"{len(raw)} {peak}")

    raw = b"x" * size
    with running(monkeypatch, weigh) as guard:
        guard.send(Frame.JOB, 1, JobHeader(Envelope(), 0.0))
        tracemalloc.start()
        try:
            guard.sock.sendall(protocol.raw_header(1, size))
            guard.sock.sendall(raw)
            length, peak = map(int, guard.hear_report(1).split())
        finally:
            tracemalloc.stop()
    assert length == size
    assert peak < 1.05 * size


def test_the_page_says_what_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WorkerState] = []

    def watch(_raw: bytes, _envelope: Envelope, context: Context) -> Asking[Report]:
        seen.append(guard.page.state)
        context.mark("files")
        seen.append(guard.page.state)
        yield (question("first"),)
        seen.append(guard.page.state)
        return reported("seen")

    with running(monkeypatch, watch) as guard:
        guard.job(5)
        guard.hear_ask(5)
        assert guard.page.state == WorkerState(0, IDLE)
        guard.give(5, 1, FOUND)
        guard.hear_report(5)
    assert seen == [WorkerState(5, "receive"), WorkerState(5, "files"), WorkerState(5, "files")]
