"""Key records: which are used, which are refused and why."""

import base64
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth import dkim
from gatepost.auth.dkim import DkimKey, NoKey, select_keys
from gatepost.questions import DnsAnswer

E = 65537


def spelled(public: PublicKeyTypes, form: PublicFormat = PublicFormat.SubjectPublicKeyInfo) -> str:
    return base64.b64encode(public.public_bytes(Encoding.DER, form)).decode()


@cache
def rsa_public(bits: int, exponent: int = E) -> rsa.RSAPublicKey:
    """A modulus of the right size is enough to be read: nobody has the secret half."""
    modulus = (1 << bits) - 159
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


GOOD = spelled(rsa_public(1024))
ED = base64.b64encode(ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32).public_key().public_bytes_raw()).decode()


def outcome(record: str, kind: str = "rsa", hashing: str = "sha256") -> DkimKey | str:
    found = select_keys(DnsAnswer("found", (record,)), kind, hashing)
    return f"{found.result}: {found.reason}" if isinstance(found, NoKey) else found[0]


@pytest.mark.parametrize(
    "record",
    [
        f"v=DKIM1; k=rsa; p={GOOD}",
        f"p={GOOD}",
        f"k=rsa; t=y; p={GOOD}; n=a note;",
        f"v=DKIM1; h=sha1:sha256; s=email:other; p={GOOD}",
        f"v=DKIM1; s=*; x=unknown; g=nobody; p={GOOD[:70]} {GOOD[70:]}",
        f"p={GOOD.rstrip('=')}",
        f"p={spelled(rsa_public(1024), PublicFormat.PKCS1)}",
        f"p={spelled(rsa_public(4096))}",
    ],
)
def test_usable(record: str) -> None:
    assert isinstance(outcome(record), DkimKey)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("", "malformed"),
        ("v=DKIM1; k=rsa; nonsense", "malformed"),
        ("v=DKIM1; k=rsa", "malformed"),
        (f"v=DKIM1; p={GOOD}; p={GOOD}", "malformed"),
        ("v=DKIM1; p=", "revoked"),
        ("v=DKIM1; p=AAAA", "malformed"),
        ("v=DKIM1; p=not base64!", "malformed"),
        ("v=DKIM1; p=\xff", "malformed"),
        (f"v=DKIM2; p={GOOD}", "version"),
        (f"k=rsa; v=DKIM1; p={GOOD}", "version"),  # must come first
        (f"v=DKIM1; k=ed25519; p={GOOD}", "another type"),
        (f"v=DKIM1; h=sha1; p={GOOD}", "hash"),
        (f"v=DKIM1; s=chat; p={GOOD}", "not for mail"),
        (f"p={spelled(rsa_public(504))}", "504 bits"),
        (f"p={spelled(rsa_public(4104))}", "4104 bits"),
        (f"p={spelled(rsa_public(16384))}", "too long"),
        (f"p={spelled(rsa_public(2048, (1 << 64) + 13))}", "exponent"),
        (f"p={spelled(ec.derive_private_key(7, ec.SECP256R1()).public_key())}", "not an RSA key"),
        ("v=DKIM1; n=" + "x" * 10_000 + f"; p={GOOD}", "malformed"),
    ],
)
def test_unusable(record: str, reason: str) -> None:
    got = outcome(record)
    assert isinstance(got, str)
    assert got.startswith("permerror: ")
    assert reason in got


def test_ed25519_is_its_bare_octets() -> None:
    assert isinstance(outcome(f"k=ed25519; p={ED}", "ed25519"), DkimKey)
    whole = spelled(ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32).public_key())
    assert "malformed" in str(outcome(f"k=ed25519; p={whole}", "ed25519"))
    assert "another type" in str(outcome(f"p={ED}", "ed25519"))


def test_flags_and_bits() -> None:
    key = outcome(f"t=y : s; p={GOOD}")
    assert isinstance(key, DkimKey)
    assert (key.testing, key.strict, key.bits) == (True, True, 1024)
    assert (key.is_weak(1024), key.is_weak(2048)) == (False, True)
    weak = outcome(f"p={spelled(rsa_public(768))}")
    assert isinstance(weak, DkimKey)
    assert weak.is_weak(1024)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (DnsAnswer("failed"), "temperror"),
        (DnsAnswer("no-name"), "permerror"),
        (DnsAnswer("no-data"), "permerror"),
        (DnsAnswer("found", ()), "permerror"),
    ],
)
def test_no_answer(answer: DnsAnswer, result: str) -> None:
    found = select_keys(answer, "rsa", "sha256")
    assert isinstance(found, NoKey)
    assert found.result == result


def test_several_records() -> None:
    records = ("v=spf1 -all", f"p={GOOD}", f"p={spelled(rsa_public(2048))}", *[f"p={GOOD}"] * 50)
    found = select_keys(DnsAnswer("found", records), "rsa", "sha256")
    assert not isinstance(found, NoKey)
    assert [key.bits for key in found] == [1024, 2048]


def test_keys_are_read_once_and_few_are_kept() -> None:
    dkim.load_public_key.cache_clear()
    for _ in range(3):
        outcome(f"p={GOOD}")
    assert (dkim.load_public_key.cache_info().misses, dkim.load_public_key.cache_info().maxsize) == (1, 256)


@given(st.text(), st.sampled_from(["rsa", "ed25519"]), st.binary(max_size=300))
def test_no_record_raises(text: str, kind: str, octets: bytes) -> None:
    for record in (text, f"p={text}", f"k={kind}; p={base64.b64encode(octets).decode()}"):
        select_keys(DnsAnswer("found", (record,)), kind, "sha256")


@given(st.binary(max_size=200))
def test_no_signature_raises(value: bytes) -> None:
    for record, kind in ((f"p={GOOD}", "rsa"), (f"k=ed25519; p={ED}", "ed25519")):
        key = outcome(record, kind)
        assert isinstance(key, DkimKey)
        assert not key.proves(value, b"d" * 32, "sha256")
