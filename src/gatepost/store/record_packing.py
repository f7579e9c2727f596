"""Envelope and report of a message as one packed value: MessagePack, compressed where that pays.

The first byte says how: not at all, with Zstandard (RFC 8878), or with DEFLATE (RFC 1951), which is only read: it takes
five times the CPU for the same size, and was a third of what the writer did. Results and held mail have the same form.
"""

import threading
import zlib

import msgspec
import zstandard

from gatepost.mail.message import Envelope, Receipt
from gatepost.report import Report

PLAIN, DEFLATED, ZSTANDARD = b"\x00", b"\x01", b"\x02"
# Below this, compressing saves less than a disk sector and costs more than it saves.
COMPRESS_FROM = 512
_LEVEL = 1


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is packed. `source` is that of the scan request; "" and None where the record is older than the field."""

    envelope: Envelope
    report: Report
    source: str = ""
    receipt: Receipt | None = None

    @property
    def queue_id(self) -> str:
        """The queue id of the message at the client that sent it."""
        return self.receipt.queue_id if self.receipt else ""


class _Compressors(threading.local):
    """One of each for every thread: they keep state while they work, and making one takes longer than its work."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Detail)
_own = _Compressors()


def pack(envelope: Envelope, report: Report, source: str = "", receipt: Receipt | None = None) -> bytes:
    """Envelope, report, source and receipt as they are stored in a row."""
    return compress(_encoder.encode(Detail(envelope, report, source, receipt)))


def compress(plain: bytes) -> bytes:
    """Bytes as they are stored: compressed where that pays."""
    return PLAIN + plain if len(plain) < COMPRESS_FROM else ZSTANDARD + _own.compress(plain)


def unpack(packed: bytes) -> Detail:
    """What `pack` packed."""
    return _decoder.decode(decompress(packed))


def decompress(packed: bytes) -> bytes:
    """What `compress` was given; of a record, plain MessagePack."""
    form, body = packed[:1], memoryview(packed)[1:]
    if form == PLAIN:
        return bytes(body)
    return _own.decompress(body) if form == ZSTANDARD else zlib.decompress(body, -zlib.MAX_WBITS)
