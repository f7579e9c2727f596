"""Passwords: Argon2id (RFC 9106), off the event loop, and never faster for a name that does not exist.

One hash takes 64 MiB and some tens of milliseconds on purpose. Two at a time bound what strangers can make us spend;
the others wait. A name that nobody has is checked against a hash that no password fits, so that time tells nothing.

Codes of an authenticator app as a second factor: RFC 6238 over RFC 4226, six digits, thirty seconds, SHA-1.

Those are the only parameters that every app knows. A code of the step before or after counts as well, for clocks
differ; the step that was used is kept, so that no code opens twice.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import struct
from urllib.parse import quote, urlencode

import msgspec
import zxingcpp
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST = 12
LONGEST = 256
AT_ONCE = 2


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._nobody = ""

    async def hashed(self, password: str) -> str:
        """What is kept of a password."""
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def right(self, kept: str | None, password: str) -> bool:
        """Is it the password? None stands for a user who does not exist, and takes as long."""
        if not self._nobody:
            self._nobody = await self.hashed(secrets.token_hex(32))
        async with self._turn:
            return await asyncio.to_thread(self._fits, kept or self._nobody, password) and kept is not None

    def _fits(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password[: LONGEST + 1])
        except (VerificationError, InvalidHashError):
            return False


def refused(password: str, name: str) -> str:
    """Why a new password is not taken; empty where it is. Length is what counts, not odd characters."""
    if len(password) < SHORTEST:
        return f"it needs at least {SHORTEST} characters; a few words in a row are good"
    if len(password) > LONGEST:
        return f"it may have at most {LONGEST} characters"
    if name.casefold() in password.casefold() and len(password) < 2 * len(name) + 8:
        return "it must not be made of the user's name"
    if len(set(password)) < 5:
        return "it repeats the same few characters"
    return ""


def invented() -> str:
    """A password to begin with, in a form that people can type."""
    return "-".join(secrets.token_hex(3) for _ in range(4))


STEP = 30
DIGITS = 6
DRIFT = 1
SECRET_BYTES = 20


def new_secret() -> str:
    """A secret in Base32, as apps take it."""
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def code(secret: str, step: int) -> str:
    """The code of one step (RFC 4226 section 5.3)."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", step), hashlib.sha1)
    offset = digest[-1] & 0x0F
    number: int = struct.unpack_from(">I", digest, offset)[0] & 0x7FFF_FFFF
    return str(number % 10**DIGITS).zfill(DIGITS)


def step_of(secret: str, given: str, now: float) -> int | None:
    """The step that a code belongs to, if it is one of now. Every candidate is compared, in constant time."""
    typed = "".join(given.split())
    if len(typed) != DIGITS or not (typed.isascii() and typed.isdigit()):
        return None
    current = int(now) // STEP
    found = None
    for step in range(current - DRIFT, current + DRIFT + 1):
        if hmac.compare_digest(code(secret, step), typed):
            found = step
    return found


def address(secret: str, name: str) -> str:
    """The `otpauth:` address that apps read."""
    label = quote(f"Gatepost:{name}")
    return f"otpauth://totp/{label}?{urlencode({'secret': secret, 'issuer': 'Gatepost'})}"


class Picture(msgspec.Struct, frozen=True):
    """A QR code as the path of an SVG in which every module is one unit wide; `size` has the quiet zone in it."""

    path: str
    size: int


def picture(secret: str, name: str) -> Picture:
    """The same address for the app's camera."""
    barcode = zxingcpp.create_barcode(address(secret, name), zxingcpp.BarcodeFormat.QRCode)
    drawing = str(zxingcpp.write_barcode_to_svg(barcode, add_quiet_zones=True))
    size = drawing.partition('width="')[2].partition('"')[0]
    return Picture(drawing.partition('<path d="')[2].partition('"')[0], int(size))


def is_secret(text: str) -> bool:
    """Is it one that `new_secret` may have made?"""
    return len(text) == SECRET_BYTES * 8 // 5 and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
