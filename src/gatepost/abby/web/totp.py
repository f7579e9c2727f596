"""Codes of an authenticator app as a second factor: RFC 6238 over RFC 4226, six digits, thirty seconds, SHA-1.

Those are the only parameters that every app knows. A code of the step before or after counts as well, for clocks
differ; the step that was used is kept, so that no code opens twice.
"""

import base64
import hashlib
import hmac
import secrets
import struct
from urllib.parse import quote, urlencode

import msgspec
import zxingcpp

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
