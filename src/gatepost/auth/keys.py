"""Public keys as domains publish them: TXT records at `selector._domainkey.domain` (RFC 6376 section 3.6).

A record is a tag list. What it may hold is narrowed by later standards: RSA keys of 1024 to 4096 bits (RFC 8301), and
Ed25519 keys as their 32 bare octets (RFC 8463). The sender of the mail also chooses the key, so a key that would be
slow to compute with (a huge modulus or exponent) is refused before it is used.
"""

import binascii
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from gatepost.auth import signature
from gatepost.questions import Asking, Dns, DnsAnswer

LEAST_BITS = 512
MOST_BITS = 4096
_MOST_EXPONENT_BITS = 33
_RECORD_MAX = 8192
_MATERIAL_MAX = 1024
_RECORDS_MAX = 3

_PADDING = PKCS1v15()
_PREHASHED = {"sha1": Prehashed(SHA1()), "sha256": Prehashed(SHA256())}  # noqa: S303

PublicKey: TypeAlias = RSAPublicKey | Ed25519PublicKey


class NoKey(msgspec.Struct, frozen=True):
    """Why there is no key to verify with: for the moment, or for good."""

    result: Literal["temperror", "permerror"]
    reason: str


class DkimKey(msgspec.Struct, frozen=True):
    """One usable key. `bits` is the size of an RSA key (Ed25519 has but one size), `strict` the flag t=s (i= must name
    the domain itself), `testing` the flag t=y."""

    public: PublicKey
    bits: int | None = None
    strict: bool = False
    testing: bool = False

    def is_weak(self, least_bits: int) -> bool:
        """Is it an RSA key of fewer bits?"""
        return self.bits is not None and self.bits < least_bits

    def proves(self, signature: bytes, digest: bytes, hashing: str) -> bool:
        """Was the signature made over this digest with this key's secret half?"""
        try:
            if isinstance(self.public, RSAPublicKey):
                self.public.verify(signature, digest, _PADDING, _PREHASHED[hashing])
            else:
                self.public.verify(signature, digest)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            return False
        return True


def key_name(selector: str, domain: str) -> str:
    """Return the name under which a selector's key is found (section 3.6.2.1)."""
    return f"{selector}._domainkey.{domain}"


def ask_keys(names: Iterable[str]) -> Asking[dict[str, DnsAnswer]]:
    """Look up the keys at all these names at once."""
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        return {}
    answers = yield tuple(Dns(name, "TXT") for name in wanted)
    return dict(zip(wanted, answers, strict=True))


def select_keys(answer: DnsAnswer, kind: str, hashing: str) -> tuple[DkimKey, ...] | NoKey:
    """Return the keys in an answer that fit an algorithm, or why there is none.

    Several records at one name have no defined meaning (section 3.6.2.2). All come from the owner of the name, so any
    of them may prove a signature: the first few are tried.
    """
    if answer.status == "failed":
        return NoKey("temperror", "the key could not be looked up")
    read = [_read_record(record, kind, hashing) for record in answer.records[:_RECORDS_MAX]]
    if found := tuple(key for key in read if isinstance(key, DkimKey)):
        return found
    return next((key for key in read if isinstance(key, NoKey)), NoKey("permerror", "there is no key"))


def _read_record(record: str, kind: str, hashing: str) -> DkimKey | NoKey:
    tags = signature.parse_tags(record) if len(record) <= _RECORD_MAX else None
    if tags is None or "p" not in tags:
        return NoKey("permerror", "the key record is malformed")
    if reason := _find_misfit(tags, kind, hashing):
        return NoKey("permerror", reason)
    public = load_public_key(kind, signature.remove_blanks(tags["p"]))
    if isinstance(public, str):
        return NoKey("permerror", public)
    flags = _split_words(tags.get("t", ""))
    bits = public.key_size if isinstance(public, RSAPublicKey) else None
    return DkimKey(public, bits, "s" in flags, "y" in flags)


def _find_misfit(tags: dict[str, str], kind: str, hashing: str) -> str:
    """Return why a record is not for this signature, or "" (section 3.6.1). Unknown tags do not matter."""
    if "v" in tags and (tags["v"] != "DKIM1" or next(iter(tags)) != "v"):
        return "the key record has an unknown version"
    if not tags["p"]:
        return "the key is revoked"
    if tags.get("k", "rsa") != kind:
        return "the key is of another type than the signature"
    if "h" in tags and hashing not in _split_words(tags["h"]):
        return "the key is not for this hash algorithm"
    if "s" in tags and not {"*", "email"} & _split_words(tags["s"]):
        return "the key is not for mail"
    return ""


def _split_words(value: str) -> set[str]:
    return {word.strip() for word in value.split(":")}


@lru_cache(maxsize=256)
def load_public_key(kind: str, material: str) -> PublicKey | str:
    """Return the key that p= spells in base64, or why it is none."""
    if len(material) > _MATERIAL_MAX:
        return "the key is too long"
    try:
        # Keys without their base64 padding are published and read everywhere.
        octets = binascii.a2b_base64(material.rstrip("=") + "=" * (-len(material.rstrip("=")) % 4), strict_mode=True)
        if kind == "ed25519":
            return Ed25519PublicKey.from_public_bytes(octets)
        return _check_rsa(load_der_public_key(octets))
    except (ValueError, UnsupportedAlgorithm):
        return "the key is malformed"


def _check_rsa(public: object) -> RSAPublicKey | str:
    if not isinstance(public, RSAPublicKey):
        return "the key is not an RSA key"
    if not LEAST_BITS <= public.key_size <= MOST_BITS:
        return f"a key of {public.key_size} bits is not accepted"
    if public.public_numbers().e.bit_length() > _MOST_EXPONENT_BITS:
        return "the key has a huge exponent"
    return public
