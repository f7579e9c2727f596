"""Ids are UUIDv7 (RFC 9562 section 5.7) in lower case, so that they sort by creation time.

The twelve bits after the version hold the fraction of the millisecond (section 6.2, method 3): ids created on one host
within one millisecond still sort, to a quarter of a microsecond.
"""

import os
import re
import time

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)
_MILLISECOND = 1_000_000
# The first eight digits are a time of 65 seconds.
LEAST_DIGITS = 8
_MOST_TYPED = 40


def new_id(nanoseconds: int | None = None) -> str:
    """Return a new id; its time is `nanoseconds` since 1970, or now."""
    moment = time.time_ns() if nanoseconds is None else nanoseconds
    milliseconds, rest = divmod(moment, _MILLISECOND)
    fraction = (rest << 12) // _MILLISECOND
    chance = int.from_bytes(os.urandom(8), "big") >> 2
    number = (milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | chance
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def canonical(text: str) -> str | None:
    """Return a UUID in lower case, as it is stored; None if the text is not a UUID."""
    return text.lower() if _UUID.fullmatch(text) else None


def id_prefix(text: str) -> str | None:
    """Return the beginning of a UUID as it is stored; None if the text is not one, or has less than eight digits.
    Hyphens may be left out, and the end may say that it was cut (`0199f0d2-7c…`)."""
    if len(text) > _MOST_TYPED:
        return None
    plain = text.lower().removesuffix("…").removesuffix("...").removesuffix("-")
    digits = plain.replace("-", "")
    if not LEAST_DIGITS <= len(digits) <= 32 or not _HEX.fullmatch(digits):
        return None
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    formed = "-".join(filter(None, groups))
    return formed if plain in (digits, formed) else None


def id_time(uid: str) -> int:
    """Return the creation time of a version 7 id in Unix milliseconds."""
    return int(uid[:8] + uid[9:13], 16)


def id_order(uid: str) -> int:
    """Return a number by which version 7 ids sort as they were made: the time, to a quarter of a microsecond."""
    return int(uid[:8] + uid[9:13] + uid[14:18], 16)
