"""BCJ2: what 7-Zip does to x86 programs before packing them.

Targets of calls and jumps are taken out of the code into two streams of their own, as absolute addresses; a fourth
stream says, by a range coder with one adaptive bit per place, which calls were taken out. 7-Zip uses it for every .exe,
so a scanner that cannot undo it does not see programs at all.
"""

import re

from gatepost.files.bytesource import BrokenError

# A call, a jump, or the second byte of a conditional jump. The first byte of those stands before the match.
_BRANCH = re.compile(rb"[\xe8\xe9]|(?<=\x0f)[\x80-\x8f]")
_TOP = 1 << 24


class _Bits:
    """A range decoder over one stream (as in LZMA)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._code = int.from_bytes(data[1:5], "big")
        self._place = 5
        self._range = 0xFFFFFFFF
        self._chances = [1024] * 258

    def bit(self, context: int) -> bool:
        chance = self._chances[context]
        bound = (self._range >> 11) * chance
        taken = self._code >= bound
        if taken:
            self._range -= bound
            self._code -= bound
            self._chances[context] = chance - (chance >> 5)
        else:
            self._range = bound
            self._chances[context] = chance + ((2048 - chance) >> 5)
        if self._range < _TOP:
            if self._place >= len(self._data):
                raise BrokenError("out of bits")
            self._range = (self._range << 8) & 0xFFFFFFFF
            self._code = (self._code << 8 | self._data[self._place]) & 0xFFFFFFFF
            self._place += 1
        return taken


def bcj2(streams: list[bytes], size: int, most: int) -> tuple[bytes, int]:
    """The code put together again, up to `size` bytes and `most` branches; and how many branches there were."""
    main, calls, jumps, decisions = streams
    bits = _Bits(decisions)
    out = bytearray()
    places = {True: 0, False: 0}
    place = steps = 0
    while len(out) < size and steps < most:
        found = _next_branch(main, place, out)
        end = found + 1 if found >= 0 else len(main)
        out += main[place:end]
        place = end
        if found < 0 or len(out) >= size:
            break
        steps += 1
        branch = out[-1]
        context = (2 + (out[-2] if len(out) > 1 else 0)) if branch == 0xE8 else 1 if branch == 0xE9 else 0
        try:
            if not bits.bit(context):
                continue
        except BrokenError:
            break
        is_call = branch == 0xE8
        target = (calls if is_call else jumps)[places[is_call] : places[is_call] + 4]
        if len(target) < 4:
            break
        places[is_call] += 4
        out += ((int.from_bytes(target, "big") - len(out) - 4) & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(out[:size]), steps


def _next_branch(main: bytes, place: int, out: bytearray) -> int:
    """Where the next branch is. What was put in may end in the first byte of a conditional jump."""
    if out and out[-1] == 0x0F and main[place : place + 1] and main[place] & 0xF0 == 0x80:
        return place
    found = _BRANCH.search(main, place)
    return found.start() if found else -1
