"""Display names that show an address of another domain.

`"billing@bank.example" <x@evil.example>` is legal (RFC 5322 section 3.4: a display name is free text), and most mail
programs show only the quoted part. Lists and services that write for a person say so ("ann@example.com via list").
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_tenant
from gatepost.findings import Reading
from gatepost.kinds import SENDER_DISPLAY_NAME_SPOOF, Finding
from gatepost.names import addresses_in, org_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_DISPLAY_NAME_SPOOF,)

(_SERVICE,) = coefficients(SENDER_DISPLAY_NAME_SPOOF, "service")


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders:
        for shown in addresses_in(sender.name):
            # Same owner, other host (mail.bank.example and bank.example) is ordinary.
            if sender.domain and org_domain(shown.domain) != org_domain(sender.domain) and " via " not in sender.name:
                strength = _SERVICE if is_tenant(sender.domain) or reading.is_discussion else 1.0
                yield SENDER_DISPLAY_NAME_SPOOF.at("From", strength=strength, shown=shown, actual=sender)
