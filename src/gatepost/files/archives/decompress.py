"""Decompression that stops in time: never more than `limit` bytes, whatever the input promises.

Each function returns what it decoded and why there is not more. Of streams that Python has no decoder for, libarchive
has one for LZW of compress (.Z) and LZ4.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import zstandard

from gatepost.files.values import BrokenError, TooManyError, UnreadReason

STEP = 256 << 10
MAX_MEMBERS = 1_000
MAX_WINDOW = 64 << 20

Bytes: TypeAlias = bytes | memoryview


class _ZlibDecompressor:
    """zlib hands back what it has not processed yet; the others keep it inside."""

    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: Bytes, max_length: int) -> bytes:
        return self._inner.decompress(data or self._inner.unconsumed_tail, max_length)


Decompressor: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor | _ZlibDecompressor


def read_stored(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Return data that is not packed at all, up to the limit."""
    return bytes(data[:limit]), "size" if len(data) > limit else None


def deflate(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress raw deflate, as in zip (RFC 1951)."""
    return _decompress(lambda: _ZlibDecompressor(-15), data, limit)[:2]


_XZ = b"\xfd7zXZ\0"
_PADDING = re.compile(rb"\0++")
# By type: how a member is decompressed, and what begins a further one.
ENDING: dict[str, tuple[Callable[[], Decompressor], bytes]] = {
    "gzip": (lambda: _ZlibDecompressor(31), b"\x1f\x8b\x08"),
    "bzip2": (bz2.BZ2Decompressor, b"BZh"),
    **dict.fromkeys(("xz", "lzma"), (lambda: lzma.LZMADecompressor(memlimit=2 * MAX_WINDOW), _XZ)),
}


def find_end(kind: str, data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None, int]:
    """Decompress gzip (RFC 1952), bzip2 or xz (also the older .lzma, with a cap on the dictionary that the file may ask
    for): all members, joined, as `gunzip` does. Return as well where the last one ends: unpackers ignore what stands
    behind it."""
    make, magic = ENDING[kind]
    return _decompress(make, data, limit, magic)


def iterate(kind: str, data: Bytes, limit: int) -> Iterator[bytes]:
    """Yield what gzip, bzip2 or xz unpack to, all members, piece by piece; raise `TooManyError` behind `limit` bytes,
    and `BrokenError` where the data is damaged or something else follows it."""
    make, magic = ENDING[kind]
    place = 0
    try:
        for _ in range(MAX_MEMBERS):
            worker = make()
            while not worker.eof:
                chunk = data[place : place + STEP] if worker.needs_input else b""
                if worker.needs_input and not chunk:
                    raise BrokenError("cut short")
                place += len(chunk)
                piece = worker.decompress(chunk, 4 * STEP)
                limit -= len(piece)
                if limit < 0:
                    raise TooManyError("longer than is read")
                yield piece
            place -= len(worker.unused_data)
            if data[place : place + len(magic)] != magic:
                break
    except (zlib.error, OSError, EOFError, lzma.LZMAError) as fault:
        raise BrokenError("damaged") from fault
    if bytes(data[place:]).strip(b"\0"):
        raise BrokenError("something follows")


def bzip2(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress bzip2, all streams of it."""
    return find_end("bzip2", data, limit)[:2]


def xz(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress xz or the older .lzma."""
    return find_end("xz", data, limit)[:2]


def activemime(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress ActiveMime, in which Office keeps macros and objects of a document that is text (`editdata.mso`): a
    zlib stream (RFC 1950) behind a header of changing size."""
    head = bytes(data[:1024])
    for place in range(len(head) - 1):
        if head[place] & 0x8F == 0x08 and (head[place] << 8 | head[place + 1]) % 31 == 0:
            content, unread, _ = _decompress(lambda: _ZlibDecompressor(15), data[place:], limit)
            if content:
                return content, unread
    return b"", "damaged"


def lzip(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress lzip, all members: a header of six bytes, a raw LZMA stream, a trailer of twenty."""
    out: list[bytes] = []
    place, left = 0, limit
    for _ in range(MAX_MEMBERS):
        if bytes(data[place : place + 5]) != b"LZIP\x01" or len(data) < place + 26:
            return b"".join(out), None if place and place >= len(data) else "damaged"
        code = data[place + 5]
        size = (1 << (code & 31)) - (1 << (code & 31)) // 16 * (code >> 5)
        if not 4096 <= size <= 2 * MAX_WINDOW:
            return b"".join(out), "unsupported"
        chain = [{"id": lzma.FILTER_LZMA1, "dict_size": size, "lc": 3, "lp": 0, "pb": 2}]
        pieces: list[bytes] = []
        worker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain)
        end, unread = _decompress_stream(worker, data, place + 6, pieces, left)
        out += pieces
        left -= sum(map(len, pieces))
        if unread:
            return b"".join(out), unread
        place = end + 20
    return b"".join(out), "count"


def zstd(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress zstd (RFC 8878), all frames, with a cap on the window."""
    out: list[bytes] = []
    left = limit + 1
    try:
        worker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        with worker.stream_reader(data, read_across_frames=True) as stream:
            while left > 0 and (piece := stream.read(min(left, STEP))):
                out.append(piece)
                left -= len(piece)
    except (zstandard.ZstdError, ValueError, EOFError):
        return b"".join(out)[:limit], "damaged"
    return b"".join(out)[:limit], None if left > 0 else "size"


def raw_lzma(data: Bytes, limit: int, chain: list[dict[str, int]]) -> tuple[bytes, UnreadReason | None]:
    """Decompress a bare stream under a chain of LZMA's filters; the caller says how long it should be."""
    return _decompress(lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain), data, limit)[:2]


def make_lzma_filter(properties: Bytes) -> dict[str, int]:
    """Return the filter for five bytes of properties, the first of which is below 225, with a cap on the dictionary."""
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    window = min(max(int.from_bytes(properties[1:5], "little"), 4096), MAX_WINDOW)
    return {"id": lzma.FILTER_LZMA1, "dict_size": window, "lc": lc, "lp": lp, "pb": pb}


def zip_lzma(data: Bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decompress LZMA as in zip (APPNOTE section 5.8.8): two version bytes, a length, the properties, a raw stream."""
    size = int.from_bytes(data[2:4], "little")
    properties = data[4 : 4 + size]
    if len(properties) != 5 or properties[0] >= 225:
        return b"", "damaged"
    return raw_lzma(data[4 + size :], limit, [make_lzma_filter(properties)])


def _decompress(
    make: Callable[[], Decompressor], data: Bytes, limit: int, magic: bytes = b""
) -> tuple[bytes, UnreadReason | None, int]:
    """Return the output, why there is not more, and where reading ended.

    Damaged data still gives what stood before the damage. Where `magic` stands after the end of a stream, another one
    begins.
    """
    out: list[bytes] = []
    place = 0
    for _ in range(MAX_MEMBERS):
        try:
            worker = make()
        except (ValueError, lzma.LZMAError):
            return b"".join(out), "damaged", place
        place, unread = _decompress_stream(worker, data, place, out, limit - sum(map(len, out)))
        if magic == _XZ and not unread and (padding := _PADDING.match(data, place)):
            place += (padding.end() - place) & ~3  # stream padding is legal in fours (the .xz file format, section 2.2)
        if unread or not magic or data[place : place + len(magic)] != magic:
            return b"".join(out), unread, place
        out = [b"".join(out)] if len(out) > 64 else out
    return b"".join(out), "count", place


def _decompress_stream(
    worker: Decompressor, data: Bytes, place: int, out: list[bytes], left: int
) -> tuple[int, UnreadReason | None]:
    """Decompress one stream from `place` on into `out`; return where it ended, and why it did not end well."""
    try:
        while not worker.eof:
            chunk: Bytes = b""
            if worker.needs_input:
                chunk = data[place : place + STEP]
                place += len(chunk)
                if not chunk:
                    return place, "damaged"
            piece = worker.decompress(chunk, left + 1)
            out.append(piece[:left])
            if len(piece) > left:
                return place, "size"
            left -= len(piece)
        return place - len(worker.unused_data), None
    except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
        return place, "damaged"


def copy_run(out: bytearray, start: int, count: int) -> None:
    """Append `count` bytes from `start` on; the run may reach into what it writes."""
    piece = bytes(out[start : start + count])
    out += (piece * (count // len(piece) + 1))[:count] if piece else b""
