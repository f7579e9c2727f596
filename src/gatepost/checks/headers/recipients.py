"""Letters that do not show whom they are for, and where their answers go."""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail
from gatepost.findings import Reading, check
from gatepost.kinds import (
    HEADER_ADDRESSED_TO_SENDER,
    HEADER_BLIND_COPY_FREEMAIL,
    HEADER_BLIND_COPY_REPLY,
    HEADER_NO_RECIPIENTS,
    Finding,
)
from gatepost.names import Address, normal_domain

MAX_RECIPIENTS = 50


@check(HEADER_NO_RECIPIENTS, HEADER_BLIND_COPY_REPLY, HEADER_BLIND_COPY_FREEMAIL, HEADER_ADDRESSED_TO_SENDER)
def hidden_recipients(reading: Reading) -> Iterator[Finding]:
    """Mail that names no recipient, or its own sender as the only one (RFC 5322 section 3.6.3 allows both).

    Senders who write to thousands at once put them all into the envelope. Clubs and families do so, too, and a letter
    to one person names that person. Frauds that begin a correspondence go further: the answers are to go to another
    free mailbox than the sender's, since the sender's own is closed after the first complaints, or belongs to somebody
    else. Whoever writes to a club by blind copy wants the answers in the mailbox from which they wrote; newsletters
    that hide their recipients come from a domain of their own and link to its site.
    """
    message = reading.message
    if not message.senders or reading.is_discussion:
        return
    sender, named = message.senders[0], [each for each in message.recipients[:MAX_RECIPIENTS] if each.domain]
    answers = next((each for each in message.reply_to[:5] if each.domain and _key(each) != _key(sender)), None)
    is_free = answers is not None and is_freemail(normal_domain(answers.domain))
    # A list has its own address in To and in Reply-To; it has no free mailbox.
    mine = {_key(sender), _key(answers)} if answers and is_free else {_key(sender)}
    if any(_key(each) not in mine for each in named):
        return
    if not named:
        yield HEADER_NO_RECIPIENTS.at("To", value=reading.fields.get("to", ""))
    elif answers:
        # A note to oneself has no other address for answers.
        yield HEADER_ADDRESSED_TO_SENDER.at("To", recipient=named[0], answers=answers)
    if answers and is_free:
        yield HEADER_BLIND_COPY_REPLY.at("Reply-To", answers=answers, sender=sender)
    elif not named and is_freemail(normal_domain(sender.domain)) and not reading.sites:
        yield HEADER_BLIND_COPY_FREEMAIL.at("To", sender=sender)


def _key(address: Address) -> tuple[str, str]:
    return address.local.casefold(), normal_domain(address.domain)
