"""What is stored of a message in packed form: envelope and report, and the raw header section.

Envelope and report are one value in MessagePack, compressed where that pays. The first byte says how: not at all, with
Zstandard (RFC 8878), or with DEFLATE (RFC 1951), which is only read: it takes five times the CPU for the same size, and
was a third of what the writer did. Results and held mail have the same form.

The bytes of delivered mail are gone, and many questions about it are answered by its header section alone, which is
kept as the sender wrote it, cut and compressed. It is a column of its own beside the packed record, so that what reads
records by the thousand does not read it. Nothing is parsed: the section ends at the first empty line (RFC 5322 section
2.1).

To compress a report takes longer than to write it, so workers do it (`pack_report`), and they prepare the header and
the evidence as well (`PreparedRecord`). Envelope, source and receipt are put before a packed report, as one more block
of the same Zstandard frame: what is stored has the same form whoever compressed it. Workers are not trusted. guard
looks at the heads of their frames alone (`is_packed_report`), so the rest may be anything, and what cannot be read is
read as an empty record (`read_packed`): a worker that lies spoils the records of its own messages and nothing else.
"""

import threading
import zlib
from typing import TypeVar

import msgspec
import zstandard

from gatepost.analysis.report import Report, undecided
from gatepost.mail.message import Envelope, Receipt

T = TypeVar("T")

PLAIN, DEFLATED, ZSTANDARD = b"\x00", b"\x01", b"\x02"
# Below this, compressing saves less than a disk sector and costs more than it saves.
COMPRESS_FROM = 512
_LEVEL = 1
# A frame of Zstandard (RFC 8878 section 3.1.1): its magic number, and a descriptor that says "one segment, the size of
# the content in four bytes".
_MAGIC, _ONE_SEGMENT = b"\x28\xb5\x2f\xfd", b"\xa0"
# What is put before a packed report is not compressed. A block may have 128 KiB.
MAX_BESIDE = 1_024
# The last key of the packed value, in MessagePack.
_REPORT_KEY = b"\xa6report"


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


class _Beside(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is packed besides the report."""

    envelope: Envelope
    source: str = ""
    receipt: Receipt | None = None


class _Compressors(threading.local):
    """One of each for every thread: they keep state while they work, and making one takes longer than its work."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_encoder = msgspec.msgpack.Encoder()
DETAILS = msgspec.msgpack.Decoder(Detail)
# What reading a damaged record raises; errors of MessagePack are ValueErrors.
UNREADABLE = (ValueError, RecursionError, zstandard.ZstdError, zlib.error)
_own = _Compressors()
_DAMAGED = "The record of this message cannot be read."


def pack(detail: Detail) -> bytes:
    """Envelope, report, source and receipt as they are stored in a row."""
    prepared = detail.report.prepared
    if prepared is not None and prepared.report:
        beside = _encoder.encode(_Beside(detail.envelope, detail.source, detail.receipt))
        if len(beside) <= MAX_BESIDE:
            # A map of so few keys has their number in the low bits of its first byte.
            return ZSTANDARD + _put_before(bytes((beside[0] + 1,)) + beside[1:] + _REPORT_KEY, prepared.report)
    return compress(_encoder.encode(detail))


def pack_report(plain: bytes) -> bytes:
    """Compress a report in MessagePack, where that pays; else return nothing."""
    return b"" if len(plain) < COMPRESS_FROM else _own.compress(plain)


def is_packed_report(packed: bytes, most: int) -> bool:
    """Whether bytes begin as what `pack_report` makes of at most `most` bytes."""
    if not packed.startswith(_MAGIC):
        return False
    try:
        head = zstandard.get_frame_parameters(packed)
    except zstandard.ZstdError:
        return False
    return 0 < head.content_size <= most and not head.dict_id and not head.has_checksum


def _put_before(first: bytes, frame: bytes) -> bytes:
    """Return a frame whose content is `first` and then that of the other. Its blocks stay as they are: they refer to
    what is before them by distance."""
    size = len(first) + zstandard.frame_content_size(frame)
    raw_block = (len(first) << 3).to_bytes(3, "little")
    blocks = memoryview(frame)[zstandard.frame_header_size(frame) :]
    return b"".join((_MAGIC, _ONE_SEGMENT, size.to_bytes(4, "little"), raw_block, first, blocks))


def compress(plain: bytes) -> bytes:
    """Bytes as they are stored: compressed where that pays."""
    return PLAIN + plain if len(plain) < COMPRESS_FROM else ZSTANDARD + _own.compress(plain)


def unpack(packed: bytes) -> Detail:
    """What `pack` packed."""
    return read_packed(DETAILS, packed) or Detail(Envelope(), undecided(_DAMAGED))


def read_packed(decoder: msgspec.msgpack.Decoder[T], packed: bytes) -> T | None:
    """Decode what `pack` packed, or some of it; None where it cannot be read."""
    try:
        return decoder.decode(decompress(packed))
    except UNREADABLE:
        return None


class BriefSubject(msgspec.Struct, frozen=True, array_like=True):
    """What is decoded of a subject of a record where the rest does not matter."""

    role: str
    value: str


class BriefHost(msgspec.Struct, frozen=True):
    """The same of the authentication of a message."""

    host: str = ""


class BriefFile(msgspec.Struct, frozen=True):
    """The same of a file."""

    names: tuple[str, ...] = ()


class BriefReport(msgspec.Struct, frozen=True):
    """The same of a report."""

    senders: tuple[str, ...] = ()
    sender_names: tuple[str, ...] = ()
    message_id: str = ""
    authentication: BriefHost = BriefHost()
    subjects: tuple[BriefSubject, ...] = ()
    files: tuple[BriefFile, ...] = ()

    @property
    def links(self) -> list[str]:
        """The links of the message."""
        return [each.value for each in self.subjects if each.role == "link"]


class BriefEnvelope(msgspec.Struct, frozen=True):
    """The same of an envelope."""

    remote_address: str | None = None


class BriefDetail(msgspec.Struct, frozen=True):
    """What is decoded of a packed record for lists of messages and for figures."""

    report: BriefReport
    envelope: BriefEnvelope = BriefEnvelope()
    source: str = ""


BRIEFS = msgspec.msgpack.Decoder(BriefDetail)


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


def is_packed_header(packed: bytes) -> bool:
    """Whether bytes begin as what `compress` makes of a header section."""
    if packed[:1] == PLAIN:
        return len(packed) <= COMPRESS_FROM
    return packed[:1] == ZSTANDARD and len(packed) <= 2 * MAX_HEADER and is_packed_report(packed[1:], MAX_HEADER)


def unpack_header(packed: bytes) -> bytes | None:
    """The header section of a row; None where it cannot be read."""
    try:
        return decompress(packed)
    except UNREADABLE:
        return None


def is_cut(header: bytes) -> bool:
    """Was the section longer than what is kept of it?"""
    return len(header) >= MAX_HEADER
