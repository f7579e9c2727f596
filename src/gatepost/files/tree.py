"""A file as found: attached, embedded, or inside another file."""

import msgspec


class File(msgspec.Struct, frozen=True):
    """One file. `path` leads to it from the message ("1.2/invoice.zip/invoice.js"); `names` are all names it goes by;
    `type` is what the content is, `declared` what the message claims; `unread` says why its inside was not read."""

    path: str
    content: bytes
    type: str
    sha256: str
    names: tuple[str, ...] = ()
    declared: str = ""
    unread: str = ""
