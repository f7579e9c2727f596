"""A new model takes part only if it is better on held-back mail, and harms nothing of the reference set."""

import random

import msgspec
import pytest

from gatepost.learning.sealed_training import (
    ReferenceRow,
    Trained,
    TrainingFailed,
    TrainingOrder,
    _check,
    count_harmed,
    load_reference,
    measure,
    points_of,
    prove,
    train_sealed,
)
from gatepost.policy.rules import shipped_policy
from gatepost.textmodel.learnt import PoolRow, pack_row

BAD, GOOD = "offer wholesale cheap factory price".split(), "minutes meeting agenda room tuesday".split()


def pool(count: int = 300, lies: int = 0) -> tuple[PoolRow, ...]:
    chance = random.Random(3)
    found = []
    for number in range(count):
        unwanted = number % 2 == 0
        words = [*chance.sample(BAD if unwanted else GOOD, 3), f"w{chance.randrange(60)}", "the"]
        found.append(PoolRow(f"m{number}", unwanted != (number < lies), pack_row(words)))
    return tuple(found)


def test_a_better_model_is_taken_and_then_no_other_is() -> None:
    model, proof = prove(pool(), b"", ())
    assert model is not None
    assert proof.taken
    assert proof.new.named > 0.9 * proof.new.unwanted
    assert proof.new.false_alarms == 0
    assert 0 < proof.new.unwanted + proof.new.wanted < 100, "a part is held back"
    again, second = prove(pool(), model.to_bytes(), ())
    assert again is None
    assert "no better" in second.reason


def test_lies_make_no_model() -> None:
    model, proof = prove(pool(lies=150), b"", ())
    assert model is None or proof.new.false_alarms == 0
    assert prove(pool(30), b"", ())[0] is None
    assert "fewer than" in prove(pool(30), b"", ())[1].reason


def test_what_harms_the_reference_set_is_refused() -> None:
    honest = ReferenceRow("twin", False, 3.0, 0.0, False, pack_row([*BAD, "the"]))
    model, proof = prove(pool(), b"", (honest,))
    assert model is None
    assert proof.harmed_by_new == 1
    assert "reference set" in proof.reason
    attack = ReferenceRow("attack", True, 5.5, 3.5, False, pack_row([*GOOD, "the"]))
    certain = msgspec.structs.replace(attack, is_conclusive=True)
    taken, _ = prove(pool(), b"", (certain,))
    assert taken is not None
    assert count_harmed(taken, (attack, certain)) == 1


def test_the_shipped_reference_set_is_sound() -> None:
    rows = load_reference()
    assert sum(row.is_unwanted for row in rows) >= 40
    assert sum(not row.is_unwanted for row in rows) >= 80
    threshold = shipped_policy().verdicts["spam"].threshold or 0
    assert points_of(100.0) < threshold, "a learnt model holds nothing alone"
    assert points_of(0.0) == 0.0


def test_measuring_nothing_says_nothing() -> None:
    assert measure(None, ()).unwanted == 0


@pytest.mark.process
def test_training_is_sealed() -> None:
    trained = train_sealed(TrainingOrder(pool()))
    assert isinstance(trained, Trained)
    assert trained.proof.taken
    assert trained.model
    assert {"seccomp", "limits", "descriptors"} <= set(trained.layers)
    assert train_sealed(TrainingOrder(pool(30))) == msgspec.structs.replace(
        trained, model=b"", proof=prove(pool(30), b"")[1]
    )


@pytest.mark.process
def test_a_training_process_is_not_trusted() -> None:
    assert isinstance(_check(b""), TrainingFailed)
    lie = Trained(b"nonsense", prove(pool(), b"", ())[1])
    assert isinstance(_check(msgspec.msgpack.encode(lie)), TrainingFailed)
    assert isinstance(train_sealed(TrainingOrder(pool()), seconds=0.0), TrainingFailed)
