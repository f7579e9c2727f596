"""Lures of one form: a story that concerns most people, a reason to follow a link, and a link away from the sender.

A parcel waits for a fee, a tax office owes a refund, a prize is to be claimed, pay or benefits changed, a document was
shared, a mailbox is full. Those who could honestly write so (the carrier, the tax office, the shop, the employer, the
sharing service, the mail provider) link to a site of their own; the lure links to wherever its form is. One phrase of a
story is ordinary: it needs a second one, or a phrase that presses or tells to follow. A long text says less than a
short one with the same phrases.
"""

from collections.abc import Iterator

import msgspec

from gatepost.checks.link_away import find_link_away
from gatepost.checks.phrases import Phrases, find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import (
    TEXT_DOCUMENT_LURE,
    TEXT_MAILBOX_LURE,
    TEXT_PARCEL_LURE,
    TEXT_PRIZE_LURE,
    TEXT_REFUND_LURE,
    TEXT_SALARY_LURE,
    Finding,
    Kind,
)
from gatepost.strengths import coefficients


class Lure(msgspec.Struct, frozen=True):
    """One story: the theme that tells it, when it is told, and how strongly.

    It is told by one phrase of the theme together with a phrase of a theme in `beside` (in a text shorter than
    `beside_within`), by two phrases alone where `two_phrases` is set, and by one in the subject where `in_subject` is.
    `numbers` are what each phrase adds, the number of characters from which on strength falls, and what each of
    `raised_by` adds: a set of themes of which one is there, or `_SUBJECT` where the subject tells the story.
    """

    kind: Kind
    theme: str
    numbers: tuple[float, ...]
    raised_by: tuple[frozenset[str], ...]
    beside: frozenset[str] = frozenset()
    beside_within: float = float("inf")
    two_phrases: bool = True
    in_subject: bool = False

    def is_told(self, phrases: Phrases) -> bool:
        """Return whether a text with these phrases tells this story."""
        count = phrases.count_of(self.theme)
        if count > 1 and self.two_phrases:
            return True
        if self.in_subject and self.theme in phrases.in_subject:
            return True
        return count > 0 and phrases.length < self.beside_within and not self.beside.isdisjoint(phrases.themes)

    def strength_of(self, phrases: Phrases, distance: float) -> float:
        """Return how strongly these phrases tell the story, beside a link that leads so far away from the sender."""
        per_phrase, full_length, *additions = self.numbers
        degree = per_phrase * phrases.count_of(self.theme)
        for value, themes in zip(additions, self.raised_by, strict=True):
            is_there = not themes.isdisjoint(phrases.themes) if themes else self.theme in phrases.in_subject
            degree += value * is_there
        return round(min(1.0, degree) * distance * min(1.0, full_length / max(phrases.length, 1)), 2)


_SUBJECT: frozenset[str] = frozenset()
_URGENCY = frozenset({"urgency"})
(_LEAST,) = coefficients("lure", "least")

LURES = (
    Lure(
        kind=TEXT_PARCEL_LURE,
        theme="parcel",
        numbers=coefficients(TEXT_PARCEL_LURE, "per_phrase", "full_length", "urgency"),
        raised_by=(_URGENCY,),
        beside=frozenset({"follow", "urgency"}),
    ),
    Lure(
        kind=TEXT_REFUND_LURE,
        theme="refund",
        numbers=coefficients(TEXT_REFUND_LURE, "per_phrase", "full_length", "urgency"),
        raised_by=(_URGENCY,),
        beside=frozenset({"follow", "urgency", "credential", "limitation"}),
        two_phrases=False,
    ),
    Lure(
        kind=TEXT_PRIZE_LURE,
        theme="prize",
        numbers=coefficients(TEXT_PRIZE_LURE, "per_phrase", "full_length", "in_subject", "urgency"),
        raised_by=(_SUBJECT, _URGENCY),
        in_subject=True,
    ),
    Lure(
        kind=TEXT_SALARY_LURE,
        theme="salary",
        numbers=coefficients(TEXT_SALARY_LURE, "per_phrase", "full_length", "document"),
        raised_by=(frozenset({"document", "scan"}),),
        beside=frozenset({"follow", "document", "urgency", "credential", "scan"}),
        two_phrases=False,
    ),
    Lure(
        kind=TEXT_DOCUMENT_LURE,
        theme="document",
        numbers=coefficients(TEXT_DOCUMENT_LURE, "per_phrase", "full_length", "follow", "in_subject"),
        raised_by=(frozenset({"follow"}), _SUBJECT),
        beside=frozenset({"follow"}),
        beside_within=600,
    ),
    Lure(
        kind=TEXT_MAILBOX_LURE,
        theme="mailbox",
        numbers=coefficients(TEXT_MAILBOX_LURE, "per_phrase", "full_length", "credential", "urgency"),
        raised_by=(frozenset({"credential"}), _URGENCY),
        beside=frozenset({"credential", "limitation", "urgency"}),
    ),
)
KINDS = tuple(lure.kind for lure in LURES)
THEMES = frozenset(lure.theme for lure in LURES)


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    for lure in LURES:
        if lure.theme not in phrases.themes or not lure.is_told(phrases):
            continue
        away = find_link_away(reading)
        if away is None:
            return
        strength = lure.strength_of(phrases, away.distance)
        if strength >= _LEAST:
            words = quote(phrases.of(lure.theme))
            yield lure.kind.at(away.link.where, strength=strength, about=away.link.url, words=words)
