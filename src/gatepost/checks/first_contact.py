"""Senders from whom the tenant never had mail before today.

Everybody writes for a first time, so it is next to nothing by itself. It says how much else to believe: most attacks
come from strangers, and most mail does not. A colleague of somebody who is known is no stranger, except at providers of
free mail, where everybody has the same domain; nor are partners, the own house, and posts on discussion lists.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_freemail, is_under
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain

FIRST = Kind("sender:first-contact", "The tenant never had mail from this sender or its organisation before")
KINDS = (FIRST,)


def check(reading: Reading) -> Iterator[Finding]:
    if is_stranger(reading):
        yield FIRST.at("From", sender=reading.message.senders[0])


def is_stranger(reading: Reading) -> bool:
    """Is the sender new to the tenant? No, where too little is remembered to tell."""
    return reading.once(_is_stranger)


def _is_stranger(reading: Reading) -> bool:
    met, senders = reading.acquaintance, reading.message.senders
    if not met.ready or not senders or met.address.known or reading.is_discussion or reading.protected.host_trusted:
        return False
    domain = normal_domain(senders[0].domain)
    ours = reading.protected.own_domains | reading.protected.partner_domains
    if not domain or is_under(domain, ours):
        return False
    return is_freemail(domain) or not met.domain.known
