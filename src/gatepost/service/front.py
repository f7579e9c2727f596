"""What the children of a node do: a front serves connections, the writer writes a SQLite file for all of them."""

import asyncio
import signal
import socket
from functools import partial
from pathlib import Path

import msgspec

from gatepost.service.data_folder import StartError
from gatepost.service.http_servers import run
from gatepost.service.node import NodeCells, NodeProcess
from gatepost.service.plan import Bound, Plan
from gatepost.service.running import Started, run_plan
from gatepost.store.errors import StorageError
from gatepost.store.store import Store
from gatepost.store.writer_process import WriterServer

READY = b"ready"
MAX_WORDS = 64


def run_front(
    plan: Plan, bound: Bound, cells: NodeCells, number: int, control: socket.socket, started: Started
) -> None:
    """Serve as one of the fronts until asked to stop, or until the parent has gone."""
    own = _share_workers(plan, number, cells.memory.members)
    try:
        run(partial(_serve, own, bound, NodeProcess(cells, number), control, started), is_child=True)
    except StorageError as fault:
        raise StartError(str(fault)) from None


def run_writer(file: Path, data_folder: Path, listening: socket.socket, control: socket.socket) -> None:
    """Write for all fronts until the parent has closed the control socket and the last front has left."""
    # Fronts that finish their requests need it: a signal to all processes of a service must not end it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        server = WriterServer(file, data_folder, listening, control)
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
    all_ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(control.fileno(), _listen_to_parent, control, all_ready, stop)
    greeting: list[asyncio.Task[None]] = []

    async def say_ready(port: int, store: Store) -> None:
        control.send(READY)
        if node.is_first:
            greeting.append(asyncio.create_task(_greet(all_ready, started, port, store)))

    await run_plan(plan, stop, say_ready, bound, node)


async def _greet(all_ready: asyncio.Event, started: Started, port: int, store: Store) -> None:
    """Tell the operator once all processes serve; the parent says so only at the start of the node."""
    await all_ready.wait()
    await started(port, store)


def _listen_to_parent(control: socket.socket, all_ready: asyncio.Event, stop: asyncio.Event) -> None:
    try:
        words = control.recv(MAX_WORDS)
    except BlockingIOError:
        return
    except OSError:
        words = b""
    if words:
        all_ready.set()
    else:
        asyncio.get_running_loop().remove_reader(control.fileno())
        stop.set()
