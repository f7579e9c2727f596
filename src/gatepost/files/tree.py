"""A file as found: attached, embedded, or inside another file."""

from typing import Literal

import msgspec

# Why the inside of a file was not read, or not wholly.
Unread = Literal["encrypted", "depth", "count", "size", "ratio", "damaged", "unsupported"]


class File(msgspec.Struct, frozen=True):
    """One file. `path` leads to it from the message ("1.2/invoice.zip/invoice.js"); `names` are all names it goes by;
    `type` is what the content is, `declared` what the message claims; `unread` says why its inside was not read."""

    path: str
    content: bytes
    type: str
    sha256: str
    names: tuple[str, ...] = ()
    declared: str = ""
    unread: tuple[Unread, ...] = ()


class Member(msgspec.Struct, frozen=True):
    """One entry of an archive: every name that some program would give it, and its bytes as far as they were read."""

    names: tuple[str, ...]
    content: bytes
    unread: Unread | None = None
