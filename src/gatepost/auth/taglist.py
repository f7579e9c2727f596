"""Tag lists, the `name=value; name=value` of DKIM and ARC headers and of key records (RFC 6376 section 3.2).

Names are case-sensitive and stand once; a name that stands twice makes the whole list invalid, and so does an empty
place between two semicolons (only one semicolon may trail). White space around names and values does not count, white
space inside a value does, so `t=1 2345` is not a number.
"""

import re

_BLANK = " \t\r\n"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def parse(text: str) -> dict[str, str] | None:
    """The tags in their order, or None where the text is no tag list. Never raises; linear."""
    pieces = text.split(";")
    if not pieces[-1].strip(_BLANK):
        pieces.pop()
    tags: dict[str, str] = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK)
        if not equals or name in tags or not _NAME.fullmatch(name):
            return None
        tags[name] = value.strip(_BLANK)
    return tags


def compact(value: str) -> str:
    """A value without its folding white space, as base64 is written (RFC 6376 section 2.10)."""
    return "".join(value.split()) if value.isascii() else value


def emptied(field: bytes, tag: bytes) -> bytes:
    """A header field with the value of one tag deleted and all else kept, as a signature is made (section 3.7)."""
    name, colon, value = field.partition(b":")
    pieces = value.split(b";")
    for index, piece in enumerate(pieces):
        key, equals, _ = piece.partition(b"=")
        if equals and key.strip(b" \t\r\n") == tag:
            pieces[index] = key + equals
    return name + colon + b";".join(pieces)
