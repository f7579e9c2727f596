"""Answers of security keys, as they come and as nobody should send them."""

from typing import Any

import msgspec
import pytest
from fido2 import cbor
from tests.web.authenticators import Authenticator

from gatepost.store.second_factors import NewSecurityKey, SecurityKey
from gatepost.store.users import User
from gatepost.web import second_factors
from gatepost.web.forms import Form
from gatepost.web.second_factors import KeyFault, RelyingParty, encode, new_challenge

HERE = RelyingParty("mail.example.com", "https://mail.example.com:9081")
ANN = User("0198a000-0000-7000-8000-000000000001", "ann", "analyst", None, 1)


@pytest.fixture
def key() -> Authenticator:
    return Authenticator(HERE.origin, counter=7)


def form(fields: dict[str, str]) -> Form:
    return Form({name: (value,) for name, value in fields.items()})


def made(key: Authenticator) -> SecurityKey:
    challenge = new_challenge()
    found = second_factors.verify_new_key(HERE, challenge, form(key.make(challenge)))
    assert isinstance(found, NewSecurityKey)
    return SecurityKey("1", ANN.uid, found.credential, found.rp_id, found.public_key, found.counter, "k", "usb", 1)


def answer(keys: list[SecurityKey], challenge: str, fields: dict[str, str]) -> tuple[SecurityKey, int] | KeyFault:
    assertion = second_factors.read_assertion(form(fields))
    if isinstance(assertion, KeyFault):
        return assertion
    return second_factors.verify_assertion(HERE, keys, challenge, assertion)


@pytest.mark.parametrize(
    ("public_url", "host", "found"),
    [
        ("https://mail.example.com", "10.0.0.1:9081", ("mail.example.com", "https://mail.example.com")),
        ("https://mail.example.com:443", "", ("mail.example.com", "https://mail.example.com")),
        ("https://Mail.Example.com:8443", "other", ("mail.example.com", "https://mail.example.com:8443")),
        (None, "mail.example.com:9081", ("mail.example.com", "https://mail.example.com:9081")),
        ("https://127.0.0.1:9081", "localhost:9081", ("localhost", "https://localhost:9081")),
        (None, "127.0.0.1:9081", None),
        (None, "127.1", None),
        (None, "[::1]:9081", None),
        (None, "", None),
        (None, "[", None),
        (None, "a b", None),
        (None, "a/../b", ("a", "https://a")),
        (None, "host:99999", None),
        (None, "x" * 64, None),
        (None, "user@host", ("host", "https://host")),
    ],
)
def test_whom_keys_sign_for(public_url: str | None, host: str, found: tuple[str, str] | None) -> None:
    party = second_factors.find_relying_party(public_url, host)
    assert (party and (party.id, party.origin)) == found


def test_a_key_is_made_and_signs(key: Authenticator) -> None:
    stored = made(key)
    assert (stored.credential, stored.rp_id, stored.counter) == (encode(key.credential), HERE.id, 7)
    challenge = new_challenge()
    assert answer([stored], challenge, key.sign(challenge)) == (stored, 8)


def test_what_a_browser_is_asked(key: Authenticator) -> None:
    stored = made(key)
    elsewhere = msgspec.structs.replace(stored, rp_id="other.example")
    wanted = second_factors.creation_options(HERE, ANN, [stored, elsewhere], "c")
    assert (wanted["rp"]["id"], wanted["attestation"]) == (HERE.id, "none")
    assert [each["id"] for each in wanted["excludeCredentials"]] == [stored.credential]
    asked = second_factors.request_options(HERE, [stored, elsewhere], "c")
    assert asked["allowCredentials"] == [{"type": "public-key", "id": stored.credential, "transports": ["usb"]}]


def test_transports_that_nobody_knows_are_dropped(key: Authenticator) -> None:
    challenge = new_challenge()
    found = second_factors.verify_new_key(HERE, challenge, form(key.make(challenge)))
    assert isinstance(found, NewSecurityKey)
    assert found.transports == "usb nfc"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"origin": "https://mail.example.com"}, "origin"),
        ({"origin": "https://mail.example.com:9081.evil.example"}, "origin"),
        ({"origin": "http://mail.example.com:9081"}, "origin"),
        ({"rp_id": "evil.example"}, "RP ID"),
        ({"flags": 0}, "User Present"),
        ({"cross_origin": True}, "frame"),
    ],
)
def test_an_answer_for_somebody_else(key: Authenticator, change: dict[str, Any], reason: str) -> None:
    stored = made(key)
    for name, value in change.items():
        setattr(key, name, value)
    challenge = new_challenge()
    refused = answer([stored], challenge, key.sign(challenge))
    assert isinstance(refused, KeyFault)
    assert reason in refused.reason
    refused_key = second_factors.verify_new_key(HERE, challenge, form(key.make(challenge)))
    assert isinstance(refused_key, KeyFault)
    assert reason in refused_key.reason


