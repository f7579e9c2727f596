"""The loop inside a sealed worker: one thread, one socket, and analyses that wait for answers.

An analysis is a generator, so "waiting" costs nothing: it is kept with its number until its answers come, and meanwhile
another message is read. A job runs until it asks or ends. Whatever goes wrong inside Python is reported in a frame;
lack of memory ends the process, since it may have left anything half done.
"""

import gc
import hashlib
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context, describe_fault
from gatepost.checks.phrases import mark_themes, search_message
from gatepost.checks.reading import Check
from gatepost.files.documents.saved_messages import find_reported_messages, open_saved_message
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.files.yara import YaraRules
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists, compile_lists
from gatepost.mail.part_places import find_parts
from gatepost.mail.reader import read
from gatepost.near_duplicates import compute_signature
from gatepost.policy.rules import Policy
from gatepost.process.children import adopt_nursery, count_cpu_seconds, find_leaks_of_child
from gatepost.process.cpu_account import ALL, CpuAccount, CpuSpentError, start_timer
from gatepost.process.sandbox import SOCKET, give_back_memory, seal
from gatepost.questions import Analysis, Questions
from gatepost.scanning.request import MAX_CUTS, Cut, Cuts
from gatepost.store.record_packing import HEAD_BYTES
from gatepost.textmodel.features import extract_features
from gatepost.textmodel.learnt import NO_MODELS, LearntModels, make_row, parse_learnt_models
from gatepost.textmodel.model import DeployedModels, load_shipped_models
from gatepost.view.message import build_page, build_view, draw_picture
from gatepost.workers import protocol
from gatepost.workers.protocol import (
    HEADER,
    IDLE,
    LARGE,
    LOAD_LISTS,
    LOAD_MODELS,
    LOAD_POLICY,
    MAX_QUESTIONS,
    MAX_REPORT,
    MAX_STEPS,
    RECEIVE,
    Attached,
    AttachedMessages,
    Extracted,
    Frame,
    JobHeader,
    PurposeName,
    RecentSnapshots,
    StatusPage,
)

# Most of what an analysis makes is freed by counting references; looking for cycles more seldom saves a tenth of it.
_COLLECT_EVERY = 20_000
# After so many messages a worker gives back what is free of its heap, which takes a third of a millisecond; and after
# so many it looks for cycles among all of its objects, since those that live long are seldom looked at.
GIVE_BACK_EVERY, COLLECT_ALL_EVERY = 100, 1_000

_POLICY = "policy"
_LEARNT = "learnt:"


class WorkerData(msgspec.Struct, frozen=True):
    """What the loader read for all workers. `checks` are those of plug-ins. `inject` is for tests only: it changes the
    context of an analysis so that a fault happens in it."""

    rules: YaraRules | None = None
    models: DeployedModels = msgspec.field(default_factory=load_shipped_models)
    checks: tuple[Check, ...] = ()
    inject: Callable[[bytes, Context], Context] | None = None


class _Run:
    """One analysis in this worker."""

    def __init__(self, number: int, raw: bytes, job: JobHeader) -> None:
        self.number = number
        self.size, self.envelope = len(raw), job.envelope
        self.cpu = CpuAccount(job.cpu)
        # Of the message itself the analysis lets go as soon as it ends.
        self.head = bytes(raw[:HEAD_BYTES])
        self.known = dict(job.known)
        self.stage = RECEIVE
        self.step = 0
        self.questions: Questions = ()
        self.analysis: Analysis[Any]


