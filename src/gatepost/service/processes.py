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

For a reload the parent reads the files once and sends the settings to every front. Each front builds what they need
beside what it serves with, and says that it is prepared or why it cannot be. Only when all are prepared does the parent
have them take over; otherwise all drop what they built, and the settings before stay in force in every process.

SIGTERM and SIGINT let requests in flight finish: fronts first, then the writer. A second signal ends all at once.
"""

import asyncio
import contextlib
import gc
import os
import pickle
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import msgspec

from gatepost.names import preload_suffixes
from gatepost.process.logs import Logger
from gatepost.process.sandbox import give_back_memory
from gatepost.service import systemd
from gatepost.service.certificates import load_certificates
from gatepost.service.data_folder import StartError
from gatepost.service.generation import Generation, Generations
from gatepost.service.node import NodeCells, NodeProcess
from gatepost.service.plan import Bound, Plan, release_ports
from gatepost.service.reloading import ReadFiles, ReloadOutcome, read_again, report_outcome
from gatepost.service.running import OnStart, run, run_plan
from gatepost.service.watchdogs import LOOK_SECONDS, FrontWatchdog
from gatepost.settings.faults import ConfigError
from gatepost.store import sqlite_file_of
from gatepost.store.errors import StorageError
from gatepost.store.store import Store
from gatepost.store.writer_process import WriterServer, WriterSocket

# What a child says on its control socket: that it serves, or why it ends.
READY, FAILED = b"ready", b"failed "
# What a front says besides: it asks for a reload or a restart of the node, and answers `PREPARE`.
RELOAD, RESTART, PREPARED, UNPREPARED = b"reload ", b"restart", b"prepared", b"unprepared "
# What the parent says to a front: all fronts serve; steps of a reload; what came of one that this front asked for. With
# `RESTART` it has a front end, which is then replaced.
ALL_READY, PREPARE, TAKE_OVER, DROP, OUTCOME = b"all ready", b"prepare", b"take over", b"drop", b"outcome "
MAX_WORDS = 4096
MAX_REASON = 4000

# What building everything may take on a machine that is busy.
PREPARE_SECONDS = 120.0
# How long the parent waits before it replaces a child that has ended: the first time, and at most.
PAUSE_SECONDS = (0.05, 5.0)
# A child that has lived so long failed for a reason of its own, and is replaced at once.
SETTLED_SECONDS = 10.0
MAX_ADDRESSES = 1 << 16
# The number of the writer among the children; fronts count from 0.
WRITER = -1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

log = Logger("gatepost")


def run_front(
    plan: Plan, bound: Bound, cells: NodeCells, number: int, control: socket.socket, started: OnStart
) -> None:
    """Serve as one of the fronts until asked to stop, or until the parent has gone."""
    try:
        run(partial(_serve, plan, bound, NodeProcess(cells, number), control, started), is_child=True)
    except StorageError as fault:
        raise StartError(str(fault)) from None


def run_writer(file: Path, listening: socket.socket, control: socket.socket) -> None:
    """Write for all fronts until the parent has closed the control socket and the last front has left."""
    # Fronts that finish their requests need it: a signal to all processes of a service must not end it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        server = WriterServer(file, listening, control)
    except StorageError as fault:
        raise StartError(str(fault)) from None
    control.send(READY)
    server.run()


def _share_workers(plan: Plan, front: NodeProcess) -> Plan:
    """Return the plan of one front: it has its part of the analysis processes."""
    if plan.guard is None:
        return plan
    few, more = divmod(plan.guard.worker_processes, front.members)
    own = plan.guard.model_copy(update={"worker_processes": max(1, few + (front.number < more))})
    return msgspec.structs.replace(plan, guard=own)


async def _serve(
    plan: Plan, bound: Bound, node: NodeProcess, control: socket.socket, started: OnStart, stop: asyncio.Event
) -> None:
    control.setblocking(False)
    parent = FrontControl(plan, node, control, stop)
    asyncio.get_running_loop().add_reader(control.fileno(), parent.listen)
    greeting: list[asyncio.Task[None]] = []

    async def greet(port: int, store: Store) -> None:
        """Tell the operator once all processes serve; the parent says so only at the start of the node."""
        await parent.all_ready.wait()
        await started(port, store)

    async def say_ready(port: int, store: Store) -> None:
        control.send(READY)
        if node.is_first:
            greeting.append(asyncio.create_task(greet(port, store)))

    await run_plan(_share_workers(plan, node), stop, say_ready, bound, node, parent)


class FrontControl:
    """What a front and its parent tell each other. `plan` is that of the whole node."""

    def __init__(self, plan: Plan, node: NodeProcess, control: socket.socket, stop: asyncio.Event) -> None:
        self.all_ready = asyncio.Event()
        self._plan, self._node, self._control, self._stop = plan, node, control, stop
        self._generations: Generations | None = None
        self._building: asyncio.Task[None] | None = None
        self._built: Generation | None = None
        self._plan_built = plan
        self._outcome: asyncio.Future[ReloadOutcome] | None = None

    def attach(self, generations: Generations) -> None:
        """Set what reloads."""
        self._generations = generations

    def listen(self) -> None:
        """Take the next words of the parent; its end is the end of this process."""
        try:
            words, descriptors, _, _ = socket.recv_fds(self._control, MAX_WORDS, 1)
        except BlockingIOError:
            return
        except OSError:
            words, descriptors = b"", []
        if not words:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._stop.set()
        elif words == PREPARE:
            self._building = asyncio.create_task(self._prepare(_receive_settings(descriptors, self._plan)))
        elif words == TAKE_OVER:
            self._take_over()
        elif words == DROP:
            self._building = asyncio.create_task(self._drop(self._building))
        elif words == RESTART:
            self._stop.set()
        elif words == ALL_READY:
            self.all_ready.set()
        elif words.startswith(OUTCOME) and self._outcome and not self._outcome.done():
            self._outcome.set_result(msgspec.json.decode(words.removeprefix(OUTCOME), type=ReloadOutcome))

    async def reload(self, folder: Path) -> ReloadOutcome:
        """Have all processes of the node read the files of a folder; returns when they have, or have not."""
        self._outcome = asyncio.get_running_loop().create_future()
        self._control.send(RELOAD + os.fsencode(folder))
        return await self._outcome

    def restart(self) -> None:
        """Have the whole node restart."""
        self._control.send(RESTART)

    async def _prepare(self, plan: Plan) -> None:
        assert self._generations is not None
        await self._drop(None)
        try:
            self._built = await self._generations.build(_share_workers(plan, self._node))
        except (ConfigError, StartError, StorageError) as fault:
            self._control.send(UNPREPARED + str(fault).encode()[:MAX_REASON])
            return
        self._plan_built = plan
        self._control.send(PREPARED)

    def _take_over(self) -> None:
        if self._built and self._generations:
            self._generations.take_over(self._built)
            self._plan, self._built = self._plan_built, None

    async def _drop(self, building: asyncio.Task[None] | None) -> None:
        """End what was built and is not wanted."""
        if building:
            building.cancel()
            await asyncio.gather(building, return_exceptions=True)
        if self._built:
            built, self._built = self._built, None
            await built.end()


class NodeReload:
    """At most one reload at a time; one that is asked for meanwhile follows. `fronts` returns the control sockets of
    the processes that serve."""

    def __init__(self, plan: Plan, fronts: Callable[[], dict[int, socket.socket]]) -> None:
        self.plan = plan
        self._fronts = fronts
        self._read: ReadFiles | None = None
        self._waiting: set[int] = set()
        self._prepared: set[int] = set()
        self._asker: int | None = None
        self._next: tuple[Path | None, int | None] | None = None
        self.deadline: float | None = None

    def begin(self, folder: Path | None = None, asker: int | None = None) -> None:
        """Read the files and have every front prepare; `asker` is the front that gets the outcome."""
        if self._read:
            self._next = (folder, asker)
            return
        systemd.notify_reloading()
        self._asker = asker
        try:
            self._read = read = read_again(self.plan, folder)
        except (ConfigError, StartError) as fault:
            self._end(ReloadOutcome(False, str(fault)))
            return
        fronts = self._fronts()
        self._waiting, self._prepared = set(fronts), set()
        self.deadline = time.monotonic() + PREPARE_SECONDS
        for number, control in fronts.items():
            if not _send_settings(control, read.plan):
                self.handle(number, UNPREPARED + b"it has ended")
                return

    def handle(self, number: int, words: bytes) -> bool:
        """Take what a front says; returns whether it was about a reload."""
        if words.startswith(RELOAD):
            self.begin(Path(os.fsdecode(words.removeprefix(RELOAD))), number)
        elif words == PREPARED:
            if number in self._waiting:
                self._waiting.discard(number)
                self._prepared.add(number)
                if not self._waiting:
                    self._take_over()
        elif words.startswith(UNPREPARED):
            if self._read:
                self._give_up(words.removeprefix(UNPREPARED).decode("utf-8", "replace"))
        else:
            return False
        return True

    def note_end(self, number: int) -> None:
        """A front has ended: without it there is nothing to take over."""
        if self._read and number in self._waiting | self._prepared:
            self._give_up("a process of the node ended")

    def check_deadline(self) -> None:
        """Give up on fronts that do not get prepared."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self._give_up("a process of the node did not get ready in time")

    def _take_over(self) -> None:
        assert self._read is not None
        self.plan = self._read.plan
        for number, control in self._fronts().items():
            # One that was started meanwhile has the settings before: it is started again.
            _send(control, TAKE_OVER if number in self._prepared else RESTART)
        self._end(self._read.outcome)

    def _give_up(self, reason: str) -> None:
        for control in self._fronts().values():
            _send(control, DROP)
        self._end(ReloadOutcome(False, reason))

    def _end(self, outcome: ReloadOutcome) -> None:
        read, self._read, self.deadline = self._read, None, None
        self._waiting, self._prepared = set(), set()
        report_outcome(self.plan, read, outcome)
        if self._asker is not None and (control := self._fronts().get(self._asker)):
            _send(control, OUTCOME + _encode(outcome))
        if self._next:
            (folder, asker), self._next = self._next, None
            self.begin(folder, asker)


