"""Words made unreadable for machines: look-alike letters inside, digits for letters, gaps between.

`V1agra`, `Раypal` with a Cyrillic `Р`, `V-I-A-G-R-A`: a person reads the word, a filter does not. Nobody spells so by
accident. Names of products and passwords mix digits and letters, so only words that are on the book of wares count as
disguised, and one stray letter from another keyboard does not count as a look-alike.
"""

import re
from collections.abc import Iterator
from string import ascii_lowercase, digits

from gatepost.checks.wording import MAX_TEXTS, WARES, shown, wording
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import skeleton

MIXED = Kind("text:mixed-script-words", "Words mix letters of different alphabets that look alike")
DISGUISED = Kind("text:disguised-words", "Words of advertising are spelled with digits, signs or gaps")
KINDS = (MIXED, DISGUISED)

MAX_SEEN = 8_000
MAX_SPELLED = 2_500
_LEAST = 3
_SHORTEST = 5


def _sorts(sorts: dict[str, str]) -> bytes:
    """A table that turns each byte into its sort, a space for those that have none."""
    table = bytearray(b" " * 256)
    for sort, characters in sorts.items():
        for character in characters:
            table[ord(character)] = ord(sort)
    return bytes(table)


# A Cyrillic or Greek letter beside a Latin one, with the word around them.
_FOREIGN = re.compile(r"[\u0370-\u052f]")
_SEAM = re.compile(r"[A-Za-z]{0,20}(?:[A-Za-z][\u0370-\u052f]|[\u0370-\u052f][A-Za-z])[A-Za-z\u0370-\u052f]{0,20}")
_MOST_FIRST = 12
_LEET = re.compile(r"(?<![\w@./:=&?%#$!|-])[a-z]{1,12}[0-9@!$|][a-z0-9@!$|]{0,12}[a-z](?![\w@./=&?%#-])")
_SPACED = re.compile(r"(?<![\w.])(?:[a-z0-9][ .\-_*~]{1,2}){4,14}[a-z0-9](?!\w)")
# A text with every character replaced by its sort is searched many times faster than by the expressions above: `a` for
# a letter, `m` for a mark, `g` for a gap.
_LETTERS_AND_MARKS = _sorts({"a": ascii_lowercase, "m": digits + "@!$|"})
_LETTERS_AND_GAPS = _sorts({"a": ascii_lowercase + digits, "g": " .-_*~"})
# Three single letters with gaps around them: what every spelled word has.
_GAPS = re.compile(rb"gagg?agg?ag")
_LETTERS = str.maketrans("0134579@!$|", "oieastgaisl")
_PLAIN_WORD = re.compile(r"(?<![\w ])[a-z]{5,14}(?![\w ])")
_DISGUISED_WARES = ("pharmacy", "potency", "adult", "casino", "loan", "replica", "software")
_BOOK = frozenset(
    word for ware in _DISGUISED_WARES for phrase in WARES[ware] for word in _PLAIN_WORD.findall(phrase)
) | frozenset("account password paypal invoice security verify bitcoin viagra cialis winner urgent".split())


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject
    texts = [text.visible[:MAX_SEEN] for text in reading.message.texts[:MAX_TEXTS] if not text.attached]
    mixed = {word for text in (subject, *texts) if not text.isascii() for word in _mixed_words(text)}
    if len(mixed) >= _LEAST or any(word in subject for word in mixed):
        yield MIXED.at("text", strength=min(1.0, 0.25 * len(mixed)), words=ascii(shown(sorted(mixed))))
    disguised = dict.fromkeys(_disguised(wording(reading).text[:MAX_SPELLED]))
    if disguised:
        yield DISGUISED.at("text", strength=min(1.0, 0.5 * len(disguised)), words=shown(disguised))


def _mixed_words(text: str) -> Iterator[str]:
    if _FOREIGN.search(text):
        for word in _SEAM.findall(text):
            if len(word) >= _SHORTEST and skeleton(word).isascii():
                yield word


def _disguised(text: str) -> Iterator[str]:
    characters = text.encode("ascii", "replace")
    for word in _marked(text, characters.translate(_LETTERS_AND_MARKS)):
        if word.translate(_LETTERS) in _BOOK:
            yield word
    gaps = characters.translate(_LETTERS_AND_GAPS)
    for match in _SPACED.finditer(text) if _GAPS.search(gaps) else ():
        letters = "".join(char for char in match.group() if char.isalnum())
        if letters.translate(_LETTERS) in _BOOK:
            yield match.group()


def _marked(text: str, shapes: bytes) -> Iterator[str]:
    """Words with a mark right after their first letters."""
    end, at = 0, shapes.find(b"am")
    while at >= 0:
        earliest = max(0, at - _MOST_FIRST)
        start = earliest + len(shapes[earliest : at + 1].rstrip(b"a"))
        if start >= end and (match := _LEET.match(text, start)):
            yield match.group()
            end = match.end()
        at = shapes.find(b"am", at + 1)
