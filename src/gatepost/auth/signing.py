"""Making DKIM signatures (RFC 6376 section 5) and ARC sets (RFC 8617 section 5.1) for mail that leaves.

Both are made in relaxed form over the fields that people see. Those of `OVERSIGNED` are listed once more than they
stand in the message (RFC 6376 section 8.15): one that is added later breaks the signature. Algorithms are rsa-sha256
and ed25519-sha256 (RFC 8463), after the key.

This runs in guard's own process, which has the keys. It hashes bytes and reads no mail: fields come split by their
names and colons, and every pass over them is linear.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256

from gatepost.auth.signature import (
    ARC_FIELDS,
    SignedMessage,
    canonicalise_pieces,
    canonicalise_relaxed_field,
    empty_tag,
    read_field_tags,
)
from gatepost.mail.message import Field

PrivateKey = RSAPrivateKey | Ed25519PrivateKey

OVERSIGNED = ("from", "reply-to", "subject", "date", "to", "cc", "message-id", "mime-version", "content-type")
SIGNED = (
    *OVERSIGNED,
    *"sender in-reply-to references content-transfer-encoding content-disposition".split(),
    *"list-id list-unsubscribe list-unsubscribe-post list-post list-help".split(),
)
# Names in h=; a message that has more fields of these names than that is not signed.
MAX_NAMES = 200
MAX_INSTANCE = 50
WIDTH = 76

_PADDING, _PREHASHED = PKCS1v15(), Prehashed(SHA256())


class SigningKey(msgspec.Struct, frozen=True):
    """A private key, and where its public half is published."""

    domain: str
    selector: str
    private: PrivateKey

    @property
    def algorithm(self) -> str:
        return "rsa-sha256" if isinstance(self.private, RSAPrivateKey) else "ed25519-sha256"

    def __repr__(self) -> str:
        return f"SigningKey({self.domain!r}, {self.selector!r})"

    def sign(self, content: bytes) -> str:
        """Return the signature over the SHA-256 of these bytes, in base64."""
        digest = hashlib.sha256(content).digest()
        if isinstance(self.private, RSAPrivateKey):
            made = self.private.sign(digest, _PADDING, _PREHASHED)
        else:
            made = self.private.sign(digest)
        return base64.b64encode(made).decode("ascii")


def hash_body(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of a body that comes in pieces, in relaxed form, as bh= has it."""
    digest = hashlib.sha256()
    for piece in canonicalise_pieces(pieces):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode("ascii")


def make_dkim_signature(fields: Sequence[Field], body_hash: str, key: SigningKey, now: int) -> bytes | None:
    """Return the DKIM-Signature field of a message with these header fields; None where they are too many."""
    names = _list_names(fields, SIGNED)
    if names is None:
        return None
    return _sign_message("DKIM-Signature", _list_tags("v=1;", names, body_hash, key, now), fields, names, key)


def _list_tags(start: str, names: list[str], body_hash: str, key: SigningKey, now: int) -> tuple[str, ...]:
    """Return the tags of a signature over a message, which begins with its version or its number."""
    head = (f"{start} a={key.algorithm}; c=relaxed/relaxed; d={key.domain};", f"s={key.selector}; t={now};")
    return (*head, *_fold("h=", names, ":"), f"bh={body_hash};", "b=")


