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

from gatepost.asking import Asking, DnsAnswer
from gatepost.auth import keys
from gatepost.auth.keys import Key, NoKey
from gatepost.auth.results import Arc, Result
from gatepost.auth.signable import Signable
from gatepost.auth.signature import TODAY, Refusal, Rules, Signature, arc_message, arc_seal, tags_of
from gatepost.mail.message import Field

INSTANCES_MAX = 50
KEYS_MAX = 16
RESULTS, MESSAGE, SEAL = "arc-authentication-results", "arc-message-signature", "arc-seal"

_BLANK = r"[ \t\r\n]*"
_RESULTS_INSTANCE = re.compile(rf"{_BLANK}i{_BLANK}={_BLANK}([0-9]{{1,2}}){_BLANK};")
_INSTANCE = re.compile(r"[0-9]{1,2}")


class _Set(msgspec.Struct, frozen=True):
    """One hop: where its three fields stand, and what its seal says."""

    results: int
    message: int
    seal: int
    sealed: Signature
    chain: str


class _Broken(msgspec.Struct, frozen=True):
    reason: str


def validate(
    raw: bytes,
    header_end: int,
    fields: tuple[Field, ...],
    now: float,
    *,
    rules: Rules = TODAY,
    signable: Signable | None = None,
) -> Asking[Arc]:
    """Validate the chain of a message, whose body starts at `header_end`.

    A `signable` of the same message may be shared with DKIM, so that the body is hashed once for both.
    """
    signable = signable or Signable(raw, header_end, fields)
    if not any(signable.places(name) for name in (RESULTS, MESSAGE, SEAL)):
        return Arc()
    chain = _chain(signable, rules)
    if isinstance(chain, _Broken):
        return Arc("fail", reason=chain.reason)
    newest = _newest_message(signable, chain[-1].message, now, rules)
    if isinstance(newest, Refusal):
        return _arc("fail", newest.reason, chain)
    signatures = [newest, *(hop.sealed for hop in reversed(chain))]
    names = dict.fromkeys(keys.question(signature.selector, signature.domain) for signature in signatures)
    if len(names) > KEYS_MAX:
        return _arc("fail", f"the chain has more than {KEYS_MAX} keys", chain)
    answers = yield from keys.ask(names)
    return _arc(*_verified(signable, chain, newest, answers, rules), chain)


def _arc(result: Result, reason: str, chain: list[_Set]) -> Arc:
    return Arc(result, len(chain), tuple(hop.sealed.domain for hop in chain), reason)


def _chain(signable: Signable, rules: Rules) -> list[_Set] | _Broken:
    """The sets from the oldest to the newest, if they are complete and claim an unbroken chain (steps 1 to 3)."""
    numbered = [_numbered(signable, name) for name in (RESULTS, MESSAGE, SEAL)]
    counts = {len(kind) if kind is not None else 0 for kind in numbered}
    if counts != {len(signable.places(SEAL))} or None in numbered:
        return _Broken("the ARC sets are incomplete")
    results, message, seal = (kind or {} for kind in numbered)
    if not sorted(seal) == sorted(message) == sorted(results) == list(range(1, len(seal) + 1)):
        return _Broken("the ARC sets are not numbered one by one")
    chain: list[_Set] = []
    for instance in range(1, len(seal) + 1):
        hop = _hop(signable, results[instance], message[instance], seal[instance], rules)
        if isinstance(hop, _Broken):
            return hop
        chain.append(hop)
    return _unbroken(chain)


def _numbered(signable: Signable, name: str) -> dict[int, int] | None:
    """Where the fields of one kind stand, by their instance; None where one has no number or a number stands twice."""
    places = signable.places(name)
    if len(places) > INSTANCES_MAX:
        return None
    numbered = {_instance(signable.fields[place].raw, name): place for place in places}
    return None if None in numbered or len(numbered) < len(places) else {key: numbered[key] for key in numbered if key}


