"""OpenPGP messages built by hand (RFC 9580), in every form of packets that `gpg` opens without a key."""

import base64
import bz2
import zlib
from collections.abc import Callable

from tests.files.archive_formats import Make

LITERAL, COMPRESSED, ONE_PASS, SIGNATURE, MARKER, PADDING = 11, 8, 4, 2, 10, 21
Frame = Callable[[int, bytes], bytes]
ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    "stored": lambda data: b"\x00" + data,
    "zip": lambda data: b"\x01" + zlib.compress(data, wbits=-15),
    "zlib": lambda data: b"\x02" + zlib.compress(data),
    "bzip2": lambda data: b"\x03" + bz2.compress(data),
}


def new(tag: int, body: bytes) -> bytes:
    """A packet in the new form, its length in five bytes."""
    return bytes([0xC0 | tag, 0xFF]) + len(body).to_bytes(4, "big") + body


def short(tag: int, body: bytes) -> bytes:
    """A packet in the new form, its length as short as it goes."""
    size = len(body)
    if size < 192:
        return bytes([0xC0 | tag, size]) + body
    if size < 8384:
        return bytes([0xC0 | tag, 192 + (size - 192 >> 8), (size - 192) & 0xFF]) + body
    return new(tag, body)


def old(tag: int, body: bytes) -> bytes:
    """A packet in the old form."""
    return bytes([0x80 | tag << 2 | 2]) + len(body).to_bytes(4, "big") + body


def open_ended(tag: int, body: bytes) -> bytes:
    """A packet in the old form that goes to the end."""
    return bytes([0x80 | tag << 2 | 3]) + body


def in_pieces(tag: int, body: bytes) -> bytes:
    """A packet in the new form whose length is given piece by piece."""
    out = bytearray([0xC0 | tag])
    while len(body) > 512:
        out += bytes([224 + 9]) + body[:512]
        body = body[512:]
    return bytes(out) + (bytes([len(body)]) if len(body) < 192 else b"\xff" + len(body).to_bytes(4, "big")) + body


def literal(name: str, content: bytes, frame: Frame = new) -> bytes:
    """A literal data packet."""
    spelled = name.encode()
    return frame(LITERAL, b"b" + bytes([len(spelled)]) + spelled + bytes(4) + content)


def compressed(algorithm: str, packets: bytes, frame: Frame = open_ended) -> bytes:
    """A compressed data packet."""
    return frame(COMPRESSED, ALGORITHMS[algorithm](packets))


def signed(packets: bytes) -> bytes:
    """Packets between the two of a signature."""
    return (
        short(ONE_PASS, bytes([3, 0, 10, 22]) + bytes(8) + b"\x01")
        + packets
        + short(SIGNATURE, b"\x04\0\x16" + bytes(60))
    )


def armoured(packets: bytes, kind: str = "MESSAGE") -> bytes:
    """Packets in armour."""
    body = base64.encodebytes(packets)
    return b"-----BEGIN PGP %b-----\nComment: a\n\n%b=AAAA\n-----END PGP %b-----\n" % (
        kind.encode(), body, kind.encode()
    )  # fmt: skip


def made(wrap: Callable[[bytes], bytes], frame: Frame = new) -> Make:
    """A maker of messages with one literal file."""
    return lambda name, content: wrap(literal(name, content, frame))


ENCRYPTED = short(3, bytes([4, 9, 3, 8]) + bytes(9)) + in_pieces(18, b"\x01" + bytes(range(256)) * 4)
FORMATS: dict[str, Make] = {
    "literal": made(bytes),
    "literal, in pieces": made(bytes, in_pieces),
    "literal, old form": made(bytes, old),
    "literal behind markers": made(lambda packets: short(MARKER, b"PGP") * 3 + packets),
    "signed": made(signed),
    "signed and compressed": made(lambda packets: compressed("zlib", signed(packets))),
    **{
        f"compressed ({name})": made(lambda packets, name=name: compressed(name, packets))  # type: ignore[misc]
        for name in ALGORITHMS
    },
    "compressed twice": made(lambda packets: compressed("zip", compressed("bzip2", packets, in_pieces), new)),
    "in armour": made(lambda packets: armoured(signed(packets))),
    "in armour, within a text": made(lambda packets: b"See below.\n\n" + armoured(packets, "ARMORED FILE")),
}
