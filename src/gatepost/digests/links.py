"""The links of a digest: signed, with an end, and for one message of one recipient each.

A link names a digest and a message by their ids; whose digest it is stands in storage, so that no address is in the
link. It is signed with HMAC-SHA-256 (RFC 2104), of which 128 bits are sent. Without the key nothing can be learnt from
trying: a link that is forged, has ended, was used or never was gets the same answer. Keys have numbers, so that a new
one can be taken while links of older ones are still on their way.

    version (1) · number of the key (4) · end, in Unix seconds (5) · digest (16) · message (16) · signature (16)

written as base64url without padding (RFC 4648 section 5). A message of zeros is the page of the recipient's own
entries.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Iterable
from uuid import UUID

import msgspec

from gatepost.store.digests import DigestKey

VERSION = 1
_LAYOUT = struct.Struct(">BIBI16s16s")
_SIGNATURE = 16
_SIZE = _LAYOUT.size + _SIGNATURE
# What the text of a link can be long; longer ones are not even decoded.
MAX_TEXT = 128
_PURPOSE = b"gatepost digest link\0"
_NO_ITEM = bytes(16)
_NO_KEY = DigestKey(0, bytes(32), 0)


class DigestLink(msgspec.Struct, frozen=True):
    """What a link says: the digest, the message (`item`, "" for the recipient's own entries), and its end in Unix
    milliseconds."""

    digest: str
    item: str
    expires: int


def sign_link(link: DigestLink, key: DigestKey) -> str:
    """Return the text of a link."""
    seconds = link.expires // 1000
    item = UUID(link.item).bytes if link.item else _NO_ITEM
    content = _LAYOUT.pack(VERSION, key.number, seconds >> 32, seconds & 0xFFFFFFFF, UUID(link.digest).bytes, item)
    return base64.urlsafe_b64encode(content + _mac(key, content)).rstrip(b"=").decode("ascii")


def read_link(text: str, keys: Iterable[DigestKey], moment: int) -> DigestLink | None:
    """Return what a link says if one of the keys has signed it and its end has not come; None otherwise."""
    raw = _decode(text)
    content, signature = raw[: _LAYOUT.size], raw[_LAYOUT.size :]
    version, number, high, low, digest, item = _LAYOUT.unpack(content)
    key = next((each for each in keys if each.number == number), None)
    # A signature is computed and compared in any case.
    is_right = hmac.compare_digest(_mac(key or _NO_KEY, content), signature)
    expires = (high << 32 | low) * 1000
    if not is_right or key is None or version != VERSION or expires <= moment:
        return None
    return DigestLink(str(UUID(bytes=digest)), "" if item == _NO_ITEM else str(UUID(bytes=item)), expires)


def _decode(text: str) -> bytes:
    """Return the bytes of a link; of a text that is none, bytes of the same size that no key has signed."""
    try:
        if len(text) > MAX_TEXT or not text.isascii():
            return bytes(_SIZE)
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return bytes(_SIZE)
    # The last character of the text has bits to spare: only one spelling is a link.
    is_one = len(raw) == _SIZE and base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") == text
    return raw if is_one else bytes(_SIZE)


def _mac(key: DigestKey, content: bytes) -> bytes:
    return hmac.new(key.secret, _PURPOSE + content, hashlib.sha256).digest()[:_SIGNATURE]
