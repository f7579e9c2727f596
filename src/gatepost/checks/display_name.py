"""Display names that show somebody else's address.

`"billing@bank.example" <x@evil.example>` is legal (RFC 5322 section 3.4: a display name is free text), and most mail
programs show only the quoted part. Lists and services that write for somebody say so ("ann@example.com via list").
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_tenant
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import addresses_in, org_domain

SPOOF = Kind("sender:display-name-spoof", "The display name shows an address at a domain that is not the sender's")
KINDS = (SPOOF,)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders:
        for shown in addresses_in(sender.name):
            # Same owner, other host (mail.bank.example and bank.example) is ordinary.
            if sender.domain and org_domain(shown.domain) != org_domain(sender.domain) and " via " not in sender.name:
                strength = 0.4 if is_tenant(sender.domain) or reading.is_discussion else 1.0
                yield SPOOF.at("From", strength=strength, shown=shown, actual=sender)
