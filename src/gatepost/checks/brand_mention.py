"""Texts that speak for a well-known company and never lead to it.

`Your Netflix membership is on hold`, from anywhere, with links to anywhere but Netflix. A company that writes about an
account of its own links to itself. Others name companies all the time, in news and offers: only together with talk of
accounts, payments or parcels does the name say whose account is meant.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wellknown import Brand, mentions, owns
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain

UNLINKED = Kind(
    "text:brand-without-link", "The text speaks for a company, and neither its sender nor a link is that company's"
)
KINDS = (UNLINKED,)

_ABOUT = ("credential", "limitation", "parcel", "refund", "mailbox", "charge")
THEMES = frozenset(_ABOUT)
_OPENING = 200
_LETTER = 5_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said(*_ABOUT)
    way = way_out(reading) if words and said.size < _LETTER and not reading.is_discussion else None
    if way is None:
        return
    for brand in _named(reading):
        if not _is_involved(brand, reading):
            strength = min(1.0, 0.4 + 0.2 * len(words)) * way.distance
            yield UNLINKED.at(
                way.link.where, strength=round(strength, 2), about=way.link.url, company=brand.name, words=shown(words)
            )
            return


def _named(reading: Reading) -> Iterator[Brand]:
    """Companies named in the subject or where the text begins."""
    message = reading.message
    openings = [text.visible[:_OPENING] for text in message.texts[:2] if not text.attached]
    for text in (message.subject[:_OPENING], *openings):
        yield from (mention.brand for mention in mentions(text) if not mention.brand.ordinary)


def _is_involved(brand: Brand, reading: Reading) -> bool:
    """Whether the company sent it, or is linked to at all."""
    senders = (normal_domain(sender.domain) for sender in reading.message.senders)
    return any(owns(brand, domain) for domain in (*senders, *reading.sender_domains, *reading.sites))
