"""Streams that Python has no decoder for: LZW of compress (.Z), LZ4, and LZSS of Microsoft's compress (SZDD).

They are decoded byte by byte in Python, so callers charge them to the budget for slow work and give a limit for the
output. Each returns what it decoded and why there is not more.
"""

from gatepost.files.values import BrokenError, ByteSource, UnreadReason

_MAX_LZW_BITS = 16
_BLOCK_MODE = 0x80
_CLEAR = 256


def uncompress(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress LZW as compress(1) writes it: codes of 9 to 16 bits, in groups of eight codes of one width."""
    if len(data) < 3 or not 9 <= data[2] & 0x1F <= _MAX_LZW_BITS:
        return b"", "damaged"
    most, block = data[2] & 0x1F, bool(data[2] & _BLOCK_MODE)
    out = bytearray()
    table = [bytes([value]) for value in range(256)] + [b""] * block
    width, place, group, before = 9, 24, 24, b""
    end = len(data) * 8
    while place + width <= end:
        start = place >> 3
        code = int.from_bytes(data[start : start + 4], "little") >> (place & 7) & ((1 << width) - 1)
        place += width
        if block and code == _CLEAR:
            del table[257:]
            # A group of eight codes is written out whole before the width changes.
            place, width, before = _next_group(group, place, width), 9, b""
            group = place
            continue
        if code < len(table):
            entry = table[code]
        elif before and code == len(table):
            entry = before + before[:1]
        else:
            return bytes(out[:limit]), "damaged"
        out += entry
        if len(out) > limit:
            return bytes(out[:limit]), "size"
        if before and len(table) < 1 << most:
            table.append(before + entry[:1])
        before = entry
        if len(table) > (1 << width) - 1 and width < most:
            place = _next_group(group, place, width)
            group = place
            width += 1
    return bytes(out), None


def _next_group(group: int, place: int, width: int) -> int:
    size = width * 8
    return group + (place - group + size - 1) // size * size


_LZ4_FRAME, _LZ4_LEGACY = 0x184D2204, 0x184C2102
_SKIPPABLE = 0x184D2A50
_MAX_FRAMES = 1_000


def lz4(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress LZ4 frames, also those of the legacy form; skippable frames are passed over."""
    source = ByteSource(data)
    out = bytearray()
    try:
        for _ in range(_MAX_FRAMES):
            if source.left < 4:
                break
            magic = source.number(4)
            if magic & ~0xF == _SKIPPABLE:
                source.skip(source.number(4))
            elif magic == _LZ4_FRAME:
                _read_lz4_frame(source, out, limit)
            elif magic == _LZ4_LEGACY:
                while source.left >= 4 and len(out) <= limit:
                    _decode_lz4_block(source.take(source.number(4)), out, len(out), limit)
            else:
                break
            if len(out) > limit:
                return bytes(out[:limit]), "size"
    except (BrokenError, IndexError):
        return bytes(out[:limit]), "damaged"
    return bytes(out), None


def _read_lz4_frame(source: ByteSource, out: bytearray, limit: int) -> None:
    flags, _size = source.number(1), source.number(1)
    independent, checked, sized, summed, keyed = (flags >> bit & 1 for bit in (5, 4, 3, 2, 0))
    source.skip(8 * sized + 4 * keyed + 1)
    first = len(out)
    while size := source.number(4):
        block = source.take(size & 0x7FFFFFFF)
        if size >> 31:
            out += block
        else:
            _decode_lz4_block(block, out, len(out) if independent else first, limit)
        source.skip(4 * checked)
        if len(out) > limit:
            return
    source.skip(4 * summed)


def _decode_lz4_block(block: bytes, out: bytearray, first: int, limit: int) -> None:
    place = 0
    while place < len(block):
        token = block[place]
        place += 1
        count, place = _read_lz4_length(block, place, token >> 4)
        out += block[place : place + count]
        place += count
        if place >= len(block) or len(out) > limit:
            return
        back = block[place] | block[place + 1] << 8
        count, place = _read_lz4_length(block, place + 2, token & 15)
        start = len(out) - back
        if not back or start < first:
            raise BrokenError("a match before the start")
        _copy_run(out, start, min(count + 4, limit + 1 - len(out)))


def _read_lz4_length(block: bytes, place: int, count: int) -> tuple[int, int]:
    if count < 15:
        return count, place
    while True:
        byte = block[place]
        place += 1
        count += byte
        if byte < 255:
            return count, place


def _copy_run(out: bytearray, start: int, count: int) -> None:
    """Append `count` bytes from `start` on; the run may reach into what it writes."""
    piece = bytes(out[start : start + count])
    out += (piece * (count // len(piece) + 1))[:count] if piece else b""


_WINDOW = 4096


def szdd(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress a file of Microsoft's compress.exe: a window of 4 KB of blanks, eight items to a byte of flags."""
    if data[:4] == b"SZDD":
        size, place, write = int.from_bytes(data[10:14], "little"), 14, _WINDOW - 16
    else:
        size, place, write = int.from_bytes(data[8:12], "little"), 12, _WINDOW - 18
    window = bytearray(b" " * _WINDOW)
    out = bytearray()
    while place < len(data) and len(out) < min(size, limit):
        flags = data[place]
        place += 1
        for bit in range(8):
            if flags >> bit & 1:
                run = data[place : place + 1]
                place += 1
            elif place + 1 < len(data):
                start, count = data[place] | (data[place + 1] & 0xF0) << 4, (data[place + 1] & 15) + 3
                place += 2
                run = b""
                for step in range(count):
                    byte = window[(start + step) % _WINDOW]
                    window[(write + step) % _WINDOW] = byte
                    run += bytes([byte])
            else:
                break
            for step, byte in enumerate(run):
                window[(write + step) % _WINDOW] = byte
            write = (write + len(run)) % _WINDOW
            out += run
    content = bytes(out[: min(size, limit)])
    return content, "size" if size > limit else "damaged" if len(content) < size else None
