"""ARC: the chain of those who passed a message on, each vouching for what it saw (RFC 8617).

Every hop adds a set of three fields with its number: its authentication results, a signature over the message as it
went on, and a seal over all ARC fields so far. The chain passes when every seal holds and the newest message signature
holds; older ones may be broken by honest changes on the way (section 5.2). Once broken, a chain stays broken.

Seal number n covers all sets up to n, so a naive reading hashes the first set n times. Here one running hash takes each
set once and is copied at each seal: the work is linear in the size of the header.

The standard calls a chain "fail" when a key could not be looked up. Here that is "temperror", to keep it apart from a
chain that is broken; in an Authentication-Results field it is to be written as fail.
"""

import hashlib
import re

import msgspec

from gatepost.auth import dkim
from gatepost.auth.dkim import DkimKey, NoKey
from gatepost.auth.results import Arc, Result
from gatepost.auth.signature import (
    TODAY,
    Refusal,
    Signature,
    SignatureRules,
    SignedMessage,
    read_arc_message,
    read_arc_seal,
    read_field_tags,
)
from gatepost.questions import Asking, DnsAnswer

INSTANCES_MAX = 50
KEYS_MAX = 16
RESULTS, MESSAGE, SEAL = "arc-authentication-results", "arc-message-signature", "arc-seal"

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
        return _make_result("fail", newest.reason, chain, signed_message)
    signatures = [newest, *(hop.sealed for hop in reversed(chain))]
    names = dict.fromkeys(dkim.make_key_name(signature.selector, signature.domain) for signature in signatures)
    if len(names) > KEYS_MAX:
        return _make_result("fail", f"the chain has more than {KEYS_MAX} keys", chain, signed_message)
    answers = yield from dkim.ask_keys(names)
    return _make_result(*_verify_chain(signed_message, chain, newest, answers, rules), chain, signed_message)


def _make_result(result: Result, reason: str, chain: list[_ArcSet], signed_message: SignedMessage) -> Arc:
    results = signed_message.fields[chain[0].results].raw[:MAX_RESULTS].decode("latin-1")
    origin = _ORIGIN.search(results)
    sealers = tuple(hop.sealed.domain for hop in chain)
    return Arc(result, len(chain), sealers, reason, origin[1].lower() if origin else "")


def _read_chain(signed_message: SignedMessage, rules: SignatureRules) -> list[_ArcSet] | str:
    """Return the sets from the oldest to the newest, if they are complete and claim an unbroken chain (steps 1 to 3);
    else why it cannot pass."""
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
    """Return where the fields of one kind stand, by their number; nothing where one stands twice or there are too
    many."""
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
    newest: Signature,
    answers: dict[str, DnsAnswer],
    rules: SignatureRules,
) -> tuple[Result, str]:
    """Verify the newest message signature, then the seals from the newest to the oldest (steps 4 and 6).

    Nothing is hashed before all keys are there: without one of them the chain cannot pass.
    """
    signatures = [newest, *(hop.sealed for hop in reversed(chain))]
    found = [_find_strong_keys(signature, answers, rules) for signature in signatures]
    if missing := [each for each in found if isinstance(each, NoKey)]:
        lost = min(missing, key=lambda each: each.result)
        return ("fail" if lost.result == "permerror" else "temperror"), lost.reason
    digests = _compute_digests(signed_message, chain, newest)
    for signature, keys_found, digest in zip(signatures, found, digests, strict=True):
        assert not isinstance(keys_found, NoKey)
        if not any(key.proves(signature.value, digest, signature.hashing) for key in keys_found):
            return "fail", f"a signature of {signature.domain} does not match"
    body = signed_message.body(newest.hashing, newest.length, relaxed=newest.relaxed_body)
    if body is None or body.digest != newest.body_hash or (newest.length or 0) > body.length:
        return "fail", "the body was changed"
    return "pass", ""


def _find_strong_keys(
    signature: Signature, answers: dict[str, DnsAnswer], rules: SignatureRules
) -> tuple[DkimKey, ...] | NoKey:
    answer = answers[dkim.make_key_name(signature.selector, signature.domain)]
    found = dkim.select_keys(answer, signature.kind, signature.hashing)
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
