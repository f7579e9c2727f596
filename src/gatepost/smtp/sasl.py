"""Authentication to a next hop (RFC 4954): SCRAM (RFC 5802 and 7677), PLAIN (RFC 4616) or LOGIN.

PLAIN and LOGIN hand the password over, so they are used under TLS only. SCRAM proves on both sides that the password is
known and does not show it; it is preferred, and is the only one that is used in clear.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets

import msgspec

from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.replies import SmtpReply

_SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
# RFC 7677 section 4 asks for 4,096 iterations at least; a server must not make this machine compute for minutes.
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 1_000_000
_CONTINUE = 334


class Credentials(msgspec.Struct, frozen=True):
    """A user and a password, in printable ASCII."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"


class Challenge(msgspec.Struct, frozen=True):
    """What a server asks for in SCRAM: the nonce of both sides, and how the password is salted."""

    nonce: str
    salt: bytes
    iterations: int


async def authenticate(link: NextHop, credentials: Credentials) -> None:
    """Authenticate on a connection that stands; raises `NextHopError`."""
    offered = link.features.get("AUTH", "").upper().split()
    usable = (*_SCRAM, *(("PLAIN", "LOGIN") if link.encrypted else ()))
    mechanism = next((name for name in usable if name in offered), "")
    if not mechanism:
        where = "under TLS" if link.encrypted else "without TLS"
        raise NextHopError(f"offers no AUTH mechanism that can be used {where}")
    if mechanism == "PLAIN":
        token = f"\0{credentials.user}\0{credentials.password}".encode()
        _check_accepted(await link.ask(b"AUTH PLAIN " + base64.b64encode(token)))
    elif mechanism == "LOGIN":
        _decode_challenge(await link.ask(b"AUTH LOGIN"))
        _decode_challenge(await link.ask(base64.b64encode(credentials.user.encode())))
        _check_accepted(await link.ask(base64.b64encode(credentials.password.encode())))
    else:
        await _exchange_proofs(link, mechanism, credentials)


async def _exchange_proofs(link: NextHop, mechanism: str, credentials: Credentials) -> None:
    """SCRAM (RFC 5802 section 5), without channel binding."""
    name, digest = credentials.user.replace("=", "=3D").replace(",", "=2C"), _SCRAM[mechanism]
    nonce = secrets.token_urlsafe(24)
    bare = f"n={name},r={nonce}"
    first = _decode_challenge(await link.ask(f"AUTH {mechanism} ".encode() + base64.b64encode(f"n,,{bare}".encode())))
    challenge = parse_challenge(first, nonce)
    if challenge is None:
        raise NextHopError("sent a SCRAM challenge that cannot be used")
    final = f"c=biws,r={challenge.nonce}"
    signed = f"{bare},{first},{final}".encode()
    password = credentials.password.encode()
    salted = await asyncio.to_thread(hashlib.pbkdf2_hmac, digest, password, challenge.salt, challenge.iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = _decode_challenge(await link.ask(base64.b64encode(f"{final},p={proof}".encode())))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_decode_base64(last.removeprefix("v=")), expected):
        raise NextHopError("did not prove that it knows the password")
    _check_accepted(await link.ask(b""))


def parse_challenge(first: str, nonce: str) -> Challenge | None:
    """Read the server's first message (RFC 5802 section 7); None if it cannot be used. It has to continue our nonce."""
    theirs = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    salt, iterations, joint = _decode_base64(theirs.get("s", "")), theirs.get("i", ""), theirs.get("r", "")
    if not joint.startswith(nonce) or joint == nonce or not salt or not _is_bearable(iterations):
        return None
    return Challenge(joint, salt, int(iterations))


def _is_bearable(iterations: str) -> bool:
    return (
        iterations.isascii()
        and iterations.isdigit()
        and len(iterations) < 9
        and MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS
    )


def _check_accepted(reply: SmtpReply) -> None:
    if reply.code != 235:
        raise NextHopError(f"answered {reply.code} to AUTH")


def _decode_challenge(reply: SmtpReply) -> str:
    if reply.code != _CONTINUE:
        raise NextHopError(f"answered {reply.code} to AUTH")
    return _decode_base64(reply.lines[0].decode("ascii", "replace")).decode("utf-8", "replace")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
