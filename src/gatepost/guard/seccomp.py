"""The system calls that an analysis needs, as a seccomp filter (seccomp(2)); every other call fails with EPERM.

An analysis computes: it needs memory, the clock, randomness and its one socket. The filter is a program for the
kernel's packet-filter machine (BPF), built here instruction by instruction. Two calls are let through only with
harmless arguments: memory may never be made executable, and limits may be read but not set.
"""

import ctypes
import errno
import struct
from typing import NamedTuple

from gatepost.guard.kernel import MACHINE, syscall


class Machine(NamedTuple):
    """What differs between processors: the kernel's name for it (linux/audit.h) and its call numbers."""

    audit: int
    seccomp: int
    allowed: tuple[int, ...]
    without_exec: tuple[int, ...]
    prlimit: int


# In this order: close fstat lseek munmap brk rt_sigaction rt_sigprocmask rt_sigreturn mremap madvise nanosleep getpid
# getppid sendto recvfrom exit uname gettimeofday getrlimit getrusage sysinfo sigaltstack gettid futex
# sched_getaffinity sched_yield restart_syscall clock_gettime clock_getres clock_nanosleep exit_group getrandom getuid
# geteuid getgid getegid membarrier rseq; x86_64 also has time.
_X86_64 = Machine(
    audit=0xC000003E,
    seccomp=317,
    allowed=(
        *(3, 5, 8, 11, 12, 13, 14, 15, 25, 28, 35, 39),
        *(110, 44, 45, 60, 63, 96, 97, 98, 99, 131, 186, 202),
        *(204, 24, 219, 228, 229, 230, 231, 318, 102),
        *(107, 104, 108, 324, 334, 201),
    ),
    without_exec=(9, 10),  # mmap, mprotect
    prlimit=302,
)
_AARCH64 = Machine(
    audit=0xC00000B7,
    seccomp=277,
    allowed=(
        *(57, 80, 62, 215, 214, 134, 135, 139, 216, 233, 101, 172),
        *(173, 206, 207, 93, 160, 169, 163, 165, 179, 132, 178, 98),
        *(123, 124, 128, 113, 114, 115, 94, 278, 174),
        *(175, 176, 177, 283, 293),
    ),
    without_exec=(222, 226),
    prlimit=261,
)
MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM
KILL = 0x80000000

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_PROT_EXEC = 4
_SET_MODE_FILTER = 1


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One `struct sock_filter`; `yes` and `no` are how many instructions a comparison jumps over."""
    return struct.pack("=HBBI", code, yes, no, value)


def program(machine: Machine) -> bytes:
    """The filter for one processor."""
    code = [
        instruction(_LOAD, _ARCH),
        instruction(_EQUAL, machine.audit, yes=1),
        instruction(_RETURN, KILL),
        instruction(_LOAD, _NUMBER),
    ]
    for number in machine.allowed:
        code += [instruction(_EQUAL, number, no=1), instruction(_RETURN, ALLOW)]
    for number in machine.without_exec:
        code += [instruction(_EQUAL, number, no=4), *_without_bit(2, _PROT_EXEC)]
    code += [instruction(_EQUAL, machine.prlimit, no=8), *_zero(0, 2)]
    return b"".join([*code, instruction(_RETURN, REFUSE)])


def _without_bit(argument: int, bit: int) -> tuple[bytes, ...]:
    return (
        instruction(_LOAD, _ARGUMENTS + 8 * argument),
        instruction(_ANY_BIT, bit, no=1),
        instruction(_RETURN, REFUSE),
        instruction(_RETURN, ALLOW),
    )


def _zero(number: int, pointer: int) -> tuple[bytes, ...]:
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


def install(code: bytes) -> None:
    """Put this process under a filter, for good. No-new-privileges must be set before."""
    instructions = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions))
    syscall(_this_machine().seccomp, _SET_MODE_FILTER, 0, ctypes.create_string_buffer(header, len(header)))


def allow_only_analysis() -> None:
    """Put this process under the filter of this module."""
    install(program(_this_machine()))


def _this_machine() -> Machine:
    if MACHINE not in MACHINES:
        raise OSError(errno.ENOSYS, f"no system call numbers are known for {MACHINE}")
    return MACHINES[MACHINE]
