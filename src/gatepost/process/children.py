"""Disposable children: hostile work whose end nobody can promise, each piece in a process of its own.

What runs scripts of strangers, or calls a library with a history of memory errors, cannot be stopped from inside: a
single call of a built-in function may take minutes. So it runs in a child that the kernel ends. A nursery, which is
one small process with everything loaded and warm, forks it (half a millisecond), and never reads a byte of what the
child works on: order and answer go over a socket that the nursery makes for that child alone, and of which it keeps no
end. Two timers end the child (setitimer(2)): one counts its CPU time, the other one the clock on the wall. They have
their default action, and the seccomp filter of a child allows no call that could block or catch their signals, so
that no code in the child can put them off. What the child has answered until then is kept.

A nursery serves whoever started it and whoever got a connection from there: guard's loader starts one for all
workers. A process that was given none starts its own at the first order. `count_cpu_seconds` says what all children
of this process have cost, which its own clocks do not count.
"""

import gc
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from gatepost.process.sandbox import (
    SOCKET,
    bare_environment,
    build_filter,
    find_leaks,
    ignore_signals,
    install_filter,
    seal,
    this_machine,
)

PROCESS = "gatepost.process.children"
# What a child can do: each of these modules has a function `load`, which returns the work.
TASKS = {"page": "gatepost.pages.interpreter", "archive": "gatepost.files.archives.libarchive_child"}
LEAKS = "leaks"
MEMORY = 512 << 20
MAX_ORDER = 256 << 20
_MAX_CONNECTIONS = 1_000
# What nobody gets more of, whoever asks: a worker may be in other hands.
MAX_SECONDS, MAX_WALL_SECONDS = 10.0, 120.0
_LEAST_SECONDS = 0.01
# A child that waits for a processor has so much time by the clock on the wall.
_WALL_SECONDS, _MAX_STARVED = 1.0, 10
_OUT_OF_MEMORY = 3

_LENGTH = struct.Struct("<I")
_REQUEST = struct.Struct("<dd")  # CPU and wall seconds; the name of the task follows
_END = struct.Struct("<id")  # exit status and CPU seconds
_CONNECT = b"connect"

# A task gets its order, and a function that takes the pieces of its answer.
Task = Callable[[bytes, Callable[[bytes], None]], None]
Ended = Literal["", "time", "memory", "crash"]


class ChildAnswer(msgspec.Struct, frozen=True):
    """What a child answered, as far as it came; why it ended too early, or ""; and what CPU time it took."""

    answer: bytes
    ended: Ended
    cpu_seconds: float


class Nursery:
    """A connection to a nursery. Threads may use it, one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.cpu_seconds = 0.0

    def fileno(self) -> int:
        """The descriptor, which can be read once the nursery is gone."""
        return self._connection.fileno()

    def connect(self) -> socket.socket:
        """Return a further connection, for another process."""
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            socket.send_fds(self._connection, [_CONNECT], [theirs.fileno()])
        return ours

    def run(self, task: str, order: bytes, cpu_seconds: float, most: int) -> ChildAnswer:
        """Have a child do a task, within so much CPU time; of its answer, `most` bytes are taken."""
        wall = _WALL_SECONDS + _MAX_STARVED * cpu_seconds
        answer = b""
        with self._lock:
            try:
                # Nothing may be raised in the midst of the exchange, whose rest the next one would take for its own.
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPROF,))
                self._connection.send(_REQUEST.pack(cpu_seconds, wall) + task.encode())
                _, descriptors, _, _ = socket.recv_fds(self._connection, 1, 1)
                for descriptor in descriptors:
                    # With all three given, nothing is asked of the kernel, where a sealed process may not.
                    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor) as child:
                        answer = _exchange(child, order, most)
                status, spent = _END.unpack(self._connection.recv(_END.size))
            except (OSError, struct.error):
                return ChildAnswer(answer, "crash", 0.0)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF,))
            if os.waitstatus_to_exitcode(status) == -signal.SIGPROF:
                # The timer counts whole ticks, and is up to one of them early or late.
                spent = max(spent, cpu_seconds)
            self.cpu_seconds += spent
        return ChildAnswer(answer, _name_end(status), spent)


def _exchange(child: socket.socket, order: bytes, most: int) -> bytes:
    """Send an order and return the answer; a child that is ended meanwhile has answered what it has."""
    answer = bytearray()
    with suppress(OSError):
        child.sendall(_LENGTH.pack(len(order)))
        child.sendall(order)
    with suppress(OSError):
        while len(answer) < most and (piece := child.recv(min(1 << 20, most - len(answer)))):
            answer += piece
    return bytes(answer)


def _name_end(status: int) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGPROF, -signal.SIGALRM):
        return "time"
    return "memory" if code == _OUT_OF_MEMORY else "crash" if code else ""


_started: list[subprocess.Popen[bytes]] = []
_own: list[Nursery] = []  # at most one


def open_nursery() -> Nursery:
    """Return the nursery of this process, which is started where there is none."""
    if not _own:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", "-m", PROCESS]
            null = subprocess.DEVNULL
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=null, stderr=null, env=bare_environment(), process_group=0
            )
        _started.append(process)
        _own.append(Nursery(ours))
    return _own[0]


def adopt_nursery(descriptor: int) -> None:
    """Use this connection from now on: that of the process from which this one was forked is not its own."""
    _own[:] = [Nursery(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor))]


def run_in_child(task: str, order: bytes, cpu_seconds: float, most: int) -> ChildAnswer:
    """Have a child of this process's nursery do a task."""
    return open_nursery().run(task, order, cpu_seconds, most)


