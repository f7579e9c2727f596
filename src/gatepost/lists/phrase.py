"""Phrases: whole words in the visible text or the subject, whatever their case and accents."""

import re
import unicodedata

from gatepost.lists.entry import EntryKind, Normal, Refused, anything, same

LEAST = 3

_MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufeff]+")
_SPACES = re.compile(r"\s+")


def folded(text: str) -> str:
    """Case and accents folded, invisible characters gone, white space as single blanks."""
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", plain)).strip()


def normalise(text: str) -> Normal | Refused:
    phrase = folded(text)
    if len(phrase) < LEAST:
        return Refused(f"is too short: a phrase has at least {LEAST} characters")
    if not any(char.isalnum() for char in phrase):
        return Refused("has no letter or digit")
    return same(phrase)


PHRASE = EntryKind(
    "phrase",
    "words as they stand in the visible text or the subject",
    "wire transfer today",
    normalise,
    anything,
    keyed=False,
)