def _encode(outcome: ReloadOutcome) -> bytes:
    """Return an outcome that fits into a packet; what is left out stands in the log."""
    short = (outcome.reason[:2_000], outcome.changed[:10], outcome.restart[:10])
    return msgspec.json.encode(ReloadOutcome(outcome.taken, *short))


def _send(control: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):
        control.send(words)


def _send_settings(control: socket.socket, plan: Plan) -> bool:
    """Send settings as a file in memory: they may be larger than a packet."""
    descriptor = os.memfd_create("gatepost-settings", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            pickle.dump((plan.guard, plan.abby, plan.config), stream)
        socket.send_fds(control, [PREPARE], [descriptor])
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _receive_settings(descriptors: Iterable[int], plan: Plan) -> Plan:
    """Return the plan that the parent has sent, in a front with this plan."""
    for descriptor in descriptors:
        with os.fdopen(descriptor, "rb") as stream:
            stream.seek(0)
            guard, abby, config = pickle.load(stream)  # noqa: S301  from the parent, through a descriptor of its own
            return msgspec.structs.replace(plan, guard=guard, abby=abby, config=config)
    return plan


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


def run_node(plan: Plan, bound: Bound, fronts: int, started: OnStart) -> bool:
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
    """Load what the children need, so that they share its memory and start quickly, and TLS sessions. Raises
    `StartError` if a certificate cannot be used."""
    load_certificates(plan)
    if plan.guard:
        import_module("gatepost.service.core")
    if plan.abby:
        import_module("gatepost.service.api_service")
        import_module("gatepost.web.registry").prepare_pages()
    # Each front would load these as soon as it serves.
    import_module("anyio._backends._asyncio")
    import_module("uvicorn.lifespan.on")
    preload_suffixes()
    gc.collect()
    gc.freeze()
    give_back_memory()


def _max_connections(plan: Plan) -> int:
    """Return for how many addresses at once the tables of connections have room."""
    most = 64
    if plan.abby:
        most = max(most, plan.abby.connections.maximum)
    if plan.guard and (rest := plan.guard.scan_sources.rest_api):
        most = max(most, rest.connections.maximum)
    if plan.guard and (smtp := plan.guard.scan_sources.smtp):
        most = max(most, smtp.max_connections)
    for asker in plan.guard.scan_sources.askers.values() if plan.guard else ():
        most = max(most, asker.max_connections)
    return min(most, MAX_ADDRESSES)


class _Node:
    """The children of this process, from their start to their end."""

    def __init__(self, plan: Plan, runs: "Runs", cells: NodeCells, release: Callable[[], None]) -> None:
        self._reload = NodeReload(plan, self._list_fronts)
        self._watchdog_pause = systemd.read_watchdog_seconds()
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
            log.warning("service stopped at once", signal=name)
            for child in self._children.values():
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            os._exit(128 + number)
        log.info("service stopping", signal=name)
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
            log.info("service restarting")
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
