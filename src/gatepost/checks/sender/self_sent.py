"""Mail that claims to be from its own recipient's address.

People do send notes to themselves, through their own provider, and that authenticates. A stranger who does it hopes
that the recipient's own address is on every allow list.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import SENDER_SELF_SENT, Finding
from gatepost.names import org_domain

KINDS = (SENDER_SELF_SENT,)


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    # Without an envelope nothing is known of who really sent it.
    if (
        not reading.envelope.sender
        or len(message.senders) != 1
        or reading.authentication.aligned
        or reading.is_discussion
    ):
        return
    sender = message.senders[0]
    envelope = reading.envelope.sender.strip("<>").rpartition("@")[2]
    if not sender.domain or org_domain(envelope) == org_domain(sender.domain):
        return
    recipients = (*map(str, message.recipients[:20]), *reading.envelope.recipients[:20])
    if str(sender).casefold() in {recipient.strip("<>").casefold() for recipient in recipients}:
        yield SENDER_SELF_SENT.at("From", address=sender, envelope=reading.envelope.sender)
