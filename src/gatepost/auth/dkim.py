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
from gatepost.auth.canonical import Signable
from gatepost.auth.keys import Key, NoKey
from gatepost.auth.results import Dkim, Result
from gatepost.auth.signature import TODAY, Refusal, Rules, Signature, tags_of
from gatepost.auth.signature import dkim as read_tags
from gatepost.mail.message import Field
from gatepost.questions import Asking, DnsAnswer

VERIFIED_MAX = 8
READ_MAX = 32
SHOWN = ("from", "sender", "reply-to", "subject", "date", "to", "cc", "mime-version", "content-type")


class _Claim(msgspec.Struct, frozen=True):
    """A DKIM-Signature field and what it says."""

    place: int
    said: Signature | Refusal


def verify(
    raw: bytes,
    header_end: int,
    fields: tuple[Field, ...],
    now: float,
    *,
    rules: Rules = TODAY,
    signable: Signable | None = None,
) -> Asking[tuple[Dkim, ...]]:
    """Verify the signatures of a message, whose body starts at `header_end`: one result each, in their order.

    A `signable` of the same message may be shared with ARC, so that the body is hashed once for both.
    """
    signable = signable or Signable(raw, header_end, fields)
    places = signable.places("dkim-signature")
    if not places:
        return ()
    claims = [_claim(fields, place, now, rules) for place in places[:READ_MAX]]
    chosen = _chosen(claims, signable)
    answers = yield from keys.ask(_key_name(claim.said) for claim in chosen)
    places_chosen = {claim.place for claim in chosen}
    results = [_result(claim, claim.place in places_chosen, signable, answers, rules) for claim in claims]
    if unread := len(places) - len(claims):
        results.append(Dkim("policy", reason=f"{unread} more signatures were not read"))
    return tuple(results)


def _claim(fields: tuple[Field, ...], place: int, now: float, rules: Rules) -> _Claim:
    tags = tags_of(fields[place].raw)
    if tags is None:
        return _Claim(place, Refusal("neutral", "the signature is malformed"))
    return _Claim(place, read_tags(tags, now, rules))


def _key_name(said: Signature | Refusal) -> str:
    return keys.question(said.selector, said.domain)


def _chosen(claims: list[_Claim], signable: Signable) -> list[_Claim]:
    """The signatures worth verifying, those of the author's domain first."""
    readable = [claim for claim in claims if isinstance(claim.said, Signature)]
    if len(readable) <= VERIFIED_MAX:
        return readable
    authors = b" ".join(signable.relaxed(place) for place in signable.places("from")[:4]).lower()
    return sorted(readable, key=lambda claim: not _is_author(claim.said.domain.encode(), authors))[:VERIFIED_MAX]


def _is_author(domain: bytes, authors: bytes) -> bool:
    return b"@" + domain in authors or b"." + domain in authors


def _result(
    claim: _Claim,
    chosen: bool,
    signable: Signable,
    answers: dict[str, DnsAnswer],
    rules: Rules,
) -> Dkim:
    said = claim.said
    if isinstance(said, Refusal):
        return Dkim(said.result, said.domain, said.selector, said.algorithm, said.reason)
    if not chosen:
        return _of(said, "policy", f"not verified: there are more than {VERIFIED_MAX} signatures")
    found = keys.usable(answers[_key_name(said)], said.kind, said.hashing)
    if isinstance(found, NoKey):
        return _of(said, found.result, found.reason)
    return _verified(claim.place, said, found, signable, rules)


def _verified(place: int, said: Signature, found: tuple[Key, ...], signable: Signable, rules: Rules) -> Dkim:
    signed = signable.header(said.names, place, relaxed=said.relaxed_header)
    digest = hashlib.new(said.hashing, signed, usedforsecurity=False).digest()
    key = next((key for key in found if key.proves(said.value, digest, said.hashing)), None)
    if key is None:
        return _of(said, "fail", "the signature does not match", found[0])
    body = signable.body(said.hashing, said.length, relaxed=said.relaxed_body)
    if body is None:
        return _of(said, "policy", "not verified: too many ways to hash the body", key)
    if body.digest != said.body_hash or (said.length or 0) > body.length:
        return _of(said, "fail", "the body was changed", key)
    uncovered = tuple(name for name in SHOWN if len(signable.places(name)) > said.names.count(name))
    result, reason = _accepted(said, key, uncovered, rules)
    return msgspec.structs.replace(
        _of(said, result, reason, key),
        unsigned_bytes=0 if said.length is None else body.length - said.length,
        uncovered=uncovered,
    )


def _accepted(said: Signature, key: Key, uncovered: tuple[str, ...], rules: Rules) -> tuple[Result, str]:
    """What a signature that holds is worth."""
    if key.strict and said.identity.rpartition("@")[2] != said.domain:
        return "permerror", "the key is not for subdomains"
    if key.is_weak(rules.least_bits):
        return "policy", f"a key of {key.bits} bits is too weak"
    if "from" in uncovered:
        return "policy", "there is a From field that is not signed"
    return "pass", ""


def _of(said: Signature, result: Result, reason: str = "", key: Key | None = None) -> Dkim:
    return Dkim(
        result,
        domain=said.domain,
        selector=said.selector,
        algorithm=said.algorithm,
        reason=reason,
        identity=said.identity,
        weak=key is not None and key.is_weak(TODAY.least_bits),
        testing=key is not None and key.testing,
    )