def count_cpu_seconds() -> float:
    """Return the CPU time of all children that worked for this process."""
    return _own[0].cpu_seconds if _own else 0.0


def find_leaks_of_child() -> tuple[str, ...]:
    """Return what a child could do that it should not (`sandbox.find_leaks`)."""
    found = run_in_child(LEAKS, b"", 1.0, 4096)
    return ("start no child",) if found.ended else tuple(msgspec.msgpack.decode(found.answer, type=list[str]))


class _Server:
    """The loop of a nursery: it forks on request, and says of every child how it ended."""

    def __init__(self, tasks: dict[str, Task], code: bytes | None) -> None:
        self._tasks = tasks
        self._filter = code
        self._connections: dict[int, socket.socket] = {}
        self._children: dict[int, tuple[int, int]] = {}
        self._poll = select.poll()
        self._connect(SOCKET)

    def serve(self) -> None:
        """Serve until whoever started the nursery is gone."""
        while SOCKET in self._connections:
            for descriptor, _event in self._poll.poll():
                if descriptor in self._children:
                    self._report(descriptor)
                elif descriptor in self._connections:
                    self._take_request(descriptor)

    def _connect(self, descriptor: int) -> None:
        self._connections[descriptor] = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor)
        self._poll.register(descriptor, select.POLLIN)

    def _take_request(self, descriptor: int) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._connections[descriptor], 256, 1)
        except OSError:
            data, descriptors = b"", []
        for each in descriptors:
            self._connect(each)
        if data == _CONNECT:
            return
        task = data[_REQUEST.size :].decode("utf-8", "replace")
        if task not in self._tasks or any(descriptor == each for _, each in self._children.values()):
            # It was closed, or is in the hands of somebody who would like more than one child.
            self._poll.unregister(descriptor)
            self._connections.pop(descriptor).close()
            return
        cpu, wall = _REQUEST.unpack_from(data)
        # A timer of no time at all would never end.
        self._fork(descriptor, task, min(max(cpu, _LEAST_SECONDS), MAX_SECONDS), min(wall, MAX_WALL_SECONDS))

    def _fork(self, descriptor: int, task: str, cpu: float, wall: float) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._work(task, theirs, cpu, wall)
        pidfd = os.pidfd_open(pid)
        with suppress(OSError), ours, theirs:
            socket.send_fds(self._connections[descriptor], [b"\0"], [ours.fileno()])
        self._children[pidfd] = pid, descriptor
        self._poll.register(pidfd, select.POLLIN)

    def _report(self, pidfd: int) -> None:
        pid, descriptor = self._children.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if descriptor in self._connections:
            with suppress(OSError):
                self._connections[descriptor].send(_END.pack(status, used.ru_utime + used.ru_stime))

    def _work(self, task: str, guest: socket.socket, cpu: float, wall: float) -> None:
        """Be the child: set the timers, take on the filter, and only then read the order."""
        code = 1
        try:
            signal.setitimer(signal.ITIMER_PROF, cpu)
            signal.setitimer(signal.ITIMER_REAL, wall)
            for descriptor in (*self._connections, *self._children):
                os.close(descriptor)
            if self._filter is not None:
                install_filter(self._filter)
            (length,) = _LENGTH.unpack(guest.recv(_LENGTH.size, socket.MSG_WAITALL))
            order = guest.recv(length, socket.MSG_WAITALL) if 0 < length <= MAX_ORDER else b""
            self._tasks[task](order, guest.sendall)
            code = 0
        except MemoryError:
            code = _OUT_OF_MEMORY
        finally:
            os._exit(code)


def _tell_leaks(_order: bytes, answer: Callable[[bytes], None]) -> None:
    answer(msgspec.msgpack.encode(find_leaks()))


def main() -> None:
    """`python -m gatepost.process.children`, with a connection as its standard input."""
    ignore_signals()
    tasks: dict[str, Task] = {task: importlib.import_module(name).load() for task, name in TASKS.items()}
    tasks[LEAKS] = _tell_leaks
    code: bytes | None = None
    with suppress(OSError):
        code = build_filter(this_machine(), "child")
    gc.collect()
    gc.freeze()
    gc.disable()
    layers = seal(MEMORY, room=_MAX_CONNECTIONS, can_fork=True).layers
    _Server(tasks, code if "seccomp" in layers else None).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
