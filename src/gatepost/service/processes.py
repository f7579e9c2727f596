"""A node of several processes: the parent, and the children that it starts, watches and replaces.

    parent                 holds the listening sockets and the locks of the data folder; serves nothing itself
      ├ gatepost-writer    where storage is SQLite: writes for all (see `store.writer_process`)
      ├ gatepost-front 0   accepts connections, with workers of its own; keeps house for the node
      └ gatepost-front …

The parent forks its children before any of them has an event loop or a thread, and replaces one that ends the same way.
It holds the sockets open, so no connection is refused or lost while a front is replaced: those that nobody has accepted
yet wait for the next. What an ended front held in the memory of the node is given back by the parent.

A control socket leads to each child. A child says on it that it serves, or why it cannot. Its end tells a child that
the parent has gone; then the child stops as if it had been asked to.

SIGTERM and SIGINT let requests in flight finish: fronts first, then the writer. A second signal ends all at once.
"""

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import msgspec
import structlog

from gatepost.service import systemd
from gatepost.service.data_folder import StartError
from gatepost.service.front import run_front, run_writer
from gatepost.service.front_watchdog import LOOK_SECONDS, FrontWatchdog
from gatepost.service.node import NodeCells
from gatepost.service.node_reload import RESTART, NodeReload
from gatepost.service.plan import Bound, Plan, release_ports
from gatepost.service.running import Started
from gatepost.store import sqlite_file_of
from gatepost.store.writer_process import WriterSocket

PAUSE_SECONDS = (0.05, 5.0)
# A child that has lived so long failed for a reason of its own, and is replaced at once.
SETTLED_SECONDS = 10.0
READY, FAILED, ALL_READY = b"ready", b"failed ", b"all ready"
MAX_WORDS = 4096
MAX_ADDRESSES = 1 << 16
WRITER = -1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

log = structlog.get_logger("gatepost")


# What each process does, by its number: it gets the plan in force and its control socket.
Runs: TypeAlias = dict[int, Callable[[Plan, socket.socket], None]]


class _Child(msgspec.Struct):
    """A process that the parent has started; `number` is its place, `WRITER` or that of a front."""

    number: int
    pid: int
    pidfd: int
    control: socket.socket
    started: float
    is_ready: bool = False
    reason: str = ""


def run_node(plan: Plan, bound: Bound, fronts: int, started: Started) -> bool:
    """Run as many front processes until asked to stop; `started` is called in the first of them once all serve.
    Returns whether the node is to be started again. Raises `StartError` if it cannot start.
    """
    _load_services(plan)
    with contextlib.ExitStack() as stack:
        stack.callback(release_ports, bound)
        file = sqlite_file_of(plan.settings.storage.url, plan.data.path)
        place = WriterSocket(plan.data.path, f"{'guard' if plan.guard else 'abby'}-writer.sock")
        writing = None
        if file:
            writing = place.listen()
            stack.callback(place.remove)
            stack.callback(writing.close)
            plan = msgspec.structs.replace(plan, writer=place.address)
        cells = NodeCells(fronts, list(bound), _max_connections(plan))
        runs: Runs = {
            number: lambda plan, control, number=number: run_front(plan, bound, cells, number, control, started)  # type: ignore[misc]
            for number in range(fronts)
        }
        if file and writing:
            runs[WRITER] = lambda _plan, control: run_writer(file, writing, control)
        node = _Node(plan, runs, cells, lambda: release_ports(bound))
        stack.callback(node.close)
        node.run()
        return node.restarts


def _load_services(plan: Plan) -> None:
    """Load what the children need, so that they share its memory and start quickly."""
    if plan.guard:
        import_module("gatepost.service.core")
    if plan.abby:
        import_module("gatepost.service.api_service")
    gc.collect()
    gc.freeze()


def _max_connections(plan: Plan) -> int:
    """Return for how many addresses at once the tables of connections have room."""
    most = 64
    if plan.abby:
        most = max(most, plan.abby.connections.maximum)
    if plan.guard and (rest := plan.guard.scan_sources.rest_api):
        most = max(most, rest.connections.maximum)
    if plan.guard and (smtp := plan.guard.scan_sources.smtp):
        most = max(most, smtp.max_connections)
    if plan.guard and (milter := plan.guard.scan_sources.milter):
        most = max(most, milter.max_connections)
    return min(most, MAX_ADDRESSES)


