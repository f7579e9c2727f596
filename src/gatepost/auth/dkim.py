"""DKIM: which domains vouch for this message, proven by signatures (RFC 6376, 8301, 8463, 8616).

All keys are asked for at once: TXT records at `selector._domainkey.domain` (RFC 6376 section 3.6), each a tag list.
What a record may hold is narrowed by later standards: RSA keys of 1024 to 4096 bits (RFC 8301), and Ed25519 keys as
their 32 bare octets (RFC 8463). The sender of the mail also chooses the key, so a key that would be slow to compute
with (a huge modulus or exponent) is refused before it is used.

The body is not touched before a usable key has arrived and the signature over the header holds, so mail with made-up
signatures costs little. When there are more signatures than are verified, those of the domain in From go first, then
the newest, which stand topmost.

A pass says that the signed part is as the domain sent it, and no more. What is not signed is told beside it: bytes past
`l=`, header fields that a reader sees and the signature leaves out. A second From field that is not signed is never a
pass: what people would see is then not what was signed (section 8.15).
"""

import binascii
import hashlib
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
from gatepost.auth.results import Dkim, Result
from gatepost.auth.signature import TODAY, Refusal, Signature, SignatureRules, SignedMessage, read_dkim, read_field_tags
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


def make_key_name(selector: str, domain: str) -> str:
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
    flags = signature.split_words(tags.get("t", ""))
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
    if "h" in tags and hashing not in signature.split_words(tags["h"]):
        return "the key is not for this hash algorithm"
    if "s" in tags and not {"*", "email"} & signature.split_words(tags["s"]):
        return "the key is not for mail"
    return ""


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


VERIFIED_MAX = 8
READ_MAX = 32
SHOWN = ("from", "sender", "reply-to", "subject", "date", "to", "cc", "mime-version", "content-type")


class _Claim(msgspec.Struct, frozen=True):
    """A DKIM-Signature field and what it says."""

    place: int
    signature: Signature | Refusal


def verify(signed_message: SignedMessage, now: float, rules: SignatureRules = TODAY) -> Asking[tuple[Dkim, ...]]:
    """Verify the signatures of a message: one result each, in their order."""
    places = signed_message.places("dkim-signature")
    if not places:
        return ()
    claims = [_read_claim(signed_message, place, now, rules) for place in places[:READ_MAX]]
    chosen = _choose_claims(claims, signed_message)
    answers = yield from ask_keys(_name_key(claim.signature) for claim in chosen)
    places_chosen = {claim.place for claim in chosen}
    results = [_verify_claim(claim, claim.place in places_chosen, signed_message, answers, rules) for claim in claims]
    if unread := len(places) - len(claims):
        results.append(Dkim("policy", reason=f"{unread} more signatures were not read"))
    return tuple(results)


def _read_claim(signed_message: SignedMessage, place: int, now: float, rules: SignatureRules) -> _Claim:
    tags = read_field_tags(signed_message.fields[place].raw)
    if tags is None:
        return _Claim(place, Refusal("neutral", "the signature is malformed"))
    return _Claim(place, read_dkim(tags, now, rules))


def _name_key(signature: Signature | Refusal) -> str:
    return make_key_name(signature.selector, signature.domain)


def _choose_claims(claims: list[_Claim], signed_message: SignedMessage) -> list[_Claim]:
    """Return the signatures worth verifying, those of the author's domain first."""
    readable = [claim for claim in claims if isinstance(claim.signature, Signature)]
    if len(readable) <= VERIFIED_MAX:
        return readable
    authors = b" ".join(signed_message.relaxed(place) for place in signed_message.places("from")[:4]).lower()

    def is_author(claim: _Claim) -> bool:
        domain = claim.signature.domain.encode()
        return b"@" + domain in authors or b"." + domain in authors

    return sorted(readable, key=is_author, reverse=True)[:VERIFIED_MAX]


def _verify_claim(
    claim: _Claim,
    chosen: bool,
    signed_message: SignedMessage,
    answers: dict[str, DnsAnswer],
    rules: SignatureRules,
) -> Dkim:
    signature = claim.signature
    if isinstance(signature, Refusal):
        return Dkim(signature.result, signature.domain, signature.selector, signature.algorithm, signature.reason)
    if not chosen:
        return _make_result(signature, "policy", f"not verified: there are more than {VERIFIED_MAX} signatures")
    found = select_keys(answers[_name_key(signature)], signature.kind, signature.hashing)
    if isinstance(found, NoKey):
        return _make_result(signature, found.result, found.reason)
    return _verify_signature(claim.place, signature, found, signed_message, rules)


def _verify_signature(
    place: int, signature: Signature, found: tuple[DkimKey, ...], signed_message: SignedMessage, rules: SignatureRules
) -> Dkim:
    signed = signed_message.header(signature.names, place, relaxed=signature.relaxed_header)
    digest = hashlib.new(signature.hashing, signed, usedforsecurity=False).digest()
    key = next((key for key in found if key.proves(signature.value, digest, signature.hashing)), None)
    if key is None:
        return _make_result(signature, "fail", "the signature does not match", found[0])
    body = signed_message.body(signature.hashing, signature.length, relaxed=signature.relaxed_body)
    if body is None:
        return _make_result(signature, "policy", "not verified: too many ways to hash the body", key)
    if body.digest != signature.body_hash or (signature.length or 0) > body.length:
        return _make_result(signature, "fail", "the body was changed", key)
    uncovered = tuple(name for name in SHOWN if len(signed_message.places(name)) > signature.names.count(name))
    result, reason = _judge_signature(signature, key, uncovered, rules)
    return msgspec.structs.replace(
        _make_result(signature, result, reason, key),
        unsigned_bytes=0 if signature.length is None else body.length - signature.length,
        uncovered=uncovered,
    )


def _judge_signature(
    signature: Signature, key: DkimKey, uncovered: tuple[str, ...], rules: SignatureRules
) -> tuple[Result, str]:
    """Return the result of a signature that matches, by its key and by the fields that it leaves uncovered."""
    if key.strict and signature.identity.rpartition("@")[2] != signature.domain:
        return "permerror", "the key is not for subdomains"
    if key.is_weak(rules.least_bits):
        return "policy", f"a key of {key.bits} bits is too weak"
    if "from" in uncovered:
        return "policy", "there is a From field that is not signed"
    return "pass", ""


def _make_result(signature: Signature, result: Result, reason: str = "", key: DkimKey | None = None) -> Dkim:
    return Dkim(
        result,
        domain=signature.domain,
        selector=signature.selector,
        algorithm=signature.algorithm,
        reason=reason,
        identity=signature.identity,
        weak=key is not None and key.is_weak(TODAY.least_bits),
        testing=key is not None and key.testing,
    )