class Worker:
    """Receives jobs and answers, sends questions and reports."""

    def __init__(self, sock: socket.socket, status_page: StatusPage, data: WorkerData | None = None) -> None:
        self._sock = sock
        self._status_page = status_page
        self._data = data or WorkerData()
        self._runs: dict[int, _Run] = {}
        self._ended = 0
        self._policies: RecentSnapshots[Policy] = RecentSnapshots()
        self._lists: RecentSnapshots[CompiledLists] = RecentSnapshots()
        self._learnt: RecentSnapshots[LearntModels] = RecentSnapshots()

    def loop(self) -> None:
        """Serve until guard closes the socket."""
        handlers: dict[int, Callable[[int, bytes], None]] = {
            Frame.SNAPSHOT: self._keep_snapshot,
            Frame.JOB: self._start,
            Frame.ANSWERS: self._resume,
            Frame.CANCEL: self._cancel,
        }
        while header := self._receive(HEADER.size):
            length, kind, number = HEADER.unpack(header)
            if kind == Frame.JOB:
                self._status_page.enter(number, RECEIVE)
            handlers[kind](number, self._receive(length))

    def _receive(self, length: int) -> bytes:
        """Exactly so many bytes, in one object, uncopied unless a signal comes; none at the end of the stream."""
        data = self._sock.recv(length, socket.MSG_WAITALL) if length else b""
        while data and len(data) < length:
            more = self._sock.recv(length - len(data), socket.MSG_WAITALL)
            data = data + more if more else b""
        return data

    def _keep_snapshot(self, number: int, body: bytes) -> None:
        key, data = protocol.read_snapshot(body)
        if key.startswith(_POLICY):
            self._status_page.enter(number, LOAD_POLICY)
            self._policies.put(key, msgspec.msgpack.decode(data, type=Policy), len(data))
        elif key.startswith(_LEARNT):
            self._status_page.enter(number, LOAD_MODELS)
            self._learnt.put(key, parse_learnt_models(data), len(data))
        else:
            self._status_page.enter(number, LOAD_LISTS)
            self._lists.put(key, compile_lists(data), len(data))

    def _start(self, number: int, body: bytes) -> None:
        job = protocol.read_job(body)
        length, _kind, _number = HEADER.unpack(self._receive(HEADER.size))
        raw = self._receive(length)
        run = _Run(number, raw, job)
        policy = self._policies.get(job.policy)
        if policy is None:  # guard sends it before the job, and drops what it takes for kept in the same order
            raise KeyError(job.policy)
        context = Context(
            now=job.now,
            policy=policy,
            skip=job.skip,
            mark=self._status_page.marker(number),
            lists=(self._lists.get(job.lists) if job.lists else None) or NO_LISTS,
            rules=self._data.rules,
            antivirus=job.antivirus,
            reputation=job.reputation,
            sender_history=True,
            models=self._data.models,
            learnt=(self._learnt.get(job.learnt) if job.learnt else None) or NO_MODELS,
            campaigns=True,
            extra=self._data.checks,
            own_networks=job.own_networks,
            for_mailboxes=job.for_mailboxes,
            cpu=run.cpu,
        )
        if inject := self._data.inject:
            context = inject(raw, context)
        self._runs[number] = run
        is_judged = job.purpose == "judge"
        run.analysis = analyse(raw, job.envelope, context) if is_judged else _read_only(raw, job, context)
        del raw  # the analysis holds it, and lets go of it as soon as it ends
        self._advance(run, lambda: next(run.analysis))

    def _resume(self, number: int, body: bytes) -> None:
        run = self._runs.get(number)
        given = protocol.read_answers(body)
        if run is None or given.step != run.step:
            return
        self._status_page.enter(number, run.stage)
        run.known.update(zip(self._missing(run), given.answers, strict=False))
        self._advance(run, lambda: run.questions)

    def _cancel(self, number: int, _body: bytes) -> None:
        run = self._runs.pop(number, None)
        if run is not None:
            run.analysis.close()

    def _advance(self, run: _Run, step: Callable[[], Questions]) -> None:
        """Run until something is asked that is not known, or to the end."""
        run.cpu.resume()
        try:
            run.questions = step()
            while not (missing := self._missing(run)):
                run.questions = run.analysis.send(tuple(run.known[question] for question in run.questions))
        except StopIteration as stop:
            self._end(run, self._encode_result(run, stop.value))
        except MemoryError:
            raise
        except (Exception, CpuSpentError) as fault:  # noqa: BLE001  a crash is reported, not silent
            self._end(run, self._encode_failure(run, describe_fault(fault)))
        else:
            self._ask(run, missing)

    def _missing(self, run: _Run) -> Questions:
        unknown = dict.fromkeys(question for question in run.questions if question not in run.known)
        return tuple(unknown)[:MAX_QUESTIONS]

    def _ask(self, run: _Run, missing: Questions) -> None:
        self._pause(run)
        run.step += 1
        run.stage = self._status_page.state.stage
        if run.step > MAX_STEPS:
            run.analysis.close()
            self._end(run, self._encode_failure(run, "it asked too many questions"))
            return
        body = protocol.pack_frame(Frame.ASK, run.number, protocol.Ask(run.step, missing))
        self._status_page.enter(0, IDLE)
        self._sock.sendall(body)

    def _pause(self, run: _Run) -> None:
        run.cpu.pause()
        self._status_page.tell_children_cpu(count_cpu_seconds())

    def _end(self, run: _Run, body: bytes) -> None:
        self._pause(run)
        del self._runs[run.number]
        self._status_page.enter(0, IDLE)
        self._sock.sendall(body)
        self._ended += 1
        if run.size > LARGE or self._ended % COLLECT_ALL_EVERY == 0:
            gc.collect()
        if run.size > LARGE or self._ended % GIVE_BACK_EVERY == 0:
            give_back_memory()

    def _encode_result(self, run: _Run, report: msgspec.Struct) -> bytes:
        try:
            body = msgspec.msgpack.encode(report)
        except UnicodeEncodeError:
            body = msgspec.msgpack.encode(_without_surrogates(msgspec.to_builtins(report, builtin_types=(bytes,))))
        if isinstance(report, Report):
            body = protocol.encode_judged(body, report, run.envelope, run.head)
        if len(body) > MAX_REPORT:
            return self._encode_failure(run, "its report is too long")
        return protocol.raw_frame(Frame.DONE, run.number, body)

    def _encode_failure(self, run: _Run, reason: str) -> bytes:
        return protocol.pack_frame(Frame.FAILED, run.number, protocol.Failed(self._status_page.state.stage, reason))


