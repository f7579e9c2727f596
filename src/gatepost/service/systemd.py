"""What the service manager and a service tell each other: states, the watchdog, and sockets that are inherited.

The protocol is that of sd_notify(3): datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. Sockets
come as descriptors from 3 on, as many as `LISTEN_FDS` says, if `LISTEN_PID` is this process (sd_listen_fds(3)). A
restart that this service does itself uses the same way: the process replaces its program and hands the sockets on, so
that connections wait in their queues and none is refused.
"""

import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from gatepost.process.logs import Logger

FIRST_DESCRIPTOR = 3
_WAIT_SECONDS = 1

log = Logger("gatepost")


def notify(*lines: str, flags: int = 0) -> None:
    """Tell the service manager; without one, or if it does not listen, nothing happens.

    A manager that does not read has a full queue. A change of state waits a second for it, in the kernel: Python's own
    time limit would ask again and again, since poll(2) calls a socket that sends datagrams ready whoever they are for.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or address[0] not in "/@":
        return
    target = "\0" + address[1:] if address[0] == "@" else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _WAIT_SECONDS, 0))
            sender.sendto("\n".join(lines).encode(), flags, target)
    except OSError as fault:
        log.debug("the service manager could not be told", reason=fault.strerror)


def feed_watchdog() -> None:
    """Say that the event loop turns. It does not wait: the next time comes soon, and mail is waiting."""
    notify("WATCHDOG=1", flags=socket.MSG_DONTWAIT)


def notify_ready(status: str = "serves") -> None:
    """Say that the service serves, after a start as after a reload."""
    notify("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")


def notify_reloading() -> None:
    """Say that a reload has begun; the time tells the manager that it is the one that it asked for."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")


def notify_stopping() -> None:
    """Say that the service is about to end."""
    notify("STOPPING=1")


def read_watchdog_seconds() -> float | None:
    """Return how often the manager must hear that the service lives, which is twice as often as it says; None if it
    does not want to."""
    asked, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not asked.isdigit() or not int(asked) or (pid and pid != str(os.getpid())):
        return None
    return int(asked) / 2_000_000


def is_restarted() -> bool:
    """Whether this process was started with sockets, by a service manager or by itself, and has not taken them yet."""
    return os.environ.get("LISTEN_PID") == str(os.getpid())


def take_inherited_sockets() -> list[socket.socket]:
    """Return the listening sockets that this process was started with, each once: the next call returns none."""
    count, pid = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not count.isdigit() or pid != str(os.getpid()):
        return []
    found = []
    for descriptor in range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count)):
        try:
            inherited = socket.socket(fileno=descriptor)
        except OSError:
            log.warning("an inherited descriptor is no socket", descriptor=descriptor)
            continue
        inherited.set_inheritable(False)
        inherited.setblocking(False)
        families = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
        if inherited.type == socket.SOCK_STREAM and inherited.family in families:
            found.append(inherited)
        else:
            log.warning("an inherited socket is no stream and not used", descriptor=descriptor)
            inherited.close()
    return found


def duplicate(sockets: Iterable[socket.socket]) -> list[int]:
    """Return further descriptors of sockets, which keep them open whoever closes the first."""
    return [os.dup(each.fileno()) for each in sockets]


def end_children() -> None:
    """Kill every child process, and wait until all have ended: none may outlast the program that knew it."""
    while True:
        for task in Path("/proc/self/task").iterdir():
            try:
                children = (task / "children").read_text("ascii").split()
            except OSError:
                continue
            for child in children:
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def replace_process(descriptors: Sequence[int]) -> NoReturn:
    """Run this program anew in this process, with these listening sockets. It does not return."""
    end_children()
    sys.stdout.flush()
    sys.stderr.flush()
    # Out of the way first: a target may be one of the sources.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 100) for each in descriptors]
    for target, source in enumerate(high, FIRST_DESCRIPTOR):
        os.dup2(source, target, inheritable=True)
    # The program that starts takes it as soon as it can; until then it would end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    os.environ |= {"LISTEN_FDS": str(len(high)), "LISTEN_PID": str(os.getpid())}
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606  this very program
