"""A sealed process tried from inside: every way out is refused, and what an analysis needs still works."""

import errno
import json
import os
import socket
import struct
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from gatepost.process.sandbox import ALLOW, KILL, MACHINES, REFUSE, FilterKind, build_filter

INSIDE = """
import ctypes, hashlib, json, mmap, os, resource, socket, threading, time, zlib
from gatepost.process.sandbox import syscall
from gatepost.process.sandbox import seal

guard = socket.socket(fileno=0)
X86 = os.uname().machine == "x86_64"
CALLS = {
    "ptrace": (101 if X86 else 117, 16, os.getppid(), 0, 0),
    "process_vm_readv": (310 if X86 else 270, os.getppid(), 0, 0, 0, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "bpf": (321 if X86 else 280, 0, 0, 0),
    "userfaultfd": (323 if X86 else 282, 0),
    "pidfd_open": (434, os.getppid(), 0),
    "unshare": (272 if X86 else 97, 0),
    "sendmsg": (46 if X86 else 211, 0, 0, 0),
    "connect": (42 if X86 else 203, 0, 0, 0),
    "read": (0 if X86 else 63, 0, 0, 0),
    "ioctl": (16 if X86 else 29, 0, 0, 0),
    "personality": (135 if X86 else 92, 0),
    "socketpair": (53 if X86 else 199, 1, 1, 0, 0),
}
WAYS = {
    "open": lambda: os.open("/dev/null", os.O_RDONLY),
    "create": lambda: os.open("/tmp/gatepost-was-here", os.O_CREAT | os.O_WRONLY),
    "stat": lambda: os.stat("/"),
    "list": lambda: os.listdir("/"),
    "socket": socket.socket,
    "unlink": lambda: os.unlink("/tmp/gatepost-was-here"),
    "rename": lambda: os.rename("/tmp/gatepost-was-here", "/tmp/gatepost-is-there"),
    "chdir": lambda: os.chdir("/"),
    "kill parent": lambda: os.kill(os.getppid(), 0),
    "kill self": lambda: os.kill(os.getpid(), 0),
    "fork": os.fork,
    "execve": lambda: os.execve("/bin/true", ["true"], {}),
    "pipe": os.pipe,
    "dup": lambda: os.dup(0),
    "memfd": lambda: os.memfd_create("x"),
    "shared memory": lambda: mmap.mmap(-1, 4096),
    "a second stack": lambda: mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100),
    "executable memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
    "more memory": lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40)),
    "more addresses": lambda: mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ),
    **{name: lambda call=call: syscall(*call) for name, call in CALLS.items()},
}

def outcome(attempt):
    try:
        attempt()
    except OSError as fault:
        return fault.errno
    except Exception as fault:
        return type(fault).__name__
    return 0

def hoard():
    held = []
    while True:
        held.append(b"x" * (1 << 20))

NEEDED = {
    "clock": time.time,
    "sleep": lambda: time.sleep(0.001),
    "randomness": lambda: os.urandom(8),
    "memory": lambda: bytes(32 << 20),
    "hash": lambda: hashlib.sha256(b"x").hexdigest(),
    "inflate": lambda: zlib.decompress(zlib.compress(b"x" * 100000)),
    "limits": lambda: resource.getrlimit(resource.RLIMIT_DATA),
}
threading.Thread(target=int).start()
sealed = seal(64 << 20)
result = {
    "layers": sealed.layers,
    "leaks": sealed.leaks,
    "thread": outcome(threading.Thread(target=int).start),
    "hoard": outcome(hoard),
    "ways": {name: outcome(way) for name, way in WAYS.items()},
    "needed": {name: outcome(way) for name, way in NEEDED.items()},
}
guard.sendall(json.dumps(result).encode())
os._exit(0)
"""


def inside(code: str) -> Any:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], stdin=theirs.fileno(), timeout=60, check=False
        )
        assert process.returncode == 0
        theirs.close()
        return json.loads(b"".join(iter(lambda: ours.recv(65536), b"")))


