"""The values of a file as found: attached, embedded, or inside another file."""

from typing import Literal

import msgspec

from gatepost.mail.message import Link

# Why the inside of a file was not read, or not wholly.
UnreadReason = Literal["encrypted", "depth", "count", "size", "ratio", "damaged", "unsupported", "pixels"]


class Trait(msgspec.Struct, frozen=True):
    """Something that a reader saw in a file and that a check may make a finding of: "macro", "pdf-javascript", …"""

    name: str
    detail: str = ""


class File(msgspec.Struct, frozen=True):
    """One file. `path` leads to it from the message ("1.2/invoice.zip/invoice.js"); `names` are all names it goes by;
    `type` is what the content is, `declared` what the message claims; `unread` says why its inside was not read;
    `traits` are what its reader saw in it, `links` the links in it; `within` is the SHA-256 of the
    document that it is a part of."""

    path: str
    content: bytes
    type: str
    sha256: str
    names: tuple[str, ...] = ()
    declared: str = ""
    unread: tuple[UnreadReason, ...] = ()
    traits: tuple[Trait, ...] = ()
    links: tuple[Link, ...] = ()
    within: str = ""

    @property
    def document(self) -> str:
        """The SHA-256 of what a person would call the file: the document, where this is a part of one."""
        return self.within or self.sha256

    def seen(self, trait: str) -> tuple[str, ...]:
        """Return the details of one trait, as often as it was seen."""
        return tuple(found.detail for found in self.traits if found.name == trait)


class Member(msgspec.Struct, frozen=True):
    """One entry of an archive: every name that some program would give it, its bytes as far as they were read, and the
    password that opened it, where one had to be found."""

    names: tuple[str, ...]
    content: bytes
    unread: UnreadReason | None = None
    password: str = ""


class Contents(msgspec.Struct, frozen=True):
    """What a document's reader found in a file: the files inside, what it saw, the links, and what it did not read."""

    members: tuple[Member, ...] = ()
    traits: tuple[Trait, ...] = ()
    links: tuple[Link, ...] = ()
    unread: tuple[UnreadReason, ...] = ()
