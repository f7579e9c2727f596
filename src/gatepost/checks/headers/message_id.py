"""Message identifiers that no mail program writes, or that are copied (RFC 5322 section 3.6.4: `<left@right>`, unique).

Every mail program and nearly every script gives its messages one. Mass-mailing tools leave it out, or fill it badly, or
write it in the manner of a large provider. `<CAF…@mail.gmail.com>` is written by Google's servers, which sign whatever
they send: mail that has the identifier and no signature copied it, to look like a person's mail. Lists and gateways
take signatures away, and old mail had none, so a copied identifier weighs little.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import HEADER_BAD_MESSAGE_ID, HEADER_BORROWED_MESSAGE_ID, HEADER_NO_MESSAGE_ID, Finding

KINDS = (HEADER_NO_MESSAGE_ID, HEADER_BAD_MESSAGE_ID, HEADER_BORROWED_MESSAGE_ID)

_FORM = re.compile(r"\s*<[^<>\s@]{1,400}@[^<>\s@]{1,255}>")
_SPACES = re.compile(r"\s+")
# Each of these providers signs all that it sends, for its own domain or for the customer's.
_PROVIDER_FORM = re.compile(
    r"\s{0,9}<[^<>\s@]{10,200}@(mail\.gmail\.com|mail\.yahoo\.com|[\w.-]{1,80}\.prod\.outlook\.com)>",
    re.IGNORECASE,
)


def check(reading: Reading) -> Iterator[Finding]:
    value = reading.fields.get("message-id")
    if value is None:
        # A draft in a file has neither envelope nor Received: nothing was left out, it was never sent.
        if reading.envelope.remote_address or reading.fields.get("received"):
            yield HEADER_NO_MESSAGE_ID.at("Message-ID")
        return
    # Long ones are folded, and some old servers put a comment after.
    if not _FORM.match(value[:1000]) and not _FORM.match(_SPACES.sub("", value[:1000])):
        yield HEADER_BAD_MESSAGE_ID.at("Message-ID", value=value)
    found = _PROVIDER_FORM.match(value[:400])
    if found and not reading.is_discussion and reading.authentication.host and not _may_be_genuine(reading):
        yield HEADER_BORROWED_MESSAGE_ID.at("Message-ID", provider=found[1])


def _may_be_genuine(reading: Reading) -> bool:
    """Return whether there is a signature, or a list or forwarder that may have taken one away."""
    return (
        "dkim-signature" in reading.fields or "list-id" in reading.fields or bool(reading.authentication.arc.instances)
    )
