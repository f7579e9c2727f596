"""Feature rows are bounded and total; a learnt model learns what reports say, and nobody teaches it alone."""

import random

import msgspec
import numpy as np
import pytest

from gatepost.mail.reader import read
from gatepost.textmodel import learnt
from gatepost.textmodel.features import extract_features
from gatepost.textmodel.learnt import LearntModel, PoolRow, pack_row, read_row, train_pool

BAD, GOOD = "offer wholesale cheap factory price".split(), "minutes meeting agenda room tuesday".split()


def rows(count: int, seed: int = 1, *, reporter: str = "", domain: str = "") -> list[PoolRow]:
    """Reports of both sides whose words differ, with some in common."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        unwanted = number % 2 == 0
        words = [*chance.sample(BAD if unwanted else GOOD, 3), f"w{chance.randrange(50)}", "the", "and"]
        found.append(PoolRow(f"m{seed}-{number}", unwanted, pack_row(words), reporter, domain=domain))
    return found


def test_a_row_has_the_features_of_a_message_and_is_bounded() -> None:
    raw = b"From: Ann <ann@x.example>\r\nSubject: Hello\r\n\r\nSee https://shop.example/a for 4711\r\n"
    message = read(raw)
    row = learnt.make_row(message, extract_features(message))
    numbers = read_row(row)
    assert len(row) == 2 * len(numbers)
    assert list(numbers) == sorted(set(numbers))
    for name in ("s:hello", "f:ann", "h:shop.example", "0000"):
        assert read_row(pack_row([name]))[0] in numbers
    long = read(b"Subject: x\r\n\r\n" + b" ".join(b"word%d" % n for n in range(5_000)))
    assert len(learnt.make_row(long, extract_features(long))) <= learnt.MAX_ROW


@pytest.mark.parametrize("packed", [b"", b"\x00", b"\xff" * 5, b"\x01\x00" * 10_000])
def test_any_bytes_are_a_row(packed: bytes) -> None:
    row = read_row(packed)
    assert len(row) <= learnt.MAX_ROW // 2
    assert isinstance(learnt.make_model(np.ones(learnt.SPACE), 0.0, 1).score(row), float)


def test_a_model_learns_what_reports_say() -> None:
    model = train_pool(rows(100))
    assert model is not None
    assert model.reports == 100
    assert model.score(read_row(pack_row([*BAD, "the"]))) > 1
    assert model.score(read_row(pack_row([*GOOD, "the"]))) < -1
    assert model.score(read_row(pack_row(["unheard", "of"]))) == 0.0
    assert train_pool(rows(100)) == model, "the same pool gives the same model"
    assert learnt.parse_learnt(model.to_bytes()) == model


def test_one_side_alone_teaches_nothing() -> None:
    assert train_pool([row for row in rows(200) if row.unwanted]) is None
    assert train_pool(rows(30)) is None


def test_a_party_weighs_no_more_than_its_share() -> None:
    pool = [*rows(100, domain="one"), *rows(300, 2)]
    weights = learnt.limit_parties(pool)
    assert weights[:100].sum() == pytest.approx(max(learnt.MAX_OF_DOMAIN, learnt.DOMAIN_SHARE * 400))
    assert weights[100:].min() == 1.0
    loud = learnt.limit_parties([*rows(900, reporter="loud"), *rows(100, 2)])
    assert loud[:900].sum() == pytest.approx(250.0)


@pytest.mark.parametrize(
    "packed", [b"", b"x", msgspec.msgpack.encode([1]), msgspec.msgpack.encode({"numbers": b"ab", "weights": b""})]
)
def test_what_is_no_model_is_none(packed: bytes) -> None:
    assert learnt.parse_learnt(packed) is None
    assert learnt.parse_learnt_models(packed) == learnt.NO_MODELS


def test_a_model_with_wild_numbers_is_none() -> None:
    wild = LearntModel(b"\x01\x00", np.array([np.inf], "<f2").tobytes())
    assert learnt.parse_learnt(wild.to_bytes()) is None
    assert learnt.parse_learnt(LearntModel(b"", b"", bias=float("nan")).to_bytes()) is None
    assert learnt.parse_learnt(b"\x00" * (2 << 20)) is None


def test_models_of_tenant_and_deployment_speak_together() -> None:
    model = train_pool(rows(100))
    assert model is not None
    own = msgspec.structs.replace(model, scope="tenant", version=7)
    packed = msgspec.msgpack.encode([model.to_bytes(), b"broken", own.to_bytes()])
    assert len(learnt.parse_learnt_models(packed).models) == 1, "no more than two are read"
    both = learnt.parse_learnt_models(msgspec.msgpack.encode([model.to_bytes(), own.to_bytes()]))
    row = pack_row([*BAD, "the"])
    alone, speaking = learnt.LearntModels((model,)).score(row)
    together, said = both.score(row)
    assert together == pytest.approx(2 * alone)
    assert speaking == (model,)
    assert [each.version for each in said] == [0, 7]
    assert learnt.NO_MODELS.score(row) == (0.0, ())
