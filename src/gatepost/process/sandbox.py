"""Shutting a process in: no files, no network, no other process, so much memory and no more.

Workers, the training of models and everything that evaluates expressions of users are sealed in this one way. A worker
is forked by the loader; `SealedProcess` starts any other one, asks it, and kills it when its time is up: a limit inside
the process could be held up by the native code that it is there to limit.

The order matters, since each step takes away what the next would need. Four layers stand one behind the other, and
none is trusted alone: no descriptor but the socket and no room for another (RLIMIT_NOFILE caps the descriptor
*number*, so 1 leaves just 0; 0 itself would break poll), no-new-privileges, a Landlock domain without any right
(landlock(7)), and a seccomp allow-list. Then the process tries to break out, and reports what it managed.

The seccomp filter (seccomp(2)) lets through the system calls that an analysis needs: it computes, so it needs memory,
the clock, randomness and its one socket. Every other call fails with EPERM. The filter is a program for the kernel's
packet-filter machine (BPF), built here instruction by instruction. Some calls are let through only with harmless
arguments: memory may never be made executable, new memory is private (shared memory is not counted by RLIMIT_DATA, nor
is memory that grows like a stack), and limits may be read but not set. System calls that Python has no function for go
through the C library, with errors as `OSError`.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, NoReturn

import msgspec

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.restype = ctypes.c_int

MACHINE = platform.machine()

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Call the kernel; addresses and sizes are passed as they are."""
    result: int = _libc.syscall(ctypes.c_long(number), *(_widen(argument) for argument in arguments))
    if result < 0:
        raise _error()
    return result


def prctl(option: int, value: int) -> None:
    """Set one property of this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) < 0:
        raise _error()


def die_with_parent(parent: int, signal: int) -> None:
    """Have the kernel send `signal` when `parent` ends, however it ends; exit if that has happened already."""
    prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        os._exit(0)


def give_back_memory() -> None:
    """Return free heap pages to the system, where the C library knows how (glibc)."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


def _widen(argument: int | ctypes.Array[ctypes.c_char] | None) -> object:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


class Machine(NamedTuple):
    """What differs between processors: the kernel's name for it (linux/audit.h) and its call numbers."""

    audit: int
    seccomp: int
    allowed: tuple[int, ...]
    signals: tuple[int, ...]
    forking: tuple[int, ...]
    mmap: int
    mprotect: int
    prlimit: int


# In this order: close fstat lseek munmap brk rt_sigreturn mremap madvise nanosleep getpid getppid sendto recvfrom
# recvmsg exit uname gettimeofday getrlimit getrusage sysinfo sigaltstack gettid futex sched_getaffinity sched_yield
# restart_syscall clock_gettime clock_getres clock_nanosleep exit_group getrandom getuid geteuid getgid getegid
# membarrier rseq; x86_64 also has time. Then rt_sigaction rt_sigprocmask; and clone wait4 socketpair sendmsg ppoll
# setitimer seccomp pidfd_open; x86_64 also has poll and fork.
_X86_64 = Machine(
    audit=0xC000003E,
    seccomp=317,
    allowed=(
        *(3, 5, 8, 11, 12, 15, 25, 28, 35, 39),
        *(110, 44, 45, 47, 60, 63, 96, 97, 98, 99, 131, 186, 202),
        *(204, 24, 219, 228, 229, 230, 231, 318, 102),
        *(107, 104, 108, 324, 334, 201),
    ),
    signals=(13, 14),
    forking=(56, 61, 53, 46, 271, 38, 317, 434, 7, 57),
    mmap=9,
    mprotect=10,
    prlimit=302,
)
_AARCH64 = Machine(
    audit=0xC00000B7,
    seccomp=277,
    allowed=(
        *(57, 80, 62, 215, 214, 139, 216, 233, 101, 172),
        *(173, 206, 207, 212, 93, 160, 169, 163, 165, 179, 132, 178, 98),
        *(123, 124, 128, 113, 114, 115, 94, 278, 174),
        *(175, 176, 177, 283, 293),
    ),
    signals=(134, 135),
    forking=(220, 260, 199, 211, 73, 103, 277, 434),
    mmap=222,
    mprotect=226,
    prlimit=261,
)
MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM
KILL = 0x80000000

