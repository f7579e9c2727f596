"""Headers of id tokens that somebody makes up: what a token says of its own key and checks is not believed."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gatepost.settings.keys import AccessRuleSettings, OpenidConnectSettings
from gatepost.web.openid import Provider, TokenError, verify_id_token
from gatepost.web.openid_keys import SigningKey, read_keys

NOW, NONCE = 1_790_000_000, "the nonce of this browser"
ISSUER = "https://id.example"
OWN = rsa.generate_private_key(public_exponent=65537, key_size=2048)
STRANGE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CLAIMS = {"iss": ISSUER, "aud": "gatepost", "sub": "1", "nonce": NONCE, "iat": NOW, "exp": NOW + 300}


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def describe(key: rsa.RSAPrivateKey, **more: str) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    return {"kty": "RSA", "n": encode(numbers.n.to_bytes(size, "big")), "e": encode(b"\1\0\1"), **more}


def sign(key: rsa.RSAPrivateKey, header: dict[str, Any] | str, claims: dict[str, Any] | None = None) -> str:
    stated = header if isinstance(header, str) else json.dumps(header)
    content = f"{encode(stated.encode())}.{encode(json.dumps(claims or CLAIMS).encode())}"
    return f"{content}.{encode(key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class KnownKeys(Provider):
    """The provider as it is known after it was asked: nothing else is fetched."""

    def __init__(self) -> None:
        rule = AccessRuleSettings(claim="groups", value="x", role="auditor")
        super().__init__(OpenidConnectSettings(issuer=ISSUER, client_id="gatepost", access=[rule]))
        self.asked: list[tuple[str, str]] = []

    async def keys(self, kid: str, algorithm: str) -> tuple[SigningKey, ...]:
        self.asked.append((kid, algorithm))
        found = read_keys({"keys": [describe(OWN, kid="own")]})
        return tuple(each for each in found if each.algorithm == algorithm and kid in ("", each.kid))


async def test_a_token_of_the_provider_is_believed() -> None:
    assert await verify_id_token(sign(OWN, {"alg": "RS256", "kid": "own"}), KnownKeys(), NONCE, NOW) == CLAIMS


def forge(alg: str) -> str:
    """A token whose signature is made of what is public."""
    pem = OWN.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    content = f"{encode(json.dumps({'alg': alg, 'kid': 'own'}).encode())}.{encode(json.dumps(CLAIMS).encode())}"
    return f"{content}.{encode(hmac.digest(pem, content.encode(), hashlib.sha256)) if alg.startswith('HS') else ''}"


OWN_HEADER = {"alg": "RS256", "kid": "own"}
FORGED = {
    **{f"alg {alg}": forge(alg) for alg in ("none", "None", "NONE", "nOnE", "HS256", "HS384", "", "RS256")},
    "its own key": sign(STRANGE, {**OWN_HEADER, "jwk": describe(STRANGE, kid="own")}),
    "its own key without an id": sign(STRANGE, {"alg": "RS256", "jwk": describe(STRANGE)}),
    "an address of keys": sign(
        STRANGE, {**OWN_HEADER, "jku": "https://evil.example/keys", "x5u": "https://evil.example/"}
    ),
    "a certificate": sign(STRANGE, {**OWN_HEADER, "x5c": [encode(b"x" * 300)]}),
    "a key id that is a path": sign(STRANGE, {"alg": "RS256", "kid": "../../dev/null"}),
    "a key id that is none": sign(OWN, {"alg": "RS256", "kid": ["own"]}),
    "an algorithm that is a list": sign(OWN, {"alg": ["RS256"], "kid": "own"}),
    "an unknown check": sign(OWN, {**OWN_HEADER, "crit": ["exp"], "exp": 1}),
    "a payload that is not encoded": sign(OWN, {**OWN_HEADER, "b64": False, "crit": ["b64"]}),
    "two algorithms": sign(OWN, '{"alg": "RS256", "kid": "own", "alg": "none"}'),
    "a part more": sign(OWN, OWN_HEADER) + ".x",
    "no signature": sign(OWN, OWN_HEADER).rpartition(".")[0] + ".",
    "another payload": ".".join(
        encode(json.dumps({**CLAIMS, "sub": "2"}).encode()) if place == 1 else part
        for place, part in enumerate(sign(OWN, OWN_HEADER).split("."))
    ),
    "a key for another algorithm": sign(OWN, {"alg": "ES256", "kid": "own"}),
    "an issuer with a slash": sign(OWN, OWN_HEADER, {**CLAIMS, "iss": f"{ISSUER}/"}),
    "an issuer in other letters": sign(OWN, OWN_HEADER, {**CLAIMS, "iss": ISSUER.upper()}),
    "an audience within a text": sign(OWN, OWN_HEADER, {**CLAIMS, "aud": "gatepost other"}),
    "an audience as a map": sign(OWN, OWN_HEADER, {**CLAIMS, "aud": {"gatepost": 1}}),
    "two issuers": sign(OWN, OWN_HEADER, {**CLAIMS, "iss": [ISSUER, "https://evil.example"]}),
}


@pytest.mark.parametrize("how", FORGED)
async def test_a_token_that_vouches_for_itself_is_not_believed(how: str) -> None:
    provider = KnownKeys()
    with pytest.raises(TokenError):
        await verify_id_token(FORGED[how], provider, NONCE, NOW)
    assert all(algorithm in ("RS256", "ES256", "EdDSA") for _, algorithm in provider.asked)
