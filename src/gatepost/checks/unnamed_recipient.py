"""Mail that names no recipient: neither To nor Cc holds an address (RFC 5322 section 3.6.3 allows it).

Who writes to thousands at once puts them all into the envelope. Clubs and families do so, too; a letter to one person
names that person.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

UNNAMED = Kind("header:no-recipients", "The mail names nobody as its recipient")
KINDS = (UNNAMED,)


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    if message.senders and not any(recipient.domain for recipient in message.recipients) and not reading.is_discussion:
        yield UNNAMED.at("To", value=reading.fields.get("to", ""))