def _instance(raw: bytes, name: str) -> int | None:
    if name == RESULTS:
        found = _RESULTS_INSTANCE.match(raw.partition(b":")[2][:256].decode("latin-1"))
        value = found[1] if found else ""
    else:
        value = (tags_of(raw) or {}).get("i", "")
    if not _INSTANCE.fullmatch(value) or not 1 <= int(value) <= INSTANCES_MAX:
        return None
    return int(value)


def _hop(signable: Signable, results: int, message: int, seal: int, rules: Rules) -> _Set | _Broken:
    tags = tags_of(signable.fields[seal].raw) or {}
    sealed = arc_seal(tags, rules)
    if isinstance(sealed, Refusal):
        return _Broken(sealed.reason)
    return _Set(results, message, seal, sealed, tags.get("cv", ""))


def _unbroken(chain: list[_Set]) -> list[_Set] | _Broken:
    claims = [hop.chain for hop in chain]
    if "fail" in claims:
        return _Broken("the chain was broken before")
    if claims != ["none"] + ["pass"] * (len(chain) - 1):
        return _Broken("the seals do not claim an unbroken chain")
    return chain


def _newest_message(signable: Signable, place: int, now: float, rules: Rules) -> Signature | Refusal:
    tags = tags_of(signable.fields[place].raw)
    return arc_message(tags or {}, now, rules)


def _verified(
    signable: Signable, chain: list[_Set], newest: Signature, answers: dict[str, DnsAnswer], rules: Rules
) -> tuple[Result, str]:
    """The newest message signature, then the seals from the newest to the oldest (steps 4 and 6)."""
    signed = signable.header(newest.names, chain[-1].message, relaxed=newest.relaxed_header)
    digest = hashlib.new(newest.hashing, signed, usedforsecurity=False).digest()
    outcomes = [_proven(newest, digest, answers, rules)]
    if outcomes == [("pass", "")]:
        outcomes.append(_body(signable, newest))
    if all(result != "fail" for result, _ in outcomes):
        sealed = zip(chain, _seal_digests(signable, chain), strict=True)
        outcomes += [_proven(hop.sealed, digest, answers, rules) for hop, digest in reversed(list(sealed))]
    wrong = [outcome for outcome in outcomes if outcome[0] != "pass"]
    return min(wrong, key=lambda outcome: outcome[0] != "fail", default=("pass", ""))


def _proven(signature: Signature, digest: bytes, answers: dict[str, DnsAnswer], rules: Rules) -> tuple[Result, str]:
    answer = answers[keys.question(signature.selector, signature.domain)]
    found = keys.usable(answer, signature.kind, signature.hashing)
    if isinstance(found, NoKey):
        return ("temperror" if found.result == "temperror" else "fail"), found.reason
    strong: list[Key] = [key for key in found if not key.is_weak(rules.least_bits)]
    if not strong:
        return "fail", f"a key of {found[0].bits} bits is too weak"
    if not any(key.proves(signature.value, digest, signature.hashing) for key in strong):
        return "fail", "a signature of the chain does not match"
    return "pass", ""


def _body(signable: Signable, newest: Signature) -> tuple[Result, str]:
    body = signable.body(newest.hashing, newest.length, relaxed=newest.relaxed_body)
    if body is None or body.digest != newest.body_hash or (newest.length or 0) > body.length:
        return "fail", "the body was changed"
    return "pass", ""


def _seal_digests(signable: Signable, chain: list[_Set]) -> list[bytes]:
    """The digest under each seal: all earlier sets whole, then this set with the seal's own b= empty (section 5.1.1)."""
    running = hashlib.sha256()
    digests = []
    for hop in chain:
        running.update(signable.relaxed(hop.results) + b"\r\n" + signable.relaxed(hop.message) + b"\r\n")
        own = running.copy()
        own.update(signable.unsigned(hop.seal, relaxed=True))
        digests.append(own.digest())
        running.update(signable.relaxed(hop.seal) + b"\r\n")
    return digests
