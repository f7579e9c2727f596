"""Envelope and report of a message as one packed value: MessagePack, deflated where that pays.

The first byte says which of the two it is. Results and held mail have the same form.
"""

import zlib

import msgspec

from gatepost.mail.message import Envelope
from gatepost.report import Report

PLAIN, DEFLATED = b"\x00", b"\x01"
# Below this, deflating saves less than a disk sector and costs more than it saves.
DEFLATE_FROM = 512


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is packed. `source` is that of the scan request; "" where the record is older than this field."""

    envelope: Envelope
    report: Report
    source: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Detail)


def pack(envelope: Envelope, report: Report, source: str = "") -> bytes:
    """Envelope, report and source as they are stored in a row."""
    return deflate(_encoder.encode(Detail(envelope, report, source)))


def deflate(plain: bytes) -> bytes:
    """Bytes as they are stored: deflated where that pays."""
    if len(plain) < DEFLATE_FROM:
        return PLAIN + plain
    # Memory level 5: a table that fits what is packed here; filling the usual one takes longer than deflating.
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, 5)
    return DEFLATED + deflate.compress(plain) + deflate.flush()


def unpack(packed: bytes) -> Detail:
    """What `pack` packed."""
    return _decoder.decode(inflate(packed))


def inflate(packed: bytes) -> bytes:
    """What `deflate` was given; of a record, plain MessagePack."""
    return packed[1:] if packed[:1] == PLAIN else zlib.decompress(memoryview(packed)[1:], -zlib.MAX_WBITS)
