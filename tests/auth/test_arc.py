"""ARC: chains made here and validated, broken ones, and the work that a long one may cost."""

import hashlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.auth.signatures import KEY, Bench, add_seal, read_signed, sign

from gatepost.auth import dkim
from gatepost.auth.dkim import INSTANCES_MAX, KEYS_MAX, MESSAGE, RESULTS, SEAL, validate
from gatepost.auth.results import Arc
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.questions import DnsAnswer

NOW = 1_700_000_000.0
MAIL = b"From: ann@example.org\r\nTo: list@example.net\r\nSubject: Hello\r\nDate: today\r\n\r\nHello.\r\n"


class ArcBench(Bench):
    """What validating gives."""

    def chain(self, length: int, raw: bytes = MAIL, **tags: str) -> bytes:
        for instance in range(1, length + 1):
            raw = self.seal(raw, instance, **tags)
        return raw

    def seal(self, raw: bytes, instance: int, **tags: str) -> bytes:
        return add_seal(raw, self.key, instance, **tags)

    def result(self, raw: bytes, share: SignedMessage | None = None) -> Arc:
        return self.run(validate(share or read_signed(raw), NOW))


@pytest.fixture
def bench() -> ArcBench:
    return ArcBench()


@pytest.mark.parametrize("kind", ["rsa1024", "ed25519"])
@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_whole_chains(kind: str, length: int) -> None:
    bench = ArcBench(kind)
    assert bench.result(bench.chain(length)) == Arc("pass", length, ("example.org",) * length)
    assert bench.asked == [KEY]


def test_no_chain(bench: ArcBench) -> None:
    assert bench.result(MAIL) == Arc("none")
    assert bench.asked == []


def test_an_honest_change_before_the_last_seal(bench: ArcBench) -> None:
    changed = bench.chain(1).replace(b"Hello.", b"Hello.\r\n-- \r\nthe list")
    assert bench.result(changed).reason == "the body was changed"
    resealed = bench.seal(changed, 2)
    assert bench.result(resealed).result == "pass"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Hello.", b"Hallo."),
        (b"Subject: Hello", b"Subject: Pay"),
        (b"i=1; mx.example; spf=pass", b"i=1; mx.example; spf=fail"),
        (b"i=2; mx.example; spf=pass", b"i=2; mx.example; spf=fail"),
        (b"ARC-Authentication-Results: i=1; ", b"ARC-Authentication-Results: mx; i=1; "),
        (b"ARC-Authentication-Results: i=1; ", b"X: i=1; "),
        (b"ARC-Seal: i=1;", b"ARC-Seal: i=3;"),
        (b"ARC-Seal: i=1;", b"ARC-Seal: i=2;"),
        (b"ARC-Seal: i=1;", b"ARC-Seal: i=1; h=from;"),
        (b"ARC-Seal: i=1;", b"ARC-Seal: i=0x1;"),
        (b"cv=none", b"cv=pass"),
        (b"cv=pass", b"cv=none"),
        (b"cv=pass", b"cv=fail"),
        (b"cv=pass", b"cv=Pass"),
    ],
)
def test_broken_chains(bench: ArcBench, old: bytes, new: bytes) -> None:
    whole = bench.chain(2)
    assert old in whole
    assert bench.result(whole.replace(old, new)).result == "fail"


def test_a_chain_sealed_as_broken_stays_broken(bench: ArcBench) -> None:
    found = bench.result(bench.seal(bench.chain(1), 2, chain="fail"))
    assert (found.result, found.reason) == ("fail", "the chain was broken before")
    assert bench.asked == []


def test_missing_fields(bench: ArcBench) -> None:
    for name in (b"ARC-Seal", b"ARC-Message-Signature", b"ARC-Authentication-Results"):
        assert bench.result(bench.chain(1).replace(name, b"X")).result == "fail"


def test_a_seal_may_not_be_signed_by_the_message_signature(bench: ArcBench) -> None:
    assert bench.result(bench.chain(2, names="from:arc-seal")).result == "fail"


@pytest.mark.parametrize(("status", "result"), [("failed", "temperror"), ("no-name", "fail"), ("no-data", "fail")])
def test_keys_that_are_not_there(bench: ArcBench, status: Any, result: str) -> None:
    bench.zone = {KEY: DnsAnswer(status)}
    assert bench.result(bench.chain(2)).result == result


