"""Words made unreadable for machines: look-alike letters inside, digits for letters, blanks between.

`V1agra`, `Раypal` with a Cyrillic `Р`, `V-I-A-G-R-A`: a person reads the word, a filter does not. Nobody spells so by
accident; names of products and passwords mix digits and letters, so only words that are on the book count as disguised.
"""

import re
from collections.abc import Iterator

from gatepost.checks.wording import MAX_TEXTS, WARES, shown, wording
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import skeleton

MIXED = Kind("text:mixed-script-words", "Words mix letters of different alphabets that look alike")
DISGUISED = Kind("text:disguised-words", "Words of advertising are spelled with digits, signs or gaps")
KINDS = (MIXED, DISGUISED)

MAX_SEEN = 8_000
_LEAST = 3
_SHORTEST = 5

# A Cyrillic or Greek letter beside a Latin one, with the word around them. The micro sign is Greek only by name.
_SEAM = re.compile(r"[A-Za-z]{0,20}(?:[A-Za-z][\u0370-\u052f]|[\u0370-\u052f][A-Za-z])[A-Za-z\u0370-\u052f]{0,20}")
_FOREIGN = re.compile(r"[\u0370-\u052f]")
_LEET = re.compile(r"(?<![\w@./:=&?%#$!|-])[a-z]{1,12}[0-9@!$|][a-z0-9@!$|]{0,12}[a-z](?![\w@./=&?%#-])")
_MARKED = re.compile(r"[0-9@!$|](?<=[a-z].)[a-z0-9]")
_SPACED = re.compile(r"(?<![\w.])(?:[a-z0-9][ .\-_*~]{1,2}){4,14}[a-z0-9](?!\w)")
_LETTERS = str.maketrans("0134579@!$|", "oieastgaisl")
_PLAIN_WORD = re.compile(r"(?<![\w ])[a-z]{5,14}(?![\w ])")
_BOOK = frozenset(
    word
    for phrases in ((WARES[ware]) for ware in ("pharmacy", "potency", "adult", "casino", "loan", "replica", "software"))
    for phrase in phrases
    for word in _PLAIN_WORD.findall(phrase)
) | {
    "account",
    "password",
    "paypal",
    "invoice",
    "security",
    "verify",
    "bitcoin",
    "viagra",
    "cialis",
    "free",
    "winner",
    "urgent",
}
_ORDINARY = frozenset({"member", "omega", "codeine"})


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject
    texts = [text.visible[:MAX_SEEN] for text in reading.message.texts[:MAX_TEXTS] if not text.attached]
    mixed = {word for text in (subject, *texts) if not text.isascii() for word in _mixed_words(text)}
    if len(mixed) >= _LEAST or any(word in subject for word in mixed):
        yield MIXED.at("text", strength=min(1.0, 0.25 * len(mixed)), words=ascii(shown(sorted(mixed))))
    disguised = dict.fromkeys(_disguised(wording(reading).text[:MAX_SEEN]))
    if disguised:
        yield DISGUISED.at("text", strength=min(1.0, 0.5 * len(disguised)), words=shown(disguised))


def _mixed_words(text: str) -> Iterator[str]:
    for word in _SEAM.findall(text) if _FOREIGN.search(text) else ():
        if len(word) >= _SHORTEST and skeleton(word).isascii():
            yield word


def _disguised(text: str) -> Iterator[str]:
    for match in _LEET.finditer(text) if _MARKED.search(text) else ():
        if _is_on_book(match.group().translate(_LETTERS)):
            yield match.group()
    for match in _SPACED.finditer(text):
        letters = [char for char in match.group() if char.isalnum()]
        if _is_on_book("".join(letters).translate(_LETTERS)):
            yield match.group()


def _is_on_book(word: str) -> bool:
    return word in _BOOK and word not in _ORDINARY
