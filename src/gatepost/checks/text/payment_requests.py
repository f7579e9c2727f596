"""Payments led astray: new bank details, a quiet transfer for the boss, gift cards with their codes.

This fraud has no link and no file, only a letter in a name that the reader trusts. Real companies do change banks: the
letter then weighs little by itself, and more where it presses, asks for silence, or answers go to another address.
Codes of gift cards are cash that cannot be called back. Shops advertise gift cards all day; only a thief wants
pictures of scratched ones.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail
from gatepost.checks.phrases import Phrases, find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_ERRAND, TEXT_GIFT_CARDS, TEXT_PAYMENT_CHANGE, Finding
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (TEXT_PAYMENT_CHANGE, TEXT_ERRAND, TEXT_GIFT_CARDS)
THEMES = frozenset({"payment", "errand", "gift"})

_LETTER = 3_000
_NOTE = 600
_GIFT_LETTER = 2_500
_FEW_SITES = 2
_PER_PAYMENT, _URGENCY, _ERRAND, _REPLY, _LEAST = coefficients(
    TEXT_PAYMENT_CHANGE, "per_phrase", "urgency", "errand", "reply_elsewhere", "least"
)
_PER_ERRAND, _ERRAND_REPLY = coefficients(TEXT_ERRAND, "per_phrase", "reply_elsewhere")
_PER_GIFT, _GIFT_ERRAND = coefficients(TEXT_GIFT_CARDS, "per_phrase", "per_errand")


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    if phrases.length <= _LETTER and not reading.is_discussion:
        yield from _find_transfer(phrases, reading)
    yield from _find_gift_cards(phrases, reading)


def _find_transfer(phrases: Phrases, reading: Reading) -> Iterator[Finding]:
    pays, errands = phrases.of("payment"), phrases.of("errand")
    if not pays and not errands:
        return
    leaves = _replies_leave(reading)
    if pays:
        degree = (
            _PER_PAYMENT * len(pays)
            + _URGENCY * ("urgency" in phrases.themes)
            + _ERRAND * bool(errands)
            + _REPLY * leaves
        )
        if degree >= _LEAST:
            strength = round(min(1.0, degree), 2)
            yield TEXT_PAYMENT_CHANGE.at("text", strength=strength, words=quote((*pays, *errands)))
    if len(errands) >= 2 or (errands and leaves and phrases.length < _NOTE):
        yield TEXT_ERRAND.at(
            "text", strength=min(1.0, _PER_ERRAND * len(errands) + _ERRAND_REPLY * leaves), words=quote(errands)
        )


def _find_gift_cards(phrases: Phrases, reading: Reading) -> Iterator[Finding]:
    gifts, errands = phrases.of("gift"), phrases.count_of("errand")
    is_letter = phrases.length < _GIFT_LETTER and len(reading.sites) <= _FEW_SITES
    if gifts and is_letter and (len(gifts) >= 2 or errands):
        yield TEXT_GIFT_CARDS.at(
            "text", strength=min(1.0, _PER_GIFT * len(gifts) + _GIFT_ERRAND * errands), words=quote(gifts)
        )


def _replies_leave(reading: Reading) -> bool:
    """Return whether a reply goes to free mail of another owner than the sender."""
    own = {org_domain(sender.domain) for sender in reading.message.senders}
    replies = {normal_domain(reply.domain) for reply in reading.message.reply_to}
    return any(org_domain(reply) not in own and is_freemail(reply) for reply in replies)
