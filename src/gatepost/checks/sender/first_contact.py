"""Senders from whom the tenant never had mail before today.

Every sender writes for a first time, so it is next to nothing by itself. It says how much else to believe: most attacks
come from strangers, and most mail does not. A colleague of a known sender is no stranger, except at providers of free
mail, where all customers have the same domain; nor are partners, own domains, and posts on discussion lists.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, is_under
from gatepost.findings import Reading
from gatepost.kinds import SENDER_FIRST_CONTACT, Finding
from gatepost.names import normal_domain

KINDS = (SENDER_FIRST_CONTACT,)
NEEDS = frozenset({"remembered"})


def check(reading: Reading) -> Iterator[Finding]:
    if is_first_contact(reading):
        yield SENDER_FIRST_CONTACT.at("From", sender=reading.message.senders[0])


def is_first_contact(reading: Reading) -> bool:
    """Is the sender new to the tenant? No, where too little is remembered to tell."""
    return reading.once(_is_first_contact)


def _is_first_contact(reading: Reading) -> bool:
    met, senders = reading.sender_history, reading.message.senders
    if not met.ready or not senders or met.address.known or reading.is_discussion or reading.protected.host_trusted:
        return False
    domain = normal_domain(senders[0].domain)
    ours = reading.protected.own_domains | reading.protected.partner_domains
    if not domain or is_under(domain, ours):
        return False
    return is_freemail(domain) or not met.domain.known
