"""A number far behind the subject: `All channels free !!                     18441`.

Senders of bulk mail put something different at the end of each subject, so that no two are the same, and push it out of
sight with blanks. Mail programs and people write one blank.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

TAIL = Kind("header:subject-tail", "The subject ends with a mark that a row of blanks pushes out of sight")
KINDS = (TAIL,)

_BLANKS = "      "
_MARK = re.compile(r"[ \t]{6}([^\s]{2,24})$")


def check(reading: Reading) -> Iterator[Finding]:
    subject = reading.fields.get("subject", "").rstrip()[-200:]
    if _BLANKS not in subject:
        return
    mark = _MARK.search(subject)
    # A word behind blanks is somebody's layout; a mark has digits.
    if mark and any(character.isdigit() for character in mark.group(1)):
        yield TAIL.at("Subject", mark=mark.group(1))
