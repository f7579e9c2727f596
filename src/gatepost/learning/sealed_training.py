"""Training in a process of its own, which is sealed like a worker, at low priority and with limits.

Feature rows are numbers that workers made of hostile mail, and a tenant chooses many of them. So the process that
computes with them has no files, no network and no other process, a limit on memory and one on CPU time. It gets the
pool over one socket and answers with a model and its figures; whoever asked trusts neither, and checks both.
"""

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys

import msgspec

from gatepost.learning.proof import Proof, prove
from gatepost.sandbox import SOCKET, die_with_parent, seal
from gatepost.textmodel.learnt import MAX_PACKED, PoolRow, parse_learnt

CPU_SECONDS = 300
WALL_SECONDS = 900.0
MEMORY = 1 << 30
NICENESS = 15
MAX_ORDER = 256 << 20
MAX_ANSWER = MAX_PACKED + (64 << 10)

_LENGTH = struct.Struct("<I")
_SPECIMEN = tuple(PoolRow(str(number), bool(number % 2), bytes((number % 2, 0, number, 1))) for number in range(200))


class TrainingOrder(msgspec.Struct, frozen=True):
    """What is to be trained: the rows of a pool, and the present model, empty where there is none."""

    rows: tuple[PoolRow, ...]
    present: bytes = b""


class Trained(msgspec.Struct, frozen=True):
    """What came of it: a model, empty where it may not take part, and the figures. `layers` are those of the seal."""

    model: bytes
    proof: Proof
    layers: tuple[str, ...] = ()


class TrainingFailed(msgspec.Struct, frozen=True):
    """No model was trained; `reason` says why."""

    reason: str


def train_sealed(order: TrainingOrder, seconds: float = WALL_SECONDS) -> Trained | TrainingFailed:
    """Have a pool trained by a sealed process."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", "gatepost.learning.sealed_training", str(os.getpid())],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(seconds)
        try:
            _send(ours, msgspec.msgpack.encode(order))
            answer = _receive(ours, MAX_ANSWER)
        except TimeoutError:
            return TrainingFailed("it took too long")
        except OSError:
            return TrainingFailed("the training process ended")
        finally:
            child.kill()
            child.wait()
    return _check(answer)


def _check(answer: bytes) -> Trained | TrainingFailed:
    """Return what a training process answered, if it is what one answers."""
    try:
        trained = msgspec.msgpack.decode(answer, type=Trained)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return TrainingFailed("the training process ended, or answered what is no model")
    if trained.proof.taken != bool(trained.model) or (trained.model and parse_learnt(trained.model) is None):
        return TrainingFailed("the training process answered what is no model")
    return trained


def _send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _receive(sock: socket.socket, most: int) -> bytes:
    head = _receive_exactly(sock, _LENGTH.size)
    length = _LENGTH.unpack(head)[0] if head else 0
    return _receive_exactly(sock, length) if length <= most else b""


def _receive_exactly(sock: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = sock.recv(min(1 << 20, length - len(data)))
        if not piece:
            return b""
        data += piece
    return bytes(data)


def main() -> None:
    """`python -m gatepost.learning.sealed_training PARENT`, with the socket as standard input."""
    die_with_parent(int(sys.argv[1]), signal.SIGKILL)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    prove(_SPECIMEN, b"")  # what is read or imported on first use is so now, while there are files
    sock = socket.socket(fileno=SOCKET)
    sealed = seal(MEMORY)
    order = msgspec.msgpack.decode(_receive(sock, MAX_ORDER), type=TrainingOrder)
    model, proof = prove(order.rows, order.present)
    answer = Trained(model.to_bytes() if model else b"", proof, sealed.layers)
    with contextlib.suppress(OSError):
        _send(sock, msgspec.msgpack.encode(answer))
    os._exit(0)


if __name__ == "__main__":
    main()
