"""Starting the loader of the workers, which may be done long before guard talks to it: both then load at once.

The loader gets a bare environment, so that no secret of guard's reaches a process near hostile bytes, and a process
group of its own, so that a terminal's Ctrl-C does not reach it: guard finishes its requests first. Its session is that
of the service: the scheduler gives each session the same share, and priorities count within one only (sched(7), "The
autogroup feature"), so workers in another would share processors equally with the imports and trials of users.
"""

import os
import socket
import subprocess
import sys

import msgspec

from gatepost.process.sandbox import bare_environment

_ENVIRONMENT = {
    # Pages of HTML come and go with every message: giving their memory back each time costs more than reading them.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
}


class WorkerFiles(msgspec.Struct, frozen=True):
    """What the loader reads: folders of YARA rules and text models, and plug-ins."""

    rules: str = ""
    models: str = ""
    plugins: tuple[str, ...] = ()


class StartedLoader(msgspec.Struct):
    """A loader process, and guard's end of its control socket."""

    process: subprocess.Popen[bytes]
    control: socket.socket


_begun: dict[WorkerFiles, StartedLoader] = {}


def begin_loader(files: WorkerFiles) -> None:
    """Start the loader that will be asked for first."""
    _begun[files] = _start_loader(files)


def take_loader(files: WorkerFiles) -> StartedLoader:
    """Return a loader of these files that was begun, or start one."""
    return _begun.pop(files, None) or _start_loader(files)


def _start_loader(files: WorkerFiles) -> StartedLoader:
    """Start a loader. It ends with the thread that calls this."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-P", "-m", "gatepost.workers.loader", str(theirs.fileno()), str(os.getpid())]
        process = subprocess.Popen(
            [*command, files.rules, files.models, *files.plugins],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=bare_environment() | _ENVIRONMENT,
            process_group=0,
        )
    ours.setblocking(False)
    return StartedLoader(process, ours)