_LOAD, _EQUAL, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x45, 0x06, 0x54
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_PROT_EXEC = 4
_MAP_TYPE, _MAP_PRIVATE, _MAP_GROWSDOWN = 0x0F, 0x02, 0x100
_SET_MODE_FILTER = 1


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One `struct sock_filter`; `yes` and `no` are how many instructions a comparison jumps over."""
    return struct.pack("=HBBI", code, yes, no, value)


# An analysis; one that may start children besides; and such a child, which cannot put off the timers that end it.
FilterKind = Literal["analysis", "parent", "child"]


def build_filter(machine: Machine, kind: FilterKind = "analysis") -> bytes:
    """The filter for one processor."""
    more = {"analysis": machine.signals, "parent": machine.signals + machine.forking, "child": ()}
    code = [
        instruction(_LOAD, _ARCH),
        instruction(_EQUAL, machine.audit, yes=1),
        instruction(_RETURN, KILL),
        instruction(_LOAD, _NUMBER),
    ]
    for number in (*machine.allowed, *more[kind]):
        code += [instruction(_EQUAL, number, no=1), instruction(_RETURN, ALLOW)]
    for number, rules in (
        (machine.mmap, (*_refuse_bit(2, _PROT_EXEC), *_allow_private(3))),
        (machine.mprotect, (*_refuse_bit(2, _PROT_EXEC), instruction(_RETURN, ALLOW))),
        (machine.prlimit, _allow_zero(0, 2)),
    ):
        code += [instruction(_EQUAL, number, no=len(rules)), *rules]
    return b"".join([*code, instruction(_RETURN, REFUSE)])


def _refuse_bit(argument: int, bit: int) -> tuple[bytes, ...]:
    return (
        instruction(_LOAD, _ARGUMENTS + 8 * argument),
        instruction(_ANY_BIT, bit, no=1),
        instruction(_RETURN, REFUSE),
    )


def _allow_private(flags: int) -> tuple[bytes, ...]:
    """Allow a mapping that is private and does not grow like a stack."""
    return (
        instruction(_LOAD, _ARGUMENTS + 8 * flags),
        instruction(_AND, _MAP_TYPE | _MAP_GROWSDOWN),
        instruction(_EQUAL, _MAP_PRIVATE, yes=1),
        instruction(_RETURN, REFUSE),
        instruction(_RETURN, ALLOW),
    )


def _allow_zero(number: int, pointer: int) -> tuple[bytes, ...]:
    """Allow if a 32-bit argument and both halves of a pointer are zero."""
    return (
        instruction(_LOAD, _ARGUMENTS + 8 * number),
        instruction(_EQUAL, 0, no=4),
        instruction(_LOAD, _ARGUMENTS + 8 * pointer),
        instruction(_EQUAL, 0, no=2),
        instruction(_LOAD, _ARGUMENTS + 8 * pointer + 4),
        instruction(_EQUAL, 0, yes=1),
        instruction(_RETURN, REFUSE),
        instruction(_RETURN, ALLOW),
    )


def install_filter(code: bytes) -> None:
    """Put this process under a filter, for good. No-new-privileges must be set before."""
    instructions = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions))
    syscall(this_machine().seccomp, _SET_MODE_FILTER, 0, ctypes.create_string_buffer(header, len(header)))


def this_machine() -> Machine:
    """Return the numbers of this processor; raises `OSError` where they are not known."""
    if MACHINE not in MACHINES:
        raise OSError(errno.ENOSYS, f"no system call numbers are known for {MACHINE}")
    return MACHINES[MACHINE]


SOCKET = 0

_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_VERSION = 1
# Addresses that the allocator reserves and does not use yet; only the limit on data decides for a sound worker.
_ADDRESS_SLACK = 128 << 20
_REFUSED = frozenset({errno.EPERM, errno.EACCES})


class SealReport(msgspec.Struct, frozen=True):
    """The layers of the seal, and which attempts to break it succeeded."""

    layers: tuple[str, ...]
    leaks: tuple[str, ...]


def seal(memory: int, descriptors: int = 1, room: int = 0, *, can_fork: bool = False) -> SealReport:
    """Seal this process and try to get out. It keeps its first descriptors, of which 0 is its socket, and may be given
    `room` more. With `can_fork` it may start children, which are under its seal and take on a filter of their own. A
    layer that the system lacks is missing."""
    size, data = _memory_sizes()
    forks: FilterKind = "parent" if can_fork else "analysis"
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("descriptors", lambda: os.closerange(descriptors, _descriptors())),
        ("no-new-privileges", lambda: prctl(PR_SET_NO_NEW_PRIVS, 1)),
        ("landlock", enter_landlock),
        ("limits", lambda: _limit(size + memory + _ADDRESS_SLACK, data + memory, descriptors + room, can_fork)),
        ("seccomp", lambda: install_filter(build_filter(this_machine(), forks))),
    )
    layers = []
    for name, apply in steps:
        with contextlib.suppress(OSError):
            apply()
            layers.append(name)
    return SealReport(tuple(layers), find_leaks())


def enter_landlock() -> None:
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


def find_leaks() -> tuple[str, ...]:
    """Try each way out, harmlessly; return those that are open. "No such file" means that the kernel looked for one."""
    return tuple(name for name, attempt in _ATTEMPTS.items() if not _is_refused(attempt))


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError as fault:
        return fault.errno in _REFUSED
    return False


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


_ATTEMPTS: dict[str, Callable[[], None]] = {
    "open": lambda: os.close(os.open("/", os.O_RDONLY)),
    "socket": lambda: socket.socket().close(),
    "unlink": lambda: os.unlink("/gatepost-worker-was-here"),  # noqa: PTH108  one plain system call
    "kill": lambda: os.kill(os.getppid(), 0),
    "fork": _fork,
    "execve": lambda: os.execve("/gatepost-worker-was-here", ["x"], {}),  # noqa: S606  it must fail
    "shared memory": lambda: mmap.mmap(-1, mmap.PAGESIZE).close(),
}


def _limit(size: int, data: int, descriptors: int, can_fork: bool) -> None:
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        *([] if can_fork else [(resource.RLIMIT_NPROC, 0)]),
        (resource.RLIMIT_NOFILE, descriptors),
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_AS, size),
    ):
        resource.setrlimit(what, (most, most))


def _memory_sizes() -> tuple[int, int]:
    """The size of address space and data before any message: what a worker may have is counted from there."""
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123
        pages = statm.read().split()
    return int(pages[0]) * resource.getpagesize(), int(pages[5]) * resource.getpagesize()


def _descriptors() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd")) + 1  # noqa: PTH208


def ignore_signals() -> None:
    """A terminal's Ctrl-C and a manager's SIGTERM go to the whole group: guard decides what they mean for workers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


