"""Passwords and second factors.

Passwords are hashed with Argon2id (RFC 9106), off the event loop. One hash takes 64 MiB, one core and some tens of
milliseconds on purpose; only two run at a time, and only ten checks wait, which bounds what an attacker can make the
service spend. A check whose client has left is dropped. The password of a user who does not exist is checked against a
hash that no password matches, so that the time taken tells nothing. A hash that was made with other parameters is still
checked, and replaced at the next sign-in.

Second factors are the codes of an authenticator app: TOTP (RFC 6238 over RFC 4226) with six digits, thirty seconds and
SHA-1, the only parameters that every app knows. A code of the step before or after is accepted as well, since clocks
differ; the step that was used is stored, so that no code works twice.

Recovery codes stand in for a device that was lost. Each has 80 random bits in Base32 and works once.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
import zxingcpp
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_PASSWORD = 12
MAX_PASSWORD = 256
MAX_PARALLEL_HASHES = 2
MAX_WAITING = 10

Place: TypeAlias = Literal["ready", "full", "left"]


class PasswordHashes:
    """Hashes and checks passwords."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(parallelism=1)
        self._turn = asyncio.Semaphore(MAX_PARALLEL_HASHES)
        self._dummy = ""
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """Return the hash of a password, to be stored."""
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    @asynccontextmanager
    async def queue(self, has_left: Callable[[], Awaitable[bool]]) -> AsyncIterator[Place]:
        """Wait for a turn to check a password with `verify`: "ready", "full" if too many wait already, or "left" if
        the client has left meanwhile, which `has_left` says."""
        if self._turn.locked() and self._waiting >= MAX_WAITING:
            yield "full"
            return
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            yield "left" if await has_left() else "ready"
        finally:
            self._turn.release()

    async def verify(self, kept: str | None, password: str) -> bool:
        """Does the password match the stored hash? None stands for a user who does not exist, and takes as long. To be
        called within `queue`."""
        if not self._dummy:
            self._dummy = await asyncio.to_thread(self._hasher.hash, secrets.token_hex(32))
        return await asyncio.to_thread(self._matches, kept or self._dummy, password) and kept is not None

    def is_outdated(self, kept: str) -> bool:
        """Was the hash made with other parameters than those of today?"""
        return self._hasher.check_needs_rehash(kept)

    def _matches(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password[: MAX_PASSWORD + 1])
        except (VerificationError, InvalidHashError):
            return False


def password_fault(password: str, name: str) -> str:
    """Return why a new password is refused, "" where it is accepted. Length counts, not special characters."""
    if len(password) < MIN_PASSWORD:
        return f"it must have at least {MIN_PASSWORD} characters; several words are a good choice"
    if len(password) > MAX_PASSWORD:
        return f"it may have at most {MAX_PASSWORD} characters"
    if name.casefold() in password.casefold() and len(password) < 2 * len(name) + 8:
        return "it must not consist of the user's name"
    if len(set(password)) < 5:
        return "it has too few different characters"
    return ""


def generate_password() -> str:
    """Return a random password that is easy to type."""
    return "-".join(secrets.token_hex(3) for _ in range(4))


TOTP_SECONDS = 30
TOTP_DIGITS = 6
TOTP_DRIFT = 1
TOTP_SECRET_BYTES = 20


def new_totp_secret() -> str:
    """Return a new secret in Base32, as authenticator apps take it."""
    return base64.b32encode(secrets.token_bytes(TOTP_SECRET_BYTES)).decode("ascii")


def totp_code(secret: str, step: int) -> str:
    """The code of one step (RFC 4226 section 5.3)."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", step), hashlib.sha1)
    offset = digest[-1] & 0x0F
    number: int = struct.unpack_from(">I", digest, offset)[0] & 0x7FFF_FFFF
    return str(number % 10**TOTP_DIGITS).zfill(TOTP_DIGITS)


def match_totp_code(secret: str, given: str, now: float) -> int | None:
    """Return the time step that a code belongs to, None if it is not a current one. Every candidate is compared, in
    constant time."""
    typed = "".join(given.split())
    if len(typed) != TOTP_DIGITS or not (typed.isascii() and typed.isdigit()):
        return None
    current = int(now) // TOTP_SECONDS
    found = None
    for step in range(current - TOTP_DRIFT, current + TOTP_DRIFT + 1):
        if hmac.compare_digest(totp_code(secret, step), typed):
            found = step
    return found


def totp_uri(secret: str, name: str) -> str:
    """Return the `otpauth:` URI that authenticator apps read."""
    label = quote(f"Gatepost:{name}")
    return f"otpauth://totp/{label}?{urlencode({'secret': secret, 'issuer': 'Gatepost'})}"


class QrCode(msgspec.Struct, frozen=True):
    """A QR code as the path of an SVG in which every module is one unit wide; `size` has the quiet zone in it."""

    path: str
    size: int


def totp_qr_code(secret: str, name: str) -> QrCode:
    """Return the `otpauth:` URI as a QR code."""
    barcode = zxingcpp.create_barcode(totp_uri(secret, name), zxingcpp.BarcodeFormat.QRCode)
    drawing = str(zxingcpp.write_barcode_to_svg(barcode, add_quiet_zones=True))
    size = drawing.partition('width="')[2].partition('"')[0]
    return QrCode(drawing.partition('<path d="')[2].partition('"')[0], int(size))


def is_totp_secret(text: str) -> bool:
    """Could the text be a secret of `new_totp_secret`?"""
    return len(text) == TOTP_SECRET_BYTES * 8 // 5 and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


RECOVERY_CODES = 10
RECOVERY_BYTES = 10
_RECOVERY_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz234567")


def new_recovery_codes() -> tuple[str, ...]:
    """Return new recovery codes, in groups of four characters."""
    texts = (
        base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode("ascii").lower() for _ in range(RECOVERY_CODES)
    )
    return tuple("-".join(text[start : start + 4] for start in range(0, len(text), 4)) for text in texts)


def hash_recovery_code(uid: str, typed: str) -> str:
    """Return the digest of a recovery code as storage has it, "" if the text is none. Case, spaces and hyphens do not
    count."""
    code = "".join(typed.replace("-", "").split()).lower()
    if len(code) != RECOVERY_BYTES * 8 // 5 or not set(code) <= _RECOVERY_ALPHABET:
        return ""
    return hashlib.sha256(f"gatepost recovery code {uid} {code}".encode()).hexdigest()
