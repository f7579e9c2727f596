"""Mail that names no recipient: neither To nor Cc holds an address (RFC 5322 section 3.6.3 allows it).

Senders who write to thousands at once put them all into the envelope. Clubs and families do so, too; a letter to one
person names that person.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import HEADER_NO_RECIPIENTS, Finding

KINDS = (HEADER_NO_RECIPIENTS,)


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    if message.senders and not any(recipient.domain for recipient in message.recipients) and not reading.is_discussion:
        yield HEADER_NO_RECIPIENTS.at("To", value=reading.fields.get("to", ""))
