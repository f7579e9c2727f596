"""System calls that Python has no function for, through the C library, with errors as `OSError`."""

import ctypes
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.restype = ctypes.c_int

MACHINE = platform.machine()

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Call the kernel; addresses and sizes are passed as they are."""
    result: int = _libc.syscall(ctypes.c_long(number), *(_widened(argument) for argument in arguments))
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


def _widened(argument: int | ctypes.Array[ctypes.c_char] | None) -> object:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
