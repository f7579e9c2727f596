"""DKIM and ARC: which domains vouch for this message, proven by signatures (RFC 6376, 8301, 8463, 8616, and 8617).

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

ARC is the chain of those who passed a message on, each vouching for what it saw (RFC 8617), by keys of DKIM. Every
hop adds a set of three fields with its number: its authentication results, a signature over the message as it went on,
and a seal over all ARC fields so far. The chain passes when every seal holds and the newest message signature holds;
older ones may be broken by honest changes on the way (section 5.2). Once broken, a chain stays broken.

Seal number n covers all sets up to n, so a naive reading hashes the first set n times. Here one running hash takes each
set once and is copied at each seal: the work is linear in the size of the header. The standard calls a chain "fail"
when a key could not be looked up. Here that is "temperror", to keep it apart from a chain that is broken; in an
Authentication-Results field it is to be written as fail.
"""

import binascii
import hashlib
import re
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
from gatepost.auth.results import Arc, Dkim, Result
from gatepost.auth.signature import (
    TODAY,
    Refusal,
    Signature,
    SignatureRules,
    SignedMessage,
    read_arc_message,
    read_arc_seal,
    read_dkim,
    read_field_tags,
)
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


def make_key_name(signature: Signature | Refusal) -> str:
    """Return the name under which the key of a signature is found (section 3.6.2.1)."""
    return f"{signature.selector}._domainkey.{signature.domain}"


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
    answers = yield from ask_keys(make_key_name(claim.signature) for claim in chosen)
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
    claim: _Claim, chosen: bool, signed_message: SignedMessage, answers: dict[str, DnsAnswer], rules: SignatureRules
) -> Dkim:
    signature = claim.signature
    if isinstance(signature, Refusal):
        return Dkim(signature.result, signature.domain, signature.selector, signature.algorithm, signature.reason)
    if not chosen:
        return _make_result(signature, "policy", f"not verified: there are more than {VERIFIED_MAX} signatures")
    found = select_keys(answers[make_key_name(signature)], signature.kind, signature.hashing)
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


INSTANCES_MAX = 50
KEYS_MAX = 16
RESULTS, MESSAGE, SEAL = signature.ARC_FIELDS

_BLANK = r"[ \t\r\n]*"
_RESULTS_INSTANCE = re.compile(rf"{_BLANK}i{_BLANK}={_BLANK}([0-9]{{1,2}}){_BLANK};")
_INSTANCE = re.compile(r"[0-9]{1,2}")
_ORIGIN = re.compile(rf";{_BLANK}dmarc{_BLANK}={_BLANK}([a-z]{{1,20}})", re.IGNORECASE)
MAX_RESULTS = 4_000


class _ArcSet(msgspec.Struct, frozen=True):
    """One hop: where its three fields stand, and what its seal says."""

    results: int
    message: int
    seal: int
    sealed: Signature
    chain: str


def validate(signed_message: SignedMessage, now: float, rules: SignatureRules = TODAY) -> Asking[Arc]:
    """Validate the chain of a message."""
    if not any(signed_message.places(name) for name in (RESULTS, MESSAGE, SEAL)):
        return Arc()
    chain = _read_chain(signed_message, rules)
    if isinstance(chain, str):
        return Arc("fail", reason=chain)
    newest = read_arc_message(read_field_tags(signed_message.fields[chain[-1].message].raw) or {}, now, rules)
    if isinstance(newest, Refusal):
        return _make_arc("fail", newest.reason, chain, signed_message)
    signatures = [newest, *(hop.sealed for hop in reversed(chain))]
    names = dict.fromkeys(map(make_key_name, signatures))
    if len(names) > KEYS_MAX:
        return _make_arc("fail", f"the chain has more than {KEYS_MAX} keys", chain, signed_message)
    answers = yield from ask_keys(names)
    return _make_arc(*_verify_chain(signed_message, chain, signatures, answers, rules), chain, signed_message)


def _make_arc(result: Result, reason: str, chain: list[_ArcSet], signed_message: SignedMessage) -> Arc:
    results = signed_message.fields[chain[0].results].raw[:MAX_RESULTS].decode("latin-1")
    origin = _ORIGIN.search(results)
    sealers = tuple(hop.sealed.domain for hop in chain)
    return Arc(result, len(chain), sealers, reason, origin[1].lower() if origin else "")