class _Node:
    """The children of this process, from their start to their end."""

    def __init__(self, plan: Plan, runs: "Runs", cells: NodeCells, release: Callable[[], None]) -> None:
        self._reload = NodeReload(plan, self._list_fronts)
        self._watchdog_pause = systemd.watchdog_seconds()
        self.restarts = False
        self._runs, self._cells, self._release = runs, cells, release
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._due: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._all_ready = False
        self._stopping = 0
        self._front_watchdog, self._next_look = FrontWatchdog(cells.heartbeats), 0.0
        # Fronts that have ended, and whose cells are still to be set to zero.
        self._unforgotten: set[int] = set()
        ours, self._signalled = socket.socketpair()
        for end in (ours, self._signalled):
            end.setblocking(False)
        self._wake_up = ours
        self._selector.register(self._signalled, selectors.EVENT_READ)

    @property
    def plan(self) -> Plan:
        """What the fronts run; those that are started from now on, too."""
        return self._reload.plan

    def _list_fronts(self) -> dict[int, socket.socket]:
        found = self._children.values()
        return {child.number: child.control for child in found if child.number != WRITER and child.is_ready}

    def run(self) -> None:
        """Start all children and replace those that end, until a signal asks to stop and all have ended."""
        before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        signal.set_wakeup_fd(self._wake_up.fileno(), warn_on_full_buffer=False)
        try:
            if WRITER in self._runs:
                self._spawn(WRITER)
                self._wait_until_ready([WRITER])
            fronts = [number for number in self._runs if number != WRITER]
            for number in fronts:
                self._spawn(number)
            self._wait_until_ready(fronts)
            if not self._stopping:
                self._all_ready = True
                self._tell(0, ALL_READY)
                systemd.notify_ready()
            while self._children or (self._due and not self._stopping):
                self._step()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """End what is left, at once: the node could not start."""
        for child in self._children.values():
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            self._close_child(child)
        self._children.clear()
        self._selector.close()

    def _wait_until_ready(self, numbers: list[int]) -> None:
        while not self._stopping and not all(self._is_ready(number) for number in numbers):
            self._step()

    def _is_ready(self, number: int) -> bool:
        return number in self._children and self._children[number].is_ready

    def _step(self) -> None:
        """Wait for the next event and handle it."""
        moments = [self._next_look, *self._due.values(), *([self._reload.deadline] if self._reload.deadline else [])]
        pauses = [max(0.0, moment - time.monotonic()) for moment in moments]
        if self._unforgotten:
            pauses.append(PAUSE_SECONDS[0])
        if self._watchdog_pause and self._all_ready:
            systemd.feed_watchdog()
            pauses.append(self._watchdog_pause)
        for key, _ in self._selector.select(min(pauses)):
            if key.fileobj is self._signalled:
                for number in self._signalled.recv(64):
                    self._handle_signal(number)
            elif key.data in self._children.values():
                self._handle_child(key.data, key.fileobj)
        self._reload.check_deadline()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._end_hung_fronts()
        self._forget_ended()
        for number, moment in list(self._due.items()):
            if moment <= now and number not in self._unforgotten and not self._stopping:
                del self._due[number]
                self._spawn(number)

    def _end_hung_fronts(self) -> None:
        """Kill fronts that stand still; they are replaced like others that end."""
        fronts = {number: child.pid for number, child in self._children.items() if number != WRITER and child.is_ready}
        for number, reason in self._front_watchdog.find_hung(fronts).items():
            child = self._children[number]
            log.error("process hangs", process=_name(number), pid=child.pid, reason=reason)
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)

    def _forget_ended(self) -> None:
        """Give back what ended fronts held, unless one that hangs has the lock: this process must not wait for it."""
        self._unforgotten = {number for number in self._unforgotten if not self._cells.forget(number)}

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            if self._all_ready and not self._stopping:
                self._reload.begin()
            return
        if number not in _SIGNALS:
            return
        self._stopping += 1
        name = signal.Signals(number).name
        if self._stopping > 1:
            log.warning("stopped at once", signal=name)
            for child in self._children.values():
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            os._exit(128 + number)
        log.info("stopping", signal=name)
        systemd.notify_stopping()
        self._stop_fronts()

    def _stop_fronts(self) -> None:
        # Nothing new is queued from here on: who connects now is refused, and comes again.
        self._release()
        self._due.clear()
        for child in self._children.values():
            if child.number != WRITER:
                signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
        self._end_writer_if_last()

    def _handle_child(self, child: _Child, source: object) -> None:
        if source is not child.control:
            self._handle_end(child)
            return
        words = _receive(child.control)
        if words == READY:
            child.is_ready = True
        elif words == RESTART and not self._stopping:
            log.info("restarting")
            self.restarts, self._stopping = True, 1
            self._stop_fronts()
        elif self._reload.handle(child.number, words):
            pass
        elif words.startswith(FAILED):
            child.reason = words.removeprefix(FAILED).decode("utf-8", "replace")
        else:
            self._selector.unregister(child.control)  # it has ended, or is about to

    def _handle_end(self, child: _Child) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        # What it said last may not have been read yet.
        if not child.reason and not child.is_ready:
            child.reason = _receive(child.control).removeprefix(FAILED).decode("utf-8", "replace")
        self._close_child(child)
        del self._children[child.number]
        if child.number != WRITER:
            self._unforgotten.add(child.number)
            self._forget_ended()
            self._reload.note_end(child.number)
        if self._stopping:
            self._end_writer_if_last()
            return
        if not self._all_ready:
            raise StartError(child.reason or "A process of the service could not start; the log says why.")
        lived = time.monotonic() - child.started
        pause = 0.0 if lived > SETTLED_SECONDS else self._pauses.get(child.number, PAUSE_SECONDS[0])
        self._pauses[child.number] = min(max(pause, PAUSE_SECONDS[0]) * 2, PAUSE_SECONDS[1])
        self._due[child.number] = time.monotonic() + pause
        log.error("process ended", process=_name(child.number), pid=child.pid, status=status, reason=child.reason)

    def _end_writer_if_last(self) -> None:
        """The writer ends when its control socket does and the last front has left it."""
        if list(self._children) == [WRITER]:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._children[WRITER].control)
            self._children[WRITER].control.close()

    def _tell(self, number: int, words: bytes) -> None:
        with contextlib.suppress(OSError, KeyError):
            self._children[number].control.send(words)

    def _spawn(self, number: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._become_child(number, theirs)
        theirs.close()
        child = _Child(number, pid, os.pidfd_open(pid), ours, time.monotonic())
        self._children[number] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        self._selector.register(child.control, selectors.EVENT_READ, child)
        if self._all_ready:
            log.info("process started", process=_name(number), pid=pid)

    def _become_child(self, number: int, control: socket.socket) -> None:
        """What a new process does instead of the parent's work; it never returns."""
        code = 1
        try:
            # A terminal's Ctrl-C is for the parent alone.
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            self._selector.close()
            for child in self._children.values():
                self._close_child(child, is_registered=False)
            self._wake_up.close()
            self._signalled.close()
            Path("/proc/self/comm").write_text(_name(number))
            self._runs[number](self.plan, control)
            code = 0
        except StartError as fault:
            control.send(FAILED + str(fault).encode()[: MAX_WORDS - len(FAILED)])
        except BaseException:  # noqa: BLE001  nothing may return into the parent's code
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _close_child(self, child: _Child, *, is_registered: bool = True) -> None:
        if is_registered:
            for source in (child.control, child.pidfd):
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(source)
        child.control.close()
        os.close(child.pidfd)


def _receive(control: socket.socket) -> bytes:
    try:
        return control.recv(MAX_WORDS, socket.MSG_DONTWAIT)
    except OSError:
        return b""


def _name(number: int) -> str:
    """Return what `ps` shows; the kernel keeps 15 characters."""
    return "gatepost-writer" if number == WRITER else f"gatepost-front{number}"[:15]
