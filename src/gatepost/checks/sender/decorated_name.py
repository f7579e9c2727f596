"""Names dressed up to be seen, or to be read by people only.

Emoji and arrows around a sender's name draw the eye in a full mailbox; invisible characters between its letters and
letters from the mathematical alphabets keep filters from reading it. Shops put an emoji into a subject, seldom into
their own name, and never an invisible character; joiners inside emoji and scripts that need them are left out.
"""

import re
import unicodedata
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import SENDER_DECORATED_NAME, SENDER_INVISIBLE_CHARACTERS, Finding

KINDS = (SENDER_INVISIBLE_CHARACTERS, SENDER_DECORATED_NAME)

_BETWEEN_LETTERS = re.compile(r"[A-Za-z][\u00ad\u200b-\u200f\u2060\ufeff\U000e0100-\U000e01ef]+[A-Za-z]")
_MATHEMATICAL = re.compile(r"[\U0001d400-\U0001d7ff]")
_LETTERLIKE = frozenset("™®©°№")


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        name = sender.name[:200]
        if name.isascii():
            return
        if _BETWEEN_LETTERS.search(name) or _MATHEMATICAL.search(name):
            yield SENDER_INVISIBLE_CHARACTERS.at("From", name=ascii(name))
        elif any(unicodedata.category(char) in ("So", "Sm") and char not in _LETTERLIKE for char in name):
            yield SENDER_DECORATED_NAME.at("From", name=name)
