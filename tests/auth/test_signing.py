"""DKIM signatures and ARC sets that we make: verified by our own verifier and by an independent one."""

import itertools
from typing import Any

import dkim as independent  # type: ignore[import-untyped]
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from tests.asking import run_asking
from tests.auth.signatures import make_record, read_signed

from gatepost.auth import dkim
from gatepost.auth.results import Authentication, format_header
from gatepost.auth.signature import canonicalise_body, canonicalise_pieces
from gatepost.auth.signing import MAX_INSTANCE, SigningKey, hash_body, make_arc_set, make_dkim_signature, read_sets
from gatepost.mail.message import Field
from gatepost.mail.reader import read
from gatepost.questions import DnsAnswer

NOW = 1_794_302_520
RSA = SigningKey("example.com", "r1", generate_private_key(public_exponent=65_537, key_size=1_024))
ED = SigningKey("example.com", "e1", Ed25519PrivateKey.generate())
HEAD = (
    b"Received: x\r\nFrom: Ann <a@example.com>\r\nTo: b@y.example,\r\n\tc@y.example\r\n"
    b"Subject:  =?utf-8?q?gr=C3=BC?= \r\nDate: Mon, 16 Nov 2026 02:00:00 +0000\r\nMessage-ID: <1@example.com>\r\n"
)
BODY = b"Hello  \t world \r\n\r\n\r\n--end\r\n \r\n\r\n"


RECORDS = {f"{key.selector}._domainkey.example.com": make_record(key.private) for key in (RSA, ED)}


def lookup(name: bytes, timeout: int = 5) -> bytes:
    return RECORDS.get(name.decode().rstrip("."), "").encode()


def fields_of(raw: bytes) -> list[Field]:
    return list(read(raw).headers.fields)


def ours(verify: Any, raw: bytes) -> Any:
    """Run a verifier of ours with these records for DNS."""
    asking = verify(read_signed(raw), NOW + 1)
    return run_asking(asking, lambda question: DnsAnswer("found", (RECORDS[question.name],)))


def signed(key: SigningKey, head: bytes = HEAD, body: bytes = BODY) -> bytes:
    made = make_dkim_signature(fields_of(head + b"\r\n"), hash_body([body]), key, NOW)
    assert made is not None
    return made + head + b"\r\n" + body


@pytest.mark.parametrize("key", [RSA, ED])
@pytest.mark.parametrize("body", [BODY, b"", b"\r\n", b"no end", b" \r\n"])
def test_a_signature_is_verified_by_both(key: SigningKey, body: bytes) -> None:
    raw = signed(key, body=body)
    (found,) = ours(dkim.verify, raw)
    assert (found.result, found.domain, found.selector, found.algorithm) == (
        *("pass", "example.com", key.selector),
        key.algorithm,
    )
    assert independent.verify(raw, dnsfunc=lookup)
    assert all(len(line) <= 100 for line in raw.split(b"\r\n\r\n")[0].split(b"\r\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Hello", b"Hallo"),
        (b"From: Ann", b"From: Bob"),
        (b"\r\nTo:", b"\r\nSubject: another one\r\nTo:"),
        (b"\r\nTo:", b"\r\nFrom: x@evil.example\r\nTo:"),
        (b"\r\nTo:", b"\r\nReply-To: x@evil.example\r\nTo:"),
    ],
)
def test_a_change_or_a_field_that_is_added_breaks_it(old: bytes, new: bytes) -> None:
    raw = signed(RSA).replace(old, new, 1)
    (found,) = ours(dkim.verify, raw)
    assert found.result == "fail"
    assert not independent.verify(raw, dnsfunc=lookup)


def test_more_fields_than_can_be_signed() -> None:
    assert make_dkim_signature([Field("to", "", b"To: x\r\n")] * 300, "x", RSA, NOW) is None
    assert "private" not in repr(RSA)


@given(st.lists(st.sampled_from([b"a", b"  ", b"\t", b"\r\n", b"b c ", b"\r\n\r\n"]), max_size=12), st.integers(1, 5))
def test_pieces_of_a_body_hash_as_the_whole(words: list[bytes], size: int) -> None:
    body = b"".join(words)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    # A cut inside of CRLF is one that no reader makes: both are white space, and stay together.
    assert b"".join(canonicalise_pieces(pieces)) == b"".join(canonicalise_body(body, 0, relaxed=True))


def sealed(raw: bytes, key: SigningKey, chain: str) -> bytes | None:
    results = format_header("gate.example", Authentication())
    head, _, body = raw.partition(b"\r\n\r\n")
    made = make_arc_set(fields_of(head + b"\r\n\r\n"), hash_body([body]), results, key, NOW, chain)
    return None if made is None else made + raw


@pytest.mark.parametrize("key", [RSA, ED])
def test_chains_are_validated_by_both(key: SigningKey) -> None:
    raw: bytes | None = HEAD + b"\r\n" + BODY
    for number, chain in enumerate(("none", "pass", "pass"), 1):
        raw = sealed(raw or b"", key, chain)
        assert raw is not None
        found = ours(dkim.validate, raw)
        assert (found.result, found.instances) == ("pass", number)
        if key is RSA:  # the other verifier knows no other algorithm for ARC
            assert independent.arc_verify(raw, dnsfunc=lookup)[0] == b"pass"
    changed = (raw or b"").replace(b"Hello", b"Hallo")
    assert ours(dkim.validate, changed).result == "fail"
    # A hop that changes the message seals it again, over what it saw.
    again = sealed(changed, key, "pass")
    assert ours(dkim.validate, again or b"").result == "pass"


def test_a_broken_chain_is_marked_once_and_not_sealed_again() -> None:
    first = sealed(HEAD + b"\r\n" + BODY, RSA, "none") or b""
    broken = sealed(first.replace(b"Hello", b"Hallo"), RSA, "fail")
    assert broken is not None
    assert b"cv=fail" in broken.partition(b"\r\nARC-Message")[0]
    assert ours(dkim.validate, broken).result == "fail"
    assert sealed(broken, RSA, "fail") is None
    assert sealed(first, RSA, "temperror") is None


def test_sets_that_are_not_in_order_are_not_sealed() -> None:
    raw = sealed(HEAD + b"\r\n" + BODY, RSA, "none") or b""
    for wrong in (
        raw.replace(b"ARC-Seal: i=1", b"ARC-Seal: i=2"),
        raw.replace(b"ARC-Authentication-Results: i=1", b"ARC-Authentication-Results: j=1"),
        b"ARC-Seal: i=1; cv=none\r\n" + raw,
    ):
        assert read_sets(fields_of(wrong)) is None
        assert sealed(wrong, RSA, "pass") is None
    many = itertools.chain.from_iterable(
        (
            Field("arc-seal", "", b"ARC-Seal: i=%d; cv=pass\r\n" % number),
            Field("arc-message-signature", "", b"ARC-Message-Signature: i=%d\r\n" % number),
            Field("arc-authentication-results", "", b"ARC-Authentication-Results: i=%d; x\r\n" % number),
        )
        for number in range(1, MAX_INSTANCE + 1)
    )
    assert make_arc_set(list(many), "x", b"A: b", RSA, NOW, "pass") is None
