"""Training in a process of its own, which is sealed like a worker, at low priority and with limits.

Feature rows are numbers that workers made of hostile mail, and a tenant chooses many of them. So the process that
computes with them has no files, no network and no other process, a limit on memory and one on CPU time. It gets the
pool over one socket and answers with a model and its figures; whoever asked trusts neither, and checks both.

A new model may take part if it is better on held-back mail of its pool, and no worse on the reference set. Held-back
mail is a fifth of the pool that the model which is measured has not seen. Once it is proved, the model that takes part
is trained in the same way from the whole pool. The reference set comes with the package: feature rows of messages that
were written for the tests of checks, attacks and their honest twins, each with the points that it gets without any
learnt model. A model harms a message of it if it would hold wanted mail that is delivered without it, or might let an
attack through.

Messages of the reference set also anchor the training, with a fraction of the weight of a report: what reports of one
mailbox never mention is not for them to judge. What harm is left is taken away by speaking more softly, within limits.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np

from gatepost.findings.kinds import TEXT_LEARNT_UNWANTED, TEXT_LEARNT_WANTED, TEXT_MODEL_PHISHING, TEXT_MODEL_SPAM
from gatepost.findings.strengths import calculations
from gatepost.policy.rules import shipped_policy
from gatepost.process.sandbox import SealedProcess, SealedProcessEnded, serve_sealed
from gatepost.textmodel.learnt import MAX_PACKED, MIN_OF_SIDE, LearntModel, PoolRow, parse_learnt, read_row, train_pool

REFERENCE = "reference.msgpack"
UNWANTED, WANTED = TEXT_LEARNT_UNWANTED.id, TEXT_LEARNT_WANTED.id
TEXT_MODEL = "text-model"
# The weight of a message of the reference set in training; and the steps by which a model that harms it speaks softer.
ANCHOR = 0.07
SOFTER, SOFTER_STEPS = 0.1, 15
# Held-back reports of each side without which nothing can be proved.
MIN_HELD_BACK = 3


class Side(msgspec.Struct, frozen=True, rename="camel"):
    """How a model does on some rows: unwanted mail that it names, with half of what it can say or more, and wanted mail
    that it names as unwanted. `loss` is the mean log-loss of both sides."""

    unwanted: int = 0
    named: int = 0
    wanted: int = 0
    false_alarms: int = 0
    loss: float = math.log(2)


class Proof(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of a training: the pool, the new model and the present one on held-back mail, and how many messages
    of the reference set each harms. `taken` says whether the new one takes part, `reason` why or why not."""

    reports: int = 0
    unwanted: int = 0
    wanted: int = 0
    new: Side = Side()
    present: Side = Side()
    reference: int = 0
    harmed_by_new: int = 0
    harmed_by_present: int = 0
    taken: bool = False
    reason: str = ""


class ReferenceRow(msgspec.Struct, frozen=True, array_like=True):
    """A message of the reference set: its name, whether it is unwanted, its points, those of the text model among them,
    whether something conclusive was found in it, and its feature row."""

    name: str
    is_unwanted: bool
    points: float
    model_points: float
    is_conclusive: bool
    features: bytes


@cache
def load_reference() -> tuple[ReferenceRow, ...]:
    """Return the reference set that comes with the package."""
    packed = (files("gatepost.learning") / REFERENCE).read_bytes()
    return msgspec.msgpack.decode(packed, type=tuple[ReferenceRow, ...])


def prove(
    rows: Sequence[PoolRow], present: bytes, reference: Sequence[ReferenceRow] | None = None
) -> tuple[LearntModel | None, Proof]:
    """Train a model from a pool, and return it with its figures; without a model where it may not take part."""
    reference = load_reference() if reference is None else reference
    current = _find_proved(present)
    unwanted = sum(row.unwanted for row in rows)
    proof = Proof(len(rows), unwanted, len(rows) - unwanted, reference=len(reference))
    model = train_model([row for row in rows if not row.is_held_back], reference)
    if model is None:
        return None, _refuse(
            proof, f"there are fewer than {MIN_OF_SIDE} reports of unwanted or of wanted mail to train"
        )
    held_back = [row for row in rows if row.is_held_back]
    new, old = measure(model, held_back), measure(current, held_back)
    proof = msgspec.structs.replace(
        proof,
        new=new,
        present=old,
        harmed_by_new=count_harmed(model, reference),
        harmed_by_present=count_harmed(current, reference),
    )
    if reason := _find_fault(proof):
        return None, _refuse(proof, reason)
    whole = train_model(rows, reference)
    if whole is None or count_harmed(whole, reference) > proof.harmed_by_present:
        return None, _refuse(proof, "trained from the whole pool, it harms the reference set")
    model = msgspec.structs.replace(whole, proof=model.to_bytes())
    better = f"it does better on held-back mail (loss {new.loss:.3f} instead of {old.loss:.3f})"
    return model, msgspec.structs.replace(proof, taken=True, reason=better)


