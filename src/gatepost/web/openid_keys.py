"""The keys of an OpenID provider, and the tokens that they have signed (RFC 7515, 7517, 7518).

The library behind it takes memory and a part of the time of a start, so that only a service with a provider loads this.
"""

import base64
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OKPKey, RSAKey

MAX_KEYS = 50
MIN_RSA_BITS = 2048

PublicKey = RSAKey | ECKey | OKPKey

# Each algorithm that a token may be signed with, and the keys that it takes.
_KEY_TYPES: dict[str, tuple[type[PublicKey], str]] = {
    "RS256": (RSAKey, "RSA"),
    "ES256": (ECKey, "EC"),
    "EdDSA": (OKPKey, "OKP"),
}


class SigningKey(msgspec.Struct, frozen=True):
    """A public key of the provider with the algorithm that it is for."""

    kid: str
    algorithm: str
    key: PublicKey


class _Registry(jws.JWSRegistry):
    """The algorithms of our list, and no other. joserfc warns of EdDSA, since RFC 9864 gives it another name."""

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in _KEY_TYPES:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=list(_KEY_TYPES), strict_check_header=False)


def read_signed(token: str, key: SigningKey) -> bytes | None:
    """Return what a token in the compact form says, if this key has signed it."""
    try:
        signed = jws.deserialize_compact(token, key.key, algorithms=[key.algorithm], registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, RecursionError):
        return None
    return signed.payload or b""


def read_keys(found: dict[str, Any]) -> tuple[SigningKey, ...]:
    """Return the keys of a set (RFC 7517 section 5) that sign; those that we cannot use are left out."""
    listed = found.get("keys")
    keys = [_read_key(each) for each in listed[:MAX_KEYS]] if isinstance(listed, list) else []
    return tuple(key for key in keys if key)


def _read_key(found: Any) -> SigningKey | None:
    if not isinstance(found, dict) or found.get("use", "sig") != "sig":
        return None
    for algorithm, (kind, key_type) in _KEY_TYPES.items():
        if found.get("kty") != key_type or found.get("alg", algorithm) != algorithm:
            continue
        public = {name: found[name] for name in ("kty", "n", "e", "crv", "x", "y") if isinstance(found.get(name), str)}
        if key_type == "RSA" and not _has_enough_bits(public.get("n", "")):
            continue
        if public.get("crv") != {"EC": "P-256", "OKP": "Ed25519"}.get(key_type):
            continue
        try:
            key = kind.import_key(public)
            key.public_key  # noqa: B018  built when it is first asked for
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        kid = found.get("kid")
        return SigningKey(kid if isinstance(kid, str) else "", algorithm, key)
    return None


def _has_enough_bits(modulus: str) -> bool:
    """Is a modulus in Base64url between 2048 bits and 8192, so that a check takes no more than a millisecond?"""
    try:
        number = int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4)), "big")
    except ValueError:
        return False
    return MIN_RSA_BITS <= number.bit_length() <= 4 * MIN_RSA_BITS