# A Python file that lets messages make workers misbehave: for tests of what surrounds the analysis, never for mail.
FAULT_INJECTION = "GATEPOST_FAULT_INJECTION"
# What a process that reads hostile bytes gets of the environment: nothing that could be secret.
_OF_PYTHON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED")
INHERITED = (*_OF_PYTHON, "GATEPOST_PURE_PYTHON", FAULT_INJECTION)
_SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "PYTHONUTF8": "1",
    "TZ": "UTC0",  # a zone spelt out: one with a name is read from a file at each use
}
_LENGTH = struct.Struct("<I")
_LOOK_SECONDS = 0.05
_SCHEDULER_CLOCK = 2
# A process that waits for a processor is given so many times its CPU time before the wall clock ends it.
_MAX_STARVED = 30
_START_SECONDS = 60.0
NICENESS, _LEAST_PRIORITY = 10, 19


def bare_environment() -> dict[str, str]:
    """Return the environment of a process that is going to be sealed."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | _SINGLE_THREADED


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, 0 where there is none of that number."""
    try:
        # The kernel's name for the CPU clock of another process (linux/posix-timers.h, MAKE_PROCESS_CPUCLOCK).
        return time.clock_gettime(~pid << 3 | _SCHEDULER_CLOCK)
    except OSError:
        return 0.0


class SealedProcessEnded(Exception):  # noqa: N818  it was killed, or has ended
    """A sealed process gave no answer; `was_late` says that its time was up."""

    def __init__(self, *, was_late: bool) -> None:
        super().__init__("its time was up" if was_late else "it ended")
        self.was_late = was_late


