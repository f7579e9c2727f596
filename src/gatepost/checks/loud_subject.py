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
_INSIDE = re.compile(r"(?<=[A-Za-z])[\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject[:500]
    letters = [char for char in subject if char.isalpha()]
    upper = sum(map(str.isupper, letters))
    marks = subject.count("!") + subject.count("！")
    if (len(letters) >= 10 and upper > 0.85 * len(letters) and " " in subject.strip()) or marks >= 3 or "$$" in subject:
        yield CAPITALS.at("Subject", subject=subject)
    if match := _MONEY.search(subject):
        yield MONEY.at("Subject", amount=match.group())
    styled = sum(
        "\U0001d400" <= char <= "\U0001d7ff" or "\uff21" <= char <= "\uff5a" or "\u24b6" <= char <= "\u24e9"
        for char in subject
    )
    if styled >= 3 and styled > 0.2 * len(letters):
        yield STYLED.at("Subject", subject=ascii(subject))
    if _INSIDE.search(subject):
        yield INVISIBLE.at("Subject", subject=ascii(subject))
