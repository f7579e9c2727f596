"""What is stored of a message in packed form: envelope and report, and the raw header section.

Envelope and report are one value in MessagePack, compressed where that pays. The first byte says how: not at all, with
Zstandard (RFC 8878), or with DEFLATE (RFC 1951), which is only read: it takes five times the CPU for the same size, and
was a third of what the writer did. Results and held mail have the same form.

The bytes of delivered mail are gone, and many questions about it are answered by its header section alone, which is
kept as the sender wrote it, cut and compressed. It is a column of its own beside the packed record, so that what reads
records by the thousand does not read it. Nothing is parsed: the section ends at the first empty line (RFC 5322 section
2.1).
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


def pack(detail: Detail) -> bytes:
    """Envelope, report, source and receipt as they are stored in a row."""
    return compress(_encoder.encode(detail))


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


# Longer sections are cut: some hosts write hundreds of fields, and hostile ones any number.
MAX_HEADER = 16 << 10
# A piece of a message in which the end of a section of that length is found.
HEAD_BYTES = MAX_HEADER + 4


def cut_header(head: bytes) -> bytes:
    """Return the header section of a message, given its first `HEAD_BYTES`; one that was cut has `MAX_HEADER` bytes.

    Line ends may be bare line feeds, as in files of Unix.
    """
    if head.startswith((b"\n", b"\r\n")):
        return b""
    ends = [at + 1 for at in (head.find(b"\n\r\n"), head.find(b"\n\n")) if at >= 0]
    return head[: min((*ends, MAX_HEADER))]


def is_cut(header: bytes) -> bool:
    """Was the section longer than what is kept of it?"""
    return len(header) >= MAX_HEADER
