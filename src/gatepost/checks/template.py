"""Places in the header that a mass-mailing tool forgot to fill in.

`Reply-To: reply-[nu_24]@example.com`, `X-Mailer: %XMAILER`: the template shows through. Honest mailers also send
"Dear {first name}" now and then, but in the subject; addresses and identifiers are written by their system.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

UNFILLED = Kind("header:unfilled-template", "The header shows a place that a mass-mailing tool did not fill in")
KINDS = (UNFILLED,)

_WRITTEN_BY_MACHINE = ("from", "reply-to", "message-id", "x-mailer", "to", "sender", "return-path", "date")
_PLACE = re.compile(
    r"%(?:MSGID|MESSAGEID|XMAILER|RANDOM|RND|CUSTOM|SUBJECT|BOUNDARY|EMAIL|[A-Z_]{4,20}(?![A-Za-z%]))"
    r"|(?i:\{\{?[%#$]?[A-Za-z][\w. ]{1,30}\}|\[\[[\w.]{2,30}\]\]|%%[\w.]{2,30}%%|##[\w.]{2,30}##"
    r"|\[(?:nu|num|rnd|rand|random|an|al|email|e?mail_?user|domain|name|firstname|fromname|user)(?:_?\d{1,4})?\]"
    r"|\$\{?(?:rand|email|name|domain|subject)\w{0,20}\}?)"
)
_MARKS = frozenset("%{[#$")


def check(reading: Reading) -> Iterator[Finding]:
    for name in _WRITTEN_BY_MACHINE:
        value = reading.fields.get(name, "")
        if not _MARKS.isdisjoint(value) and (match := _PLACE.search(value[:1000])):
            yield UNFILLED.at(name, place=match.group())
            return
