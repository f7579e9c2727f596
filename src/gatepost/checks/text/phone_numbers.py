"""Telephone numbers in letters, plain ones and those that are written so that only a person can read them."""

import re
from collections.abc import Iterator

from gatepost.checks.phrases import MAX_TEXTS, find_phrases
from gatepost.findings import Reading, check
from gatepost.kinds import TEXT_DISGUISED_NUMBER, Finding
from gatepost.strengths import coefficients

MAX_CALL_TEXT = 4_000
# As such mail writes numbers: (888) 555-0100, +1 888 555 0100, 1-888-555-0100, 0800 555 0100.
_GAP = r"[ .\-–—_~*]{1,3}"
_PHONE_NUMBER = re.compile(
    rf"(?<![\w/.=-])(?:\+ ?|00)?\(?\d{{1,4}}\)?{_GAP}\(?\d{{2,4}}\)?{_GAP}\(?\d{{3,4}}\)?"
    rf"(?:{_GAP}\(?\d{{2,4}}\)?)?(?![\w/=])"
    r"|(?<![\w/.=-])\+ ?\d{1,3} ?\(\d{3}\) ?\d{7}(?![\w/=])"
)
# "1-8O5-5S5-O1OO": letters that look like digits, in the groups of a number of North America.
_LOOKALIKE_GAP = r"[ .\-–—_~*(){}\[\]/|]{1,4}"
_LOOKALIKE_DIGITS = re.compile(
    rf"(?<![\w/.=@-])(?:[\[({{+]{{1,3}}[1li|]?{_LOOKALIKE_GAP}|[1li|]{_LOOKALIKE_GAP})?[\[({{]?([0-9oilszb|]{{3}}){_LOOKALIKE_GAP}"
    rf"([0-9oilszb|]{{3}}){_LOOKALIKE_GAP}([0-9oilszb|]{{4}})(?![\w/=@])"
)
# "8 0 5 5 5 5 0 1 0 0": a gap after every digit.
_SPREAD_DIGITS = re.compile(r"(?<![\w.,:/-])\+?(?:[0-9][ ._*~•·|-]{1,3}){9,11}[0-9](?![\w,:/])")
# "eight zero five, five five five, zero one zero zero"
_DIGIT_WORDS = re.compile(
    r"(?<!\w)(?:(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|triple|double)[ ,.\-–—_*]{1,4}){6,14}"
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)(?!\w)"
)
# Digits of other alphabets and styles: fullwidth, circled, mathematical, superscript; keycaps of emoji.
_STYLED_DIGIT = re.compile(
    r"[\u2460-\u2468\u24ea\u24f5-\u24fd\u2776-\u277e\u2780-\u2788\u278a-\u2792\uff10-\uff19\u2070\u2074-\u2079"
    r"\u2080-\u2089\U0001d7ce-\U0001d7ff\U0001fbf0-\U0001fbf9]|[0-9]\ufe0f?\u20e3"
)
_STYLED_NUMBER = 7
_STYLED_WITHIN = 60
_LEAST_REAL_DIGITS = 5
_WITH_CHARGE, _WITH_CALL, _NUMBER_SITES = coefficients(TEXT_DISGUISED_NUMBER, "charge", "call", "sites")


def find_phone_number(text: str) -> str:
    """Return the first telephone number in a folded text, "" for none."""
    plain = _PHONE_NUMBER.search(text)
    return plain.group() if plain else find_disguised_number(text)


def find_disguised_number(text: str) -> str:
    """Return the first telephone number of a folded text that is written for people only, "" for none."""
    for match in _LOOKALIKE_DIGITS.finditer(text):
        written = "".join(match.groups())
        digits = sum(character.isdigit() for character in written)
        if _LEAST_REAL_DIGITS <= digits < len(written):
            return match.group()
    found = _SPREAD_DIGITS.search(text) or _DIGIT_WORDS.search(text)
    return found.group() if found else ""


@check(TEXT_DISGUISED_NUMBER, themes={"charge", "call"})
def disguised_number(reading: Reading) -> Iterator[Finding]:
    """Telephone numbers that filters cannot read: `Call +1 (8O5) 5S5-O1OO`, with letters for digits.

    Call-back fraud has nothing but its number, which ends up on lists of bad ones. So it is written with letters that
    look like digits, with a gap after each digit, in words, or with digits that were made for formulas. A company wants
    to be called, and writes its number as in a telephone book; words that a keypad spells (`1-800-FLOWERS`) have other
    letters. Numbers in words stand in deeds and on cheques, so the text must speak of a charge or ask to call.
    """
    phrases = find_phrases(reading)
    if phrases.length > MAX_CALL_TEXT or reading.is_discussion:
        return
    number = find_disguised_number(phrases.text[: 2 * MAX_CALL_TEXT]) or _find_styled(reading)
    if number:
        degree = _WITH_CHARGE if "charge" in phrases.themes else _WITH_CALL
        degree *= _NUMBER_SITES if len(reading.sites) > 1 else 1.0
        yield TEXT_DISGUISED_NUMBER.at("text", strength=round(degree, 2), number=ascii(number))


def _find_styled(reading: Reading) -> str:
    """Return a row of styled digits that is as long as a number, "" for none. Texts are folded before they are searched
    for phrases, so this looks at the text as it stands."""
    for text in reading.message.texts[:MAX_TEXTS]:
        visible = text.visible[:MAX_CALL_TEXT]
        if text.attached or visible.isascii():
            continue
        places = [match.start() for match in _STYLED_DIGIT.finditer(visible)]
        for first, last in zip(places, places[_STYLED_NUMBER - 1 :], strict=False):
            if last - first < _STYLED_WITHIN:
                return visible[first : last + 1]
    return ""