def _read_chain(signed_message: SignedMessage, rules: SignatureRules) -> list[_ArcSet] | str:
    """Return the sets, oldest first, if they are complete and unbroken (steps 1 to 3); else what is wrong."""
    results, message, seal = kinds = [_index_by_instance(signed_message, name) for name in (RESULTS, MESSAGE, SEAL)]
    instances = list(range(1, len(seal) + 1))
    if not instances or any(sorted(kind) != instances for kind in kinds):
        return "the ARC sets are incomplete"
    chain: list[_ArcSet] = []
    for instance in instances:
        hop = _read_set(signed_message, results[instance], message[instance], seal[instance], rules)
        if isinstance(hop, str):
            return hop
        chain.append(hop)
    claims = [hop.chain for hop in chain]
    if "fail" in claims:
        return "the chain was broken before"
    if claims != ["none"] + ["pass"] * (len(chain) - 1):
        return "the seals do not claim an unbroken chain"
    return chain


def _index_by_instance(signed_message: SignedMessage, name: str) -> dict[int, int]:
    """Return where the fields of one kind stand, by number; nothing where one stands twice or there are too many."""
    places = signed_message.places(name)
    if len(places) > INSTANCES_MAX:
        return {}
    numbered = {_read_instance(signed_message.fields[place].raw, name): place for place in places}
    return numbered if len(numbered) == len(places) else {}


def _read_instance(raw: bytes, name: str) -> int:
    """Return the number of a field's set, 0 where it has none. Authentication results have it first (section 4.1.1)."""
    if name == RESULTS:
        found = _RESULTS_INSTANCE.match(raw.partition(b":")[2][:256].decode("latin-1"))
        value = found[1] if found else ""
    else:
        value = (read_field_tags(raw) or {}).get("i", "")
    return int(value) if _INSTANCE.fullmatch(value) else 0


def _read_set(
    signed_message: SignedMessage, results: int, message: int, seal: int, rules: SignatureRules
) -> _ArcSet | str:
    tags = read_field_tags(signed_message.fields[seal].raw) or {}
    sealed = read_arc_seal(tags, rules)
    if isinstance(sealed, Refusal):
        return sealed.reason
    return _ArcSet(results, message, seal, sealed, tags.get("cv", ""))


def _verify_chain(
    signed_message: SignedMessage,
    chain: list[_ArcSet],
    signatures: list[Signature],
    answers: dict[str, DnsAnswer],
    rules: SignatureRules,
) -> tuple[Result, str]:
    """Verify the newest message signature, then the seals from the newest to the oldest (steps 4 and 6).

    Nothing is hashed before all keys are there: without one of them the chain cannot pass.
    """
    newest = signatures[0]
    found = [_find_strong_keys(signature, answers, rules) for signature in signatures]
    if missing := [each for each in found if isinstance(each, NoKey)]:
        lost = min(missing, key=lambda each: each.result)
        return ("fail" if lost.result == "permerror" else "temperror"), lost.reason
    digests = _compute_digests(signed_message, chain, newest)
    for signed, keys_found, digest in zip(signatures, found, digests, strict=True):
        assert not isinstance(keys_found, NoKey)
        if not any(key.proves(signed.value, digest, signed.hashing) for key in keys_found):
            return "fail", f"a signature of {signed.domain} does not match"
    body = signed_message.body(newest.hashing, newest.length, relaxed=newest.relaxed_body)
    if body is None or body.digest != newest.body_hash or (newest.length or 0) > body.length:
        return "fail", "the body was changed"
    return "pass", ""


def _find_strong_keys(
    signature: Signature, answers: dict[str, DnsAnswer], rules: SignatureRules
) -> tuple[DkimKey, ...] | NoKey:
    answer = answers[make_key_name(signature)]
    found = select_keys(answer, signature.kind, signature.hashing)
    if isinstance(found, NoKey):
        return found
    strong = tuple(key for key in found if not key.is_weak(rules.least_bits))
    return strong or NoKey("permerror", f"a key of {found[0].bits} bits is too weak")


def _compute_digests(signed_message: SignedMessage, chain: list[_ArcSet], newest: Signature) -> list[bytes]:
    """Return what the newest message signature signs, then what the seals do, from the newest to the oldest.

    Under a seal are the earlier sets whole, then its own set with the seal's b= empty (section 5.1.1).
    """
    signed = signed_message.header(newest.names, chain[-1].message, relaxed=newest.relaxed_header)
    running = hashlib.sha256()
    digests = []
    for hop in chain:
        running.update(signed_message.relaxed(hop.results) + b"\r\n" + signed_message.relaxed(hop.message) + b"\r\n")
        own = running.copy()
        own.update(signed_message.unsigned(hop.seal, relaxed=True))
        digests.append(own.digest())
        running.update(signed_message.relaxed(hop.seal) + b"\r\n")
    return [hashlib.new(newest.hashing, signed, usedforsecurity=False).digest(), *reversed(digests)]
