"""Ids are UUIDv7 (RFC 9562 section 5.7) in lower case, so that they sort by creation time.

The twelve bits after the version hold the fraction of the millisecond (section 6.2, method 3): ids created on one host
within one millisecond still sort, to a quarter of a microsecond.
"""

import os
import re
import time

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_MILLISECOND = 1_000_000


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


def id_time(uid: str) -> int:
    """Return the creation time of a version 7 id in Unix milliseconds."""
    return int(uid[:8] + uid[9:13], 16)
