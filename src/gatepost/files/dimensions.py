"""How large a picture says it is, from its header alone, before anything is decoded.

A PNG of a few kilobytes can claim 65,000 by 65,000 pixels; whoever decodes first and asks later needs 16 GB.
"""

from gatepost.files.bytesource import BrokenError, ByteSource

_MAX_MARKERS = 1_000
# Start-of-frame markers; C4, C8 and CC among them are something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length


def dimensions(content: bytes, kind: str) -> tuple[int, int]:
    """Width and height; zeros where the header does not tell."""
    try:
        return _READERS[kind](content)
    except (BrokenError, KeyError):
        return 0, 0


def _png(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 16)
    return int.from_bytes(source.take(4), "big"), int.from_bytes(source.take(4), "big")


def _gif(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 6)
    return source.number(2), source.number(2)


def _bmp(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 14)
    if source.number(4) == 12:
        return source.number(2), source.number(2)
    width, height = source.number(4), source.number(4)
    return width, min(height, (1 << 32) - height)  # a negative height means top row first


def _webp(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 12)
    form = source.take(4)
    source.skip(4)
    if form == b"VP8X":
        source.skip(4)
        return source.number(3) + 1, source.number(3) + 1
    if form == b"VP8L":
        source.skip(1)
        packed = source.number(4)
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    source.skip(6)
    return source.number(2) & 0x3FFF, source.number(2) & 0x3FFF


def _jpeg(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 2)
    for _ in range(_MAX_MARKERS):
        if source.number(1) != 0xFF:
            break
        marker = source.number(1)
        while marker == 0xFF:
            marker = source.number(1)
        if marker in _BARE:
            continue
        size = int.from_bytes(source.take(2), "big")
        if marker in _FRAMES:
            source.skip(1)
            height = int.from_bytes(source.take(2), "big")
            return int.from_bytes(source.take(2), "big"), height
        source.skip(size - 2)
    return 0, 0


_READERS = {"png": _png, "gif": _gif, "bmp": _bmp, "webp": _webp, "jpeg": _jpeg}
