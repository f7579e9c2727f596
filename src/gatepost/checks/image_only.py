"""Mail that is a picture, or a line and a link: nothing for a filter to read.

The text of an advertisement or of a lure is drawn, and the picture is the link. People send pictures, too, but those do
not link anywhere; newsletters made of pictures have at least an address and a way to unsubscribe in their header.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

PICTURE = Kind("text:image-only", "The mail is a picture that links somewhere, with hardly any text")
BARE = Kind("text:bare-link", "The mail is hardly more than a link")
KINDS = (PICTURE, BARE)

_ADDRESS = re.compile(r"\w{1,10}://[^\s<>\"]{0,3000}")
_LITTLE = 300
_LINE = 200
# With written-out links, which are long.
_MUCH = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    if not reading.web_links or reading.is_discussion:
        return
    texts = [text.visible for text in message.texts if not text.attached]
    if any(len(text) > _MUCH for text in texts):
        return
    size = max(map(_letters, texts), default=0)
    if size <= _LITTLE and _has_picture(reading):
        strength = 1.0 if size <= _LITTLE / 2 else 0.6
        yield PICTURE.at("text", strength=strength * _owed(reading), letters=size, link=reading.web_links[0].host)
    elif size <= _LINE and len(reading.sites) <= 2 and not message.headers.first("in-reply-to"):
        yield BARE.at("text", strength=_owed(reading), letters=size, link=reading.web_links[0].host)


def _owed(reading: Reading) -> float:
    """Who offers a way to unsubscribe as the standard has it is more likely a newsletter."""
    return 0.4 if "list-unsubscribe" in reading.fields else 1.0


def _has_picture(reading: Reading) -> bool:
    if any(link.source == "image" for link in reading.message.links):
        return True
    return any(part.content_type.startswith("image/") for part in reading.message.parts)


def _letters(text: str) -> int:
    """Characters of words; a written-out address is none."""
    words = text.split()
    if "://" in text:
        words = " ".join(_ADDRESS.sub(" ", word) if "://" in word else word for word in words).split()
    return len(" ".join(words))
