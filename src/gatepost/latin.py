"""Accents taken off Latin text by a table.

Normal forms (UAX 15) with the marks taken out of them do so for every script, at the cost of a look at every character.
Most mail that is not ASCII is Latin-1 all the same, where each letter has one plain letter, and a table
of 256 bytes does it in one go.
"""

import re
import unicodedata

_MARKS = re.compile(r"[\u0300-\u036f\u00ad]+")
# What has no plain character of its own (a half, the micro sign, a soft hyphen) becomes this one.
_UNLIKE = "\0"


def _plain(character: str) -> str:
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", character))
    return plain if len(plain) == 1 and plain <= "\xff" else _UNLIKE


_PLAIN = "".join(_plain(chr(code)) for code in range(256)).encode("latin-1")


def unaccented(text: str) -> str | None:
    """The text in its normal form NFKD without accents and soft hyphens; None where it takes more than a table."""
    try:
        plain = text.encode("latin-1").translate(_PLAIN).decode("latin-1")
    except UnicodeEncodeError:
        return None
    return None if _UNLIKE in plain else plain
