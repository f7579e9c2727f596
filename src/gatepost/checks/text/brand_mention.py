"""Texts that speak for a well-known company and never lead to it.

`Your Netflix membership is on hold`, from anywhere, with links to anywhere but Netflix. A company that writes about an
account of its own links to itself. Others name companies all the time, in news and offers: only together with talk of
accounts, payments or parcels does the name say whose account is meant.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import Brand, find_brands, owns
from gatepost.checks.link_away import find_link_away
from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_BRAND_WITHOUT_LINK, Finding
from gatepost.names import normal_domain
from gatepost.strengths import coefficients

KINDS = (TEXT_BRAND_WITHOUT_LINK,)

_ABOUT = ("credential", "limitation", "parcel", "refund", "mailbox", "charge")
THEMES = frozenset(_ABOUT)
_OPENING = 200
_LETTER = 5_000
_BASE, _PER_PHRASE = coefficients(TEXT_BRAND_WITHOUT_LINK, "base", "per_phrase")


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    words = phrases.of(*_ABOUT)
    away = find_link_away(reading) if words and phrases.length < _LETTER and not reading.is_discussion else None
    if away is None:
        return
    for brand in _find_companies(reading):
        if not _is_involved(brand, reading):
            strength = min(1.0, _BASE + _PER_PHRASE * len(words)) * away.distance
            yield TEXT_BRAND_WITHOUT_LINK.at(
                away.link.where,
                strength=round(strength, 2),
                about=away.link.url,
                company=brand.name,
                words=quote(words),
            )
            return


def _find_companies(reading: Reading) -> Iterator[Brand]:
    """Companies named in the subject or where the text begins."""
    message = reading.message
    openings = [text.visible[:_OPENING] for text in message.texts[:2] if not text.attached]
    for text in (message.subject[:_OPENING], *openings):
        yield from (mention.brand for mention in find_brands(text) if not mention.brand.ordinary)


def _is_involved(brand: Brand, reading: Reading) -> bool:
    """Return whether the company sent it, or is linked to at all."""
    senders = (normal_domain(sender.domain) for sender in reading.message.senders)
    return any(owns(brand, domain) for domain in (*senders, *reading.sender_domains, *reading.sites))
