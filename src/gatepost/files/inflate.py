"""Decompression that stops in time: never more than `limit` bytes, whatever the input promises."""

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

from gatepost.files.tree import Unread

STEP = 256 << 10

Bytes: TypeAlias = bytes | memoryview


class Decompressor(Protocol):
    """What bz2 and lzma have in common, and zlib with a little help."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: Bytes, max_length: int) -> bytes: ...


class _Zlib:
    """zlib hands back what it has not processed yet; the others keep it inside."""

    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: Bytes, max_length: int) -> bytes:
        return self._inner.decompress(data or self._inner.unconsumed_tail, max_length)


def deflate(data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    """Raw deflate, as in zip (RFC 1951)."""
    return _bounded(lambda: _Zlib(-15), data, limit)


def gzip(data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    """gzip (RFC 1952), the first member; what follows it is noise or a further member, which `gunzip` programs join."""
    return _bounded(lambda: _Zlib(31), data, limit)


def bzip2(data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    return _bounded(bz2.BZ2Decompressor, data, limit)


def xz(data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    """xz or the older .lzma, with a cap on the dictionary that the file may ask for."""
    return _bounded(lambda: lzma.LZMADecompressor(memlimit=128 << 20), data, limit)


def zip_lzma(data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    """LZMA as in zip (APPNOTE section 5.8.8): two version bytes, a length, the properties, a raw stream."""
    size = int.from_bytes(data[2:4], "little")
    properties = data[4 : 4 + size]
    if len(properties) != 5 or properties[0] >= 225:
        return b"", "damaged"
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    dictionary = min(int.from_bytes(properties[1:5], "little"), 64 << 20)
    chain = [{"id": lzma.FILTER_LZMA1, "dict_size": max(dictionary, 4096), "lc": lc, "lp": lp, "pb": pb}]
    return _bounded(lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain), data[4 + size :], limit)


def _bounded(make: Callable[[], Decompressor], data: Bytes, limit: int) -> tuple[bytes, Unread | None]:
    """What came out, and why there is not more. Damaged data still gives what stood before the damage."""
    out: list[bytes] = []
    left = limit
    place = 0
    try:
        worker = make()
        while not worker.eof:
            chunk: Bytes = b""
            if worker.needs_input:
                chunk = data[place : place + STEP]
                place += len(chunk)
                if not chunk:
                    return b"".join(out), "damaged"
            piece = worker.decompress(chunk, left + 1)
            out.append(piece[:left])
            if len(piece) > left:
                return b"".join(out), "size"
            left -= len(piece)
    except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
        return b"".join(out), "damaged"
    return b"".join(out), None
