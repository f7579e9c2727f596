"""The process that workers are forked from: fresh, single-threaded, with everything imported and nothing secret.

guard itself holds keys, sockets and the database; a child of its own would inherit all of that. So guard starts this
program, which imports the analysis, runs it once on a specimen of everything and then forks a worker on request:
9 ms instead of half a second. A worker that dies is reaped here. Loader and workers end with guard, however it ends.
"""

import gc
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec

from gatepost.files.yara import YaraRules, YaraRulesError, compile_rules
from gatepost.textmodel.deployed import DeployedModels, load_models, load_shipped_models
from gatepost.textmodel.model import ModelError
from gatepost.workers import worker
from gatepost.workers.protocol import Born, Loaded, Spawn
from gatepost.workers.sandbox import die_with_parent, forget_signals
from gatepost.workers.status_page import StatusPage
from gatepost.workers.warmup import warm_up


class Loader:
    """Forks workers and reaps them, until guard closes the control socket."""

    def __init__(self, control: socket.socket, rules: YaraRules | None, models: DeployedModels) -> None:
        self._control = control
        self._rules = rules
        self._models = models
        self._children: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Take orders until guard is gone, then end every worker."""
        self._control.send(msgspec.msgpack.encode(Loaded()))
        while self._turn():
            pass
        for pidfd in list(self._children):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._reap(pidfd)

    def _turn(self) -> bool:
        for descriptor, _event in self._poll.poll():
            if descriptor in self._children:
                self._reap(descriptor)
            elif not self._order():
                return False
        return True

    def _reap(self, pidfd: int) -> None:
        os.waitpid(self._children.pop(pidfd), 0)
        self._poll.unregister(pidfd)
        os.close(pidfd)

    def _order(self) -> bool:
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
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                die_with_parent(parent, signal.SIGKILL)
                worker.live(sock, StatusPage(page), order.memory, self._rules, self._models, trial=order.trial)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(1)
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        socket.send_fds(self._control, [msgspec.msgpack.encode(Born(order.number, pid))], [pidfd])


def main() -> None:
    """`python -m gatepost.workers.loader SOCKET PID RULES MODELS`: the control socket, guard's id, two folders."""
    descriptor, guard = (int(argument) for argument in sys.argv[1:3])
    forget_signals()
    die_with_parent(guard, signal.SIGKILL)
    warm_up()
    rules, models = _rules(sys.argv[3]), _models(sys.argv[4])
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        Loader(socket.socket(fileno=descriptor), rules, models).serve()
    except ConnectionError:
        pass


def _rules(folder: str) -> YaraRules | None:
    """The operator's rules, compiled before any worker is sealed."""
    try:
        return compile_rules(Path(folder)) if folder else None
    except YaraRulesError as fault:  # they were in order when the configuration was read
        sys.exit(f"gatepost: yara.folder {fault}")


def _models(folder: str) -> DeployedModels:
    """The shipped text model, and the operator's own where there are any."""
    try:
        return load_models(Path(folder)) if folder else load_shipped_models()
    except ModelError as fault:
        sys.exit(f"gatepost: the text models in {folder}: {fault}")


if __name__ == "__main__":
    main()
