"""Signed messages that are one opaque block (RFC 8551 section 3.5.2): the content inside a CMS structure (RFC 5652).

`application/pkcs7-mime; smime-type=signed-data` looks encrypted and is not: the whole message stands in it in the
clear, and every mail program shows it. The structure is walked only as far as that content. Lengths may be definite or
not, and the content may be cut into pieces (BER); depth and number of pieces are limited. What is compressed (RFC 3274)
is decompressed.
"""

import binascii
import re
import zlib

import msgspec

MAX_CONTENT = 64 << 20
_MAX_DEPTH = 12
_MAX_PIECES = 200_000
_SIGNED = bytes.fromhex("2a864886f70d010702")
_ENVELOPED = bytes.fromhex("2a864886f70d010703")
_COMPRESSED = bytes.fromhex("2a864886f70d0109100109")
_AUTHENTICATED = bytes.fromhex("2a864886f70d0109100117")
_SEQUENCE, _OCTETS, _OCTETS_IN_PIECES, _CONTENT, _OID = 0x30, 0x04, 0x24, 0xA0, 0x06
_ARMOUR = re.compile(rb"-----BEGIN (?:PKCS7|CMS)-----([A-Za-z0-9+/=\s]*)")


class _BrokenError(ValueError):
    """The bytes are no such structure."""


class CmsContent(msgspec.Struct, frozen=True):
    """What a CMS structure is ("signed", "compressed", "encrypted" or "" for anything else), and the content of one
    that is not encrypted. `whole` is False where the structure is cut short."""

    form: str = ""
    content: bytes = b""
    whole: bool = True


def open_cms(data: bytes) -> CmsContent:
    """Return what is inside a CMS structure, in DER, BER or armour."""
    if data[:11] == b"-----BEGIN ":
        armour = _ARMOUR.match(data)
        try:
            data = binascii.a2b_base64(armour[1]) if armour else b""
        except binascii.Error:
            return CmsContent(whole=False)
    try:
        return _open(data)
    except _BrokenError:
        return CmsContent(whole=False)


def _open(data: bytes) -> CmsContent:
    start = _enter(data, 0, _SEQUENCE)
    identifier, start = _read(data, start, _OID)
    if identifier in (_ENVELOPED, _AUTHENTICATED):
        return CmsContent("encrypted")
    if identifier not in (_SIGNED, _COMPRESSED):
        return CmsContent()
    start = _enter(data, _enter(data, start, _CONTENT), _SEQUENCE)
    for _ in range(2):  # the version, and the algorithms
        start = _skip(data, start)
    start = _enter(data, start, _SEQUENCE)
    start = _skip(data, start)
    if data[start : start + 1] != bytes([_CONTENT]):
        return CmsContent("signed", b"")  # a detached signature
    pieces: list[bytes] = []
    whole = _collect(data, _enter(data, start, _CONTENT), pieces)
    content = b"".join(pieces)[:MAX_CONTENT]
    if identifier == _SIGNED:
        return CmsContent("signed", content, whole)
    try:
        return CmsContent("compressed", zlib.decompressobj().decompress(content, MAX_CONTENT), whole)
    except zlib.error:
        return CmsContent("compressed", b"", False)


def _read_head(data: bytes, place: int) -> tuple[int, int, int]:
    """Return tag, start of the value, and its length; -1 for a length that is not stated."""
    if place + 2 > len(data):
        raise _BrokenError
    tag, length = data[place], data[place + 1]
    if length < 0x80:
        return tag, place + 2, length
    count = length & 0x7F
    if not count:
        return tag, place + 2, -1
    if count > 8:
        raise _BrokenError
    return tag, place + 2 + count, int.from_bytes(data[place + 2 : place + 2 + count], "big")


def _enter(data: bytes, place: int, tag: int) -> int:
    found, start, _ = _read_head(data, place)
    if found != tag:
        raise _BrokenError
    return start


def _read(data: bytes, place: int, tag: int) -> tuple[bytes, int]:
    found, start, length = _read_head(data, place)
    if found != tag or length < 0 or start + length > len(data):
        raise _BrokenError
    return data[start : start + length], start + length


def _skip(data: bytes, place: int) -> int:
    """Return the place behind one value; values of unknown length are followed to their end."""
    depth = 0
    for _ in range(_MAX_PIECES):
        if depth and data[place : place + 2] == b"\0\0":
            place += 2
            depth -= 1
        else:
            _, start, length = _read_head(data, place)
            place = start if length < 0 else start + length
            depth += length < 0
        if not depth:
            return place
        if depth > _MAX_DEPTH:
            break
    raise _BrokenError


def _collect(data: bytes, place: int, pieces: list[bytes]) -> bool:
    """Collect the pieces of an octet string; return whether it is whole."""
    ends: list[int] = []  # where each open string ends, -1 for one that has a mark for it
    for _ in range(_MAX_PIECES):
        while ends and ends[-1] == place:
            ends.pop()
        if ends and ends[-1] < 0 and data[place : place + 2] == b"\0\0":
            place += 2
            ends.pop()
        elif place + 2 > len(data):
            return False
        else:
            tag, start, length = _read_head(data, place)
            if tag == _OCTETS_IN_PIECES and len(ends) < _MAX_DEPTH:
                ends.append(start + length if length >= 0 else -1)
                place = start
            elif tag == _OCTETS and length >= 0:
                pieces.append(data[start : start + length])
                place = start + length
                if place > len(data):
                    return False
            else:
                return False
        if not ends:
            return True
    return False