def _find_proved(present: bytes) -> LearntModel | None:
    """Return the present model as it was when it was proved."""
    current = parse_learnt(present) if present else None
    return (parse_learnt(current.proof) or current) if current and current.proof else current


def train_model(rows: Sequence[PoolRow], reference: Sequence[ReferenceRow]) -> LearntModel | None:
    """Train a model from a pool, anchored by the reference set, that harms as little of that set as it can."""
    sides = Counter(row.unwanted for row in rows)
    if min(sides[True], sides[False]) < MIN_OF_SIDE:
        return None
    anchors = [PoolRow(row.name, row.is_unwanted, row.features, weight=ANCHOR) for row in reference]
    model = train_pool([*rows, *anchors])
    if model is None:
        return None
    model = msgspec.structs.replace(model, reports=len(rows))
    for _ in range(SOFTER_STEPS):
        if not count_harmed(model, reference):
            break
        model = msgspec.structs.replace(model, bias=model.bias - SOFTER)
    return model


def _find_fault(proof: Proof) -> str:
    new, old = proof.new, proof.present
    if min(new.unwanted, new.wanted) < MIN_HELD_BACK:
        return f"fewer than {MIN_HELD_BACK} reports of one side are held back to measure with"
    if new.loss >= old.loss:
        return f"it does no better on held-back mail (loss {new.loss:.3f}, {old.loss:.3f} at present)"
    # One in twenty of the held-back wanted mail may be a report that is wrong itself.
    if new.false_alarms > max(old.false_alarms, -(-new.wanted // 20)):
        return f"it names {new.false_alarms} of {new.wanted} wanted messages, {old.false_alarms} at present"
    if proof.harmed_by_new > proof.harmed_by_present:
        return f"it harms {proof.harmed_by_new} of the reference set, {proof.harmed_by_present} at present"
    return ""


def _refuse(proof: Proof, reason: str) -> Proof:
    return msgspec.structs.replace(proof, reason=reason)


def measure(model: LearntModel | None, rows: Sequence[PoolRow]) -> Side:
    """Return how a model does on rows; both sides weigh the same in the loss."""
    if not rows:
        return Side()
    scores = np.array([model.score(read_row(row.features)) if model else 0.0 for row in rows])
    truth = np.array([row.unwanted for row in rows], bool)
    losses = np.logaddexp(0, np.where(truth, -scores, scores))
    sides = [float(losses[side].mean()) for side in (truth, ~truth) if side.any()]
    named = scores >= (_number(UNWANTED, "speaks") + _number(UNWANTED, "says_all")) / 2
    return Side(
        int(truth.sum()),
        int((named & truth).sum()),
        int((~truth).sum()),
        int((named & ~truth).sum()),
        sum(sides) / len(sides),
    )


def count_harmed(model: LearntModel | None, reference: Sequence[ReferenceRow]) -> int:
    """Return how many messages of the reference set a model would judge worse than they are judged without it."""
    if model is None:
        return 0
    threshold = shipped_policy().verdicts["spam"].threshold or 0.0
    return sum(_is_harmed(model.score(read_row(row.features)), row, threshold) for row in reference)


def _is_harmed(logit: float, row: ReferenceRow, threshold: float) -> bool:
    if row.is_unwanted:
        lowering = min(_number(WANTED, "most"), -logit) if -logit >= _number(WANTED, "speaks") else 0.0
        return not row.is_conclusive and row.points >= threshold > row.points - _find_loss(lowering, row.model_points)
    return row.points < threshold <= row.points + points_of(logit)


def _find_loss(lowering: float, points: float) -> float:
    """Return how many of its points the text model loses with so much less log-odds: a part of what it can give, and
    all of them where the rest is too little to be found."""
    if not lowering:
        return 0.0
    weights = shipped_policy().kinds
    most = weights[TEXT_MODEL_SPAM.id].weight + weights[TEXT_MODEL_PHISHING.id].weight
    loss = most * lowering / (_number(TEXT_MODEL, "says_all") - _number(TEXT_MODEL, "begins"))
    return points if points - loss < most * _number(TEXT_MODEL, "least") else loss


def points_of(logit: float) -> float:
    """Return the points that learnt models add at these log-odds, by the shipped policy."""
    speaks, says_all = _number(UNWANTED, "speaks"), _number(UNWANTED, "says_all")
    return shipped_policy().kinds[UNWANTED].weight * min(1.0, max(0.0, (logit - speaks) / (says_all - speaks)))


def _number(kind: str, name: str) -> float:
    return calculations()[kind].coefficients[name].value


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
    stated = msgspec.msgpack.decode(order, type=TrainingOrder)
    model, proof = prove(stated.rows, stated.present)
    return msgspec.msgpack.encode(Trained(model.to_bytes() if model else b"", proof))


def main() -> None:
    """`python -m gatepost.learning.sealed_training PARENT`, with the socket as standard input."""
    prove(_SPECIMEN, b"")  # what is read or imported on first use is so now, while there are files
    serve_sealed(_train, MEMORY, MAX_ORDER)


if __name__ == "__main__":
    main()
