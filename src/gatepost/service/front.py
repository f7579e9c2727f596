"""What the children of a node do: a front serves connections, the writer writes a SQLite file for all of them."""

import asyncio
import os
import signal
import socket
from functools import partial
from pathlib import Path

import msgspec

from gatepost.service.data_folder import StartError
from gatepost.service.generation import Generation, Generations
from gatepost.service.http_servers import run
from gatepost.service.node import NodeCells, NodeProcess
from gatepost.service.node_reload import (
    DROP,
    OUTCOME,
    PREPARE,
    PREPARED,
    RELOAD,
    RESTART,
    TAKE_OVER,
    UNPREPARED,
    receive_settings,
)
from gatepost.service.plan import Bound, Plan
from gatepost.service.reloading import ReloadOutcome
from gatepost.service.running import Started, run_plan
from gatepost.settings.faults import ConfigError
from gatepost.store.errors import StorageError
from gatepost.store.store import Store
from gatepost.store.writer_process import WriterServer

READY = b"ready"
MAX_WORDS = 4096
MAX_REASON = 4000


def run_front(
    plan: Plan, bound: Bound, cells: NodeCells, number: int, control: socket.socket, started: Started
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


def _share_workers(plan: Plan, number: int, fronts: int) -> Plan:
    """Return the plan of one front: it has its part of the analysis processes."""
    if plan.guard is None:
        return plan
    few, more = divmod(plan.guard.worker_processes, fronts)
    own = plan.guard.model_copy(update={"worker_processes": max(1, few + (number < more))})
    return msgspec.structs.replace(plan, guard=own)


async def _serve(
    plan: Plan, bound: Bound, node: NodeProcess, control: socket.socket, started: Started, stop: asyncio.Event
) -> None:
    control.setblocking(False)
    parent = FrontControl(plan, node, control, stop)
    asyncio.get_running_loop().add_reader(control.fileno(), parent.listen)
    greeting: list[asyncio.Task[None]] = []

    async def say_ready(port: int, store: Store) -> None:
        control.send(READY)
        if node.is_first:
            greeting.append(asyncio.create_task(_greet(parent.all_ready, started, port, store)))

    own = _share_workers(plan, node.number, node.members)
    await run_plan(own, stop, say_ready, bound, node, parent)


async def _greet(all_ready: asyncio.Event, started: Started, port: int, store: Store) -> None:
    """Tell the operator once all processes serve; the parent says so only at the start of the node."""
    await all_ready.wait()
    await started(port, store)


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
            plan = receive_settings(descriptors, self._plan)
            self._building = asyncio.create_task(self._prepare(plan))
        elif words == TAKE_OVER:
            self._take_over()
        elif words == DROP:
            self._building = asyncio.create_task(self._drop(self._building))
        elif words == RESTART:
            self._stop.set()
        elif words.startswith(OUTCOME):
            if self._outcome and not self._outcome.done():
                self._outcome.set_result(msgspec.json.decode(words.removeprefix(OUTCOME), type=ReloadOutcome))
        else:
            self.all_ready.set()

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
            own = _share_workers(plan, self._node.number, self._node.members)
            self._built = await self._generations.build(own)
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
