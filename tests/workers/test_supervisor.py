"""A worker that an attacker has taken over: whatever it says or writes, guard answers and goes on."""

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.workers.pools import running

from gatepost.analysis.report import Report
from gatepost.mail.message import Envelope
from gatepost.questions import Answers, Dns, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.workers import protocol, supervisor
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings
from gatepost.workers.protocol import HEADER, JUDGE, Ask, Frame, Ready, Spawn, StageNames, StatusPage

Evil = Callable[[int, StatusPage], bytes]

READY = protocol.pack_frame(Frame.READY, 0, Ready(("seccomp",), ()))
REPORT = Report("clean", "deliver", (), 0, "nothing")
QUESTION = Dns("a.example", "A")
TURNS = 6
SETTINGS = PoolSettings(processes=1, analysis_timeout=60.0, stage_limit=20.0, memory=1 << 30)
STAGES = StageNames(("parse", "files", "judge"), frozenset({"parse", "judge"}))


def ask(number: int, step: int = 1, count: int = 1) -> bytes:
    return protocol.raw_frame(Frame.ASK, number, msgspec.msgpack.encode(Ask(step, (QUESTION,) * count)))


def done(number: int, tags: tuple[str, ...] = ()) -> bytes:
    return protocol.raw_frame(
        Frame.DONE, number, msgspec.msgpack.encode(protocol.Judged(msgspec.structs.replace(REPORT, tags=tags)))
    )


def lying(number: int, page: StatusPage) -> bytes:
    page._words[0] = 2**64 - 1
    return b"\xff" * 64


def blaming(number: int, page: StatusPage) -> bytes:
    page.enter(number, "files")
    return HEADER.pack(0, 99, number)


EVIL: dict[str, Evil] = {
    "nonsense": lambda number, page: b"\xff" * 64,
    "a page of lies": lying,
    "a frame without end": lambda number, page: HEADER.pack(2**32 - 1, Frame.DONE, number),
    "a frame of guard's": lambda number, page: protocol.raw_frame(Frame.ANSWERS, number, b""),
    "ready twice": lambda number, page: READY,
    "a tag with a line end": lambda number, page: done(number, tags=("a:b\r\nReply-To: x",)),
    "somebody else's job": lambda number, page: done(number + 1),
    "a step ahead": lambda number, page: ask(number, step=2),
    "twice the same step": lambda number, page: ask(number) + ask(number),
    "too many questions": lambda number, page: ask(number, count=65),
    "a report of the wrong shape": lambda number, page: protocol.raw_frame(Frame.DONE, number, b"\x80"),
    "gone": lambda number, page: b"",
}


class FakeLoader:
    """Workers that are threads of this test and follow a script, each behind a process that can be killed."""

    stages = STAGES

    def __init__(self, evil: list[Evil], on_started: Callable[[int, int, int], None]) -> None:
        self._evil = evil
        self._on_started = on_started
        self.ready = [READY]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []

    async def start(self) -> None:
        pass

    def spawn(self, order: Spawn, sock: socket.socket, page: int) -> None:
        process = subprocess.Popen(["sleep", "600"])
        self._processes.append(process)
        mapped = StatusPage(page, STAGES)
        evil = self._evil.pop(0) if self._evil else None
        thread = threading.Thread(target=self._work, args=(sock.dup(), mapped, evil))
        self._threads.append(thread)
        thread.start()
        self._on_started(order.number, process.pid, os.pidfd_open(process.pid))

    async def stop(self) -> None:
        for process in self._processes:
            assert process.wait(90) == -9
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _work(self, sock: socket.socket, page: StatusPage, evil: Evil | None) -> None:
        with sock, contextlib.suppress(OSError):
            sock.sendall(self.ready.pop(0) if len(self.ready) > 1 else self.ready[0])
            while header := sock.recv(HEADER.size, socket.MSG_WAITALL):
                length, kind, number = HEADER.unpack(header)
                sock.recv(length, socket.MSG_WAITALL)
                if kind != Frame.RAW:
                    continue
                if evil is None:
                    sock.sendall(done(number))
                    continue
                sock.sendall(evil(number, page))
                if evil is EVIL["gone"]:
                    break
        page.close()


def fake_loader(evil: list[Evil]) -> Callable[..., FakeLoader]:
    return lambda on_started, _on_lost, _files: FakeLoader(evil, on_started)


async def slowly(_job: Job[Any], questions: Questions) -> Answers:
    await asyncio.sleep(0.05)
    return ()


@pytest.mark.parametrize("name", EVIL)
async def test_whatever_a_worker_says_guard_goes_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LoaderClient", fake_loader([EVIL[name]] * TURNS))
    async with running(SETTINGS, slowly) as pool:
        poison, *others = [
            await pool.run(Job(JUDGE, str(number), Envelope(), BytesBody(b"raw"), 0.0)) for number in range(3)
        ]
        counters = pool.counters()
    assert (poison.verdict, poison.decision) == ("unscannable", "undecided")
    assert others == [REPORT, REPORT]
    assert counters.kills["crash"] == counters.restarts == TURNS


async def test_a_replacement_must_be_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker is sealed and dies; the second can open sockets and is not used; the third is sealed."""
    leaky = protocol.pack_frame(Frame.READY, 0, Ready((), ("socket",)))

    def make(on_started: Callable[[int, int, int], None], _on_lost: object, _files: object) -> FakeLoader:
        loader = FakeLoader([EVIL["gone"]], on_started)
        loader.ready = [READY, leaky, READY]
        return loader

    monkeypatch.setattr(supervisor, "LoaderClient", make)
    async with running(SETTINGS, slowly) as pool:
        report = await pool.run(Job(JUDGE, "1", Envelope(), BytesBody(b"raw"), 0.0))
        counters = pool.counters()
    assert report == REPORT
    assert counters.restarts == 2
    assert counters.sealed


async def test_a_stage_that_it_blames_is_skipped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LoaderClient", fake_loader([blaming, blaming]))
    async with running(SETTINGS, slowly) as pool:
        report = await pool.run(Job(JUDGE, "x", Envelope(), BytesBody(b"raw"), 0.0))
    counters = pool.counters()
    assert (report.decision, [outcome.stage for outcome in report.outcomes]) == ("undecided", ["files"])
    assert counters.kills["crash"] == 2
