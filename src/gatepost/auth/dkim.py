"""DKIM: which domains vouch for this message, proven by signatures (RFC 6376, 8301, 8463, 8616).

All keys are asked for at once. The body is not touched before a usable key has arrived and the signature over the
header holds, so mail with made-up signatures costs little. When there are more signatures than are verified, those of
the domain in From go first, then the newest, which stand topmost.

A pass says that the signed part is as the domain sent it, and no more. What is not signed is told beside it: bytes past
`l=`, header fields that a reader sees and the signature leaves out. A second From field that is not signed is never a
pass: what people would see is then not what was signed (section 8.15).
"""

import hashlib

import msgspec

from gatepost.auth import keys
from gatepost.auth.canonical import SignedMessage
from gatepost.auth.keys import DkimKey, NoKey
from gatepost.auth.results import Dkim, Result
from gatepost.auth.signature import TODAY, Refusal, Signature, SignatureRules, read_dkim, read_field_tags
from gatepost.mail.message import Field
from gatepost.questions import Asking, DnsAnswer

VERIFIED_MAX = 8
READ_MAX = 32
SHOWN = ("from", "sender", "reply-to", "subject", "date", "to", "cc", "mime-version", "content-type")


class _Claim(msgspec.Struct, frozen=True):
    """A DKIM-Signature field and what it says."""

    place: int
    signature: Signature | Refusal


def verify(
    raw: bytes,
    header_end: int,
    fields: tuple[Field, ...],
    now: float,
    *,
    rules: SignatureRules = TODAY,
    signed_message: SignedMessage | None = None,
) -> Asking[tuple[Dkim, ...]]:
    """Verify the signatures of a message, whose body starts at `header_end`: one result each, in their order.

    A `signed_message` of the same message may be shared with ARC, so that the body is hashed once for both.
    """
    signed_message = signed_message or SignedMessage(raw, header_end, fields)
    places = signed_message.places("dkim-signature")
    if not places:
        return ()
    claims = [_read_claim(fields, place, now, rules) for place in places[:READ_MAX]]
    chosen = _choose_claims(claims, signed_message)
    answers = yield from keys.ask_keys(_name_key(claim.signature) for claim in chosen)
    places_chosen = {claim.place for claim in chosen}
    results = [_verify_claim(claim, claim.place in places_chosen, signed_message, answers, rules) for claim in claims]
    if unread := len(places) - len(claims):
        results.append(Dkim("policy", reason=f"{unread} more signatures were not read"))
    return tuple(results)


def _read_claim(fields: tuple[Field, ...], place: int, now: float, rules: SignatureRules) -> _Claim:
    tags = read_field_tags(fields[place].raw)
    if tags is None:
        return _Claim(place, Refusal("neutral", "the signature is malformed"))
    return _Claim(place, read_dkim(tags, now, rules))


def _name_key(signature: Signature | Refusal) -> str:
    return keys.key_name(signature.selector, signature.domain)


def _choose_claims(claims: list[_Claim], signed_message: SignedMessage) -> list[_Claim]:
    """Return the signatures worth verifying, those of the author's domain first."""
    readable = [claim for claim in claims if isinstance(claim.signature, Signature)]
    if len(readable) <= VERIFIED_MAX:
        return readable
    authors = b" ".join(signed_message.relaxed(place) for place in signed_message.places("from")[:4]).lower()
    return sorted(readable, key=lambda claim: not _is_author(claim.signature.domain.encode(), authors))[:VERIFIED_MAX]


def _is_author(domain: bytes, authors: bytes) -> bool:
    return b"@" + domain in authors or b"." + domain in authors


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
    found = keys.select_keys(answers[_name_key(signature)], signature.kind, signature.hashing)
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
