"""ARC: chains made here and validated, broken ones, and the work that a long one may cost."""

import hashlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.auth import dkim
from gatepost.auth.dkim import INSTANCES_MAX, KEYS_MAX, MESSAGE, RESULTS, SEAL, validate
from gatepost.auth.results import Arc
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.questions import DnsAnswer

NOW = 1_700_000_000.0
KEY = "sel._domainkey.example.org"
MAIL = b"From: ann@example.org\r\nTo: list@example.net\r\nSubject: Hello\r\nDate: today\r\n\r\nHello.\r\n"


class Bench:
    """A zone with a key, and what validating gives."""

    def __init__(self, signing: Any, answered: Any, kind: str = "rsa1024") -> None:
        self.signing = signing
        self.answered = answered
        self.key = signing.key(kind)
        self.answer = DnsAnswer("found", (signing.record(self.key),))
        self.zone = {KEY: self.answer}
        self.asked: list[str] = []

    def chain(self, length: int, raw: bytes = MAIL, **tags: str) -> bytes:
        for instance in range(1, length + 1):
            raw = self.signing.sealed(raw, self.key, instance, **tags)
        return raw

    def result(self, raw: bytes, share: SignedMessage | None = None) -> Arc:
        end, fields = self.signing.split(raw)
        found: Arc = self.answered(validate(share or SignedMessage(raw, end, fields), NOW), self.zone, self.asked)
        return found


@pytest.fixture
def bench(signing: Any, answered: Any) -> Bench:
    return Bench(signing, answered)


@pytest.mark.parametrize("kind", ["rsa1024", "ed25519"])
@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_whole_chains(signing: Any, answered: Any, kind: str, length: int) -> None:
    bench = Bench(signing, answered, kind)
    assert bench.result(bench.chain(length)) == Arc("pass", length, ("example.org",) * length)
    assert bench.asked == [KEY]


def test_no_chain(bench: Bench) -> None:
    assert bench.result(MAIL) == Arc("none")
    assert bench.asked == []


def test_an_honest_change_before_the_last_seal(bench: Bench) -> None:
    changed = bench.chain(1).replace(b"Hello.", b"Hello.\r\n-- \r\nthe list")
    assert bench.result(changed).reason == "the body was changed"
    resealed = bench.signing.sealed(changed, bench.key, 2)
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
def test_broken_chains(bench: Bench, old: bytes, new: bytes) -> None:
    whole = bench.chain(2)
    assert old in whole
    assert bench.result(whole.replace(old, new)).result == "fail"


def test_a_chain_sealed_as_broken_stays_broken(bench: Bench) -> None:
    found = bench.result(bench.signing.sealed(bench.chain(1), bench.key, 2, chain="fail"))
    assert (found.result, found.reason) == ("fail", "the chain was broken before")
    assert bench.asked == []


def test_missing_fields(bench: Bench) -> None:
    for name in (b"ARC-Seal", b"ARC-Message-Signature", b"ARC-Authentication-Results"):
        assert bench.result(bench.chain(1).replace(name, b"X")).result == "fail"


def test_a_seal_may_not_be_signed_by_the_message_signature(bench: Bench) -> None:
    assert bench.result(bench.chain(2, names="from:arc-seal")).result == "fail"


@pytest.mark.parametrize(("status", "result"), [("failed", "temperror"), ("no-name", "fail"), ("no-data", "fail")])
def test_keys_that_are_not_there(bench: Bench, status: Any, result: str) -> None:
    bench.zone = {KEY: DnsAnswer(status)}
    assert bench.result(bench.chain(2)).result == result


def test_one_lost_key_is_enough(bench: Bench) -> None:
    raw = bench.signing.sealed(bench.chain(1, s="lost"), bench.key, 2)
    end, fields = bench.signing.split(raw)
    for answer, result in ((DnsAnswer("failed"), "temperror"), (DnsAnswer("no-name"), "fail"), (bench.answer, "pass")):
        bench.zone["lost._domainkey.example.org"] = answer
        share = SignedMessage(raw, end, fields)
        assert bench.result(raw, share).result == result
        assert share.hashed == (len(b"Hello.\r\n") if result == "pass" else 0)


def test_weak_keys_are_not_accepted(signing: Any, answered: Any) -> None:
    bench = Bench(signing, answered, "weak")
    assert "768 bits" in bench.result(bench.chain(1)).reason


def test_the_longest_chain(bench: Bench) -> None:
    end, fields = bench.signing.split(raw := bench.chain(INSTANCES_MAX))
    share = SignedMessage(raw, end, fields)
    assert bench.result(raw, share) == Arc("pass", INSTANCES_MAX, ("example.org",) * INSTANCES_MAX)
    assert share.hashed == len(b"Hello.\r\n")


def test_a_longer_chain_is_refused(bench: Bench) -> None:
    field = tuple(Field(name, "", b"X: i=1; a=b\r\n") for name in (RESULTS, MESSAGE, SEAL))
    found = bench.answered(validate(SignedMessage(b"", 0, field * 10_000), NOW), {}, bench.asked)
    assert (found.result, bench.asked) == ("fail", [])


def test_seals_are_hashed_in_one_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_many_keys_are_not_asked_for(bench: Bench) -> None:
    raw = MAIL
    for instance in range(1, KEYS_MAX + 2):
        raw = bench.signing.sealed(raw, bench.key, instance, s=f"s{instance}")
    assert bench.result(raw).result == "fail"
    assert bench.asked == []


def test_dkim_and_arc_share_the_body(bench: Bench) -> None:
    raw = bench.chain(1, bench.signing.signed(MAIL, bench.key))
    end, fields = bench.signing.split(raw)
    share = SignedMessage(raw, end, fields)
    assert bench.result(raw, share).result == "pass"
    (result,) = bench.answered(dkim.verify(share, NOW), bench.zone, None)
    assert (result.result, share.hashed) == ("pass", len(b"Hello.\r\n"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_a_changed_byte_never_validates(bench: Bench, data: st.DataObject) -> None:
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
def test_nothing_raises(bench: Bench, parts: list[tuple[str, bytes]]) -> None:
    tags = b"x: i=1; a=rsa-sha256; d=example.org; s=sel; h=from; bh=AAAA; b=AAAA; cv=none; "
    for start in (b"x: ", tags):
        fields = tuple(Field(name, "", start + value) for name, value in parts)
        whole = (*fields, *(Field(name, "", tags) for name in (RESULTS, MESSAGE, SEAL)))
        for each in (fields, whole):
            found = bench.answered(validate(SignedMessage(b"body", 0, each), NOW), bench.zone, None)
            assert found.result in ("none", "fail")


@pytest.mark.parametrize(
    ("results", "origin"),
    [("spf=pass; dmarc=pass (p=reject)", "pass"), ("spf=pass;\r\n dmarc = FAIL", "fail"), ("spf=pass", "")],
)
def test_what_the_first_seal_states(bench: Bench, results: str, origin: str) -> None:
    raw = bench.chain(1).replace(b"ARC-Authentication-Results:", b"X:", 1)
    field = f"ARC-Authentication-Results: i=1; mx.example.org; {results}\r\n"
    assert bench.result(field.encode() + raw).origin == origin
