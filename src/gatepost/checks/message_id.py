"""Message identifiers that no mail program writes (RFC 5322 section 3.6.4: `<left@right>`, unique).

Every mail program and nearly every script gives its messages one. Mass-mailing tools leave it out, or fill it badly.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

MISSING = Kind("header:no-message-id", "The mail has no Message-ID")
MALFORMED = Kind("header:bad-message-id", "The Message-ID is not one that a mail program writes")
KINDS = (MISSING, MALFORMED)

_FORM = re.compile(r"\s*<[^<>\s@]{1,400}@[^<>\s@]{1,255}>")
_SPACES = re.compile(r"\s+")


def check(reading: Reading) -> Iterator[Finding]:
    value = reading.fields.get("message-id")
    if value is None:
        # A draft in a file has neither envelope nor Received: nothing was left out, it was never sent.
        if reading.envelope.remote_address or reading.fields.get("received"):
            yield MISSING.at("Message-ID")
    # Long ones are folded, and some old servers put a comment after.
    elif not _FORM.match(value[:1000]) and not _FORM.match(_SPACES.sub("", value[:1000])):
        yield MALFORMED.at("Message-ID", value=value)
