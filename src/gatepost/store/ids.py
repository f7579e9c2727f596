"""New identifiers: UUID version 7 (RFC 9562 section 5.7), which sort by the time they were made.

Sorted keys are appended to an index instead of being scattered over it.
"""

import os
import time


def uuid7() -> str:
    """A new UUIDv7 in lower case: 48 bits of milliseconds, the rest random."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
