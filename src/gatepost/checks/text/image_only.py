"""Mail that is a picture, or a line and a link: nothing for a filter to read.

The text of an advertisement or of a lure is drawn, and the picture is the link. People send pictures, too, but those do
not link anywhere; newsletters made of pictures have at least an address and a way to unsubscribe in their header.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import TEXT_BARE_LINK, TEXT_IMAGE_ONLY, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_IMAGE_ONLY, TEXT_BARE_LINK)
NEEDS = frozenset({"link"})

_ADDRESS = re.compile(r"\w{1,10}://[^\s<>\"]{0,3000}")
_LITTLE = 300
_LINE = 200
# With written-out links, which are long.
_MUCH = 3_000
(_SOME_TEXT,) = coefficients(TEXT_IMAGE_ONLY, "some_text")
(_UNSUBSCRIBE,) = coefficients("single-link", "unsubscribe")


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    if not reading.web_links or reading.is_discussion:
        return
    texts = [text.visible for text in message.texts if not text.attached]
    if any(len(text) > _MUCH for text in texts) or any(map(_is_letter, texts)):
        return
    size = max(map(_count_letters, texts), default=0)
    if size <= _LITTLE and _has_picture(reading):
        strength = 1.0 if size <= _LITTLE / 2 else _SOME_TEXT
        yield TEXT_IMAGE_ONLY.at(
            "text", strength=strength * _newsletter_factor(reading), letters=size, link=reading.web_links[0].host
        )
    elif size <= _LINE and len(reading.sites) <= 2 and not message.headers.first("in-reply-to"):
        yield TEXT_BARE_LINK.at(
            "text", strength=_newsletter_factor(reading), letters=size, link=reading.web_links[0].host
        )


def _newsletter_factor(reading: Reading) -> float:
    """Return the factor for mail that offers to unsubscribe (RFC 2369): it is more likely a newsletter."""
    return _UNSUBSCRIBE if "list-unsubscribe" in reading.fields else 1.0


def _has_picture(reading: Reading) -> bool:
    if any(link.source == "image" for link in reading.message.links):
        return True
    return any(part.content_type.startswith("image/") for part in reading.message.parts)


def _is_letter(text: str) -> bool:
    """Return whether the words that are no address are enough by themselves, which is sooner told than how many
    there are."""
    return len(" ".join([word for word in text.split() if "://" not in word])) > _LITTLE


def _count_letters(text: str) -> int:
    """Characters of words; a written-out address is none."""
    words = text.split()
    if "://" in text:
        words = " ".join(_ADDRESS.sub(" ", word) if "://" in word else word for word in words).split()
    return len(" ".join(words))
