"""The process that workers are forked from: fresh, single-threaded, with everything imported and nothing secret.

guard itself holds keys, sockets and the database; a child of its own would inherit all of that. So guard starts this
program, which imports the analysis, runs it once on a specimen of everything and then forks a worker on request:
9 ms instead of half a second. The loader reaps workers that die. Loader and workers end with guard, however it ends.
Each worker gets a connection to the nursery of the loader (`gatepost.process.children`), without which it ends, too.

The analysis is imported inside functions, after the garbage collector was switched off: nothing of it is ever freed,
so that to look through it again and again while it grows would be wasted CPU.
"""

import gc
import importlib.util
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatepost.process.children import open_nursery
from gatepost.process.kept_results import keep_expressions
from gatepost.process.sandbox import FAULT_INJECTION, die_with_parent, give_back_memory, ignore_signals
from gatepost.workers.protocol import MAX_REASON, Loaded, NotLoaded, Spawn, StageNames, StatusPage, WorkerStarted

if TYPE_CHECKING:
    from gatepost.checks.reading import Check
    from gatepost.files.yara import YaraRules
    from gatepost.textmodel.model import DeployedModels
    from gatepost.workers.worker import WorkerData


class Loader:
    """Forks workers and reaps them, until guard closes the control socket."""

    def __init__(self, control: socket.socket, data: "WorkerData", stages: StageNames) -> None:
        self._control = control
        self._data = data
        self._stages = stages
        self._children: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._nursery = open_nursery()
        self._poll.register(self._nursery, select.POLLIN)

    def serve(self) -> None:
        """Take orders until guard is gone, then end every worker."""
        self._control.send(msgspec.msgpack.encode(Loaded(self._stages)))
        while self._serve_ready():
            pass
        for pidfd in list(self._children):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._reap(pidfd)

    def _serve_ready(self) -> bool:
        """Wait until a worker has ended or guard has an order; False once guard has closed the socket, or there is no
        nursery any more."""
        for descriptor, _event in self._poll.poll():
            if descriptor in self._children:
                self._reap(descriptor)
            elif descriptor == self._nursery.fileno() or not self._take_order():
                return False
        return True

    def _reap(self, pidfd: int) -> None:
        os.waitpid(self._children.pop(pidfd), 0)
        self._poll.unregister(pidfd)
        os.close(pidfd)

    def _take_order(self) -> bool:
        try:
            data, descriptors, _flags, _address = socket.recv_fds(self._control, 4096, 2)
        except ConnectionError:
            return False
        if not data:
            return False
        try:
            self._spawn(msgspec.msgpack.decode(data, type=Spawn), *descriptors)
        except OSError as fault:  # guard sees the worker's socket close, and tries again
            print(f"gatepost: a worker could not be started: {fault}", file=sys.stderr)  # noqa: T201
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _spawn(self, order: Spawn, sock: int, page: int) -> None:
        from gatepost.workers.worker import run_worker

        parent = os.getpid()
        nursery = self._nursery.connect()
        pid = os.fork()
        if pid == 0:
            try:
                die_with_parent(parent, signal.SIGKILL)
                run_worker(sock, nursery.fileno(), StatusPage(page, self._stages), order.memory, self._data)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(1)
        nursery.close()
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        socket.send_fds(self._control, [msgspec.msgpack.encode(WorkerStarted(order.number, pid))], [pidfd])


def main() -> None:
    """`python -m gatepost.workers.loader SOCKET PID RULES MODELS PLUGIN…`: the control socket, guard's process id, the
    folders of YARA rules and of text models, and the plug-ins. In tests, a Python file injects faults."""
    descriptor, guard = (int(argument) for argument in sys.argv[1:3])
    rules, models, *plugins = sys.argv[3:]
    ignore_signals()
    die_with_parent(guard, signal.SIGKILL)
    gc.disable()
    control = socket.socket(fileno=descriptor)
    open_nursery()  # which loads at the same time
    with keep_expressions(__file__):
        data, stages = _load_all(control, rules, models, plugins)
    if faults := os.environ.get(FAULT_INJECTION):
        data, stages = _load_faults(faults, data, stages)
    # To collect before would take a tenth of the start, and find next to nothing.
    gc.freeze()
    give_back_memory()
    try:
        Loader(control, data, stages).serve()
    except ConnectionError:
        pass
    os._exit(0)  # native libraries complain on standard error when the interpreter takes them apart


def _load_all(control: socket.socket, rules: str, models: str, plugins: list[str]) -> "tuple[WorkerData, StageNames]":
    """Import and warm up everything that a worker needs."""
    from gatepost.analysis.stages import INDISPENSABLE, STAGES, name_stages
    from gatepost.workers.warmup import warm_up
    from gatepost.workers.worker import WorkerData

    checks, messages = _load_plugins(control, plugins)
    warm_up(checks, messages)
    names = (*STAGES, *(stage for stage, _ in name_stages(checks)))
    return WorkerData(_load_rules(rules), _load_models(models), checks), StageNames(names, INDISPENSABLE)


def _load_plugins(control: socket.socket, stated: list[str]) -> "tuple[tuple[Check, ...], list[bytes]]":
    """The checks of plug-ins, imported before any worker is sealed, and their golden messages, or why not."""
    from gatepost.checks.plugins import load_checks
    from gatepost.plugins import PluginError, find_plugins

    try:
        plugins = find_plugins(stated)
        checks = tuple(check for plugin in plugins for check in load_checks(plugin))
    except PluginError as fault:
        control.send(msgspec.msgpack.encode(NotLoaded(f"The plug-in {fault}."[:MAX_REASON])))
        sys.exit(f"gatepost: the plug-in {fault}")
    golden = (path for plugin in plugins for folder in ("attacks", "twins") for path in plugin.golden(folder))
    return checks, [path.read_bytes() for path in golden]


def _load_rules(folder: str) -> "YaraRules | None":
    """The operator's rules, compiled before any worker is sealed."""
    from gatepost.files.yara import YaraRulesError, compile_rules

    try:
        return compile_rules(Path(folder)) if folder else None
    except YaraRulesError as fault:  # they were in order when the configuration was read
        sys.exit(f"gatepost: yara.folder {fault}")


def _load_models(folder: str) -> "DeployedModels":
    """The shipped text model, and the operator's own where there are any; of a file, that model alone."""
    from gatepost.textmodel.model import (
        DeployedModels,
        ModelBlend,
        ModelError,
        load_model,
        load_models,
        load_shipped_models,
    )

    try:
        if folder and Path(folder).is_file():
            return DeployedModels(ModelBlend((load_model(Path(folder)),)))
        return load_models(Path(folder)) if folder else load_shipped_models()
    except ModelError as fault:
        sys.exit(f"gatepost: the text models in {folder}: {fault}")


def _load_faults(path: str, data: "WorkerData", stages: StageNames) -> "tuple[WorkerData, StageNames]":
    """A test's own Python file: `inject(raw, context)` changes an analysis, and `STAGES` are added to it."""
    spec = importlib.util.spec_from_file_location("fault_injection", path)
    if spec is None or spec.loader is None:
        sys.exit(f"gatepost: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = (*stages.names, *module.STAGES)
    return msgspec.structs.replace(data, inject=module.inject), msgspec.structs.replace(stages, names=names)


if __name__ == "__main__":
    main()
