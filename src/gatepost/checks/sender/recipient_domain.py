"""Sender names that show the recipient's own domain, written from elsewhere.

In `"house.example Webmail" <x@evil.example>` to `ann@house.example` most mail programs show only the name (RFC 5322
section 3.4: a display name is free text), so that the mail seems to come from the recipient's own mail system. Kits
fill the domain in for every recipient. A whole address in the name is found as such by `display_name`.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, is_tenant
from gatepost.findings import Reading
from gatepost.kinds import SENDER_RECIPIENT_DOMAIN, Finding
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_RECIPIENT_DOMAIN,)

MAX_NAME = 200
MAX_RECIPIENTS = 20
_PUNCTUATION = "\"'`<>()[]{},;:|!?."
(_SERVICE,) = coefficients(SENDER_RECIPIENT_DOMAIN, "service")


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        name = sender.name[:MAX_NAME]
        # A service that says for whom it writes ("house.example via Docs") hides nothing.
        if "." not in name or not sender.domain or " via " in name or reading.is_discussion:
            return
        own = _recipient_domains(reading)
        # The own domain in the address as well: a colleague, or a forgery that authentication finds.
        if not own or not own.isdisjoint(reading.sender_domains):
            return
        for word in name.casefold().split():
            shown = word.strip(_PUNCTUATION)
            if "." in shown and "@" not in shown and org_domain(shown) in own:
                strength = _SERVICE if is_tenant(normal_domain(sender.domain)) else 1.0
                yield SENDER_RECIPIENT_DOMAIN.at("From", strength=strength, shown=sender.name, actual=sender)
                return


def _recipient_domains(reading: Reading) -> frozenset[str]:
    """Return the registered domains of the recipients, without those of free mail, which no recipient owns."""
    addresses = (*reading.envelope.recipients, *map(str, reading.message.recipients))[:MAX_RECIPIENTS]
    domains = (normal_domain(address.strip("<> ").rpartition("@")[2]) for address in addresses)
    return frozenset(org_domain(domain) for domain in domains if domain and not is_freemail(domain))
