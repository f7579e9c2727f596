"""Subjects that shout or carry marks: capitals, exclamation marks, money, styled letters, a number far behind.

`!!! YOU WON $1,000,000 !!!` and `𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀 𝗼𝘂𝘁`. Styled letters exist in Unicode for formulas; in a subject they
escape filters and stand out. Shops shout as well, a little: each sign weighs next to nothing. In
`All channels free !!                     18441` the number makes each subject a different one, and a row of blanks
pushes it out of sight; mail programs and people write one blank.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import (
    HEADER_INVISIBLE_SUBJECT,
    HEADER_MONEY_SUBJECT,
    HEADER_SHOUTING_SUBJECT,
    HEADER_STYLED_SUBJECT,
    HEADER_SUBJECT_TAIL,
    Finding,
)

KINDS = (
    HEADER_SHOUTING_SUBJECT,
    HEADER_MONEY_SUBJECT,
    HEADER_STYLED_SUBJECT,
    HEADER_INVISIBLE_SUBJECT,
    HEADER_SUBJECT_TAIL,
)

MAX_SUBJECT = 500
_MANY_MARKS = 3
_CAPITALS = 10
_FEW_STYLED = 2
_STYLED_SHARE = 0.2
_MONEY = re.compile(
    r"(?:[$€£]|usd|eur|us\$|r\$)\s?\d{1,3}(?:[.,\s]?\d{3}){0,4}|\d{2,9}(?:[.,]\d{2,3})?\s?(?:€|\$|£|eur|euro|usd|dollar)",
    re.IGNORECASE,
)
_STYLED = re.compile(r"[\U0001d400-\U0001d7ff\uff21-\uff5a\u24b6-\u24e9]")
_INSIDE = re.compile(r"(?<=[A-Za-z])[\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")
_BLANKS = "      "
_TAIL = re.compile(r"[ \t]{6}([^\s]{2,24})$")


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject[:MAX_SUBJECT]
    marks = subject.count("!") + subject.count("！")
    if marks >= _MANY_MARKS or "$$" in subject or _is_capitals(subject):
        yield HEADER_SHOUTING_SUBJECT.at("Subject", subject=subject)
    if match := _MONEY.search(subject):
        yield HEADER_MONEY_SUBJECT.at("Subject", amount=match.group())
    if not subject.isascii():
        if len(_STYLED.findall(subject)) > max(_FEW_STYLED, _STYLED_SHARE * len(subject)):
            yield HEADER_STYLED_SUBJECT.at("Subject", subject=ascii(subject))
        if _INSIDE.search(subject):
            yield HEADER_INVISIBLE_SUBJECT.at("Subject", subject=ascii(subject))
    if tail := _find_tail(reading):
        yield HEADER_SUBJECT_TAIL.at("Subject", mark=tail)


def _is_capitals(subject: str) -> bool:
    """Return whether there are words in capitals only, and enough of them for capitals to be a choice: digits and most
    scripts have no case."""
    return " " in subject and subject.upper() == subject and sum(map(str.isupper, subject)) >= _CAPITALS


def _find_tail(reading: Reading) -> str:
    """Return the mark behind a row of blanks at the end of the subject, "" for none."""
    subject = reading.fields.get("subject", "").rstrip()[-200:]
    mark = _TAIL.search(subject) if _BLANKS in subject else None
    # A word behind blanks is layout; a mark has digits.
    return mark.group(1) if mark and any(character.isdigit() for character in mark.group(1)) else ""
