"""The loop inside a sealed worker: one thread, one socket, and analyses that wait for answers.

An analysis is a generator, so "waiting" costs nothing: it is kept with its number until its answers come, and meanwhile
another message is read. A job runs until it asks or ends. Whatever goes wrong inside Python is told in a frame; lack
of memory ends the process, since nobody knows what it left half done.
"""

import gc
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from gatepost.analysis import Context, analyse
from gatepost.files.yara import YaraRules
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists, compile_lists
from gatepost.policy.rules import Policy
from gatepost.questions import Analysis, Answer, Question, Questions
from gatepost.report import Report
from gatepost.textmodel.deployed import DeployedModels, load_shipped_models
from gatepost.view.message import build_view
from gatepost.view.picture import draw_picture
from gatepost.workers import protocol
from gatepost.workers.fault_injection import rigged
from gatepost.workers.protocol import HEADER, MAX_QUESTIONS, MAX_REPORT, MAX_STEPS, Frame, Job, Looked, RecentSnapshots
from gatepost.workers.sandbox import SOCKET, give_back_memory, seal
from gatepost.workers.status_page import IDLE, PARSE, RECEIVE, StatusPage

LARGE = 1 << 20
# Most of what an analysis makes is freed by counting references; looking for cycles more seldom saves a tenth of it.
_COLLECT_EVERY = 20_000

_POLICY = "policy"


class _Run:
    """One analysis in this worker."""

    def __init__(self, number: int, size: int, known: dict[Question, Answer]) -> None:
        self.number = number
        self.size = size
        self.known = known
        self.stage = RECEIVE
        self.step = 0
        self.questions: Questions = ()
        self.analysis: Analysis[Report]


