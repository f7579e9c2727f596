"""Shutting a worker in: no files, no network, no other process, so much memory and no more.

The order matters, since each step takes away what the next would need. Four layers stand one behind the other, and
none is trusted alone: no descriptor but the socket and no room for another (RLIMIT_NOFILE caps the descriptor
*number*, so 1 leaves just 0; 0 itself would break poll), no-new-privileges, a Landlock domain without any right
(landlock(7)), and a seccomp allow-list. Then the process tries to break out, and reports what it managed.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable

import msgspec

from gatepost.guard import seccomp
from gatepost.guard.kernel import PR_SET_NO_NEW_PRIVS, prctl, syscall

SOCKET = 0

_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION = 1
_REFUSED = frozenset({errno.EPERM, errno.EACCES})


class Sealed(msgspec.Struct, frozen=True):
    """What the seal is made of, and which attempts to break it succeeded."""

    layers: tuple[str, ...]
    leaks: tuple[str, ...]


def seal(memory: int) -> Sealed:
    """Seal this process, whose socket is descriptor 0, and try to get out. A layer that the system lacks is missing."""
    most = _data_size() + memory
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("descriptors", lambda: os.closerange(SOCKET + 1, _descriptors())),
        ("no-new-privileges", lambda: prctl(PR_SET_NO_NEW_PRIVS, 1)),
        ("landlock", landlock),
        ("limits", lambda: _limit(most)),
        ("seccomp", seccomp.allow_only_analysis),
    )
    layers = []
    for name, shut in steps:
        with contextlib.suppress(OSError):
            shut()
            layers.append(name)
    return Sealed(tuple(layers), leaks())


def landlock() -> None:
    """Enter a domain that handles every right this kernel knows and grants none."""
    version = syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    files = (1 << 13) - 1 | (version >= 2) << 13 | (version >= 3) << 14 | (version >= 5) << 15
    rules = struct.pack("=Q", files)
    if version >= 4:
        rules += struct.pack("=Q", 0b11)  # bind and connect over TCP
    if version >= 6:
        rules += struct.pack("=Q", 0b11)  # abstract sockets and signals outside the domain
    descriptor = syscall(_LANDLOCK_CREATE, ctypes.create_string_buffer(rules, len(rules)), len(rules), 0)
    try:
        syscall(_LANDLOCK_RESTRICT, descriptor, 0)
    finally:
        os.close(descriptor)


def leaks() -> tuple[str, ...]:
    """Try each way out, harmlessly. Only a clear refusal counts: "no such file" means that somebody looked."""
    return tuple(name for name, attempt in _ATTEMPTS.items() if not _refused(attempt))


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError as fault:
        return fault.errno in _REFUSED
    return False


def _open() -> None:
    os.close(os.open("/", os.O_RDONLY))


def _socket() -> None:
    socket.socket().close()


def _unlink() -> None:
    os.unlink("/gatepost-worker-was-here")  # noqa: PTH108  one plain system call


def _kill() -> None:
    os.kill(os.getppid(), 0)


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _execve() -> None:
    os.execve("/gatepost-worker-was-here", ["x"], {})  # noqa: S606  it must fail


_ATTEMPTS: dict[str, Callable[[], None]] = {
    "open": _open,
    "socket": _socket,
    "unlink": _unlink,
    "kill": _kill,
    "fork": _fork,
    "execve": _execve,
}


def _limit(data: int) -> None:
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, SOCKET + 1),
        (resource.RLIMIT_DATA, data),
    ):
        resource.setrlimit(what, (most, most))


def _data_size() -> int:
    """How much the process holds before it has seen a message: what it may hold is counted from there."""
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123
        return int(statm.read().split()[5]) * resource.getpagesize()


def _descriptors() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd")) + 1  # noqa: PTH208


def forget_signals() -> None:
    """A terminal's Ctrl-C and a manager's SIGTERM go to the whole group: guard decides what they mean for workers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