def _read_attached(raw: bytes) -> Attached:
    row, signature, sender, _ = _read_features(raw)
    return Attached(hashlib.sha256(raw).hexdigest(), row, signature, sender)


def _read_features(raw: bytes) -> tuple[bytes, tuple[int, ...], str, bytes]:
    """Return feature row, signature, domain in From and packed features of a message."""
    message = read(open_saved_message(raw) or raw)
    # Models were always trained without what native decoders unpack; with it they would be others.
    features = extract_features(message, find_files(message, UnpackBudget(native=False)))
    features = features.with_marks(mark_themes(search_message(message)))
    sender = message.senders[0].domain[:255] if message.senders else ""
    signature = compute_signature(features.text)
    return make_row(message, features), signature, sender, msgspec.msgpack.encode(features)


def _extract(raw: bytes, _job: JobHeader) -> Extracted:
    row, signature, sender, data = _read_features(raw)
    return Extracted(data, row, signature, sender)


def _find_places(raw: bytes, job: JobHeader) -> Cuts:
    return Cuts(tuple(Cut(*place) for place in find_parts(raw, job.parts)[:MAX_CUTS]))


_READERS: dict[PurposeName, Callable[[bytes, JobHeader], msgspec.Struct]] = {
    "view": lambda raw, _job: build_view(raw),
    "picture": lambda raw, job: draw_picture(raw, job.index),
    "page": lambda raw, _job: build_page(raw),
    "features": _extract,
    "report": lambda raw, _job: AttachedMessages(tuple(map(_read_attached, find_reported_messages(raw)))),
    "strip": _find_places,
}


def _read_only(raw: bytes, job: JobHeader, context: Context) -> Analysis[msgspec.Struct]:
    """Read the message for a person or for training, or find its parts: nothing is asked, and nothing judged."""
    yield from ()
    context.mark("parse")
    return context.cpu.run(ALL, _READERS[job.purpose], raw, job)


def _without_surrogates(value: Any) -> Any:
    """Return the value with the replacement character for each lone surrogate, which UTF-8 cannot carry."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def run_worker(sock: int, nursery: int, status_page: StatusPage, memory: int, data: WorkerData) -> NoReturn:
    """Turn a forked child into a worker: sealed, tested from inside, then at work until guard closes the socket. It has
    a connection to the nursery, and gets one to each of its disposable children; one of these is tested as well."""
    nursery = os.dup(nursery)  # beyond both numbers
    os.dup2(sock, SOCKET)
    os.dup2(nursery, SOCKET + 1)
    adopt_nursery(SOCKET + 1)
    gc.enable()
    gc.set_threshold(_COLLECT_EVERY, 10, 10)
    connection = socket.socket(fileno=SOCKET)
    start_timer()
    sealed = seal(memory, SOCKET + 2, room=1)
    leaks = tuple(dict.fromkeys(sealed.leaks + find_leaks_of_child()))
    sys.stdin = sys.stdout = sys.stderr = None
    connection.sendall(protocol.pack_frame(Frame.READY, 0, protocol.Ready(sealed.layers, leaks)))
    try:
        Worker(connection, status_page, data).loop()
    except MemoryError:
        status_page.say_out_of_memory()
    except OSError:  # guard is gone
        pass
    os._exit(0)