@pytest.fixture(scope="module")
def tried() -> Any:
    return inside(INSIDE)


def test_all_layers_stand(tried: Any) -> None:
    assert tried["layers"] == ["descriptors", "no-new-privileges", "landlock", "limits", "seccomp"]
    assert tried["leaks"] == []


def test_every_way_out_is_refused(tried: Any) -> None:
    outcomes = dict(tried["ways"])
    assert len(outcomes) == 33
    assert outcomes.pop("more memory") == "ValueError"  # Python's word for EPERM there
    assert outcomes.pop("more addresses") == errno.ENOMEM
    assert {name for name, got in outcomes.items() if got != errno.EPERM} == set()
    assert tried["thread"] == "RuntimeError"


def test_what_an_analysis_needs_works(tried: Any) -> None:
    assert {name: got for name, got in tried["needed"].items() if got != 0} == {}


def test_memory_has_an_end(tried: Any) -> None:
    assert tried["hoard"] == "MemoryError"


def test_an_open_process_is_told_from_a_sealed_one() -> None:
    result = inside("""
        import json, socket
        from gatepost.process.sandbox import find_leaks
        socket.socket(fileno=0).sendall(json.dumps({"leaks": find_leaks()}).encode())
    """)
    assert result["leaks"] == ["open", "socket", "unlink", "kill", "fork", "execve", "shared memory"]


def run(code: bytes, audit: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """The kernel's filter machine, as far as our filters use it."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    instructions = list(struct.iter_unpack("=HBBI", code))
    accumulator = position = 0
    while True:
        kind, yes, no, value = instructions[position]
        position += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == 0x06:
            return int(value)
        elif kind == 0x54:
            accumulator &= value
        else:
            assert kind in (0x15, 0x45)
            hit = accumulator == value if kind == 0x15 else bool(accumulator & value)
            position += yes if hit else no


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
@pytest.mark.parametrize("kind", ["analysis", "parent", "child"])
def test_the_filter_of_each_machine(name: str, kind: FilterKind) -> None:
    machine = MACHINES[name]
    code = build_filter(machine, kind)
    more = {"analysis": machine.signals, "parent": machine.signals + machine.forking, "child": ()}[kind]
    harmless = (0, 4096, 3, 0x22)
    allowed = {number for number in range(600) if run(code, machine.audit, number, harmless) == ALLOW}
    assert allowed == {*machine.allowed, *more, machine.mmap, machine.mprotect}  # a limit is not read, but set
    assert run(code, 0x40000003, machine.allowed[0]) == KILL  # a 32-bit call
    assert run(code, machine.audit, 0x40000000 | machine.allowed[0]) == REFUSE  # the x32 way
    for call in (machine.mmap, machine.mprotect):
        assert run(code, machine.audit, call, (0, 4096, 4, 0x22)) == REFUSE
        assert run(code, machine.audit, call, (0, 4096, 7, 0x22)) == REFUSE
    for flags in (0x01, 0x21, 0x03, 0x23, 0x08, 0x20, 0x122):  # shared, of an unknown type, growing like a stack
        assert run(code, machine.audit, machine.mmap, (0, 4096, 3, flags)) == REFUSE
    assert run(code, machine.audit, machine.prlimit, (0, 2, 0, 0x7FFF00000000)) == ALLOW
    assert run(code, machine.audit, machine.prlimit, (0, 2, 0x7FFF00000000)) == REFUSE
    assert run(code, machine.audit, machine.prlimit, (0, 2, 0x7FFF)) == REFUSE
    assert run(code, machine.audit, machine.prlimit, (os.getpid(), 2, 0)) == REFUSE


def test_the_same_calls_on_both_machines() -> None:
    x86_64, aarch64 = (len(MACHINES[name].allowed) for name in ("x86_64", "aarch64"))
    assert x86_64 == aarch64 + 1  # time