class SealedProcess:
    """A process that runs a module of this package, sealed (`serve_sealed`). Threads may ask it one after the other;
    `kill` can be called from any thread, and whoever waits for an answer then has none. Where `mail_comes` says so, as
    a service does, the process has a low priority from then on."""

    mail_comes: ClassVar[Callable[[], bool]] = staticmethod(lambda: False)

    def __init__(self, module: str, *arguments: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=bare_environment(),
                # No session of its own: the scheduler would give each session the same share, whatever the priority
                # of the processes in it (sched(7), "The autogroup feature").
                process_group=0,
            )
        self._is_nice = False
        # From its first step on: what it imports before it is sealed would else take from mail what it may not later.
        self._let_mail_go_first()
        ours.settimeout(_LOOK_SECONDS)
        self._socket = ours
        self.layers: tuple[str, ...] | None = None
        _running.add(self)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that it has used."""
        return read_cpu_seconds(self._process.pid)

    def ask(self, order: bytes, cpu_seconds: float, max_answer: int, *, patience: float = _MAX_STARVED) -> bytes:
        """Return the answer in time, by the wall clock `patience` times that; raises `SealedProcessEnded`."""
        try:
            if self.layers is None:
                self.layers = msgspec.msgpack.decode(self._receive(_START_SECONDS, 4096), type=SealReport).layers
            self._send(order, cpu_seconds * patience)
            return self._receive(cpu_seconds, max_answer, patience)
        except (OSError, msgspec.DecodeError) as fault:
            self.kill()
            raise SealedProcessEnded(was_late=isinstance(fault, TimeoutError)) from None

    def _let_mail_go_first(self) -> None:
        """Take away priority from the process, which cannot be given back, if mail comes."""
        if self._is_nice or not SealedProcess.mail_comes():
            return
        self._is_nice = True
        with contextlib.suppress(ProcessLookupError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, min(own + NICENESS, _LEAST_PRIORITY))

    def _send(self, order: bytes, seconds: float) -> None:
        end = time.monotonic() + seconds
        for data in (memoryview(_LENGTH.pack(len(order))), memoryview(order)):
            sent = 0
            while sent < len(data):
                with contextlib.suppress(TimeoutError):
                    sent += self._socket.send(data[sent : sent + (1 << 20)])
                if time.monotonic() > end:
                    raise TimeoutError

    def _receive(self, seconds: float, most: int, patience: float = 1.0) -> bytes:
        used, end = self.cpu_seconds + seconds, time.monotonic() + seconds * patience
        data, length = bytearray(), _LENGTH.size
        while len(data) < length:
            try:
                piece = self._socket.recv(min(1 << 20, length - len(data)))
            except TimeoutError:
                if self.cpu_seconds > used or time.monotonic() > end:
                    raise
                self._let_mail_go_first()
                continue
            data += piece
            if not piece:
                raise ConnectionResetError
            if length == _LENGTH.size == len(data):
                length += _LENGTH.unpack(data)[0]
                if length > most + _LENGTH.size:
                    raise ConnectionResetError
        return bytes(data[_LENGTH.size :])

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        self._process.wait()
        self._socket.close()
        _running.discard(self)


_running: set[SealedProcess] = set()


def kill_sealed_processes() -> None:
    """Kill every process that `SealedProcess` has started here, since the service stops: nobody waits for one then."""
    for process in tuple(_running):
        process.kill()


def serve_sealed(handle: Callable[[bytes], bytes], memory: int, max_order: int) -> NoReturn:
    """Turn this process, started by `SealedProcess`, into one that answers orders and can do nothing else. Whatever
    `handle` reads or imports on first use has to be read or imported before."""
    die_with_parent(int(sys.argv[1]), signal.SIGKILL)
    ignore_signals()
    connection = socket.socket(fileno=SOCKET)
    sealed = seal(memory)
    try:
        _answer(connection, msgspec.msgpack.encode(sealed))
        while head := connection.recv(_LENGTH.size, socket.MSG_WAITALL):
            (length,) = _LENGTH.unpack(head)
            order = connection.recv(length, socket.MSG_WAITALL) if 0 < length <= max_order else b""
            if len(order) != length:
                break
            _answer(connection, handle(order))
    except OSError:  # whoever asked is gone
        pass
    os._exit(0)


def _answer(connection: socket.socket, answer: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(answer)) + answer)
