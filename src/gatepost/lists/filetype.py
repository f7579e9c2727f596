"""Types of files: an extension (`docm`) or a MIME type (`application/zip`)."""

import re

from gatepost.lists.entry import EntryKind, Normal, Refused, anything, same

_EXTENSION = re.compile(r"[\w+-]{1,40}(?:\.[\w+-]{1,40}){0,2}\Z")
_MIME = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}\Z", re.ASCII)


def normalise(text: str) -> Normal | Refused:
    """`.DOCM`, `*.docm` and `docm` are one type."""
    name = text.strip().lower().removeprefix("*").removeprefix(".")
    if _EXTENSION.match(name) or _MIME.match(name):
        return same(name)
    return Refused("is neither a file extension nor a MIME type")


FILETYPE = EntryKind("file-type", "a file extension or a MIME type", "docm", normalise, anything, keyed=True)