def test_one_lost_key_is_enough(bench: ArcBench) -> None:
    raw = bench.seal(bench.chain(1, s="lost"), 2)
    found = bench.zone[KEY]
    for answer, result in ((DnsAnswer("failed"), "temperror"), (DnsAnswer("no-name"), "fail"), (found, "pass")):
        bench.zone["lost._domainkey.example.org"] = answer
        share = read_signed(raw)
        assert bench.result(raw, share).result == result
        assert share.hashed == (len(b"Hello.\r\n") if result == "pass" else 0)


def test_weak_keys_are_not_accepted() -> None:
    bench = ArcBench("weak")
    assert "768 bits" in bench.result(bench.chain(1)).reason


def test_the_longest_chain(bench: ArcBench) -> None:
    raw = bench.chain(INSTANCES_MAX)
    share = read_signed(raw)
    assert bench.result(raw, share) == Arc("pass", INSTANCES_MAX, ("example.org",) * INSTANCES_MAX)
    assert share.hashed == len(b"Hello.\r\n")


def test_a_longer_chain_is_refused(bench: ArcBench) -> None:
    field = tuple(Field(name, "", b"X: i=1; a=b\r\n") for name in (RESULTS, MESSAGE, SEAL))
    found = bench.result(b"", SignedMessage(b"", 0, field * 10_000))
    assert (found.result, bench.asked) == ("fail", [])


def test_seals_are_hashed_in_one_run(bench: ArcBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A naive reading hashes the first set once for every seal after it."""
    fed: list[int] = []
    whole = hashlib.sha256

    class Counting:
        def __init__(self, inner: Any = None) -> None:
            self.inner = inner or whole()

        def update(self, data: bytes) -> None:
            fed.append(len(data))
            self.inner.update(data)

        def copy(self) -> "Counting":
            return Counting(self.inner.copy())

        def digest(self) -> bytes:
            digest: bytes = self.inner.digest()
            return digest

    raw = bench.chain(20)
    monkeypatch.setattr(hashlib, "sha256", Counting)
    assert bench.result(raw).result == "pass"
    assert sum(fed) < 2 * len(raw)


def test_many_keys_are_not_asked_for(bench: ArcBench) -> None:
    raw = MAIL
    for instance in range(1, KEYS_MAX + 2):
        raw = bench.seal(raw, instance, s=f"s{instance}")
    assert bench.result(raw).result == "fail"
    assert bench.asked == []


def test_dkim_and_arc_share_the_body(bench: ArcBench) -> None:
    raw = bench.chain(1, sign(MAIL, bench.key))
    share = read_signed(raw)
    assert bench.result(raw, share).result == "pass"
    (result,) = bench.run(dkim.verify(share, NOW))
    assert (result.result, share.hashed) == ("pass", len(b"Hello.\r\n"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_a_changed_byte_never_validates(bench: ArcBench, data: st.DataObject) -> None:
    raw = bench.chain(2)
    spots = [spot for spot, byte in enumerate(raw) if chr(byte).isalnum() and raw.rfind(b"b=", 0, spot) < 0]
    spots += range(raw.index(b"From:"), len(raw.rstrip()))
    spot = data.draw(st.sampled_from(spots))
    other = data.draw(st.sampled_from(b"!#%xyz").filter(lambda byte: byte != raw[spot]))
    changed = raw[:spot] + bytes([other]) + raw[spot + 1 :]
    unfolded = raw[spot] in b" \t\r\n"
    assert unfolded or bench.result(changed).result != "pass"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.sampled_from([RESULTS, MESSAGE, SEAL, "from"]), st.binary(max_size=60)), max_size=8))
def test_nothing_raises(bench: ArcBench, parts: list[tuple[str, bytes]]) -> None:
    tags = b"x: i=1; a=rsa-sha256; d=example.org; s=sel; h=from; bh=AAAA; b=AAAA; cv=none; "
    for start in (b"x: ", tags):
        fields = tuple(Field(name, "", start + value) for name, value in parts)
        whole = (*fields, *(Field(name, "", tags) for name in (RESULTS, MESSAGE, SEAL)))
        for each in (fields, whole):
            found = bench.result(b"", SignedMessage(b"body", 0, each))
            assert found.result in ("none", "fail")


@pytest.mark.parametrize(
    ("results", "origin"),
    [("spf=pass; dmarc=pass (p=reject)", "pass"), ("spf=pass;\r\n dmarc = FAIL", "fail"), ("spf=pass", "")],
)
def test_what_the_first_seal_states(bench: ArcBench, results: str, origin: str) -> None:
    raw = bench.chain(1).replace(b"ARC-Authentication-Results:", b"X:", 1)
    field = f"ARC-Authentication-Results: i=1; mx.example.org; {results}\r\n"
    assert bench.result(field.encode() + raw).origin == origin
