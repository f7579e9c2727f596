"""Subjects that shout: capitals, exclamation marks, amounts of money, letters from the mathematics department.

`!!! YOU WON $1,000,000 !!!` and `𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀 𝗼𝘂𝘁`. Styled letters exist in Unicode for formulas; in a subject they
escape filters and stand out. Shops shout as well, a little: each sign weighs next to nothing.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

CAPITALS = Kind("header:shouting-subject", "The subject is written in capitals or full of exclamation marks")
MONEY = Kind("header:money-subject", "The subject names an amount of money")
STYLED = Kind("header:styled-subject", "The subject is written in styled look-alikes of letters")
INVISIBLE = Kind("header:invisible-subject", "The subject has characters inside words that do not show")
KINDS = (CAPITALS, MONEY, STYLED, INVISIBLE)

_MONEY = re.compile(
    r"(?:[$€£]|usd|eur|us\$|r\$)\s?\d{1,3}(?:[.,\s]?\d{3}){0,4}|\d{2,9}(?:[.,]\d{2,3})?\s?(?:€|\$|£|eur|euro|usd|dollar)",
    re.IGNORECASE,
)
_STYLED = re.compile(r"[\U0001d400-\U0001d7ff\uff21-\uff5a\u24b6-\u24e9]")
_INSIDE = re.compile(r"(?<=[A-Za-z])[\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject[:500]
    marks = subject.count("!") + subject.count("！")
    if marks >= 3 or "$$" in subject or (" " in subject and subject.upper() == subject and _is_worded(subject)):
        yield CAPITALS.at("Subject", subject=subject)
    if match := _MONEY.search(subject):
        yield MONEY.at("Subject", amount=match.group())
    if subject.isascii():
        return
    if len(_STYLED.findall(subject)) > max(2, 0.2 * len(subject)):
        yield STYLED.at("Subject", subject=ascii(subject))
    if _INSIDE.search(subject):
        yield INVISIBLE.at("Subject", subject=ascii(subject))


def _is_worded(text: str) -> bool:
    """Whether there are enough letters for capitals to be a choice; digits and most scripts have no case."""
    return sum(map(str.isupper, text)) >= 10
