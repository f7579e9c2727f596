"""Message identifiers in the manner of a large provider, on mail that did not come from there.

`<CAF…@mail.gmail.com>` is written by Google's servers, which sign whatever they send. Mail that has the identifier and
no signature of theirs copied it, to look like a person's mail. Lists and gateways take signatures away, and old mail
had none, so it weighs little.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

BORROWED = Kind(
    "header:borrowed-message-id", "The Message-ID is one of a large provider's, and the mail is not from it"
)
KINDS = (BORROWED,)

# Each of these providers signs all that it sends, for its own domain or for the customer's.
_MANNERS = re.compile(
    r"\s{0,9}<[^<>\s@]{10,200}@(mail\.gmail\.com|mail\.yahoo\.com|[\w.-]{1,80}\.prod\.outlook\.com)>",
    re.IGNORECASE,
)


def check(reading: Reading) -> Iterator[Finding]:
    found = _MANNERS.match(reading.fields.get("message-id", "")[:400])
    if not found or reading.is_discussion or not reading.authentication.host:
        return
    if "dkim-signature" in reading.fields or "list-id" in reading.fields or reading.authentication.arc.instances:
        return
    yield BORROWED.at("Message-ID", provider=found[1])
