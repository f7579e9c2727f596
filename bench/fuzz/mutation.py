"""Changes to an input: bytes lost, doubled, moved and replaced, numbers driven to their edges, pieces of other inputs.

The changes know no format. What a format needs, its seeds bring along: pieces are taken from all inputs of the target.
"""

import random
import struct
from collections.abc import Sequence

MAX_CHANGES = 6
_SIZES = (1, 1, 2, 4, 8, 16, 64, 512, 4096)
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_MARKS = (
    b"\0", b"\r", b"\n", b"\r\n", b"=", b"--", b'"', b"'", b"(", b")", b";", b":", b"\\", b"<", b">", b"</", b"<!--",
    b"&#", b"{", b"}", b"[", b"]", b"/*", b"*/", b"//", b"%", b"@", b"\xff", b"\xfe\xff", b"\xed\xa0\x80",
    b"\xe2\x80\xae", b"-1", b"99999999999999999999", b"1e999", b"\x80", b" ", b"\t", b",", b"|", b"~", b"?", b"$",
    b"^", b"#", b"*",
)  # fmt: skip


def mutate(data: bytes, others: Sequence[bytes], dice: random.Random, most: int) -> bytes:
    """Return the input after a few changes, at most `most` bytes of it."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, MAX_CHANGES)):
        _change(changed, others, dice)
        if len(changed) > most:
            start = dice.randrange(len(changed) - most + 1) if dice.random() < 0.1 else 0
            changed = changed[start : start + most]
    return bytes(changed)


def _change(data: bytearray, others: Sequence[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    size = min(dice.choice(_SIZES), len(data) - at)
    match dice.randrange(10):
        case 0:
            del data[at : at + size]
        case 1:
            data[at:at] = data[at : at + size] * dice.choice((1, 1, 2, 8, 200 if size < 64 else 2))
        case 2:
            data[at : at + size] = dice.randbytes(size)
        case 3 if data:
            data[min(at, len(data) - 1)] ^= 1 << dice.randrange(8)
        case 4:
            data[at : at + dice.randrange(2)] = dice.choice(_MARKS) * dice.choice((1, 1, 1, 3, 40))
        case 5:
            number = dice.choice(_EDGES) if dice.random() < 0.7 else len(data) + dice.randint(-4, 4)
            packed = struct.pack(dice.choice("<>") + "q", number)
            width = dice.choice((1, 2, 4, 8))
            piece = packed[:width] if packed[-1] in (0, 0xFF) and number >= 0 and packed[0] else packed[-width:]
            data[at : at + width] = piece
        case 6 if others:
            other = dice.choice(others)
            start = dice.randrange(len(other) + 1)
            data[at : at + dice.choice((0, size))] = other[start : start + dice.choice(_SIZES)]
        case 7:
            other_place = dice.randrange(len(data) + 1)
            data[at:at] = data[other_place : other_place + size]
        case 8:
            del data[at:]
        case _:
            if digits := [place for place in range(at, min(len(data), at + 40)) if 0x30 <= data[place] <= 0x39]:
                data[digits[0] : digits[-1] + 1] = str(dice.choice(_EDGES)).encode()