def make_arc_set(
    fields: Sequence[Field], body_hash: str, results: bytes, key: SigningKey, now: int, chain: str
) -> bytes | None:
    """Return the three ARC fields of this hop, the seal first. `results` is an Authentication-Results field of ours,
    `chain` the result of validating the chain that the message came with: none, pass or fail. None where no set is
    added: the chain was broken before, has `MAX_INSTANCE` sets, has fields that cannot be put in order, or could not be
    validated for now; then a seal would break it for good."""
    sets = read_sets(fields)
    if sets is None or len(sets) >= MAX_INSTANCE or chain not in ("none", "pass", "fail"):
        return None
    if sets and (read_field_tags(sets[-1][2].raw) or {}).get("cv") == "fail":
        return None
    number = len(sets) + 1
    state = "none" if not sets else "pass" if chain == "pass" else "fail"
    stated = results.partition(b":")[2].strip(b" \t\r\n")
    authentication = b"ARC-Authentication-Results: i=%d; " % number + stated + b"\r\n"
    names = _list_names(fields, (*SIGNED, "dkim-signature"))
    if names is None:
        return None
    own = f"i={number}; a={key.algorithm};"
    tags = _list_tags(f"i={number};", names, body_hash, key, now)
    message = _sign_message("ARC-Message-Signature", tags, fields, names, key)
    seal = _format_field("ARC-Seal", (f"{own} t={now}; cv={state};", f"d={key.domain}; s={key.selector};", "b="))
    # A broken chain is not sealed: only this set is (RFC 8617 section 5.1.2).
    before = [] if state == "fail" else [each.raw for hop in sets for each in hop]
    covered = [canonicalise_relaxed_field(each) for each in (*before, authentication, message)]
    content = b"\r\n".join((*covered, canonicalise_relaxed_field(empty_tag(seal, b"b"))))
    return _put_signature(seal, key.sign(content)) + message + authentication


def read_sets(fields: Sequence[Field]) -> list[tuple[Field, Field, Field]] | None:
    """Return the ARC sets of a header, the oldest first; None where they are not whole and numbered from 1."""
    found: dict[str, dict[str, Field]] = {name: {} for name in ARC_FIELDS}
    for field in fields:
        if field.name in found:
            number = _read_instance(field)
            if number in found[field.name] or len(found[field.name]) >= MAX_INSTANCE:
                return None
            found[field.name][number] = field
    instances = [str(number) for number in range(1, len(found[ARC_FIELDS[0]]) + 1)]
    if any(set(kind) != set(instances) for kind in found.values()):
        return None
    results, messages, seals = found.values()
    return [(results[each], messages[each], seals[each]) for each in instances]


def _read_instance(field: Field) -> str:
    value = field.raw.partition(b":")[2]
    if field.name == ARC_FIELDS[0]:
        name, _, number = value.partition(b";")[0].partition(b"=")
        return number.strip(b" \t\r\n").decode("latin-1") if name.strip(b" \t\r\n") == b"i" else ""
    return (read_field_tags(field.raw) or {}).get("i", "")


def _list_names(fields: Sequence[Field], signed: Sequence[str]) -> list[str] | None:
    counts = Counter(field.name for field in fields)
    names = [name for name in signed for _ in range(counts[name] + (name in OVERSIGNED))]
    return names if len(names) <= MAX_NAMES else None


def _sign_message(
    name: str, tags: Sequence[str], fields: Sequence[Field], names: Sequence[str], key: SigningKey
) -> bytes:
    unsigned = _format_field(name, tags)
    own = Field(name.lower(), "", unsigned)
    content = SignedMessage(b"", 0, (own, *fields)).header(tuple(names), 0, relaxed=True)
    return _put_signature(unsigned, key.sign(content))


def _format_field(name: str, tags: Sequence[str]) -> bytes:
    return (f"{name}: " + "\r\n\t".join(tags) + "\r\n").encode("ascii")


def _fold(start: str, words: Sequence[str], between: str) -> list[str]:
    """Return a tag with a list of words in lines."""
    lines = [start]
    for number, word in enumerate(words):
        piece = word + (between if number < len(words) - 1 else ";")
        if len(lines[-1]) + len(piece) > WIDTH:
            lines.append("")
        lines[-1] += piece
    return lines


def _put_signature(unsigned: bytes, made: str) -> bytes:
    """Return a field that ends with an empty b= with the signature in it; its folding does not count (section 3.5)."""
    lines = [made[start : start + WIDTH - 2] for start in range(0, len(made), WIDTH - 2)]
    return unsigned.removesuffix(b"\r\n") + "\r\n\t ".join(lines).encode("ascii") + b"\r\n"
