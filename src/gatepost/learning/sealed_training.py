"""Training in a process of its own, which is sealed like a worker, at low priority and with limits.

Feature rows are numbers that workers made of hostile mail, and a tenant chooses many of them. So the process that
computes with them has no files, no network and no other process, a limit on memory and one on CPU time. It gets the
pool over one socket and answers with a model and its figures; whoever asked trusts neither, and checks both.
"""

import msgspec

from gatepost.learning.proof import Proof, prove
from gatepost.process.sandbox import SealedProcess, SealedProcessEnded, serve_sealed
from gatepost.textmodel.learnt import MAX_PACKED, PoolRow, parse_learnt

PROCESS = "gatepost.learning.sealed_training"
CPU_SECONDS = 300.0
# What a training takes at most where it gets a third of a processor.
WALL_SECONDS = 900.0
MEMORY = 1 << 30
MAX_ORDER = 256 << 20
MAX_ANSWER = MAX_PACKED + (64 << 10)

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


def train_sealed(order: TrainingOrder, seconds: float = CPU_SECONDS) -> Trained | TrainingFailed:
    """Have a pool trained by a sealed process, in so many seconds of CPU."""
    process = SealedProcess(PROCESS)
    try:
        data = msgspec.msgpack.encode(order)
        answer = _check(process.ask(data, seconds, MAX_ANSWER, patience=WALL_SECONDS / CPU_SECONDS))
    except SealedProcessEnded as end:
        return TrainingFailed("it took too long" if end.was_late else "the training process ended")
    finally:
        process.close()
    layers = process.layers or ()
    return msgspec.structs.replace(answer, layers=layers) if isinstance(answer, Trained) else answer


def _check(answer: bytes) -> Trained | TrainingFailed:
    """Return what a training process answered, if it is what one answers."""
    try:
        trained = msgspec.msgpack.decode(answer, type=Trained)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return TrainingFailed("the training process ended, or answered what is no model")
    if trained.proof.taken != bool(trained.model) or (trained.model and parse_learnt(trained.model) is None):
        return TrainingFailed("the training process answered what is no model")
    return trained


def _train(order: bytes) -> bytes:
    """What the sealed process does."""
    stated = msgspec.msgpack.decode(order, type=TrainingOrder)
    model, proof = prove(stated.rows, stated.present)
    return msgspec.msgpack.encode(Trained(model.to_bytes() if model else b"", proof))


def main() -> None:
    """`python -m gatepost.learning.sealed_training PARENT`, with the socket as standard input."""
    prove(_SPECIMEN, b"")  # what is read or imported on first use is so now, while there are files
    serve_sealed(_train, MEMORY, MAX_ORDER)


if __name__ == "__main__":
    main()
