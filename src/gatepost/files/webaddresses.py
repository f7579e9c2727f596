"""Web addresses in bytes that are not text as a whole: one byte to a character, or two."""

import re
from collections.abc import Iterator

MAX_FOUND = 2_000

# Names of XML vocabularies and the like: they look like addresses and lead nobody anywhere.
_VOCABULARIES = (
    "http://schemas.",
    "https://schemas.",
    "http://www.w3.org/",
    "http://purl.org/",
    "http://ns.adobe.com/",
    "http://xml.org/",
    "http://openoffice.org/",
    "http://docs.oasis-open.org/",
    "http://www.openoffice.org/",
)
_MARKS = (
    (
        b"://",
        re.compile(rb"(?:https?|ftp|file)\Z", re.IGNORECASE),
        re.compile(rb"[\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]{3,2000}+"),
        5,
    ),
    (
        b":\0/\0/\0",
        re.compile(rb"(?:h\0t\0t\0p\0(?:s\0)?|f\0(?:t\0p\0|i\0l\0e\0))\Z", re.IGNORECASE),
        re.compile(rb"(?:[\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]\0){3,2000}+"),
        10,
    ),
    (b"\\\0\\\0", re.compile(rb"(?<!\\\0)\Z"), re.compile(rb"(?:[\w.@-]\0){3,200}+\\\0(?:[\x20-\x7e]\0){1,500}+"), 10),
)


def addresses_in(content: bytes) -> Iterator[str]:
    """Every address; shares (`\\\\host\\share`) only where characters take two bytes."""
    found: dict[str, None] = {}
    for mark, before, after, reach in _MARKS:
        wide = b"\0" in mark
        place = content.find(mark)
        while place >= 0 and len(found) < MAX_FOUND:
            end = place + len(mark)
            head = before.search(content, max(0, place - reach), place)
            if head and (tail := after.match(content, end)):
                end = tail.end()
                found[content[head.start() : end].decode("utf-16-le" if wide else "ascii", "replace")] = None
            place = content.find(mark, end)
    for address in found:
        if not address.lower().startswith(_VOCABULARIES):
            yield address