class Worker:
    """Receives jobs and answers, sends questions and reports."""

    def __init__(
        self,
        sock: socket.socket,
        page: StatusPage,
        rules: YaraRules | None = None,
        models: DeployedModels | None = None,
        *,
        trial: bool = False,
    ) -> None:
        self._sock = sock
        self._page = page
        self._rules = rules
        self._models = models or load_shipped_models()
        self._trial = trial
        self._runs: dict[int, _Run] = {}
        self._policies: dict[str, Policy] = {}
        self._lists: RecentSnapshots[CompiledLists] = RecentSnapshots()

    def loop(self) -> None:
        """Serve until guard closes the socket."""
        handlers: dict[int, Callable[[int, bytes], None]] = {
            Frame.SNAPSHOT: self._keep,
            Frame.JOB: self._start,
            Frame.ANSWERS: self._resume,
            Frame.CANCEL: self._cancel,
        }
        while header := self._receive(HEADER.size):
            length, kind, number = HEADER.unpack(header)
            if kind == Frame.JOB:
                self._page.enter(number, RECEIVE)
            handlers[kind](number, self._receive(length))

    def _receive(self, length: int) -> bytes:
        """Exactly so many bytes, in one object and never copied; none at the end of the stream."""
        data = self._sock.recv(length, socket.MSG_WAITALL) if length else b""
        return data if len(data) == length else b""

    def _keep(self, _number: int, body: bytes) -> None:
        snapshot = protocol.snapshot(body)
        if snapshot.key.startswith(_POLICY):
            self._policies[snapshot.key] = msgspec.msgpack.decode(snapshot.data, type=Policy)
        else:
            self._lists.put(snapshot.key, compile_lists(snapshot.data))

    def _start(self, number: int, body: bytes) -> None:
        job = protocol.job(body)
        length, _kind, _number = HEADER.unpack(self._receive(HEADER.size))
        raw = self._receive(length)
        run = _Run(number, length, dict(job.known))
        context = Context(
            now=job.now,
            policy=self._policies[job.policy],
            skip=job.skip,
            mark=self._page.marker(number),
            lists=(self._lists.get(job.lists) if job.lists else None) or NO_LISTS,
            rules=self._rules,
            antivirus=job.antivirus,
            acquaintance=True,
            models=self._models,
            campaigns=True,
        )
        if self._trial:
            context = rigged(raw, context)
        self._runs[number] = run
        if job.purpose != "judge":
            self._show(run, raw, job, context.mark)
            return
        run.analysis = analyse(raw, job.envelope, context)
        del raw  # the analysis holds it, and lets go of it as soon as it ends
        self._advance(run, lambda: next(run.analysis))

    def _show(self, run: _Run, raw: bytes, job: Job, mark: Callable[[str], None]) -> None:
        """Somebody looks at the message: nothing is asked, and nothing judged."""
        try:
            mark(PARSE)
            shown = build_view(raw) if job.purpose == "view" else draw_picture(raw, job.index)
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  what crashes is told, not silent
            self._end(run, self._failed(run, f"it crashed ({type(fault).__name__})"))
        else:
            self._end(run, self._done(run, shown))

    def _resume(self, number: int, body: bytes) -> None:
        run = self._runs.get(number)
        given = protocol.given(body)
        if run is None or given.step != run.step:
            return
        self._page.enter(number, run.stage)
        run.known.update(zip(self._missing(run), given.answers, strict=False))
        self._advance(run, lambda: run.questions)

    def _cancel(self, number: int, _body: bytes) -> None:
        run = self._runs.pop(number, None)
        if run is not None:
            run.analysis.close()

    def _advance(self, run: _Run, step: Callable[[], Questions]) -> None:
        """Run until something is asked that is not known, or to the end."""
        try:
            run.questions = step()
            while not (missing := self._missing(run)):
                run.questions = run.analysis.send(tuple(run.known[question] for question in run.questions))
        except StopIteration as stop:
            self._end(run, self._done(run, stop.value))
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  an analysis that crashes is told, not silent
            self._end(run, self._failed(run, f"it crashed ({type(fault).__name__})"))
        else:
            self._ask(run, missing)

    def _missing(self, run: _Run) -> Questions:
        unknown = dict.fromkeys(question for question in run.questions if question not in run.known)
        return tuple(unknown)[:MAX_QUESTIONS]

    def _ask(self, run: _Run, missing: Questions) -> None:
        run.step += 1
        run.stage = self._page.place.stage
        if run.step > MAX_STEPS:
            run.analysis.close()
            self._end(run, self._failed(run, "it asked too many questions"))
            return
        body = protocol.packed(Frame.ASK, run.number, protocol.Ask(run.step, missing))
        self._page.enter(0, IDLE)
        self._sock.sendall(body)

    def _end(self, run: _Run, body: bytes) -> None:
        del self._runs[run.number]
        self._page.enter(0, IDLE)
        self._sock.sendall(body)
        if run.size > LARGE:
            gc.collect()
            give_back_memory()

    def _done(self, run: _Run, report: Report | Looked) -> bytes:
        try:
            body = msgspec.msgpack.encode(report)
        except UnicodeEncodeError:
            body = msgspec.msgpack.encode(_without_surrogates(msgspec.to_builtins(report)))
        if len(body) > MAX_REPORT:
            return self._failed(run, "its report is too long")
        return protocol.frame(Frame.DONE, run.number, body)

    def _failed(self, run: _Run, reason: str) -> bytes:
        return protocol.packed(Frame.FAILED, run.number, protocol.Failed(self._page.place.stage, reason))


def _without_surrogates(value: Any) -> Any:
    """Half a character cannot be sent; what stands for it is the replacement character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def live(
    sock: int,
    page: StatusPage,
    memory: int,
    rules: YaraRules | None = None,
    models: DeployedModels | None = None,
    *,
    trial: bool,
) -> NoReturn:
    """A forked child becomes a worker: sealed, tested from inside, then at work until guard lets go."""
    os.dup2(sock, SOCKET)
    gc.enable()
    gc.set_threshold(_COLLECT_EVERY, 10, 10)
    connection = socket.socket(fileno=SOCKET)
    sealed = seal(memory)
    sys.stdin = sys.stdout = sys.stderr = None
    connection.sendall(protocol.packed(Frame.READY, 0, protocol.Ready(sealed.layers, sealed.leaks)))
    try:
        Worker(connection, page, rules, models, trial=trial).loop()
    except MemoryError:
        page.say_out_of_memory()
    except OSError:  # guard is gone
        pass
    os._exit(0)
