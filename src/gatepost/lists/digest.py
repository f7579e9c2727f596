"""Files by their SHA-256, 64 hex digits."""

import re

from gatepost.lists.entry import EntryKind, Normal, Refused, anything, same

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def normalise(text: str) -> Normal | Refused:
    digest = text.strip().lower()
    return same(digest) if _DIGEST.match(digest) else Refused("is not a SHA-256: 64 hex digits")


DIGEST = EntryKind(
    "sha256",
    "the SHA-256 of a file",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    normalise,
    anything,
    keyed=True,
)
