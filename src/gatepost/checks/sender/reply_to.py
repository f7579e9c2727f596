"""Answers that go to another address than the sender's (Reply-To, RFC 5322 section 3.6.2).

A fraud that forges or borrows a company's address has the answers sent to a free mailbox of its own. Lists, shops and
ticket systems set Reply-To, too, but to a domain of their own or of the sender's, and hardly ever to a free mailbox.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail
from gatepost.findings import Reading
from gatepost.kinds import SENDER_REPLY_TO_FREEMAIL, SENDER_REPLY_TO_MISMATCH, Finding
from gatepost.names import Address, normal_domain, org_domain

KINDS = (SENDER_REPLY_TO_FREEMAIL, SENDER_REPLY_TO_MISMATCH)
NEEDS = frozenset({"reply-to"})


def check(reading: Reading) -> Iterator[Finding]:
    message = reading.message
    if not message.reply_to or not message.senders or reading.is_discussion:
        return
    owners = reading.sender_domains | {org_domain(address.domain) for address in message.recipients}
    addresses = {(sender.local.casefold(), normal_domain(sender.domain)) for sender in message.senders}
    for reply in message.reply_to[:5]:
        domain = normal_domain(reply.domain)
        if not domain or (reply.local.casefold(), domain) in addresses:
            continue
        if is_freemail(domain):
            if not _is_same_person(reply, message.senders[0]):
                yield SENDER_REPLY_TO_FREEMAIL.at("Reply-To", answers=reply, sender=message.senders[0])
            return
        if org_domain(domain) not in owners:
            yield SENDER_REPLY_TO_MISMATCH.at("Reply-To", answers=reply, sender=message.senders[0])
            return


def _is_same_person(reply: Address, sender: Address) -> bool:
    """People have several mailboxes: the same name before the @ is the same person."""
    mine, theirs = (address.local.casefold().replace(".", "") for address in (reply, sender))
    return bool(mine) and (mine == theirs or (len(mine) > 4 and mine in theirs) or (len(theirs) > 4 and theirs in mine))