def test_another_challenge_kind_key_or_signature(key: Authenticator) -> None:
    stored, other = made(key), made(Authenticator(HERE.origin))
    challenge = new_challenge()
    signed = key.sign(challenge)
    assert isinstance(answer([stored], new_challenge(), signed), KeyFault), "the challenge is another one"
    assert isinstance(answer([stored], challenge, key.sign(challenge, "webauthn.create")), KeyFault)
    assert isinstance(answer([other], challenge, signed), KeyFault), "the key is somebody else's"
    forged = msgspec.structs.replace(other, credential=stored.credential)
    assert isinstance(answer([forged], challenge, signed), KeyFault), "the signature is not of the stored key"
    elsewhere = msgspec.structs.replace(stored, rp_id="other.example")
    assert isinstance(answer([elsewhere], challenge, signed), KeyFault), "the key was made for another host"
    assert isinstance(
        second_factors.verify_new_key(HERE, challenge, form(key.make(challenge, "webauthn.get"))), KeyFault
    )
    assert isinstance(second_factors.verify_new_key(HERE, new_challenge(), form(key.make(challenge))), KeyFault)


@pytest.mark.parametrize(
    "change",
    [{3: -65535}, {3: -47}, {3: None}, {-1: 3}, {-2: b"\0" * 32}, {-2: b""}, {-2: "text"}, {-3: b"\xff" * 4000}],
)
def test_a_key_that_can_verify_nothing(key: Authenticator, change: dict[int, Any]) -> None:
    key.public = {name: value for name, value in {**key.public, **change}.items() if value is not None}
    challenge = new_challenge()
    assert isinstance(second_factors.verify_new_key(HERE, challenge, form(key.make(challenge))), KeyFault)


def test_credential_ids_of_any_length(key: Authenticator) -> None:
    for length, taken in ((0, False), (1, True), (1023, True), (1024, False)):
        key.credential = b"x" * length
        challenge = new_challenge()
        found = second_factors.verify_new_key(HERE, challenge, form(key.make(challenge)))
        assert isinstance(found, NewSecurityKey) == taken, length


def _hostile_parts(honest: bytes) -> list[bytes]:
    cut = [honest[:length] for length in range(0, len(honest), 3)]
    flipped = [honest[:at] + bytes([honest[at] ^ 0xFF]) + honest[at + 1 :] for at in range(0, len(honest), 3)]
    deep = [b"\x81" * 4000, b"\xa1\x00" * 2000, b"[" * 2500, b"{" * 2500]
    huge = [b"\x9b" + b"\xff" * 8, b"\xbb" + b"\xff" * 8, b"\x5b" + b"\xff" * 8, b"\x7b" + b"\xff" * 8]
    odd = [
        b"",
        b"\xf6",
        b"\xff",
        b"\xa1\x80\x00",
        b"null",
        b"[]",
        b"{}",
        b'{"type":1,"challenge":2,"origin":3}',
        b"\xef" * 50,
    ]
    return [*cut, *flipped, *deep, *huge, *odd, honest + b"\0", cbor.encode({"fmt": 1, "attStmt": 2, "authData": 3})]


def test_no_bytes_raise_through_the_reader_of_new_keys(key: Authenticator) -> None:
    challenge = new_challenge()
    honest = key.make(challenge)
    client_data, attestation = key.client_data("webauthn.create", challenge), key.attestation()
    for part in _hostile_parts(attestation):
        found = second_factors.verify_new_key(HERE, challenge, form({**honest, "key-attestation": encode(part)}))
        # Without attestation nobody vouches for these bytes: some of them may be flipped, and the key is another one.
        assert isinstance(found, KeyFault) or len(part) == len(attestation), part
    for part in _hostile_parts(client_data):
        refused = second_factors.verify_new_key(HERE, challenge, form({**honest, "key-client-data": encode(part)}))
        assert isinstance(refused, KeyFault), part


def test_no_bytes_raise_through_the_reader_of_answers(key: Authenticator) -> None:
    stored, challenge = made(key), new_challenge()
    honest = key.sign(challenge)
    assert not isinstance(answer([stored], challenge, honest), KeyFault)
    for name in ("key-client-data", "key-authenticator-data", "key-signature"):
        before = second_factors._read_part(form(honest), name)
        assert before
        for part in _hostile_parts(before):
            assert isinstance(answer([stored], challenge, {**honest, name: encode(part)}), KeyFault), (name, part)
    for name in ("key-id", "key-client-data", "key-authenticator-data", "key-signature"):
        for text in ("", "a", "!!!!", "é" * 8, "A" * 20_000, "\0"):
            assert isinstance(answer([stored], challenge, {**honest, name: text}), KeyFault), (name, text[:20])


def test_a_refusal_names_no_value() -> None:
    assert second_factors._name_fault(KeyError("secret of somebody")) == "KeyError"
    assert second_factors._name_fault(ValueError("Wrong length")) == "Wrong length"
    assert second_factors._name_fault(ValueError("x" * 200)) == "ValueError"
